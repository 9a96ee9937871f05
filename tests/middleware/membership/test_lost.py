"""A station is lost for good (composition.md section 6): cut, guard, and the hosts that it had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Ask, Fates, Refused, Seen, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch


def test_hosts_of_the_lost_station_have_everything_once(three):
    net, a, w = three
    w.write(b"had")
    a.ack()
    net.deliver()
    stands = tuple(enumerate(net.cores[1].ledger.vector()))
    a.cut()
    w.write(b"missed")
    net.lose_station(1)
    w.write(b"later")
    welcome = net.admit(a, 2, stands=stands)
    net.deliver()
    assert not welcome.gap
    assert a.got == [b"had", b"missed", b"later"]
    a.ack()
    net.run(30 * SECOND)
    assert [record.link for record in net.records(2, a)] == [False]


def test_the_log_is_held_for_its_hosts_until_they_are_released(three):
    net, _, w = three
    net.lose_station(1)
    w.write(b"x")
    net.run(60 * SECOND)
    assert net.disks[2].rows
    net.tick(3, lambda core: core.release_station(1))
    net.run(60 * SECOND)
    assert not net.disks[2].rows
    assert net.view(2).dropped == net.view(3).dropped == {1}


def test_without_the_guard_the_log_is_dropped(make_net):
    net = make_net(1, 2, 3, mutants=["no_guard"])
    w = net.enrol("w", home=2)
    w.arrive(2)
    net.lose_station(1)
    w.write(b"x")
    net.run(60 * SECOND)
    assert not net.disks[2].rows


def test_a_host_that_may_have_missed_something_is_told_and_skips_nothing_that_is_here(three):
    net, a, w = three
    a.cut()
    w.write(b"gone")
    net.run(60 * SECOND)
    assert net.rows == 0, "spooled at the station that will be lost, dropped by the others"
    net.lose_station(1)
    w.write(b"here")
    welcome = net.admit(a, 2, stands=((2, 0),))
    net.deliver()
    assert welcome.gap
    assert a.got == [b"<gap>", b"here"]


def test_a_host_that_was_never_told_where_it_stands_starts_at_the_end(three):
    net, a, w = three
    a.cut()
    net.lose_station(1)
    w.write(b"x")
    a.hello(2)
    net.deliver()
    a.say(Seen(a.e, (), 0, 0, ()))
    net.deliver()
    assert a.word(Welcome).gap
    assert a.got == [b"<gap>"]


def test_own_messages_that_no_station_has_are_named(three):
    net, a, w = three
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.send(b"acknowledged")
    a.send(b"sent")
    a.outbox.clear()
    net.lose_station(1)
    welcome = net.admit(a, 2, stands=((2, 0),), tx=2, stored=(1,))
    assert (welcome.lastseq, welcome.absent) == (2, (1, 2))
    a.own = 2
    a.send(b"next")
    net.deliver()
    assert w.got == [b"next"]


@pytest.mark.parametrize(("mutants", "absent"), [((), ()), (("no_taken",), (1,))])
def test_what_was_delivered_and_dropped_is_not_sent_again(three, mutants, absent):
    net, a, w = three
    net.mutants = frozenset(mutants)
    for slot in (2, 3):
        net.restart(slot)
    w.arrive(2)
    a.send(b"m", "w")
    w.ack()
    a.cut()
    net.run(60 * SECOND)
    assert net.rows == 0
    net.lose_station(1)
    welcome = net.admit(a, 2, stands=((2, 0),), tx=1)
    assert (welcome.lastseq, welcome.absent) == (1, absent)


def test_an_attached_host_is_asked_until_it_has_heard_of_its_losses(three):
    net, a, w = three
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.send(b"alone")
    a.outbox.clear()
    a.ack()
    net.lose = lambda *flight: False
    a.arrive(2)
    net.lose_station(1)
    assert a.words(Ask)
    a.say(replace(net.seen(a, stored=(1,)), e=a.le))
    assert a.word(Fates).absent == (1,)
    net.run(2 * SECOND)
    assert len(a.words(Ask)) > 1, "the answer may have been lost"
    a.say(replace(net.seen(a), e=a.le))
    asked = len(a.words(Ask))
    net.run(10 * SECOND)
    assert len(a.words(Ask)) == asked
    assert w.got == []


def test_an_orphan_goes_when_its_host_is_in_custody_elsewhere(three):
    net, a, w = three
    b = net.enrol("b", home=2)
    b.arrive(2)
    b.arrive(1)
    w.write(b"x")
    b.attach(3)  # not acknowledged past its arrival: the second and first still guard
    net.lose_station(1)
    b.ack()
    net.run(60 * SECOND)
    living = {slot: [record.state for record in net.records(slot, b)] for slot in (2, 3)}
    assert living == {2: [], 3: ["open"]}
    assert a.heard is not None


def test_a_station_that_only_seemed_lost_ends_when_it_hears_of_it(three):
    net, *_ = three
    for slot in (2, 3):
        net.tick(slot, lambda core: core.close_station(1, 0))
    net.run(10 * SECOND)
    assert [slot for slot, _ in net.told(fx.Halt)] == [1]


@pytest.mark.parametrize(
    "said",
    [
        Seen(3, ((2, 1 << 60),), 0, 0, ()),
        Seen(3, ((2, 0),), 0, 1 << 40, ()),
        Seen(3, ((2, 0),), 5, 5, (9,)),
    ],
)
def test_what_cannot_be_is_refused(three, said):
    net, a, _ = three
    a.cut()
    net.lose_station(1)
    a.hello(2)
    net.deliver()
    a.say(replace(said, e=a.e))
    assert a.word(Refused).code == "bad-seen"
    assert net.records(2, a) == []


def test_what_was_taken_counts_before_its_host_is_bound_again(make_net):
    """The row that bound it went with the lost station, to which it had come back."""
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.arrive(2)
    a.write(b"m")
    a.arrive(1)
    net.run(SECOND)
    net.lose_station(1)
    net.tick(2, lambda core: core.release_station(1))
    net.run(30 * SECOND)
    assert [(net.disks[slot].rows, net.disks[slot].hosts[a.number].incarnation) for slot in (2, 3)] == [({}, 0)] * 2
    welcome = net.admit(a, 3, stands=((2, 0),), tx=1)
    assert (welcome.lastseq, welcome.absent) == (1, ())
    a.ack()
    net.run(5 * SECOND)
    entries = [net.disks[slot].hosts[a.number] for slot in (2, 3)]
    assert [(entry.incarnation, entry.taken) for entry in entries] == [(a.incarnation, ((1, 1),))] * 2
