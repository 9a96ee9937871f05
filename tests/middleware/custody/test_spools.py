"""Skip rules, checkpoints and spools (one-order.md 3.2-3.6, 7)."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Data, Msg, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch, SpoolPart, State
from roamcast.middleware.vectors import covers


@pytest.mark.rules(holds=("claim_exact",))
def test_scenario_2_a_claim_passes_what_is_not_owed(net, pair):
    """one-order 2: R has announced what the host only skipped; the base that moves is not below it.

    (R is announced and base written in one collection, so the claim has nothing left to pass.)
    """
    a, b = pair
    b.send(b"to myself", to="b")
    b.ack()
    net.run(12 * SECOND)
    assert not net.rows
    floors = tuple(net.disks[1].streams[slot].floor if slot in net.disks[1].streams else 0 for slot in range(4))
    net.hold = lambda source, target, frame: isinstance(frame, State)
    a.hello(2)
    net.deliver()
    (state,) = [frame for _, _, frame in net.held]
    assert covers(state.base, floors)
    net.release()


@pytest.mark.rules("skip_holds")
def test_what_is_not_owed_holds_nothing(net, pair):
    """Mail for others passes an attached host that has nothing to acknowledge."""
    a, b = pair
    b.send(b"to myself", to="b")
    b.ack()
    net.run(12 * SECOND)
    assert not net.rows
    assert a.got == []


@pytest.mark.rules("ckpt", "ckpt_acked_only")
def test_scenario_3_checkpoint_before_rows_go(net, pair):
    """one-order 3: after a crash the record stands where the rows were dropped, also of a host that only skipped."""
    a, b = pair
    b.send(b"to myself", to="b")
    b.ack()
    net.run(12 * SECOND)
    (record,) = net.records(1, a)
    for slot, stream in net.disks[1].streams.items():
        assert record.base[slot] >= stream.floor


@pytest.mark.rules("claim_c_old")
def test_scenario_4_an_older_claim_means_nothing_here(net, pair):
    """one-order 4: c of the older session is above every spool position of the present one."""
    a, b = pair
    b.write(b"m1")
    a.ack()
    a.cut()
    b.write(b"m2", b"m3")
    net.run(15 * SECOND)
    assert net.spooled(1, a) == [b"m2", b"m3"]
    a.misses = (Welcome, Msg)
    a.hello(1)
    assert a.c > 0
    a.misses = ()
    a.attach(1)
    assert a.got == [b"m1", b"m2", b"m3"]


@pytest.mark.rules("no_spooled")
def test_scenario_5_gone_between_state_and_welcome(net, pair):
    """one-order 5: custody stuck in mid-handoff holds no log; the host is served whichever session it names."""
    a, b = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    b.write(b"m1", b"m2")
    net.run(120 * SECOND)
    assert not net.rows
    a.misses = ()
    a.arrive(1)
    assert a.got == [b"m1", b"m2"]


@pytest.mark.rules("no_spooled")
def test_scenario_5_welcomed_and_gone(net, pair):
    """The same, but WELCOME was heard: the host names the new station's session, which it never confirmed."""
    a, b = pair
    a.attach(2)
    a.cut()
    b.write(b"m1", b"m2")
    net.run(120 * SECOND)
    assert not net.rows
    a.arrive(2)
    assert a.got == [b"m1", b"m2"]
    net.run(20 * SECOND)
    assert [len(net.records(slot, a)) for slot in (1, 2)] == [0, 1]


@pytest.mark.rules("no_spool")
def test_an_absent_host_holds_no_log(net, pair):
    """What waits for it waits in its spool, at one station; broadcasts and its mail, nobody else's."""
    a, b = pair
    a.cut()
    b.write(b"m1")
    b.send(b"for a", to="a")
    b.send(b"for b", to="b")
    b.ack()
    net.run(30 * SECOND)
    assert not net.rows
    assert net.spooled(1, a) == [b"m1", b"for a"] and not net.spooled(1, b)
    a.arrive(1)
    net.run(10 * SECOND)
    assert a.got == [b"m1", b"for a"]
    assert not net.disks[1].items


@pytest.mark.rules("no_spool", spool_behind_time=6 * SECOND)
def test_a_host_that_never_acknowledges_is_spooled_too(net, pair):
    """Attached and far behind: what it has not acknowledged is spooled; what follows comes all the same, once."""
    a, b = pair
    b.write(b"m1")
    net.run(20 * SECOND)
    assert a.got == [b"m1"] and net.spooled(1, a) == [b"m1"] and not net.rows
    b.write(b"m2")
    a.ack()
    b.write(b"m3")
    a.ack()
    net.run(20 * SECOND)
    assert a.got == [b"m1", b"m2", b"m3"] and not net.spooled(1, a)


@pytest.mark.rules("front_kept", slots=(1,), spool_behind_rows=2, collect_rows=3)
def test_spooled_before_the_frame_was_made(net):
    """Rows are placed, spooled and collected in the tick in which the shared frame is due: it does not hold them."""
    a, b = net.enrol("a"), net.enrol("b")
    a.arrive(1)
    b.arrive(1)
    net.run(12 * SECOND)
    channel, c = b.channel, b.in_hand
    frames = [Data(b.le, n, c, None, b"m%d" % n) for n in (1, 2, 3, 4)]
    net.tick(1, *[lambda core, frame=frame: core.receive_host(channel, b.number, frame) for frame in frames])
    assert not net.rows
    assert a.got == [b"m1", b"m2", b"m3", b"m4"]


@pytest.mark.rules(spool_part_bytes=1_000, spool_parts_per_answer=2)
def test_a_spool_moves_with_custody(net, pair):
    """A spool in parts, some of them lost at first; the order is kept and the old station forgets it."""
    a, b = pair
    a.cut()
    bodies = [b"%03d" % i + bytes(100) for i in range(30)]
    b.write(*bodies)
    net.run(20 * SECOND)
    lost: list[int] = []
    net.lose = lambda source, target, frame: isinstance(frame, SpoolPart) and len(lost) < 3 and not lost.append(frame.i)
    a.hello(2)
    net.run(2 * SECOND)
    assert len(lost) == 3 and a.got == bodies
    a.ack()
    net.run(10 * SECOND)
    assert not net.disks[1].spools.get(a.mh) and not net.records(1, a)
    assert not net.disks[1].items and not net.disks[2].items


def test_a_spool_keeps_what_the_host_has_beyond_the_log(net, pair):
    """It came with more than is logged here and goes to sleep: given once all the same."""
    a, b = pair
    net.hold = lambda source, target, frame: target == 2 and isinstance(frame, DataBatch)
    b.write(b"early")
    a.ack()
    a.arrive(2)
    c = net.enrol("c", 2)
    a.cut()
    net.run(20 * SECOND)
    net.release()
    c.arrive(2)
    c.write(b"late")
    net.run(20 * SECOND)
    a.arrive(2)
    assert a.got == [b"early", b"late"]


def test_spooled_by_one_successor_is_not_spooled_by_the_next(net, pair):
    """SPOOLED of an abandoned attempt means nothing for the station that custody is promised to now."""
    a, _ = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    net.run(30 * SECOND)
    assert [record.succ_ok for record in net.records(1, a)] == [True]
    a.hello(3)
    net.deliver()
    assert [(record.moved_to, record.succ_ok) for record in net.records(1, a)] == [((3, a.e), False)]


def test_a_host_is_told_at_once_that_its_spool_is_gathered(net, pair):
    """Else it looks elsewhere, and the parts that came are for nothing."""
    a, b = pair
    a.cut()
    b.write(b"x")
    net.run(20 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, SpoolPart)
    a.hello(2)
    net.deliver()
    assert [wait.reason for wait in a.words(Wait)] == ["gathering what waited at the former station"]
    net.release()
    assert a.got == [b"x"]
