"""What a host is given: nothing lost on the air, one order, skip rules, spools (one-order.md 3, 7; B1, B6, B7)."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Data, Msg, Uack
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, DataBatch


@pytest.mark.rules("no_acked")
def test_b1_sent_but_lost_on_the_air(net, pair):
    """B1: what was sent to a host but not acknowledged is not collected."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m")
    net.run(12 * SECOND)
    a.misses = ()
    a.attach(1)
    assert a.got == [b"m"]


@pytest.mark.rules("late_data")
def test_b6_late_data_of_the_old_session(net, pair):
    """B6: a frame of the old session arrives after STATE has left; the host repeats it at the new station."""
    a, b = pair
    old, e, c = a.channel, a.le, a.in_hand
    a.own, a.outbox[1] = 1, (None, b"x")
    net.hold = lambda source, target, frame: isinstance(frame, Accept)
    a.arrive(2)
    net.tick(1, lambda core: core.receive_host(old, a.number, Data(e, 1, c, None, b"x")))
    a.resend()
    net.deliver()
    assert b.got == [b"x"]


@pytest.mark.rules("no_lastseq")
def test_b7_uack_lost_then_moved(net, pair):
    """B7: the number of the last message stored travels with custody."""
    a, b = pair
    a.misses = (Uack, Msg)
    a.send(b"x")
    a.misses = ()
    assert a.attach(2).lastseq == 1
    a.resend()
    net.deliver()
    assert b.got == [b"x"]


@pytest.mark.rules("no_sent")
def test_b7_what_was_seen_elsewhere_comes_first(net, pair):
    """B7: what a host sends at the new station follows what it was given at the old one."""
    a, b = pair
    c = net.enrol("c", 3)
    c.arrive(3)
    net.run(6 * SECOND)
    net.hold = lambda source, target, frame: source == 1 and isinstance(frame, DataBatch)
    b.write(b"first")
    assert a.got == [b"first"]
    a.attach(2)
    a.send(b"second")
    net.deliver()
    assert c.got == []
    net.release()
    assert c.got == [b"first", b"second"]


@pytest.mark.rules("no_sent", "sdep")
def test_the_past_of_a_host_outlives_a_crash(net, pair):
    """Durability, Sdep: the new station crashes between the arrival of custody and the host's next message."""
    a, b = pair
    c = net.enrol("c", 3)
    c.arrive(3)
    net.run(6 * SECOND)
    net.hold = lambda source, target, frame: source == 1 and isinstance(frame, DataBatch)
    b.write(b"first")
    a.arrive(2)
    net.restart(2)
    a.attach(2)
    a.send(b"second")
    net.deliver()
    assert c.got == []
    net.release()
    assert c.got == [b"first", b"second"]


@pytest.mark.rules(holds=("own_stamps",))
def test_stamps_of_own_rows_outlive_a_crash(net, pair):
    """SENT contains the stamps of own rows: the next message there follows them (as FIFO per origin demands anyway)."""
    a, b = pair
    c, d = net.enrol("c", 3), net.enrol("d", 2)
    c.arrive(3)
    d.arrive(2)
    net.run(6 * SECOND)
    net.hold = lambda source, target, frame: source == 1 and isinstance(frame, DataBatch)
    b.write(b"first")
    a.attach(2)
    a.send(b"second")
    net.deliver()
    a.arrive(1)
    net.run(2 * SECOND)
    assert not net.records(2, a), "its floor went with its record"
    net.restart(2)
    d.attach(2)
    d.send(b"third")
    net.deliver()
    net.release()
    net.run(2 * SECOND)
    assert c.got == [b"first", b"second", b"third"]


@pytest.mark.rules("mail_apart")
def test_scenario_1_mail_and_broadcasts_in_one_order(net, pair):
    """one-order 1: u mails g, then broadcasts; x sees the broadcast and mails g: g is given all three in that order."""
    a, _b = pair
    g, x = net.enrol("g", 2), net.enrol("x", 3)
    g.arrive(2)
    x.arrive(3)
    net.run(6 * SECOND)
    net.hold = lambda source, target, frame: (source, target) == (1, 2) and isinstance(frame, DataBatch)
    a.send(b"u", to="g")
    a.send(b"b")
    net.deliver()
    assert x.got == [b"b"]
    x.send(b"v", to="g")
    net.deliver()
    net.release()
    assert g.got == [b"u", b"b", b"v"]


@pytest.mark.rules()
def test_scenario_18_mail_to_a_host_that_never_attached(net, pair):
    """one-order 18: it waits in the spool of the enrolment's record; one order with the broadcasts."""
    _, b = pair
    c = net.enrol("c", 2)
    b.send(b"mail", to="c")
    b.write(b"all")
    net.run(60 * SECOND)
    assert not net.rows
    c.arrive(3)
    assert c.got == [b"mail", b"all"]


@pytest.mark.rules("mail_shared")
def test_mail_rides_beside_the_shared_frame(net, pair):
    """A tick with a broadcast and mail: the addressee's frame holds both, the others' only the broadcast."""
    a, b = pair
    channel, c = b.channel, b.in_hand
    net.tick(
        1,
        lambda core: core.receive_host(channel, b.number, Data(b.le, 1, c, "a", b"mail")),
        lambda core: core.receive_host(channel, b.number, Data(b.le, 2, c, None, b"all")),
    )
    assert a.got == [b"mail", b"all"]
    assert b.got == [b"all"]
    b.ack()
    b.own = 2
    b.write(b"next")
    assert a.got == [b"mail", b"all", b"next"] and b.got == [b"all", b"next"]
