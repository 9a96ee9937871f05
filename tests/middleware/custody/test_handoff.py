"""Handoff: the clean one, and the races that settle it (causal-broadcast.md (d))."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ack, Hello, Msg, Stale, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, Cancel, DataBatch, HandoffReq, Released, State


def test_clean_handoff_is_four_messages(net, pair):
    """HANDOFF_REQ, STATE, ACCEPT, RELEASED, all between old and new, and nothing more however long one waits."""
    a, b = pair
    b.send(b"one")
    a.ack()
    net.run(1_000_000)
    net.sent.clear()
    a.arrive(2)
    net.run(60_000_000)
    custody = [(source, target, type(frame)) for source, target, frame in net.sent if hasattr(frame, "mh")]
    assert custody == [(2, 1, HandoffReq), (1, 2, State), (2, 1, Accept), (1, 2, Released)]
    assert net.records(1, a) == []
    (record,) = net.records(2, a)
    assert (record.state, record.link, record.prev) == ("open", False, 1)
    assert a.got == [b"one"]


@pytest.mark.rules("accept_early", "moved_spool")
def test_b2_accept_only_past_the_arrival(net, pair):
    """B2: the new station had announced R before custody came; until the host is past it only the old one guards."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m1", b"m2", b"m3")
    net.run(6 * SECOND)
    a.attach(2)
    a.say(Ack(a.e, a.in_hand))
    net.run(12 * SECOND)
    a.misses = ()
    a.attach(2)
    assert a.got == [b"m1", b"m2", b"m3"]


@pytest.mark.rules("moved_spool")
def test_b2_unconfirmed(net, pair):
    """Welcomed, but nothing of it is known yet: the old station keeps what the new one cannot serve by itself."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m1", b"m2")
    net.run(6 * SECOND)
    a.attach(2)
    net.run(15 * SECOND)
    a.misses = ()
    a.attach(2)
    assert a.got == [b"m1", b"m2"]


def test_accept_waits_for_the_last_entry_of_the_arrival(net, pair):
    """Everything up to T but one is not enough."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m1", b"m2")
    a.misses = ()
    a.attach(2)
    positions = [position for frame in a.words(Msg) for position, _ in frame.entries]
    a.say(Ack(a.le, positions[-2]))
    net.deliver()
    assert [record.state for record in net.records(1, a)] == ["moved"]
    a.ack()
    net.deliver()
    assert net.records(1, a) == []


@pytest.mark.rules("accept_early")
def test_b3_the_third_station_frees_the_first(net, pair):
    """B3: the second cannot guard and is left; custody is released along the chain once the third is past."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m1", b"m2")
    a.attach(2)
    a.say(Ack(a.e, a.in_hand))
    net.deliver()
    assert [record.state for record in net.records(1, a)] == ["moved"]
    a.attach(3)
    a.say(Ack(a.e, a.in_hand))
    net.deliver()
    assert [record.state for record in net.records(1, a)] == ["moved"], "still needed"
    net.run(12 * SECOND)
    a.misses = ()
    a.attach(3)
    a.ack()
    net.run(2 * SECOND)
    assert a.got == [b"m1", b"m2"]
    assert [len(net.records(slot, a)) for slot in (1, 2, 3)] == [0, 0, 1]
    assert not net.records(3, a)[0].link


@pytest.mark.rules("accept_on_state")
def test_b4_welcome_lost_and_back_again(net, pair):
    """B4: custody is not given up before the host has shown that it was welcomed."""
    a, b = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.misses = ()
    b.write(b"m")
    a.attach(1)
    a.ack()
    net.run(60 * SECOND)
    assert a.got == [b"m"]
    assert len(net.records(1, a)) == 1 and not net.records(2, a)


@pytest.mark.rules("no_epoch")
def test_b5_an_overtaken_request_moves_nothing(net, pair):
    """B5: the request of attempt 2 reaches the old station after that of attempt 3."""
    a, _ = pair
    net.hold = lambda source, target, frame: (
        (source == 2 and isinstance(frame, HandoffReq)) or isinstance(frame, Accept)
    )
    a.hello(2)
    a.arrive(3)
    net.sent.clear()
    net.release()
    assert Cancel(a.mh, 2, 3) in net.frames(Cancel)
    net.run(5 * SECOND)
    assert [len(net.records(slot, a)) for slot in (1, 2, 3)] == [0, 0, 1]


@pytest.mark.rules("no_probe")
def test_b8_promised_to_a_station_that_forgot(net, pair):
    """B8: STATE was lost, the new station has crashed, the host never returns: custody falls back and logs drain."""
    a, b = pair
    net.lose = lambda source, target, frame: isinstance(frame, State)
    a.hello(2)
    net.deliver()
    net.restart(2)
    net.lose = lambda source, target, frame: False
    b.write(b"m")
    net.run(90 * SECOND)
    (record,) = net.records(1, a)
    assert (record.state, record.moved_to) == ("open", None)
    assert net.spooled(1, a) == [b"m"] and not net.rows


@pytest.mark.rules("no_query", holds=("no_cancel_push",))
def test_b9_cancel_lost(net, pair):
    """B9: a tentative record at an abandoned station asks, and goes."""
    a, _ = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel)
    a.arrive(1)
    net.lose = lambda source, target, frame: False
    assert len(net.records(2, a)) == 1
    net.run(10 * SECOND)
    assert not net.records(2, a)
    assert [record.state for record in net.records(1, a)] == ["open"]


@pytest.mark.rules("save:moved")
def test_b10_moved_is_durable_before_state(net, pair):
    """B10: the old station crashes after STATE; asked later, it still knows whom custody was promised to."""
    a, _ = pair
    a.attach(2)
    net.restart(1)
    net.run(5 * SECOND)
    a.attach(2)
    a.ack()
    net.run(5 * SECOND)
    assert [len(net.records(slot, a)) for slot in (1, 2)] == [0, 1]


@pytest.mark.rules("save:confirm")
def test_confirmed_is_durable_before_accept(net, pair):
    """ACCEPT has freed the old station; after a crash the new one still knows that the host is its own."""
    a, _ = pair
    net.lose = lambda source, target, frame: isinstance(frame, Released)
    a.arrive(2)
    net.restart(2)
    net.lose = lambda source, target, frame: False
    net.run(5 * SECOND)
    a.attach(2)
    a.ack()
    net.run(5 * SECOND)
    assert [len(net.records(slot, a)) for slot in (1, 2)] == [0, 1]


@pytest.mark.rules("moving_by_h")
def test_b11_accept_hits_one_record(net, pair):
    """A1, B11: A -> B -> A -> C; the ACCEPT of the first handoff arrives last and frees only its own record."""
    a, _ = pair
    net.hold = lambda source, target, frame: (source, target) == (2, 1) and isinstance(frame, Accept)
    a.arrive(2)
    a.arrive(1)
    a.misses = (Welcome, Msg)
    a.hello(3)
    net.deliver()
    a.misses = ()
    net.release()
    assert [(record.arr, record.state, record.moved_to) for record in net.records(1, a)] == [(3, "moved", (3, 4))]
    a.arrive(1)
    net.run(5 * SECOND)
    assert [len(net.records(slot, a)) for slot in (1, 2, 3)] == [1, 0, 0]


@pytest.mark.rules(holds=("no_cancel_push",))
def test_there_and_back_within_one_round_trip(net, pair):
    """A -> B -> A and A -> B -> C before anything is answered: one record at the end, and all once."""
    a, b = pair
    b.write(b"m")
    a.hello(2)
    waiting = a.channel
    a.hello(2)
    assert waiting in net.closed, "one attempt of a host at a time"
    a.hello(1)
    a.hello(2)
    a.hello(3)
    net.run(SECOND)
    a.attach(3)
    a.ack()
    net.run(20 * SECOND)
    assert a.got == [b"m"]
    assert [len(net.records(slot, a)) for slot in (1, 2, 3)] == [0, 0, 1]


@pytest.mark.rules()
def test_b14_second_attempt_at_the_same_station(net, pair):
    """B14: the first WELCOME was lost; the second claim names the older session, and its vector is still there."""
    a, b = pair
    b.write(b"m1")
    a.ack()
    b.write(b"m2")
    a.misses = (Welcome, Msg)
    a.hello(1)
    b.write(b"m3")
    a.misses = ()
    a.attach(1)
    a.ack()
    assert a.got == [b"m1", b"m2", b"m3"]
    a.attach(1)
    assert a.entries() == []


@pytest.mark.rules("no_epoch")
def test_b16_hello_of_an_abandoned_attempt(net, pair):
    """B16: it arrives after the host was elsewhere and came back; the session lives on."""
    a, b = pair
    late = Hello((1, 0), a.name, a.incarnation, False, 2, 1, 1, a.c, 1, 240)
    a.e = 2
    a.arrive(2)
    a.arrive(1)
    channel = net.connect(a, 1)
    effects = net.tick(1, lambda core: core.receive_host(channel, a.number, late))
    assert [e.frame for e in effects if hasattr(e, "frame") and isinstance(e.frame, Stale)] == [Stale(4)]
    b.write(b"m")
    assert a.got == [b"m"]


@pytest.mark.rules()
def test_b18_a_tentative_record_is_not_used_again(net, pair):
    """B18: a new attempt at the station of an abandoned one opens a record of its own."""
    a, b = pair
    b.write(b"m1")
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    (tentative,) = net.records(2, a)
    a.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel)
    a.attach(2)
    assert [record.arr for record in net.records(2, a)] == [tentative.arr + 1]
    net.lose = lambda source, target, frame: False
    a.ack()
    net.run(2 * SECOND)
    (record,) = net.records(2, a)
    assert record.arr == tentative.arr + 1
    assert a.got == [b"m1"]


def test_the_clock_that_came_with_custody_outlives_a_crash(make_net):
    """few seed 201: what the host sent next was earlier than what it had been given."""
    net = make_net(1, 2)
    a, w = net.enrol("a"), net.enrol("w")
    for host in (a, w):
        host.arrive(1)
    net.run(2 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    net.skews[1] = 600 * SECOND
    w.write(b"late")
    given = max(row.hlc for row in net.disks[1].rows.values())
    a.ack()
    a.attach(2)
    net.restart(2)
    a.attach(2)
    a.send(b"next")
    net.deliver()
    assert max(row.hlc for row in net.disks[2].rows.values() if row.slot == 2) > given
