"""Small tools on numpy columns: keys of pairs, groups of sorted rows, ranges that are laid out one after the other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Flags, Ints
from roamcast.middleware.rows import PRESENCE

N_BITS = 44
N_MAX = (1 << N_BITS) - 1
"""Numbers in a stream beyond this are no numbers: 2^44 rows of one station."""


def place_of(e: Ints, c: Ints) -> Ints:
    """The place of position c of session e, as in middleware/delivery_log.py."""
    return (e << PLACE_SHIFT) | (c + PLACE_ZERO)


def place_text(place: int, station: int = 0) -> str:
    """A place as people write it; station: it is a position in the order of that one, which is no host."""
    if station:
        return f"position {place}"
    if place < 0:
        return "an unknown place"
    e, c = int(place) >> PLACE_SHIFT, (int(place) & ((1 << PLACE_SHIFT) - 1)) - PLACE_ZERO
    return f"session {e}, position {c}" if e else "a place before its first session"


def topic_text(topic: int) -> str:
    """A topic as people write it; logs know its number only."""
    return f"the presence of host {topic & ~PRESENCE}" if topic >= PRESENCE else f"topic {topic}"


def message_key(slot: Ints, n: Ints) -> Ints:
    """(slot, n) as one number that sorts the same; slots up to 2^19."""
    return (slot << N_BITS) | np.minimum(n, N_MAX)


def starts_of(*keys: npt.NDArray[Any]) -> Ints:
    """Where a new group begins in rows that are sorted by `keys`."""
    count = len(keys[0])
    new: Flags = np.zeros(count, bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def laid_out(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Ranges first[i], first[i] + 1, ..., one behind the other. Returns (i of each element, element)."""
    count = np.maximum(count, 0)
    owner = np.repeat(np.arange(len(first), dtype=np.int64), count)
    before = np.cumsum(count) - count
    return owner, np.arange(len(owner), dtype=np.int64) + np.repeat(first - before, count)


def found(sorted_keys: Ints, wanted: Ints) -> Ints:
    """Index of each wanted key in sorted unique keys, -1 where it is not."""
    if not len(sorted_keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(sorted_keys, wanted)
    at[at == len(sorted_keys)] = 0
    hit: Ints = np.where(sorted_keys[at] == wanted, at, -1)
    return hit


def running_max(values: Ints, group: Ints) -> Ints:
    """The running maximum within each group of neighbours."""
    made = values.copy()
    cuts = np.append(starts_of(group), len(group)).tolist()
    for a, b in pairwise(cuts):
        np.maximum.accumulate(values[a:b], out=made[a:b])
    return made


def matrix(offsets: Ints, values: Ints, width: int) -> Ints:
    """Lists of different length as rows of a matrix, filled up with 0; what is beyond `width` is left out."""
    made = np.zeros((len(offsets) - 1, width), np.int64)
    owner, element = laid_out(offsets[:-1], np.diff(offsets))
    at = element - offsets[:-1][owner]
    fits = at < width
    made[owner[fits], at[fits]] = values[element[fits]]
    return made
