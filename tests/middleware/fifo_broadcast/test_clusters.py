"""Clusters with gateways: rows reach all, levels hold everywhere, gateways end and come back, layouts change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.fifo_broadcast.core import GUARD
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, Nack

if TYPE_CHECKING:
    from tests.middleware.fifo_broadcast.conftest import Group

TWO = Layout(((1, 2, 3), (2, 3, 4, 5)), frozenset({3}))
"""1 | 2 and its standby 3 | 4, 5."""
PAIRS = Layout(((1, 2, 4), (1, 3, 5), (2, 3, 6)))
"""1, 2, 3 join two clusters each; 4, 5, 6 are in one each."""
ONE = Layout(((1, 2), (1, 3), (1, 4)))
UNEQUAL = Layout(((1, 2, 5), (1, 3), (1, 4), (2, 3, 4)))
SHAPES = {
    "two": (TWO, 5), "pairs": (PAIRS, 6), "one": (ONE, 4), "unequal": (UNEQUAL, 5),
    "some are named nowhere": (TWO, 6),
}  # fmt: skip

Make = Callable[..., "Group"]


def firsts(group: Group, origin: int) -> set[tuple[int, int]]:
    """(sender, receiver) of all rows of `origin`."""
    return {(source, target) for source, target, frame in group.sent if is_rows(frame, origin)}


def is_rows(frame: object, origin: int) -> bool:
    return isinstance(frame, DataBatch) and frame.origin == origin


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_is_stable_while_one_station_lacks_it_and_then_everything(make_group: Make, name: str) -> None:
    layout, count = SHAPES[name]
    slots = tuple(range(1, count + 1))
    for origin in slots:
        for behind in slots:
            if behind == origin:
                continue
            group = make_group(*slots, layout=layout)
            group.run(SECOND)
            group.lose = lambda source, target, frame, o=origin, b=behind: target == b and is_rows(frame, o)
            group.submit(origin)
            group.run(SECOND)
            assert not group.stored(behind, origin)
            assert not [slot for slot in slots if group.up[slot].stable[origin]], (origin, behind)
            group.lose = lambda source, target, frame: False
            group.run(4 * SECOND)
            assert {group.up[slot].known_stable[origin] for slot in slots} == {1}, (origin, behind)


@pytest.mark.parametrize("name", SHAPES)
def test_what_everybody_knows_waits_for_the_last_one_that_does_not(make_group: Make, name: str) -> None:
    layout, count = SHAPES[name]
    slots = tuple(range(1, count + 1))
    for deaf in slots:
        group = make_group(*slots, layout=layout)
        group.run(SECOND)
        group.lose = lambda source, target, frame, d=deaf: target == d and isinstance(frame, Claims)
        origin = next(slot for slot in slots if slot != deaf)
        group.submit(origin)
        group.run(SECOND)
        assert not group.up[deaf].stable[origin]
        assert not [slot for slot in slots if group.up[slot].known_stable[origin]]


def test_rows_go_to_the_own_clusters_and_one_gateway_forwards_them(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.run(SECOND)
    group.sent.clear()
    group.submit(1)
    group.deliver()
    assert firsts(group, 1) == {(1, 2), (1, 3), (2, 4), (2, 5)}
    assert not group.faults


def test_claims_stay_in_the_own_clusters_at_rest(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.submit(4, 3)
    group.run(3 * SECOND)
    group.sent.clear()
    group.run(20 * SECOND)
    assert {type(frame) for _, _, frame in group.sent} == {Claims}
    assert not [(source, target) for source, target, _ in group.sent if {source, target} in ({1, 4}, {1, 5})]


def test_a_standby_forwards_when_the_active_gateway_is_silent_and_stops_when_it_is_back(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, heartbeat=200 * MS, down_after=SECOND)
    group.submit(1)
    group.run(2 * SECOND)
    group.stop(2)
    group.run(2 * SECOND)
    group.sent.clear()
    group.submit(1, 2)
    group.deliver()
    assert firsts(group, 1) == {(1, 2), (1, 3), (3, 4), (3, 5)}, "what is new, to all there"
    assert [group.stored(slot, 1) for slot in (3, 4, 5)] == [3, 3, 3]
    group.start(2)
    group.run(2 * SECOND)
    group.sent.clear()
    group.submit(1)
    group.deliver()
    assert firsts(group, 1) == {(1, 2), (1, 3), (2, 4), (2, 5)}


def test_without_take_over_the_standby_forwards_nothing(make_group: Make) -> None:
    mutants = frozenset({"no_takeover"})
    group = make_group(1, 2, 3, 4, 5, layout=TWO, heartbeat=200 * MS, down_after=SECOND, mutants=mutants)
    group.run(SECOND)
    group.stop(2)
    group.run(2 * SECOND)
    group.submit(1)
    group.deliver()
    assert [group.stored(slot, 1) for slot in (3, 4, 5)] == [1, 0, 0]


def test_a_take_over_begins_with_what_the_slowest_there_lacks(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, heartbeat=200 * MS, down_after=SECOND)
    group.submit(1)
    group.run(SECOND)
    group.lose = lambda source, target, frame: target == 5 and not isinstance(frame, Claims)
    group.submit(1, 3)
    group.run(500 * MS)
    group.stop(2)
    group.sent.clear()
    group.run(SECOND)
    sent = [frame for source, target, frame in group.sent if (source, target) == (3, 4) and is_rows(frame, 1)]
    assert [[row.n for row in batch.rows] for batch in sent] == [[2, 3, 4]], "4 has them, 5 does not"


def test_whoever_stands_still_in_another_cluster_stops_nobody(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, send_window=4)
    group.run(SECOND)
    group.lose = lambda source, target, frame: target == 5 and isinstance(frame, DataBatch)
    group.submit(1, 40, send=False)
    group.run(3 * SECOND)
    assert [group.stored(slot, 1) for slot in (1, 2, 3, 5)] == [40, 40, 40, 0]
    assert not group.up[1].stable[1]


def test_a_window_over_what_gateways_tell_stops_with_the_slowest_of_all(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, send_window=4, mutants=frozenset({"window_beyond"}))
    group.run(SECOND)
    group.lose = lambda source, target, frame: target == 5 and isinstance(frame, DataBatch)
    group.submit(1, 40, send=False)
    group.run(3 * SECOND)
    assert group.up[1].sent < 40


def test_while_no_gateway_is_heard_rows_and_claims_go_directly(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, heartbeat=200 * MS, down_after=SECOND)
    group.run(SECOND)
    group.stop(2)
    group.stop(3)
    group.run(2 * SECOND)
    group.submit(1)
    group.run(SECOND)
    assert [group.stored(slot, 1) for slot in (4, 5)] == [1, 1]
    assert not group.up[4].stable[1], "two members have it not"


BROKEN = {
    "the only gateway": (Layout(((1, 2), (2, 3))), {(2, 3), (3, 2)}),
    "the gateway is not heard": (Layout(((1, 2), (2, 3))), {(2, 3)}),
    "the gateway does not hear": (Layout(((1, 2), (2, 3))), {(3, 2)}),
    "gateway and standby": (Layout(((1, 2, 3), (2, 3, 4)), frozenset({3})), {(2, 4), (4, 2), (3, 4), (4, 3)}),
    "of all there": (Layout(((1, 2), (2, 3, 4))), {(2, 3), (3, 2), (2, 4), (4, 2)}),
}
"""Links that are broken for good, though all stations live and have others."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_station_that_its_gateway_does_not_reach_gets_all_directly(make_group: Make, name: str) -> None:
    layout, broken = BROKEN[name]
    slots = sorted({slot for cluster in layout.clusters for slot in cluster})
    group = make_group(*slots, layout=layout, heartbeat=200 * MS, down_after=SECOND, send_window=4)
    group.run(SECOND)
    group.lose = lambda source, target, frame: (source, target) in broken
    group.run(2 * SECOND)
    for slot in slots:
        group.submit(slot, 20)
    group.run(30 * SECOND)
    assert {group.stored(at, of) for at in slots for of in slots} == {20}
    group.lose = lambda source, target, frame: False
    group.run(3 * SECOND)
    group.sent.clear()
    group.submit(1)
    group.deliver()
    assert (1, slots[-1]) not in firsts(group, 1), "by the gateway again"


def test_whoever_trusts_its_own_ears_alone_leaves_it_without(make_group: Make) -> None:
    layout, broken = BROKEN["the only gateway"]
    mutants = frozenset({"own_ears"})
    group = make_group(1, 2, 3, layout=layout, heartbeat=200 * MS, down_after=SECOND, mutants=mutants)
    group.run(SECOND)
    group.lose = lambda source, target, frame: (source, target) in broken
    group.submit(1)
    group.run(300 * SECOND)
    assert [group.stored(slot, 1) for slot in (1, 2, 3)] == [1, 1, 0]


def test_when_all_gateways_have_ended_there_is_one_cluster(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.submit(1)
    group.run(SECOND)
    group.stop(2)
    group.stop(3)
    for slot in (1, 4, 5):
        group.up[slot].follow(View((1, 2, 3, 4, 5), closed={2: (0, ()), 3: (0, ())}))
    group.submit(1)
    group.run(2 * SECOND)
    assert [group.stored(slot, 1) for slot in (1, 4, 5)] == [2, 2, 2]
    parted = [slot for slot, effect in group.faults if isinstance(effect, Notice) and effect.event == "clusters-parted"]
    assert sorted(parted) == [1, 4, 5], "each says so once"
    assert {group.up[slot].stable[1] for slot in (1, 4, 5)} == {1}, "what was stable stays so; the ended are counted"
    group.lose = lambda source, target, frame: target == 5 and is_rows(frame, 1)
    group.submit(1)
    ends = {slot: Ending(0, 0, (0,) * 6) for slot in (2, 3)}
    for slot in (1, 4, 5):
        group.up[slot].follow(View((1, 2, 3, 4, 5), closed={2: (0, ()), 3: (0, ())}, final=ends))
    group.run(2 * SECOND)
    assert {group.up[slot].stable[1] for slot in (1, 4, 5)} == {2}, "5 lacks the last row"


def test_what_is_missing_is_asked_of_whoever_brings_it_then_of_any_that_has_it(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.run(SECOND)
    group.lose = lambda source, target, frame: target == 5 and isinstance(frame, DataBatch)
    group.submit(1)
    group.run(SECOND)
    asked = [target for source, target, frame in group.sent if source == 5 and isinstance(frame, Nack)]
    assert asked[:2] == [2, 2]
    assert {3, 4} <= set(asked[2:])
    assert 1 in asked[2:], "the origin answers too"


def test_rows_that_a_gateway_of_another_stream_sends_are_refused(
    make_group: Make, make_row: Callable[..., object]
) -> None:
    group = make_group(1, 2, 3, 4, 5, 6, layout=PAIRS)
    group.run(SECOND)
    batch = DataBatch(4, (make_row(4, 1),))
    group.hand(3, 6, batch)
    assert [effect.code for _, effect in group.faults if isinstance(effect, Reject)] == ["bad-origin"]
    assert not group.stored(6, 4)
    group.hand(2, 6, batch)
    assert group.stored(6, 4) == 1


def test_another_layout_while_rows_are_on_their_way(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.submit(1, 3)
    group.run(SECOND)
    stable = group.up[5].stable[1]
    assert stable == 3
    other = Layout(((1, 4, 2), (4, 3, 5)))
    for new in (other, FLAT, TWO):
        for slot in group.slots:
            group.up[slot].set_layout(new)
            group.submit(slot, send=False)
            assert group.up[5].stable[1] >= stable, "what was told to hold everywhere stays so"
            group.run(5 * MS)
        group.run(3 * SECOND)
        assert len({tuple(entity.known_stable) for entity in group.up.values()}) == 1
        assert group.up[5].known_stable[1] == group.stored(1, 1)
        stable = group.up[5].stable[1]


@pytest.mark.parametrize(("mutants", "stable"), [(frozenset(), 0), (frozenset({"any_mark"}), 1)])
def test_what_a_gateway_says_of_other_clusters_does_not_count(
    make_group: Make, mutants: frozenset[str], stable: int
) -> None:
    """For 1 the gateway 2 sees everybody; for 2 itself and the others it does not see 5, which lacks the row."""
    group = make_group(1, 2, 3, 4, 5, layout=Layout(((1, 2), (2, 3, 4, 5))), mutants=mutants)
    group.run(SECOND)
    for slot in (2, 3, 4, 5):
        group.up[slot].set_layout(Layout(((1, 2, 3), (2, 4), (3, 4, 5))))
    group.lose = lambda source, target, frame: target == 5
    group.run(SECOND)
    group.submit(1)
    group.run(SECOND)
    assert [group.stored(slot, 1) for slot in (2, 3, 4, 5)] == [1, 1, 1, 0]
    assert group.up[1].stable[1] == stable


def test_a_far_station_is_live_as_long_as_a_gateway_hears_it(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, heartbeat=200 * MS, down_after=SECOND)
    group.run(5 * SECOND)
    assert group.up[1].is_live(5, group.now)
    group.stop(5)
    group.run(3 * SECOND)
    assert not group.up[1].is_live(5, group.now)
    assert group.up[1].is_live(4, group.now)


@pytest.mark.parametrize(("mutants", "shown"), [(frozenset(), True), (frozenset({"views_near"}), False)])
def test_a_view_goes_to_all_also_where_frames_are_lost(make_group: Make, mutants: frozenset[str], shown: bool) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, mutants=mutants)
    group.run(SECOND)
    group.lose = lambda source, target, frame: (source, target) in ((1, 5), (5, 1))
    for slot in group.slots:
        group.up[slot].follow(View(group.slots, serving=False))
        group.up[slot].changed()
    group.run(100 * MS)
    for slot in group.slots:
        group.up[slot].follow(View(group.slots))
        group.up[slot].changed()
    group.run(100 * MS)
    group.lose = lambda source, target, frame: False
    group.run(3 * SECOND)
    told = group.up[5].words.views.get(1)
    assert (told is not None and told.serving) == shown


@pytest.mark.parametrize(("mutants", "dropped"), [(frozenset(), 0), (frozenset({"reduce_for_all"}), 1)])
def test_no_log_goes_that_a_host_of_another_cluster_needs(
    make_group: Make, mutants: frozenset[str], dropped: int
) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO, mutants=mutants)
    group.submit(1)
    group.run(SECOND)
    for slot in (1, 2, 3, 4):
        group.up[slot].announce_reduce((0, 1, 0, 0, 0, 0))
    group.run(SECOND)
    assert [group.up[slot].reduce.minima[1] for slot in group.slots] == [dropped, 0, 0, 0, 0], "5 needs it still"
    group.up[5].announce_reduce((0, 1, 0, 0, 0, 0))
    group.run(SECOND)
    assert [group.up[slot].reduce.minima[1] for slot in group.slots] == [1] * 5


def test_the_log_is_held_for_hosts_of_a_far_station_from_its_closing_on(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, layout=TWO)
    group.submit(1, 2)
    group.run(SECOND)
    group.stop(5)
    for slot in (1, 2, 3, 4):
        group.up[slot].announce_reduce((0, 2, 0, 0, 0, 0))
        group.up[slot].follow(View(group.slots, closed={5: (0, (0, 1, 0, 0, 0, 0))}))
    entity = group.up[1]
    assert entity.reduce.claims[GUARD - 5][1] == 1
    group.run(SECOND)
    for slot in (1, 2, 3, 4):
        end = Ending(0, 0, (0,) * 6)
        group.up[slot].follow(View(group.slots, closed={5: (0, (0, 1, 0, 0, 0, 0))}, final={5: end}))
    group.run(SECOND)
    assert [group.up[slot].reduce.minima[1] for slot in (1, 2, 3, 4)] == [1] * 4, "the guard stands"
    for slot in (1, 2, 3, 4):
        view = View(group.slots, closed={5: (0, (0, 1, 0, 0, 0, 0))}, final={5: end}, dropped=frozenset({5}))
        group.up[slot].follow(view)
    group.run(SECOND)
    assert [group.up[slot].reduce.minima[1] for slot in (1, 2, 3, 4)] == [2] * 4


def test_what_makes_no_sense_of_a_gateway_or_comes_from_none_changes_nothing(make_group: Make) -> None:
    group = make_group(1, 2, 3, 4, 5, 6, layout=Layout(((1, 2, 6), (2, 3, 4, 5))))
    group.submit(1)
    group.run(SECOND)
    mark, before = group.up[1].place.mark, list(group.up[1].reduce.minima)
    told = Claims(False, (), (), (), 0, 0)
    group.hand(2, 1, replace(told, beyond=Beyond(mark, ((9, 1),))))
    group.hand(2, 1, replace(told, beyond=Beyond(mark, ((1, 2),))))
    assert [type(effect) for _, effect in group.faults] == [Reject, Notice], "an unknown slot; more than was sent"
    group.hand(4, 1, replace(told, beyond=Beyond(mark, (), (), ((1, 1),))))
    group.hand(6, 1, replace(told, beyond=Beyond(mark, (), (), ((1, 1),))))
    group.hand(5, 1, replace(told, stored=((1, 1),), beyond=Beyond(mark, ((1, 1),), ((1, 1),), ((1, 1),), (2,))))
    assert group.up[1].reduce.minima == before
    assert sorted(group.up[1].reduce.beyond) == sorted(group.up[1].down) == [2]
