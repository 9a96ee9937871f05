"""How stations are split into clusters, and which clusters each gateway joins: exactly one gateway for any two.

So clusters are the points and gateways the lines of a linear space. For four clusters there are three of them, the
cases of figure 5 of the paper (fifo-broadcast.md e2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

Lines = tuple[tuple[int, ...], ...]
"""Of each gateway, its clusters."""


def one_line(points: int) -> Lines:
    """One gateway of all clusters."""
    return (tuple(range(points)),)


def pairs(points: int) -> Lines:
    """A gateway for every two clusters."""
    return tuple(combinations(range(points), 2))


def near_pencil(points: int) -> Lines:
    """One gateway of all clusters but the last, and one for the last and each other."""
    return (tuple(range(points - 1)), *((point, points - 1) for point in range(points - 1)))


def plane(order: int) -> Lines:
    """The projective plane of a prime order: as many gateways as clusters, order + 1 of one at the other."""
    vectors = [(1, a, b) for a in range(order) for b in range(order)] + [(0, 1, a) for a in range(order)] + [(0, 0, 1)]
    return tuple(
        tuple(
            number for number, p in enumerate(vectors) if sum(x * y for x, y in zip(line, p, strict=True)) % order == 0
        )
        for line in vectors
    )


SHAPES: dict[str, tuple[int, Lines]] = {
    "flat": (1, ()),
    "two": (2, one_line(2)),
    "three-1": (3, one_line(3)),
    "three-3": (3, pairs(3)),
    "four-1": (4, one_line(4)),
    "four-4": (4, near_pencil(4)),
    "four-6": (4, pairs(4)),
    "fano": (7, plane(2)),
    "ten-45": (10, pairs(10)),
}
"""Name -> (clusters, gateways)."""

FIRST_GATEWAY = 1_001
FIRST_STANDBY = 2_001


@dataclass(slots=True)
class Layout:
    """One composite cluster."""

    clusters: int
    stations: dict[int, int] = field(default_factory=dict)
    """Station -> its cluster."""
    gateways: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Gateway -> its clusters, standbys included."""
    standby_of: dict[int, int] = field(default_factory=dict)

    def stations_of(self, cluster: int) -> list[int]:
        """Stations of one cluster."""
        return [station for station, at in self.stations.items() if at == cluster]

    def gateways_of(self, cluster: int) -> list[int]:
        """Gateways of one cluster."""
        return [gateway for gateway, joined in self.gateways.items() if cluster in joined]


def layout(clusters: int, lines: Lines, sizes: Sequence[int], has_standbys: bool = False) -> Layout:
    """Stations 1, 2, ... in clusters of these sizes."""
    made = Layout(clusters)
    for cluster, size in enumerate(sizes):
        for _ in range(size):
            made.stations[len(made.stations) + 1] = cluster
    for number, line in enumerate(lines):
        made.gateways[FIRST_GATEWAY + number] = line
        if has_standbys:
            made.gateways[FIRST_STANDBY + number] = line
            made.standby_of[FIRST_STANDBY + number] = FIRST_GATEWAY + number
    return made
