"""Vectors with one counter per station slot, as plain tuples and lists indexed by slot.

A missing tail counts as 0, so vectors of different length compare and merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from roamcast.middleware.rows import Vector


def merged(a: Sequence[int], b: Sequence[int]) -> Vector:
    """The entrywise maximum."""
    return tuple(x if x >= y else y for x, y in zip_longest(a, b, fillvalue=0))


def raised(base: Vector, by: Vector) -> Vector:
    """The entrywise maximum; `by` itself where it covers `base`, so that many records share one vector."""
    return by if covers(by, base) else merged(base, by)


def minimum(a: Sequence[int], b: Sequence[int]) -> Vector:
    """The entrywise minimum."""
    return tuple(x if x <= y else y for x, y in zip_longest(a, b, fillvalue=0))


def covers(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a >= b in every entry."""
    return all(x >= y for x, y in zip_longest(a, b, fillvalue=0))


def entry(vector: Sequence[int], slot: int) -> int:
    """The counter of `slot`."""
    return vector[slot] if slot < len(vector) else 0


def raise_to(vector: list[int], other: Sequence[int]) -> None:
    """Merge `other` into `vector` in place; `vector` is at least as long."""
    for slot, value in enumerate(other):
        if value > vector[slot]:
            vector[slot] = value
