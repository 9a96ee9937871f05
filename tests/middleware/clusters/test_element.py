"""An element whose cluster changes: ends that all agree on, newcomers, frames of those that are out, and nonsense."""

from __future__ import annotations

import pytest

from roamcast.middleware.clusters.element import Element
from roamcast.middleware.clusters.frames import Claims, Data, Nack
from roamcast.middleware.clusters.matrix import Matrix
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.simulator.clusters.judge import Entry

FLAT = [[1, 2, 3, 4]]


def test_minima_are_column_minima_whoever_comes_and_goes():
    matrix = Matrix([1, 2, 3], {1: 0, 2: 0, 3: 0})
    for element, value in ((1, 5), (2, 3), (3, 4), (2, 3), (2, 1)):
        matrix.merge(element, 1, value)
    assert matrix.minima[1] == 3
    assert matrix.drop(2) == [1] and matrix.minima[1] == 4
    matrix.add(4, {1: 4})
    assert matrix.minima == {1: 4, 2: 0, 3: 0, 4: 0}
    assert not matrix.merge(1, 1, 9) and not matrix.merge(3, 1, 9) and matrix.merge(4, 1, 8)


def test_the_last_row_of_one_that_ended_is_fetched_from_whoever_has_it(group):
    world = group(FLAT)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: sender != 4 or target == 3
    world.enter(4)
    world.deliver()
    world.passes = lambda cluster, sender, target, frame: 4 not in (sender, target)
    world.close(1, 4)
    world.tick(20, without=(4,))
    assert world.has(1) == world.has(2) == world.has(3) == {4: 1}
    assert all(world.stations[i].levels.known_stable == {4: 1} for i in (1, 2, 3))


def test_a_row_that_only_one_had_which_ends_too_is_not_waited_for(group):
    """Scenario (d) 22: what is known of the stream's end has to fall again."""
    assert end_of_two(group(FLAT)) == [True, True]


def test_with_the_end_frozen_it_is_waited_for(group):
    assert end_of_two(group(FLAT, mutant="closed_frozen")) == [False, False]


def end_of_two(world) -> list[bool]:
    """Whether the others are done with both."""
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: sender != 4 or target == 3
    world.enter(4)
    world.deliver()
    world.passes = lambda cluster, sender, target, frame: 4 not in (sender, target) and not isinstance(frame, Nack)
    world.close(3, 4)
    world.tick(3, without=(4,))
    assert world.stations[1].known[4] == 1
    world.passes = lambda cluster, sender, target, frame: not {3, 4} & {sender, target}
    world.close(1, 3)
    world.tick(40, without=(3, 4))
    return [world.stations[i].is_drained() and world.stations[i].known[4] == 0 for i in (1, 2)]


def test_nothing_more_is_taken_from_one_that_ended_and_it_is_told(group):
    world = group(FLAT)
    world.tick(4)
    world.passes = lambda cluster, sender, target, frame: sender != 1
    world.close(1, 4)
    world.enter(4)
    world.deliver()
    assert world.has(1) == {} and world.has(2) == {4: 1}
    world.passes = lambda *frame: True
    world.tick(10)
    assert world.has(1) == {4: 1} and (4, 0) in world.ended


def test_a_newcomer_begins_with_what_its_sponsor_has_and_counts(group):
    world = group([[1, 2]])
    world.enter(2, 3)
    world.tick(4)
    sponsor = world.stations[1]
    base, origins = sponsor.table.base(), tuple(sponsor.table.origins.items())
    sponsor.add(3, False, base, world.now)
    roster = Roster(0, 3, {1, 2, 3}, set(), set(), dict(sponsor.roster.added))
    world.stations[3] = Element(roster, world.settings, StreamTable(roster.members, base, origins))
    world.clusters[0].append(3)
    world.passes = lambda cluster, sender, target, frame: target != 3 or not isinstance(frame, Data)
    world.enter(2, 2)
    world.tick(6)
    assert world.stations[1].levels.stable == {2: 3}
    assert 3 in world.stations[2].roster.stations
    world.passes = lambda *frame: True
    world.tick(20)
    assert [world.stations[i].levels.known_stable for i in (1, 2, 3)] == 3 * [{2: 5}]
    assert not world.stations[1].closings.newcomers(True)


@pytest.mark.parametrize(
    "frame",
    [
        Data(9, 1, (Entry(9, 1, ""),)),
        Data(1, 1, (Entry(1, 1, ""),)),
        Data(2, 0, (Entry(2, 0, ""),)),
        Nack(9, 1, 1),
        Nack(2, 3, 1),
        Claims(False, ((9, 1),), (), (), 0, (), (), (), ()),
        Claims(False, ((1, 5),), (), (), 0, (), (), (), ()),
        Claims(False, (), ((1, 5),), (), 0, (), (), (), ()),
    ],
)
def test_frames_that_make_no_sense_are_refused_and_change_nothing(group, frame):
    world = group([[1, 2, 3]])
    world.do(1, world.stations[1].receive(2, frame, 0))
    assert len(world.refused) == 1
    assert world.has(1) == {} and world.stations[1].known == {1: 0, 2: 0, 3: 0}


def test_strangers_are_refused(group):
    world = group([[1, 2]])
    world.do(1, world.stations[1].receive(7, Nack(1, 1, 1), 0))
    assert world.refused == ["not of this cluster"]
