"""Presence of hosts of a station that is lost: somebody else says that they are away."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Welcome
from roamcast.middleware.rows import PRESENCE
from roamcast.middleware.settings import SECOND
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
