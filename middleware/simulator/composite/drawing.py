"""Clusters for the stations there are: one gateway for all, one for each two, unequal ones, a projective plane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

from roamcast.middleware.errors import ensure
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout

Gateways = tuple[tuple[int, ...], ...]
"""The clusters of each gateway."""

ONE: tuple[Gateways, ...] = (((0, 1),), ((0, 1, 2),), ((0, 1, 2, 3),))
PAIRS: tuple[Gateways, ...] = (tuple(combinations(range(3), 2)), tuple(combinations(range(4), 2)))
UNEQUAL: Gateways = ((0, 1, 2), (0, 3), (1, 3), (2, 3))
FANO: Gateways = ((0, 1, 2), (0, 3, 4), (0, 5, 6), (1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
SHAPES = (*ONE, *PAIRS, UNEQUAL, FANO)


def draw_layout(rng: Random, slots: Sequence[int]) -> Layout:
    """A layout of these stations; flat if they are too few."""
    fitting = [shape for shape in SHAPES if len(shape) <= len(slots)]
    if len(slots) < 2 or not fitting:
        return FLAT
    shape = rng.choice(fitting)
    left = list(slots)
    rng.shuffle(left)
    clusters: list[list[int]] = [[] for _ in range(1 + max(k for joined in shape for k in joined))]
    standbys = set()
    for joined in shape:
        chosen = [left.pop()]
        if len(left) > len(shape) and rng.random() < 0.8:
            standbys.add(left[-1])
            chosen.append(left.pop())
        for k in joined:
            clusters[k] += chosen
        shape = shape[1:]
    for slot in left:
        if rng.random() < 0.9:  # the others count as of cluster 0
            rng.choice(clusters).append(slot)
    layout = Layout(tuple(tuple(cluster) for cluster in clusters), frozenset(standbys))
    ensure(layout.fault() is None, f"{layout}: {layout.fault()}")
    return layout
