"""Up: numbers, outbox, UACK, own messages coming back, refusals."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ack, Data, Msg, Uack
from roamcast.middleware.mobile_host.effects import Receipt, Save, SendUp
from roamcast.middleware.mobile_host.errors import BadAddressee, MessageTooLarge, OutboxFull
from roamcast.middleware.mobile_host.state import Acked, OutboxTrimmed, Queued, Sent, Welcomed
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND


def saved(rig, kind: type) -> list:
    return [fact for save in rig.of(Save) for fact in save.facts if isinstance(fact, kind)]


def mine(rig, make_item, slot: int, n: int, number: int, kind: Kind = Kind.BROADCAST):
    return make_item(slot, n, "me", rig.disk.incarnation & 0xFFFFFFFF, number, kind)


def test_number_and_outbox_entry_are_saved_before_the_data(rig):
    rig.attach()
    assert rig.submit(b"hello", "bob") == 1
    assert rig.effects == [Save((Queued(1, "bob", b"hello"),)), SendUp(Data(1, 1, 0, "bob", b"hello"))]


def test_what_goes_on_a_link_later_is_said_durably_before(rig):
    rig.submit(b"1")
    rig.submit(b"2")
    assert (rig.disk.tx, rig.disk.highest) == (0, 2)
    rig.attach()
    assert rig.disk.tx == 2
    effects = list(rig.effects)
    marked = next(i for i, e in enumerate(effects) if isinstance(e, Save) and Sent(2) in e.facts)
    assert marked < min(i for i, e in enumerate(effects) if isinstance(e, SendUp) and isinstance(e.frame, Data))


def test_outbox_goes_up_after_the_welcome_without_what_is_stored(rig):
    rig.attach()
    for body in (b"1", b"2", b"3"):
        rig.submit(body)
    rig.reattach(at=7, lastseq=1)
    assert saved(rig, Welcomed)
    assert rig.sent() == [Ack(2, 7), Data(2, 2, 7, None, b"2"), Data(2, 3, 7, None, b"3")]
    assert rig.receipts == [(1, "stored")]
    assert list(rig.disk.outbox) == [2, 3]


def test_uack_removes_and_tells(rig):
    rig.attach()
    rig.submit()
    rig.submit()
    rig.hear(Uack(1, 2, 3, 44))
    assert rig.of(Receipt) == [Receipt(1, "stored"), Receipt(2, "stored", (3, 44))]
    assert rig.core.status()["outbox"] == 0
    assert list(rig.disk.outbox) == [1, 2]
    rig.submit()
    assert rig.effects[0] == Save((OutboxTrimmed(2), Queued(3, None, b"x")))
    assert list(rig.disk.outbox) == [3]


def test_uack_of_another_session_counts_for_nothing(rig):
    rig.attach()
    rig.reattach()
    rig.submit()
    rig.hear(Uack(1, 1, 1, 1))
    assert rig.receipts == []


def test_uack_above_the_own_numbers_ends_the_session(rig):
    rig.attach()
    rig.hear(Uack(1, 1, 1, 1), after=10 * SECOND)
    assert rig.connects == [1]


def test_own_message_coming_back_is_delivered_and_leaves_the_outbox(rig, make_item):
    rig.attach(passed=((1, 0),))
    rig.submit()
    rig.submit()
    rig.msg(0, 1, (1, mine(rig, make_item, 1, 5, 1)))
    assert rig.of(Receipt) == [Receipt(1, "stored", (1, 5))]
    assert rig.core.status()["outbox"] == 1
    given = rig.take()
    assert given.own
    rig.ack(given)
    assert rig.effects[0].facts == (OutboxTrimmed(1), Acked(1, 1, (), ((1, 5),)))


def test_what_was_sent_before_a_message_that_came_back_is_stored_too(rig, make_item):
    """Stations take numbers in turn; mail to another host never comes back itself."""
    rig.attach()
    rig.submit(b"x", "bob")
    rig.submit()
    rig.msg(0, 1, (1, mine(rig, make_item, 1, 6, 2)))
    assert rig.of(Receipt) == [Receipt(1, "stored"), Receipt(2, "stored", (1, 6))]
    assert rig.core.status()["outbox"] == 0


def test_same_name_and_number_of_another_incarnation_is_not_own(rig, make_item):
    rig.attach()
    rig.submit()
    rig.msg(0, 1, (1, make_item(1, 5, "me", (rig.disk.incarnation + 1) & 0xFFFFFFFF, 1)))
    assert not rig.take().own
    assert rig.core.status()["outbox"] == 1


def test_refused_mail_fails_its_receipt_and_is_given_to_nobody(rig, make_item):
    rig.attach()
    rig.submit(b"x", "nobody")
    rig.msg(0, 1, (1, mine(rig, make_item, 1, 5, 1, Kind.REFUSED)))
    assert rig.receipts == [(1, "stored"), (1, "refused")]
    assert rig.take() is None
    assert rig.core.status()["outbox"] == 0
    rig.tick(after=SECOND)
    assert rig.sent(Ack) == [Ack(1, 1)]


def test_refusal_behind_the_uack_is_told_as_well(rig, make_item):
    rig.attach()
    rig.submit(b"x", "nobody")
    rig.hear(Uack(1, 1, 1, 5), Msg(0, 1, ((1, mine(rig, make_item, 1, 5, 1, Kind.REFUSED)),)))
    assert rig.receipts == [(1, "stored"), (1, "refused")]


def test_data_says_what_was_given_when_it_was_queued(rig, make_item):
    rig.attach()
    rig.msg(0, 9, (2, make_item(2, 1)), (6, make_item(2, 2)))
    rig.submit()
    rig.take()
    rig.submit()
    rig.take()
    rig.submit()
    assert rig.sent(Data)[-1].c == 9
    rig.reattach(at=20)
    assert [frame.c for frame in rig.sent(Data)] == [20, 20, 20]


def test_given_position_of_each_call(rig, make_item):
    rig.attach()
    rig.msg(0, 9, (2, make_item(2, 1)), (6, make_item(2, 2)))
    seen = []
    for _ in range(3):
        rig.submit()
        seen += [frame.c for frame in rig.sent(Data)]
        rig.take()
    assert seen == [1, 5, 9]


def test_full_outbox_takes_no_number(make_rig):
    rig = make_rig(outbox_entries=1)
    rig.attach()
    rig.submit()
    with pytest.raises(OutboxFull):
        rig.core.submit(b"x")
    rig.hear(Uack(1, 1, 1, 1))
    assert rig.submit() == 2


def test_full_outbox_by_bytes(make_rig):
    rig = make_rig(outbox_bytes=10)
    rig.submit(b"x" * 6)
    with pytest.raises(OutboxFull):
        rig.core.submit(b"x" * 5)
    assert rig.submit(b"x" * 4) == 2


def test_too_large_message_takes_no_number(make_rig):
    rig = make_rig(message_bytes_max=4)
    with pytest.raises(MessageTooLarge):
        rig.core.submit(b"12345")
    assert rig.submit(b"1234") == 1


def test_welcome_says_how_large_a_message_may_be(make_rig):
    rig = make_rig(message_bytes_max=4)
    rig.attach()
    assert rig.submit(b"12345") == 1


@pytest.mark.parametrize("name", ["", "x" * 65, "é" * 33])
def test_impossible_addressee_takes_no_number(rig, name):
    with pytest.raises(BadAddressee):
        rig.core.submit(b"x", name)
    assert rig.submit(b"x", "é" * 32) == 1
