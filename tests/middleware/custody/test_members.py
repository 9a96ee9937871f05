"""Enrolment, joins of new incarnations, leaving, revocation, refused mail (one-order.md O-3; overview 6, 8)."""

from __future__ import annotations

import pytest

from roamcast.middleware.custody.joins import JOINS_MAX
from roamcast.middleware.effects import Persist
from roamcast.middleware.host_frames import Leave, Left, Msg, NoSession, Refused, Replaced, Reset, Wait, Welcome
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Cancel, DataBatch, HandoffNack, HandoffReq
from roamcast.middleware.writes import PutRecord, PutRow


@pytest.fixture
def trio(make_net):
    """Three stations; host a at 1 where it was enrolled, writer w at 1."""

    def build(**options):
        net = make_net(1, 2, 3, **options)
        a, w = net.enrol("a"), net.enrol("w")
        a.arrive(1)
        w.arrive(1)
        net.run(2 * SECOND)
        return net, a, w

    return build


def write(w, body: bytes, to: str | None = None) -> None:
    w.send(body, to)
    w.ack()
    w.net.deliver()


def newest(net, host) -> list[int]:
    """The incarnation that each station holds for the newest of the name."""
    return [disk.hosts[host.number].incarnation for disk in net.disks.values()]


# ---- enrolment ----


def test_record_and_row_of_an_enrolment_are_one_write(make_net):
    net = make_net(1, 2)
    effects = net.tick(1, lambda core: core.enrol(1 << 32 | 7, "x"))
    writes = next(effect.writes for effect in effects if isinstance(effect, Persist))
    assert [type(write) for write in writes] == [PutRow, PutRecord]
    net.deliver()
    assert all(disk.hosts[1 << 32 | 7].incarnation == 0 for disk in net.disks.values())


def test_first_attach_at_home_binds(trio):
    net, a, _ = trio()
    assert newest(net, a) == [a.incarnation] * 3
    assert [record.mh for record in net.records(1, a)] == [a.mh]


def test_first_attach_elsewhere_binds_through_the_enrolling_station(make_net):
    """And the host is owed everything since its enrolment."""
    net = make_net(1, 2, 3)
    w, c = net.enrol("w"), net.enrol("c")
    w.arrive(1)
    write(w, b"before")
    assert not c.attach(3).gap
    c.ack()
    net.run(2 * SECOND)
    assert c.got == [b"before"]
    assert newest(net, c) == [c.incarnation] * 3
    assert [len(net.records(slot, c)) for slot in (1, 2, 3)] == [0, 0, 1]


def test_binding_survives_a_crash_before_the_welcome(make_net):
    """BIND row and record in one write: the same incarnation attaches again and is no join."""
    for deaths in range(6):
        net = make_net(1, 2)
        c = net.enrol("c")
        net.doom = {1: deaths}
        c.hello(1)
        net.doom = {}
        if 1 not in net.cores:
            net.start(1)
        assert not c.attach(1).gap
        c.ack()
        net.run(2 * SECOND)
        assert newest(net, c) == [c.incarnation] * 2
        assert [record.mh for record in net.records(1, c)] == [c.mh]


# ---- a new incarnation ----


def test_join_where_the_older_one_is_held(trio):
    """What waited arrives; the gap is not told."""
    net, a, w = trio()
    write(w, b"1")
    a.ack()
    a.cut()
    write(w, b"2")
    net.run(15 * SECOND)
    a.renew()
    assert not a.attach(1).gap
    assert a.got == [], "no MSG before the join is confirmed"
    a.ack()
    a.ack()
    assert a.got == [b"2"]
    net.run(60 * SECOND)
    assert newest(net, a) == [a.incarnation] * 3
    assert [(record.mh, record.state) for record in net.records(1, a)] == [(a.mh, "open")]
    assert not net.disks[1].items and not any(disk.rows for disk in net.disks.values())


def test_what_the_older_one_acknowledged_does_not_come_again(trio):
    """Also when no collection has written it down yet."""
    _, a, w = trio()
    write(w, b"1")
    a.ack()
    a.cut()
    a.renew()
    a.attach(1)
    a.ack()
    a.ack()
    assert a.got == []


def test_join_elsewhere(trio):
    """From now on, with a gap; where the row is delivered the older record expires."""
    net, a, w = trio()
    a.cut()
    write(w, b"missed")
    net.run(2 * SECOND)
    a.renew()
    assert a.attach(2).gap
    a.ack()
    net.deliver()
    write(w, b"new")
    a.ack()
    assert a.got[1:] == [b"new"]
    write(w, b"mail", "a")
    assert a.got[2:] == [b"mail"], "mail to a name is owed to its newest incarnation"
    a.ack()
    net.run(60 * SECOND)
    assert newest(net, a) == [a.incarnation] * 3
    assert [record.mh for slot in (1, 2, 3) for record in net.records(slot, a)] == [a.mh]


def test_the_older_one_is_told_for_good(trio):
    """Its channel where the row is delivered, and its HELLO anywhere."""
    net, a, _ = trio()
    old_channel, old = a.channel, (a.incarnation, a.e, a.last, a.le)
    told = []
    a.renew()
    hear = a.hear
    a.hear = lambda channel, frame: told.append(frame) if channel == old_channel else hear(channel, frame)
    a.attach(2)
    a.ack()
    net.deliver()
    assert told == [Replaced(0)] and old_channel in net.closed
    a.hear = hear
    incarnation, e, last, le = old
    for slot in (1, 2, 3):
        assert a.hello(slot, incarnation=incarnation, e=e + slot, last=last, le=le) == [Replaced(0)]


def test_messages_between_welcome_and_confirmation(trio):
    """A member from its WELCOME on: they come, if they are still here ..."""
    net, a, w = trio()
    a.renew()
    a.attach(2)
    write(w, b"between")
    a.ack()
    net.deliver()
    assert a.got[1:] == [b"between"]


def test_a_late_confirmation_is_told_of_a_gap_again(trio):
    """... and if they were collected, since an unconfirmed join holds nothing, the gap is told again."""
    net, a, w = trio()
    a.cut()
    a.renew()
    a.attach(2)
    write(w, b"between")
    net.run(30 * SECOND)
    assert not any(disk.rows for disk in net.disks.values())
    assert a.ack() == [NoSession()]
    net.deliver()
    assert a.attach(2).gap
    a.ack()
    write(w, b"after")
    assert a.got[-1] == b"after" and b"between" not in a.got


def test_tentative_joins_of_a_name_are_few(trio):
    """Nobody fills the books with incarnations; the last one called is among those kept."""
    net, a, _ = trio()
    for _ in range(20):
        a.renew()
        a.attach(2)
    assert len(net.records(2, a)) == JOINS_MAX
    assert [record.state for record in net.records(1, a)] == ["open"], "the present one is not touched"
    a.ack()
    net.run(2 * SECOND)
    assert newest(net, a) == [a.incarnation] * 3


def test_an_abandoned_join_goes_when_its_name_joins_elsewhere(trio):
    net, a, _ = trio()
    a.renew()
    a.attach(2)
    a.cut()
    a.renew()
    a.attach(3)
    a.ack()
    net.deliver()
    assert not net.records(2, a)
    assert newest(net, a) == [a.incarnation] * 3


def test_devices_that_take_turns_with_one_identity_are_slowed_down(trio):
    """Each is a new incarnation that ends the other, attached one (BL-18); after a minute they may go on."""
    net, a, w = trio()
    for _ in range(net.cores[1].ledger.settings.takeovers_max):
        a.renew()
        a.attach(1)
        a.ack()
        net.run(SECOND)
    assert "identity-suspended" in net.rejected()
    a.renew()
    assert isinstance(a.hello(1)[-1], Wait) and isinstance(w.attach(1), Welcome)
    net.run(60 * SECOND)
    assert isinstance(a.attach(1), Welcome)


def test_a_device_that_changes_its_network_often_is_served(trio):
    net, a, _ = trio()
    for _ in range(50):
        a.attach(1)
        a.ack()
    assert isinstance(a.attach(1), Welcome)


@pytest.mark.parametrize(("mutants", "right"), [((), True), (("join_by_clock",), False)])
def test_of_two_joins_the_later_is_the_newer(trio, mutants, right):
    """The enrolling station orders them; the clock of the first one's station is far ahead."""
    net, a, _ = trio(mutants=mutants)
    net.skews[2] = 600 * SECOND
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and source == 2
    a.renew()
    a.attach(2)
    a.ack()
    net.run(2 * SECOND)
    first = a.incarnation
    a.renew()
    a.attach(3)
    a.ack()
    net.run(2 * SECOND)
    net.release()
    assert (newest(net, a) == [a.incarnation] * 3) == right
    assert (a.hello(1, incarnation=first, e=9, last=2, le=1) == [Replaced(0)]) == right


def test_a_second_binding_is_a_join(make_net):
    """Two copies of one credential: the second incarnation is a join at the station that it calls."""
    net = make_net(1, 2)
    a, b = net.enrol("a"), net.enrol("b")
    b.arrive(1)
    a.arrive(1)
    first = a.incarnation
    a.renew()
    welcome = a.attach(2)
    assert isinstance(welcome, Welcome) and welcome.gap
    a.ack()
    net.deliver()
    assert net.disks[1].hosts[a.number].replaced == (first,)


def test_an_incarnation_without_a_record_that_is_no_new_one_is_reset(trio):
    """I5: le = 0 of the incarnation that is the newest already: its record is gone, its fate unknown."""
    net, a, _ = trio()
    a.arrive(2)
    net.run(5 * SECOND)
    assert a.hello(1, le=0, last=1, c=0) == [Reset(a.e)]


# ---- leaving and revocation ----


def test_leave_is_answered_when_it_is_durable(trio):
    net, a, w = trio()
    assert a.say(Leave(a.le)) == [Left()]
    assert net.records(1, a)[0].state == "tomb"
    net.restart(1)
    w.arrive(1)
    net.run(2 * SECOND)
    assert all(disk.hosts[a.number].gone for disk in net.disks.values())
    for slot in (1, 2, 3):
        (word,) = a.hello(slot)
        assert isinstance(word, Refused) and word.code == "gone"
    write(w, b"after")
    net.run(60 * SECOND)
    assert not any(disk.rows or net.records(slot, a) for slot, disk in net.disks.items())


def test_leave_ends_what_other_stations_still_hold(trio):
    """A tentative record that nobody has cancelled."""
    net, a, _ = trio()
    a.misses = (Welcome, Msg)
    a.hello(3)
    net.deliver()
    a.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel)
    a.attach(2)
    assert [record.state for record in net.records(3, a)] == ["open"]
    a.say(Leave(a.le))
    net.deliver()
    assert [record.state for record in net.records(3, a)] != ["open"]


def test_leave_frees_the_former_station(trio):
    net, a, _ = trio()
    a.attach(2)
    a.say(Leave(a.le))
    net.run(10 * SECOND)
    assert not net.records(1, a)


def revoke(net, host) -> None:
    for slot in net.slots:
        net.tick(slot, lambda core: core.revoke(host.number))
    net.deliver()


def test_revoked(trio):
    """Told, hung up, refused everywhere; nothing is kept for it."""
    net, a, w = trio()
    channel = a.channel
    revoke(net, a)
    assert a.word(Refused).code == "revoked" and channel in net.closed
    for slot in (1, 2, 3):
        (word,) = a.hello(slot)
        assert isinstance(word, Refused) and word.code == "revoked"
    write(w, b"m")
    net.run(60 * SECOND)
    assert not any(disk.rows or net.records(slot, a) for slot, disk in net.disks.items())


def test_revoked_before_its_enrolment_is_heard_of(make_net):
    """The row that arrives later makes it no member again."""
    net = make_net(1, 2)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    a = net.enrol("a")
    net.tick(2, lambda core: core.revoke(a.number))
    net.release()
    net.run(SECOND)
    assert net.disks[2].streams[1].delivered == 1
    assert net.disks[2].hosts[a.number].gone


def test_custody_of_a_revoked_host_does_not_move(trio):
    """The other station has not heard of it yet."""
    net, a, _ = trio()
    net.tick(1, lambda core: core.revoke(a.number))
    net.sent.clear()
    a.hello(2)
    net.deliver()
    assert len(net.frames(HandoffReq)) == len(net.frames(HandoffNack)) == 1
    assert not net.records(2, a)


def test_mail_to_one_that_has_left_or_was_revoked(trio):
    """one-order 18: refused where it enters."""
    net, a, w = trio()
    revoke(net, a)
    c = net.enrol("c", 2)
    c.arrive(2)
    c.say(Leave(c.le))
    net.deliver()
    write(w, b"1", "a")
    write(w, b"2", "c")
    assert w.got == [b"refused", b"refused"]


# ---- refused mail ----


def test_refused_mail_is_answered_in_order_and_takes_its_number(trio):
    net, a, w = trio()
    write(w, b"1")
    write(w, b"2", "nobody")
    write(w, b"3")
    assert w.got == [b"1", b"refused", b"3"] and a.got == [b"1", b"3"]
    rows = [row for key, row in sorted(net.disks[2].rows.items()) if row.host == w.number and row.number]
    assert [(row.number, row.kind) for row in rows] == [(1, Kind.BROADCAST), (2, Kind.REFUSED), (3, Kind.BROADCAST)]


def test_a_refusal_waits_like_mail(trio):
    """UACK lost, host gone: it comes from the spool, once."""
    net, _, w = trio()
    w.misses = (object,)
    w.send(b"x", "nobody")
    w.cut()
    w.misses = ()
    net.run(30 * SECOND)
    assert w.attach(2).lastseq == 1
    w.ack()
    assert w.got == [b"refused"]
    w.attach(2)
    assert w.entries() == []
