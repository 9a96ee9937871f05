"""Whether a group is better split into clusters: rule B of fifo-broadcast.md (e5), for the busiest process.

A PDU costs F cells and one for each element of its cluster. In a round each station sends one row, and an element R
control PDUs for it: an element of a cluster of c receives n rows and R c control PDUs, a gateway of two clusters twice
that, and passes the rows on inside. Clusters are joined in pairs: h = sqrt(n) of them, a gateway for every two. With
every gateway and its standby taken from the n stations, a cluster has c = n / h + h - 1 of them, 2 sqrt(n) - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import isqrt

from roamcast.middleware.fifo_broadcast.layout import Layout


@dataclass(frozen=True, slots=True)
class Load:
    """What one process receives for a row of the group, on average."""

    pdus: float
    cells: float


def load(stations: int, size: float, joined: int, controls: float, fixed: float) -> Load:
    """Load of an element in `joined` clusters of `size`. Args as in `gain`."""
    pdus = joined * (1 + controls * size / stations)
    return Load(pdus, pdus * (fixed + size) + (joined if joined > 1 else 0))


def size_of(stations: int) -> float:
    """Elements of a cluster of the pairs, on average: c."""
    clusters = isqrt(stations)
    return stations / clusters + clusters - 1


def gain(stations: int, controls: float, fixed: float) -> float:
    """Rule B: the load of the busiest process in one flat cluster by that with pairs of sqrt(n) clusters.

    Args:
        stations: n.
        controls: R, control PDUs of one element for each row that each station sends.
        fixed: F, what a PDU costs beside its vector, in cells.
    """
    flat = load(stations, stations, 1, controls, fixed)
    return flat.cells / load(stations, size_of(stations), 2, controls, fixed).cells


def pairs(stations: int) -> Layout:
    """Slots 1 to n in sqrt(n) clusters of nearly one size; any two have a gateway and a standby. n is at least 4."""
    number = isqrt(stations)
    slots = iter(range(1, stations + 1))
    plain = stations - number * (number - 1)
    clusters = [[next(slots) for _ in range(plain // number + (i < plain % number))] for i in range(number)]
    standbys = []
    for one, other in combinations(clusters, 2):
        gateway, standby = next(slots), next(slots)
        standbys.append(standby)
        for cluster in (one, other):
            cluster += [gateway, standby]
    return Layout(tuple(map(tuple, clusters)), frozenset(standbys))
