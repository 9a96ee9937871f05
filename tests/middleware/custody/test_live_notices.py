"""What the sender of a live message is told of its fate at its own station."""

from __future__ import annotations

import pytest
from held_back import hold

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Hello, LiveRefused, Welcome
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import DataBatch


def told(host):
    """(code, tag) of what it was told of its live messages."""
    return [(frame.code, frame.tag) for frame in host.words(LiveRefused)]


@pytest.mark.rules()
def test_its_host_is_told_why_it_was_not_taken(net, live_trio):
    a, b, _ = live_trio
    a.live(b"y", "nobody", tag=4)
    a.live(b"y", "nobody")
    a.own, a.outbox[1] = 1, (None, b"row")
    a.live(b"x", tag=5)
    a.live(b"x")
    net.deliver()
    assert told(a) == [("unknown", 4), ("unknown", 0), ("unfounded", 5)] and not b.got


def waits(net, b):
    """b brings a row that is not at 1 yet, so that what it sends live waits there."""
    hold(net, DataBatch, target=1)
    b.send(b"row")
    net.deliver()
    b.ack()
    b.attach(1)


@pytest.mark.rules()
def test_its_host_is_told_that_hosts_here_were_not_given_it(net, live_trio):
    """Of one with a tag: it was over, by its own deadline or by delta, before what it follows came."""
    a, b, _ = live_trio
    waits(net, b)
    b.live(b"x", tag=1, deadline=100 * MS)
    b.live(b"y", tag=2)
    b.live(b"z")
    net.run(200 * MS)
    net.release()
    assert a.got == [b"row", b"*y", b"*z"] and told(b) == [("expired", 1)]


@pytest.mark.rules()
def test_its_host_is_told_that_what_it_follows_did_not_come(net, live_trio):
    a, b, c = live_trio
    waits(net, b)
    b.live(b"x", tag=1)
    b.live(b"y")
    net.run(SECOND)
    net.release()
    assert a.got == [b"row"] and c.got == [b"row", b"*x", b"*y"] and told(b) == [("behind", 1)]


@pytest.mark.rules()
def test_its_host_is_told_that_it_was_overtaken(net, live_trio):
    a, b, c = live_trio
    waits(net, b)
    b.live(b"x", tag=1)
    net.deliver()
    c.attach(1)
    net.release()
    assert a.got[:1] == [b"row"] and told(b) == [("overtaken", 1)]


@pytest.mark.rules("live_told")
def test_no_other_session_is_told(net, live_trio):
    """Also where its host has attached again on the same connection."""
    _, b, _ = live_trio
    waits(net, b)
    b.live(b"x", tag=1)
    b.e += 1
    b.say(Hello(PROTOCOL_VERSION, b.name, b.incarnation, False, b.e, b.last, b.le, b.c, b.own + 1, b.ping_s))
    net.run(SECOND)
    assert b.word(Welcome).e == b.e and told(b) == []
