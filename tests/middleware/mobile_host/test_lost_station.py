"""A station is lost for good: what the host says of itself (SEEN), and what it is told of its own messages."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import STORED_MAX, Ask, Data, Fates, Msg, Pong, Reset, Seen, Uack, Wait
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Receipt
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND


def ask(rig) -> Seen:
    """ASK in the present attempt or session; the answer."""
    rig.hear(Ask(rig.epoch))
    (frame,) = rig.sent(Seen)
    return frame


def mine(rig, make_item, slot: int, n: int, number: int, kind: Kind = Kind.BROADCAST):
    return make_item(slot, n, "me", rig.disk.incarnation & 0xFFFFFFFF, number, kind)


# ---- what was seen ----


def test_a_host_that_knows_nothing_says_so(rig):
    rig.tick(AgentCore.start)
    assert ask(rig) == Seen(1, (), 0, 0, ())


STANDS = ((9, 0),)
"""A station has said where the host stands: at the beginning of everything."""


def test_seen_is_empty_until_a_station_has_said_where_the_host_stands(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(5, 1)))
    rig.ack(rig.take_all()[0])
    assert ask(rig).seen == ()
    rig.hear(Pong(1, passed=((5, 1), (9, 0))))
    assert ask(rig).seen == ((5, 1), (9, 0))


def test_seen_counts_what_was_acknowledged_in_turn_and_nothing_else(rig, make_item):
    rig.attach(passed=STANDS)
    rig.msg(0, 9, (1, make_item(5, 1)), (3, make_item(2, 4)), (6, make_item(5, 8)), (9, make_item(2, 6)))
    given = rig.take_all()
    assert ask(rig).seen == STANDS
    rig.ack(given[0])
    assert ask(rig).seen == ((5, 1), *STANDS)
    rig.ack(given[2])
    assert ask(rig).seen == ((2, 4), (5, 8), *STANDS)


def test_seen_is_saved_with_the_position_that_it_follows_from(rig, make_item):
    rig.attach(passed=STANDS)
    rig.msg(0, 2, (1, make_item(2, 1)), (2, make_item(5, 3)))
    rig.ack(rig.take_all()[1])
    assert (rig.disk.c, rig.disk.seen) == (2, {2: 1, 5: 3, 9: 0})
    rig.crash()
    assert ask(rig).seen == ((2, 1), (5, 3), *STANDS)


def test_a_late_acknowledgement_counts_when_the_replay_has_given_it_a_place(rig, make_item):
    rig.attach(passed=STANDS)
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(given)
    assert ask(rig).seen == STANDS
    rig.attach(at=5)
    rig.msg(5, 6, (6, make_item(2, 1)))
    assert ask(rig).seen == ((2, 1), *STANDS)
    assert rig.disk.seen == {2: 1, 9: 0}


def test_what_is_refused_counts_though_nobody_is_given_it(rig, make_item):
    rig.attach(passed=STANDS)
    rig.submit(to="nobody")
    rig.msg(0, 1, (1, mine(rig, make_item, 1, 5, 1, Kind.REFUSED)))
    assert ask(rig).seen == ((1, 5), *STANDS)


def test_what_the_station_says_is_not_owed_counts_as_seen(rig):
    rig.attach(passed=((1, 7), (2, 3)))
    rig.hear(Pong(0, passed=((2, 9), (3, 1))))
    assert ask(rig).seen == ((1, 7), (2, 9), (3, 1))
    rig.hear(Pong(0, passed=((2, 4),)))
    assert ask(rig).seen == ((1, 7), (2, 9), (3, 1))
    rig.crash()
    assert ask(rig).seen == ((1, 7), (2, 9), (3, 1))


def test_a_new_incarnation_has_seen_nothing(rig, make_item):
    rig.attach(passed=((1, 7),))
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Reset(rig.epoch))
    assert ask(rig).seen == ()
    rig.crash()
    assert ask(rig).seen == ()


def test_ask_of_another_attempt_is_not_answered_and_a_repeated_one_is(rig):
    rig.tick(AgentCore.start)
    rig.tick(after=2 * SECOND)
    assert rig.hear(Ask(rig.epoch - 1)) == []
    assert ask(rig) == ask(rig)


def test_ask_gives_an_attempt_the_time_of_a_wait(rig):
    rig.tick(AgentCore.start)
    rig.hear(Ask(rig.epoch), after=SECOND)
    assert rig.core.next_deadline() == rig.now + 15 * SECOND
    assert rig.core.status()["waiting"]["station"] is None
    rig.tick(after=15 * SECOND)
    assert rig.connects != []


def test_ask_changes_no_timer_of_a_session(rig):
    rig.attach()
    before = rig.core.next_deadline()
    ask(rig)
    assert rig.core.next_deadline() == before
    assert rig.core.status()["waiting"] is None


# ---- own numbers ----


def test_ack_and_tx_are_what_was_acknowledged_and_what_was_on_a_link(rig):
    rig.attach()
    for _ in range(3):
        rig.submit()
    rig.hear(Uack(1, 1, 1, 1))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.submit()
    frame = ask(rig)
    assert (frame.ack, frame.tx, frame.stored) == (1, 3, (1,))


def test_after_a_restart_it_says_what_may_have_been_on_a_link(rig):
    """What waited for a station that is lost meanwhile is not given up: nobody can have it."""
    rig.attach()
    for _ in range(2):
        rig.submit()
    rig.hear(Uack(1, 1, 1, 1))
    rig.tick(AgentCore.suspend)
    rig.submit()
    rig.crash()
    rig.submit()
    frame = ask(rig)
    assert (frame.ack, frame.tx, frame.stored) == (1, 2, ())
    rig.hear(rig.welcome(lastseq=2, absent=(2,)))
    assert [data.number for data in rig.sent(Data)] == [3, 4]


def test_a_new_incarnation_has_put_nothing_on_a_link(rig):
    rig.attach()
    rig.submit()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.submit()
    rig.hear(Reset(rig.epoch))
    assert ask(rig) == Seen(rig.epoch, (), 0, 0, ())


def test_stored_are_those_that_are_not_known_to_be_everywhere_though_one_came_back(rig, make_item):
    rig.attach()
    for _ in range(5):
        rig.submit(b"x", "bob")
    rig.hear(Uack(1, 4, 1, 9))
    assert ask(rig).stored == (1, 2, 3, 4)
    rig.msg(0, 3, (3, mine(rig, make_item, 1, 8, 3)))
    assert ask(rig).stored == (1, 2, 3, 4)
    rig.hear(Pong(3, safe=1))
    assert ask(rig).stored == (2, 3, 4)
    rig.hear(Pong(3))
    assert ask(rig).stored == (2, 3, 4)
    rig.reattach(at=7, lastseq=5)
    assert ask(rig).stored == (2, 3, 4, 5)


def test_only_the_newest_are_kept(rig):
    rig.attach()
    for number in range(1, STORED_MAX + 12):
        rig.submit()
        rig.hear(Uack(1, number, 1, number))
    stored = ask(rig).stored
    assert (stored[0], len(stored)) == (12, STORED_MAX)


# ---- fates ----


def test_absent_ones_are_lost_if_acknowledged_else_unknown_and_none_goes_out_again(rig):
    rig.attach()
    for _ in range(4):
        rig.submit()
    rig.hear(Uack(1, 2, 1, 2))
    rig.submit()
    rig.reattach(lastseq=5, absent=(1, 3, 5), at=9)
    assert rig.receipts == [(1, "lost"), (3, "unknown"), (4, "stored"), (5, "unknown")]
    assert rig.sent(Data) == []
    assert rig.disk.outbox == {}
    assert ask(rig).stored == (2, 4)


def test_what_never_was_on_a_link_is_sent_after_the_absent_ones(rig):
    rig.attach()
    rig.submit(b"1")
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.submit(b"2")
    rig.attach(lastseq=1, absent=(1,))
    assert rig.receipts == [(1, "unknown")]
    assert [(frame.number, frame.body) for frame in rig.sent(Data)] == [(2, b"2")]


def test_the_fate_of_a_message_is_told_once(rig):
    rig.attach()
    rig.submit()
    rig.hear(Uack(1, 1, 1, 1))
    rig.hear(Fates(1, (1,)), Fates(1, (1,)))
    assert rig.receipts == [(1, "lost")]
    rig.reattach(lastseq=1, absent=(1,))
    assert rig.receipts == []


def test_fates_of_another_session_or_of_other_numbers_say_nothing(rig):
    rig.attach()
    rig.reattach()
    rig.submit()
    rig.hear(Uack(2, 1, 1, 1))
    rig.hear(Fates(1, (1,)), Fates(2, (2, 99)))
    assert rig.receipts == []


def test_a_message_that_came_back_from_a_station_that_held_it_alone_is_lost_with_it(rig, make_item):
    rig.attach()
    rig.submit()
    rig.hear(Msg(0, 1, ((1, mine(rig, make_item, 1, 5, 1)),)))
    rig.hear(Fates(1, (1,)))
    assert [(receipt.number, receipt.state) for receipt in rig.of(Receipt)] == [(1, "lost")]


@pytest.mark.parametrize("kind", [Fates, Wait])
def test_before_the_welcome_there_are_no_fates(rig, kind):
    rig.attach()
    rig.submit()
    rig.hear(Uack(1, 1, 1, 1))
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.hear(Fates(rig.epoch, (1,)) if kind is Fates else Wait("busy", 0, 0))
    assert rig.receipts == []
