"""Field reports, played on topics (field-reports.md K02 to K07): repeats, windows, order, loss."""

from __future__ import annotations

import pytest
from on_topics import RETAINED, TOPIC, configure, subscribe

from roamcast.middleware.host_frames import Msg
from roamcast.middleware.settings import SECOND


@pytest.fixture
def two(make_net):
    """a at station 1 and publisher p at 2; a is subscribed to t and has acknowledged it."""

    def build(**settings):
        net = make_net(1, 2, **settings)
        configure(net)
        a, p = net.enrol("a"), net.enrol("p", 2)
        a.arrive(1)
        p.arrive(2)
        subscribe(net, a)
        a.ack()
        return net, a, p

    return build


@pytest.mark.parametrize("spooled", [False, True])
def test_bl_12_13_a_backlog_beyond_the_window_comes_before_what_is_new(two, spooled):
    """BL-12, BL-13: 60 messages wait, the window takes 5, and more are sent all the while."""
    net, a, p = two(window_entries=5)
    a.cut()
    sent = [f"m{i}".encode() for i in range(60)]
    for body in sent:
        p.publish(TOPIC, "t", body)
    net.deliver()
    net.run((15 if spooled else 1) * SECOND)
    assert bool(net.spooled(1, a)) is spooled
    a.attach(1)
    for i in range(30):
        sent.append(f"live {i}".encode())
        p.publish(TOPIC, "t", sent[-1])
        net.deliver()
        a.ack()
        net.deliver()
    assert a.got == [b"+t", *sent]


def test_bl_08_two_sends_of_one_body_are_two_messages(two):
    net, a, p = two()
    for _ in range(2):
        p.publish(TOPIC, "t", b"same")
    a.arrive(2)
    p.publish(TOPIC, "t", b"same")
    net.deliver()
    assert a.got == [b"+t", b"same", b"same", b"same"]


def test_bl_05_what_was_acknowledged_does_not_come_again_after_a_crash(two):
    net, a, p = two()
    for i in range(20):
        p.publish(TOPIC, "t", f"m{i}".encode())
    net.deliver()
    a.ack()
    net.restart(1)
    configure(net)
    a.attach(1)
    assert a.got == [b"+t", *(f"m{i}".encode() for i in range(20))]


def test_bl_09_what_was_stored_on_a_topic_outlives_its_station(two):
    """A message whose number a UACK has covered is given, though the station died right after it."""
    net, a, p = two()
    net.lose = lambda source, target, frame: True
    p.publish(TOPIC, "t", b"m")
    assert not p.outbox, "it was acknowledged"
    net.restart(2)
    net.lose = lambda source, target, frame: False
    configure(net)
    net.run(5 * SECOND)
    assert a.got == [b"+t", b"m"]


def test_bl_10_a_receiver_on_a_dead_link_comes_back_elsewhere(two):
    net, a, p = two()
    a.misses = (Msg,)
    for i in range(10):
        p.publish(TOPIC, "t", f"m{i}".encode())
    net.deliver()
    a.misses = ()
    a.attach(2)
    p.publish(TOPIC, "t", b"last")
    net.deliver()
    assert a.got == [b"+t", *(f"m{i}".encode() for i in range(10)), b"last"]


def test_bl_78_what_a_station_keeps_of_topics_does_not_grow_with_the_hosts_that_came(two):
    """Two hundred hosts subscribe, leave their subscription and go: nothing of them is left in the log."""
    net, _, p = two()
    for i in range(200):
        host = net.enrol(f"x{i}")
        host.arrive(1)
        subscribe(net, host, "u")
        host.ack()
        host.cut()
    p.publish(RETAINED, "u", b"w")
    net.deliver()
    net.run(20 * SECOND)
    net.run(12 * SECOND)
    assert not net.rows
    assert len(net.disks[1].last) == 1
    assert {len(net.disks[1].items), len(net.disks[2].items)} <= {0, 1}
    spooled = [entries for entries in net.disks[1].spools.values() if entries]
    assert len(spooled) == 200, "each has its own line, all of them one item"
