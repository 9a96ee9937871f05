"""Presence (one-order.md 4.5, scenario 16)."""

from __future__ import annotations

import pytest
from on_topics import configure, subscribe

from roamcast.middleware.host_frames import Msg, Welcome
from roamcast.middleware.rows import PRESENCE, PRESENCE_KINDS
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch, HandoffReq, Spooled


def said(net, host):
    """Every word about the host's presence, as the stations have sent it to each other."""
    rows = {row.id: row for frame in net.frames(DataBatch) for row in frame.rows if row.kind in PRESENCE_KINDS}
    return [(row.kind.name, row.number) for row in rows.values() if row.addressee == PRESENCE | host.number]


def value(net, slot, host):
    last = net.disks[slot].last[PRESENCE | host.number]
    return last.order[1], not last.order[2]


def test_presence_is_said_on_attachment_and_after_a_grace(net, crowd):
    a, b, _, p = crowd
    configure(net, presence=True)
    subscribe(net, b, "$presence/a")
    assert b.got == [b"+$presence/a", b"on $presence/a"] or b.got[0] == b"+$presence/a"
    b.ack()
    a.cut()
    net.run(9 * SECOND)
    assert value(net, 3, a)[1]
    net.run(3 * SECOND)
    assert value(net, 3, a) == (a.e, False) and b.got[-1] == b"off $presence/a"
    a.arrive(2)
    assert value(net, 3, a) == (a.e, True) and b.got[-1] == b"on $presence/a"
    del p


@pytest.mark.rules("no_shown")
def test_custody_carries_what_was_said(net, crowd):
    """The station that takes over says away, if the host never comes through."""
    a, *_ = crowd
    configure(net, presence=True)
    net.tick(2, lambda core: core.set_uplinks("the disk is full"))
    a.arrive(2)
    net.run(SECOND)
    assert [record.shown for record in net.cores[2].ledger.all_records() if record.mh == a.mh] == [(1, True)]
    a.cut()
    net.run(20 * SECOND)
    net.tick(2, lambda core: core.set_uplinks(None))
    net.run(3 * SECOND)
    assert value(net, 3, a)[1] is False


@pytest.mark.rules("p_sum")
def test_scenario_16_a_late_word_about_an_old_session(net, crowd):
    """Away after attempt 1 is said, by a clock ahead, after attached by attempt 3 elsewhere: it changes nothing."""
    a, *_ = crowd
    configure(net, presence=True)
    net.skews[1] = 100 * SECOND
    net.hold = lambda source, target, frame: source == 2 and target == 1 and not isinstance(frame, HandoffReq)
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    net.run(20 * SECOND)
    a.misses = ()
    a.hello(2)
    net.deliver()
    a.ack()
    net.deliver()
    for flight in [flight for flight in net.held if isinstance(flight[2], Spooled)]:
        net.hand(*flight)
    net.run(3 * SECOND)
    net.release()
    net.run(10 * SECOND)
    assert ("OFFLINE", a.e - 2) in said(net, a)
    assert value(net, 3, a) == (a.e, True)


def test_presence_is_off_unless_it_is_wanted(net, crowd):
    a, b, *_ = crowd
    subscribe(net, b, "$presence/a")
    a.cut()
    net.run(30 * SECOND)
    assert b.got == [b"!$presence/a"] and not said(net, a)


def test_switched_off_and_on_again_presence_is_said_anew(net, crowd):
    a, b, *_ = crowd
    configure(net, presence=True)
    b.cut()
    net.run(12 * SECOND)
    configure(net)
    assert not any(disk.last for disk in net.disks.values())
    configure(net, presence=True)
    net.run(12 * SECOND)
    assert value(net, 3, a) == (a.e, True)
