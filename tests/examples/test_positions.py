"""The parts of the example of live positions that need no station: the town, the drives, and the judge of the order."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from positions.board import TAPE, Board
from positions.streets import HEIGHT, MASTS, SPEED, WIDTH, Drive, Town
from positions.vehicle import Roaming, Vehicle

from roamcast.mh_agent import Discontinuity, Live, Message

NAMES = ("ada", "bob")


@pytest.mark.parametrize("seed", range(8))
def test_every_depot_is_reached_from_every_other_along_roads(seed: int) -> None:
    town = Town(seed)
    for a, b in itertools.permutations(town.depots, 2):
        way = [town.crossings[a], *town.way(a, b)]
        assert way[-1] == town.crossings[b]
        assert max(map(math.dist, way, way[1:])) < WIDTH / 4
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for road in town.roads.values() for x, y in road)


def test_a_drive_is_smooth_and_arrives_again_and_again() -> None:
    drive = Drive(Town(7), 7, "ada")
    places = [drive.at(i / 20) for i in range(6_000)]
    steps = [math.dist((a.x, a.y), (b.x, b.y)) for a, b in itertools.pairwise(places)]
    assert max(steps) <= SPEED / 20 * 1.001
    assert places[-1].arrivals > 10 and {place.depot for place in places} == {0, 1, 2, 3, 4, 5}
    jumps = [b.arrivals - a.arrivals for a, b in itertools.pairwise(places)]
    assert set(jumps) == {0, 1}


@pytest.mark.parametrize("seed", range(12))
def test_no_mast_is_without_a_host_for_long(seed: int) -> None:
    town, masts, begin, end, step = Town(seed), MASTS[:3], 20, 140, 0.5
    drives = [Drive(town, seed, f"vehicle {i}") for i in range(8)]
    seen: dict[int, list[float]] = {i: [begin] for i in range(len(masts))}
    for now in (begin + i * step for i in range(int((end - begin) / step))):
        for place in (drive.at(now) for drive in drives):
            seen[min(seen, key=lambda i: math.dist((place.x, place.y), masts[i]))].append(now)
    for times in seen.values():
        assert max(b - a for a, b in itertools.pairwise([*times, end])) < 30


def test_a_drive_is_that_of_its_seed_and_name_however_often_it_is_looked_at() -> None:
    often, seldom = Drive(Town(7), 7, "ada"), Drive(Town(7), 7, "ada")
    for i in range(1_000):
        often.at(i / 10)
    assert often.at(100.0) == seldom.at(100.0)
    assert Drive(Town(7), 7, "bob").at(100.0) != seldom.at(100.0)
    assert Town(8).crossings != Town(7).crossings


class Phone:
    """What roaming needs of an agent."""

    def __init__(self) -> None:
        self.status = {"stations": ["s1", "s2"]}
        self.moved: list[str] = []

    def move(self, station: str) -> None:
        self.moved.append(station)


def test_a_host_roams_to_the_nearest_mast_on_the_air_and_does_not_flutter() -> None:
    air = [("s1", 0, 0), ("s2", 100, 0), ("s3", 1000, 0)]
    phone, roaming = Phone(), Roaming(lambda: air)
    for x in (10, 49, 51, 49, 51, 60, 990):  # at 51 the other one is a little nearer; s3 is not known yet
        roaming.step(phone, x, 0)  # type: ignore[arg-type]
    assert phone.moved == ["s1", "s2"] and roaming.moves == 1
    phone.status["stations"].append("s3")
    roaming.step(phone, 990, 0)  # type: ignore[arg-type]
    del air[2]
    roaming.step(phone, 990, 0)  # type: ignore[arg-type]
    air.clear()
    roaming.step(phone, 0, 0)  # type: ignore[arg-type]
    assert phone.moved == ["s1", "s2", "s3", "s2"]


@pytest.fixture
def board() -> Board:
    vehicles = [Vehicle(Path(f"{name}.toml"), Drive(Town(1), 1, name), list, 0.0, 10.0) for name in NAMES]
    return Board(Path("viewer.toml"), list, vehicles)


def body(heard: dict[str, int], **fields: Any) -> bytes:
    return json.dumps({**fields, "heard": heard, "at": "s1", "sent": time.monotonic()}).encode()


def position(who: str, number: int, **heard: int) -> Live:
    return Live(lambda token: None, 0, who, body(heard, x=1.0, y=2.0, number=number), False, "positions", (0, 0))


def arrival(who: str, arrivals: int, **heard: int) -> Message:
    told = body(heard, arrivals=arrivals, depot=3)
    return Message(lambda token: None, 0, who, told, False, False, (0, 0))


def counts(board: Board, *events: object) -> dict[str, int]:
    for event in events:
        board._take(event)
    found: dict[str, int] = board.frame(0, 0)["counts"]
    return found


def test_what_is_in_order_is_not_blamed(board: Board) -> None:
    story = [arrival("ada", 1), position("ada", 1, ada=1), arrival("bob", 1, ada=1), position("ada", 2, ada=1, bob=1)]
    found = counts(board, *story)
    assert (found["checked"], found["broken"], found["live"], found["durable"]) == (4, 0, 2, 2)
    frame = board.frame(0, 0)
    assert frame["tape"] == [("ada", True), ("ada", False), ("bob", True), ("ada", False)]
    assert [line["who"] for line in frame["feed"]] == ["ada", "bob"]


@pytest.mark.parametrize(
    "late",
    [position("bob", 1, ada=1), arrival("bob", 1, ada=1), arrival("ada", 2, ada=1)],
    ids=["a position that knows of an arrival", "an arrival that does", "the second arrival before the first"],
)
def test_what_overtakes_is_blamed(board: Board, late: object) -> None:
    assert counts(board, late)["broken"] == 1


def test_what_the_viewer_was_told_to_have_missed_is_not_blamed(board: Board) -> None:
    gap = Discontinuity(lambda token: None, 0)
    assert counts(board, gap, position("bob", 1, ada=3), arrival("ada", 4, ada=3))["broken"] == 0
    assert counts(board, position("bob", 2, ada=5))["broken"] == 1


def test_positions_that_never_came_are_counted_and_foreign_bodies_are_not(board: Board) -> None:
    foreign = Live(lambda token: None, 0, "ada", b"\xff", False, "positions", (0, 0))
    found = counts(board, position("ada", 5), position("ada", 9), foreign, position("eve", 1))
    assert (found["live"], found["gone"]) == (2, 3)


def test_a_reader_is_given_what_is_new_to_it(board: Board) -> None:
    for number in range(1, 4):
        board._take(position("ada", number))
    assert len(board.frame(1, 0)["tape"]) == 2 and board.frame(3, 0)["tape"] == []
    for number in range(4, TAPE + 10):
        board._take(position("ada", number))
    assert len(board.frame(3, 0)["tape"]) == TAPE
    board.tell("a plug is pulled")
    board.tell("and another one")
    assert [line["text"] for line in board.frame(0, 1)["feed"]] == ["and another one"]
