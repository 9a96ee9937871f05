"""Presence of hosts of a station that is lost: somebody else says that they are away."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Msg, Welcome
from roamcast.middleware.rows import PRESENCE
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Cancel
from roamcast.middleware.topics import Topics


def away(net, host):
    """Whether each station says that the host is away."""
    return [bool(net.disks[slot].last[PRESENCE | host.number].order[2]) for slot in net.cores]


@pytest.fixture
def at_one(make_net):
    """Two stations, presence is wanted; host w, enrolled at 2, is attached at 1."""
    net = make_net(1, 2)
    w = net.enrol("w", home=2)
    for slot in net.slots:
        net.tick(slot, lambda core: core.set_topics(Topics([], presence=True)))
    w.arrive(1)
    net.run(2 * SECOND)
    assert away(net, w) == [False, False]
    return net, w


def test_who_was_attached_there_is_away(at_one):
    net, w = at_one
    net.lose_station(1)
    net.run(10 * SECOND)
    assert away(net, w) == [True]


def test_a_join_that_nobody_confirms_keeps_nobody_attached(at_one):
    """Its device came to 2 with all state lost, never heard the answer, and was not seen again."""
    net, w = at_one
    w.renew()
    w.misses = (Welcome,)
    w.hello(2)
    net.deliver()
    w.cut()
    assert any(record.join for record in net.records(2, w))
    net.lose_station(1)
    net.run(30 * SECOND)
    assert away(net, w) == [True]


@pytest.mark.parametrize(("mutants", "told"), [((), True), (("p_of_former",), False)])
def test_a_former_incarnation_is_away_wherever_custody_of_the_present_one_is(make_net, mutants, told):
    """topics seed 1607080: it joined anew, went on to a station that it never confirmed, and was not seen again."""
    net = make_net(1, 2, 3, mutants=mutants)
    w = net.enrol("w", home=2)
    for slot in net.slots:
        net.tick(slot, lambda core: core.set_topics(Topics([], presence=True)))
    w.arrive(1)
    net.run(2 * SECOND)
    assert away(net, w) == [False] * 3
    net.crash(1)
    w.renew()
    w.attach(2)
    w.misses = (Welcome, Msg)
    w.hello(3)
    net.deliver()
    w.cut()
    assert [record.state for slot in (2, 3) for record in net.records(slot, w)] == ["moved", "open"]
    for slot in (2, 3):
        net.tick(slot, lambda core: core.close_station(1, 0))
    net.run(30 * SECOND)
    assert away(net, w) == [told] * 2


@pytest.mark.parametrize(("mutants", "told"), [((), True), (("p_older",), False)])
def test_what_is_left_of_a_stay_from_before_keeps_nobody_attached(make_net, mutants, told):
    """topics seed 3018079: its host had gone back, and CANCEL was lost with the station."""
    net = make_net(1, 2, mutants=mutants)
    w = net.enrol("w")
    for slot in net.slots:
        net.tick(slot, lambda core: core.set_topics(Topics([], presence=True)))
    w.arrive(1)
    w.misses = (Welcome, Msg)
    w.hello(2)
    net.deliver()
    net.tick(2, lambda core: core.channel_lost(w.channel))
    w.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel)
    w.hello(1)
    net.deliver()
    w.ack()
    net.deliver()
    assert [record.le for record in net.records(2, w)] != [w.e - 1], "nobody has confirmed it"
    net.lose_station(1)
    net.run(30 * SECOND)
    assert away(net, w) == [told]
