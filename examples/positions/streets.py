"""The town: roads and depots drawn from a seed, masts in fixed places, and drives that are functions of time alone."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

WIDTH, HEIGHT = 1000, 620
MASTS: Final = ((215, 185), (790, 215), (470, 470), (850, 540), (120, 530))
"""Where stations stand, in the order of their slots."""
LOOKOUT: Final = (590, 335)
"""Where the viewer stands."""
CROSSINGS: Final = 13
MARGIN: Final = 55
CANDIDATES: Final = 40
BEND: Final = 0.16
PIECES: Final = 20
"""A road is drawn, and driven on, as so many straight pieces."""
SPEED: Final = 62.0
START_S: Final = 1.2
"""Time to come from rest to full speed, and back."""
REST_S: Final = (1.0, 3.5)

Point = tuple[float, float]


class Town:
    """Crossings and roads by a seed. `roads[a, b]` is the way from a to b as points; both directions are there."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"{seed} town")
        self.crossings: list[Point] = []
        for _ in range(CROSSINGS):
            drawn = [_anywhere(rng) for _ in range(CANDIDATES)]
            self.crossings.append(max(drawn, key=lambda point: self._room(point)))
        self.depots = self._depots()
        """Crossings where drives begin and end, one near each mast: no mast is without hosts for long."""
        self.roads: dict[tuple[int, int], list[Point]] = {}
        for a, b in itertools.combinations(range(CROSSINGS), 2):
            if self._neighbours(a, b):
                road = _curve(self.crossings[a], self.crossings[b], rng.uniform(-BEND, BEND))
                self.roads[a, b], self.roads[b, a] = road, road[::-1]

    def way(self, start: int, end: int) -> list[Point]:
        """The shortest way between two crossings, along roads."""
        best, reached = [(0.0, [start])], set()
        while best:
            length, path = heapq.heappop(best)
            if path[-1] == end:
                return [point for leg in itertools.pairwise(path) for point in self.roads[leg][1:]]
            if path[-1] not in reached:
                reached.add(path[-1])
                for (a, b), road in self.roads.items():
                    if a == path[-1] and b not in reached:
                        heapq.heappush(best, (length + _lengths(road)[-1], [*path, b]))
        raise ValueError(f"no way from {start} to {end}")

    def _depots(self) -> tuple[int, ...]:
        found: list[int] = []
        for mast in MASTS:
            free = (i for i in range(CROSSINGS) if i not in found)
            found.append(min(free, key=lambda i: math.dist(self.crossings[i], mast)))
        return tuple(found)

    def _room(self, point: Point) -> float:
        return min(math.dist(point, other) for other in (*self.crossings, *MASTS, LOOKOUT))

    def _neighbours(self, a: int, b: int) -> bool:
        """Whether nothing is between them (the Gabriel graph: connected, and no two of its lines cross)."""
        one, two = self.crossings[a], self.crossings[b]
        middle, radius = ((one[0] + two[0]) / 2, (one[1] + two[1]) / 2), math.dist(one, two) / 2
        return all(math.dist(middle, point) >= radius for i, point in enumerate(self.crossings) if i not in (a, b))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a drive is at some time."""

    x: float
    y: float
    arrivals: int
    """Drives that have ended so far, the last one at `depot` (from 1 on; 0: none yet)."""
    depot: int


class Drive:
    """One vehicle's day: from depot to depot by the shortest ways, with a rest at each. By seed and name."""

    def __init__(self, town: Town, seed: int, name: str) -> None:
        self._town, self._rng = town, random.Random(f"{seed} drive {name}")
        self._at = self._rng.choice(town.depots)
        self._arrivals, self._depot = 0, 0
        self._begin = self._end = 0.0
        self._path: list[Point] = [town.crossings[self._at]]
        self._marks = [0.0]
        self._leave(self._rng.uniform(0, REST_S[1]))

    def at(self, now: float) -> Place:
        """The place at `now`, in seconds since the beginning, which never decreases from call to call."""
        while now >= self._end:
            self._arrivals, self._depot = self._arrivals + 1, self._town.depots.index(self._at) + 1
            self._leave(self._end + self._rng.uniform(*REST_S))
        along = _covered(now - self._begin, self._marks[-1])
        i = min(max(bisect_right(self._marks, along), 1), len(self._path) - 1)
        piece = self._marks[i] - self._marks[i - 1]
        part = (along - self._marks[i - 1]) / piece if piece else 1.0
        (x0, y0), (x1, y1) = self._path[i - 1], self._path[i]
        return Place(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, self._arrivals, self._depot)

    def _leave(self, begin: float) -> None:
        there = self._rng.choice([depot for depot in self._town.depots if depot != self._at])
        self._path = [self._town.crossings[self._at], *self._town.way(self._at, there)]
        self._marks, self._at = _lengths(self._path), there
        self._begin, self._end = begin, begin + self._marks[-1] / SPEED + START_S


def _covered(elapsed: float, length: float) -> float:
    """How far a vehicle has come: it gathers speed, drives, and brakes; before its start it rests."""
    total = length / SPEED + START_S
    elapsed = min(max(elapsed, 0.0), total)
    if elapsed < START_S:
        return SPEED * elapsed**2 / (2 * START_S)
    if elapsed > total - START_S:
        return length - SPEED * (total - elapsed) ** 2 / (2 * START_S)
    return SPEED * (elapsed - START_S / 2)


def _anywhere(rng: random.Random) -> Point:
    return rng.uniform(MARGIN, WIDTH - MARGIN), rng.uniform(MARGIN, HEIGHT - MARGIN)


def _curve(one: Point, two: Point, bend: float) -> list[Point]:
    """A quadratic curve between two points that leaves the straight line by `bend` of its length."""
    across = (two[1] - one[1], one[0] - two[0])
    pull = tuple((one[i] + two[i]) / 2 + across[i] * bend for i in (0, 1))
    parts = [i / PIECES for i in range(PIECES + 1)]
    return [
        (
            (1 - t) ** 2 * one[0] + 2 * t * (1 - t) * pull[0] + t**2 * two[0],
            (1 - t) ** 2 * one[1] + 2 * t * (1 - t) * pull[1] + t**2 * two[1],
        )
        for t in parts
    ]


def _lengths(path: list[Point]) -> list[float]:
    """How far each point is from the first, along the path."""
    return [0.0, *itertools.accumulate(itertools.starmap(math.dist, itertools.pairwise(path)))]
