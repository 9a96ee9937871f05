"""A station joins: its slot, its snapshot, and from when it serves (composition.md section 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Move, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Claims, Reserved, Snapshot, SnapshotReq


def given(net) -> list[tuple[int, int]]:
    return [(effect.generation, effect.slot) for _, effect in net.told(fx.SlotGiven)]


def test_a_slot_is_given_when_every_station_has_confirmed_it(make_net):
    net = make_net(1, 2, 3)
    net.tick(1, lambda core: core.reserve("new", 77))
    net.run(SECOND)
    assert given(net) == [(77, 4)]
    assert [disk.reserved for disk in net.disks.values()] == [{4: 77}] * 3


def test_a_station_that_is_down_is_waited_for_and_named(make_net):
    net = make_net(1, 2, 3)
    net.crash(3)
    net.tick(1, lambda core: core.reserve("new", 77))
    net.run(5 * SECOND)
    assert given(net) == []
    assert net.cores[1].reservation.waits_for(77) == [3]
    net.start(3)
    net.run(2 * SECOND)
    assert given(net) == [(77, 4)]


def test_two_sponsors_at_once_give_two_slots(make_net):
    net = make_net(1, 2, 3)
    net.tick(1, lambda core: core.reserve("one", 77))
    net.tick(2, lambda core: core.reserve("two", 78))
    net.run(20 * SECOND)
    slots = dict(given(net))
    assert slots.keys() == {77, 78}
    assert slots[77] != slots[78]


def test_a_slot_that_was_confirmed_to_another_sponsor_is_not_proposed(make_net):
    """Found by the simulator: a refused sponsor went to the slot that it had itself confirmed in the same tick."""
    net = make_net(1, 2, 3)
    net.hold = lambda source, target, frame: isinstance(frame, Reserved)
    for sponsor, generation in ((1, 76), (2, 77), (3, 78)):
        net.tick(sponsor, lambda core, g=generation: core.reserve("new", g))
    net.deliver()
    net.release()
    net.run(60 * SECOND)
    slots = dict(given(net))
    assert len(slots) == len(set(slots.values())) == 3
    for disk in net.disks.values():
        assert all(disk.reserved.get(slot) == generation for generation, slot in slots.items())


def test_a_lost_answer_is_asked_for_again(make_net):
    net = make_net(1, 2, 3)
    net.lose = lambda source, target, frame: isinstance(frame, Reserved) and source == 3
    net.tick(1, lambda core: core.reserve("new", 77))
    net.run(5 * SECOND)
    assert given(net) == []
    net.lose = lambda *flight: False
    net.run(2 * SECOND)
    assert given(net) == [(77, 4)]


@pytest.mark.parametrize("dies_after", range(5))
def test_a_crash_of_the_sponsor_gives_no_slot_twice(make_net, dies_after):
    net = make_net(1, 2, 3)
    net.doom[1] = dies_after
    net.tick(1, lambda core: core.reserve("new", 77))
    net.deliver()
    net.doom.clear()
    net.restart(1)
    net.tick(2, lambda core: core.reserve("other", 78))
    net.run(5 * SECOND)
    net.tick(1, lambda core: core.reserve("new", 77))
    net.run(60 * SECOND)
    slots = set(given(net))
    assert {generation for generation, _ in slots} == {77, 78}
    assert len({slot for _, slot in slots}) == len(slots) == 2


def test_the_same_newcomer_gets_the_same_slot_again(make_net):
    net = make_net(1, 2)
    for _ in range(2):
        net.tick(1, lambda core: core.reserve("new", 77))
        net.run(SECOND)
        net.tick(1, lambda core: core.add_station(3))
        net.restart(1)
    assert given(net) == [(77, 3), (77, 3)]


def test_no_slot_beyond_what_the_wire_can_name(make_net):
    net = make_net(1, 1023)
    net.tick(1, lambda core: core.reserve("new", 77))
    assert given(net) == []
    assert "no-slot-left" in net.rejected()


def joined(duo, **settings):
    net, a, w = duo(**settings)
    a.cut()
    w.write(*(b"%d" % n for n in range(9)))
    net.join(1, 3)
    net.run(3 * SECOND)
    return net, a, w


def test_a_newcomer_takes_rows_and_serves_once_all_count_it(duo):
    net, a, w = joined(duo)
    assert net.disks[3].rows.keys() == net.disks[1].rows.keys()
    net.renewed(3)
    net.run(2 * SECOND)
    assert net.view(3).serving
    assert net.view(2).members == net.view(3).members == (1, 2, 3)
    a.attach(3)
    net.deliver()
    assert a.got == [b"%d" % n for n in range(9)]
    w.write(b"after")
    assert a.got[-1] == b"after"


def test_nothing_is_dropped_that_a_newcomer_has_yet_to_take(duo):
    net, _, w = duo()
    net.lose = lambda source, target, frame: isinstance(frame, SnapshotReq)
    net.join(1, 3)
    w.write(b"x", b"y")
    net.run(60 * SECOND)
    assert len(net.disks[1].rows) == len(net.disks[2].rows) == 2
    net.lose = lambda *flight: False
    net.run(2 * SECOND)
    net.renewed(3)
    net.run(30 * SECOND)
    assert net.rows == 0


@pytest.mark.parametrize("dies", [1, 3])
def test_a_snapshot_goes_on_after_a_crash_of_either_side(duo, dies, monkeypatch):
    monkeypatch.setattr("roamcast.middleware.membership.snapshot.PART_ROWS", 2)
    net, a, w = duo()
    a.cut()
    w.write(*(b"%d" % n for n in range(9)))
    net.lose = lambda source, target, frame: isinstance(frame, SnapshotReq) and frame.after >= 10
    net.join(1, 3)
    net.run(3 * SECOND)
    taken = len(net.disks[3].rows)
    assert 0 < taken < 9
    net.restart(dies)
    net.lose = lambda *flight: False
    net.run(3 * SECOND)
    net.renewed(3)
    net.run(2 * SECOND)
    a.attach(3)
    net.deliver()
    assert a.got == [b"%d" % n for n in range(9)]


def test_a_late_copy_of_a_part_changes_nothing(duo, monkeypatch):
    monkeypatch.setattr("roamcast.middleware.membership.snapshot.PART_ROWS", 2)
    net, _, _ = joined(duo)
    parts = net.frames(Snapshot)
    rows = dict(net.disks[3].rows)
    net.hand(1, 3, parts[0])
    assert net.disks[3].rows == rows


def test_a_newcomer_turns_to_another_station_when_its_sponsor_has_ended(make_net):
    net = make_net(1, 2)
    net.lose = lambda source, target, frame: isinstance(frame, SnapshotReq)
    net.join(1, 3)
    net.run(2 * SECOND)
    net.lose = lambda *flight: False
    net.crash(1)
    net.tick(3, lambda core: core.set_stations((("two", 2, "", b""),)), lambda core: core.close_station(1, 0))
    net.tick(2, lambda core: core.close_station(1, 0))
    net.run(3 * SECOND)
    net.renewed(3)
    net.run(3 * SECOND)
    assert net.view(3).serving
    assert 1 in net.view(3).final


def test_a_newcomer_whom_only_a_lost_station_counted_ends(make_net):
    net = make_net(1, 2)
    net.lose = lambda source, target, frame: isinstance(frame, Claims) and target == 2
    net.join(1, 3)
    net.run(2 * SECOND)
    net.renewed(3)
    net.crash(1)
    net.tick(2, lambda core: core.close_station(1, 0))
    net.tick(3, lambda core: core.close_station(1, 0))
    net.lose = lambda *flight: False
    net.run(10 * SECOND)
    assert [slot for slot, _ in net.told(fx.Halt)] == [3]


def test_a_member_is_noted_before_any_claim_of_the_frame_that_names_it_counts(make_net):
    net = make_net(1, 2)
    net.run(SECOND)
    frame = next(frame for _, target, frame in reversed(net.sent) if isinstance(frame, Claims) and target == 2)
    view = replace(frame.view, members=(1, 2, 5))
    effects = net.tick(2, lambda core: core.receive_peer(1, replace(frame, view=view, full=True)))
    assert isinstance(effects[0], fx.Persist)
    assert net.view(2).members == (1, 2, 5)
    assert net.cores[2].ledger.fifo.reduce.minima[1] == 0


def test_serving_early_is_what_the_wait_prevents(duo):
    for mutants, word in ((), Move), (("serve_early",), Welcome):
        net, a, _ = duo()
        net.lose = lambda source, target, frame: target == 2
        net.mutants = frozenset(mutants)
        net.join(1, 3)
        net.run(2 * SECOND)
        net.renewed(3)
        net.run(SECOND)
        a.hello(3)
        net.deliver()
        assert isinstance(a.heard[0], word)
