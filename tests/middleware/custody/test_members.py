"""Enrolment, joins of new incarnations (one-order.md O-3; overview 8)."""

from __future__ import annotations

import pytest

from roamcast.middleware.custody.joins import JOINS_MAX
from roamcast.middleware.effects import Persist
from roamcast.middleware.host_frames import Ack, NoSession, Replaced, Reset, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch
from roamcast.middleware.writes import PutRecord, PutRow


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
    w.write(b"before")
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
    w.write(b"1")
    a.ack()
    a.cut()
    w.write(b"2")
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
    w.write(b"1")
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
    w.write(b"missed")
    net.run(2 * SECOND)
    a.renew()
    assert a.attach(2).gap
    a.ack()
    net.deliver()
    w.write(b"new")
    a.ack()
    assert a.got[1:] == [b"new"]
    w.write(b"mail", to="a")
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
    w.write(b"between")
    a.ack()
    net.deliver()
    assert a.got[1:] == [b"between"]


def test_a_late_confirmation_is_told_of_a_gap_again(trio):
    """... and if they were collected, since an unconfirmed join holds nothing, the gap is told again."""
    net, a, w = trio()
    a.cut()
    a.renew()
    a.attach(2)
    w.write(b"between")
    net.run(30 * SECOND)
    assert not any(disk.rows for disk in net.disks.values())
    assert a.ack() == [NoSession()]
    net.deliver()
    assert a.attach(2).gap
    a.ack()
    w.write(b"after")
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
    _, a, _ = trio()
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


def test_an_older_incarnation_that_is_confirmed_late_does_not_end_the_newer(make_net):
    """The JOIN row of the newer waits for its second copy, and its name is still that of the one before both."""
    net = make_net(1, 2, copies=2)
    a = net.enrol("a")
    a.arrive(1)
    net.run(2 * SECOND)
    a.ack()
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch)
    a.renew()
    a.attach(1)
    older = (a.channel, Ack(a.le, a.c))
    a.renew()
    a.attach(1)
    a.ack()
    net.up(*older)
    assert [r.state for r in net.records(1, a) if r.mh == a.mh] == ["open"]
    net.lose = lambda *flight: False
    net.run(10 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2
    assert [r.mh for r in net.records(1, a) if r.state == "open"] == [a.mh]
    assert a.channel not in net.closed
