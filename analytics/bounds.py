"""Numbers that no station can have logged: rows that have them are left out, and their segment counts as damaged.

A segment may be signed by a station that lies; one that could make the audit fail, or take all memory, would keep
everybody's lies from being seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from roamcast.analytics.columns import N_MAX
from roamcast.analytics.evidence import DAMAGED, OPEN, TORN, Columns, Segment, rows
from roamcast.analytics.tables import PLACE_ZERO, Flags
from roamcast.middleware.delivery_log import EVENTS, INTS, ORDER, TEXT, WORD
from roamcast.middleware.rows import PRESENCE_KINDS, Kind

SLOT_MAX = 1_023
"""As in transport/limits.py; a test compares them."""

E_MAX = (1 << 22) - 1
TIME_MAX = 1 << 56
"""us: in the year 4253."""

STAMP_MAX = (1 << 53) - 1
"""us: of live messages; in the year 2255."""

_slot, _n, _e, _time = (0, SLOT_MAX), (0, N_MAX), (0, E_MAX), (0, TIME_MAX)
_position, _host, _small = (1 - PLACE_ZERO, PLACE_ZERO - 1), (0, (SLOT_MAX + 1 << 32) - 1), (0, 127)
_topic = (0, (1 << 63) - 1)

BOUNDS = {
    "seq": (0, (1 << 31) - 1), "wall": _time, "hlc": _time, "position": _position, "slot": _slot, "heir": _slot,
    "cut": _n, "kind": _small, "what": _small, "gap": _small, "host": _host, "addressee": _topic, "number": _time,
    "n": _n, "taken_e": _time, "taken_c": _position, "e": _e, "le": _e, "c": _position, "at": _position,
    "stamp": (0, STAMP_MAX), "horizon": (0, STAMP_MAX), "reading": (0, STAMP_MAX), "delta": _time, "deadline": _time,
    "hosts": (0, (1 << 31) - 1), "cause": _small, "count": _n, "taken": _n, "handed": _n, "left": (-TIME_MAX, TIME_MAX),
    "after": _position, "size": (0, (1 << 31) - 1), "host32": (0, (1 << 32) - 1), "topic": _topic, "last": _position,
}  # fmt: skip
"""Column -> the least and the greatest value that can be."""

BY_KIND = {"addressee": (_host[1], range(Kind.TOPIC)), "taken_e": (_e[1], sorted(set(Kind) - PRESENCE_KINDS))}
"""Column of ORDER -> what is the greatest value for some kinds, and these kinds."""

BY_EVENT = {
    ("posted", "addressee"): _slot,
    ("posted", "number"): _n,
    ("arrived", "number"): _n,
    ("heard", "after"): _time,
}
"""Event and column -> other bounds than elsewhere."""

PAIRS = {"stamp": N_MAX, "spool": N_MAX, "vector": N_MAX, "floor": N_MAX, "past": STAMP_MAX}
"""Lists of slot, n, slot, n, and the greatest n; `base` is a list of n by slot."""


def only_possible(segment: Segment) -> Segment:
    """The segment without rows that cannot be; it is DAMAGED if there were any."""
    kept: dict[str, Columns] = {}
    what = ""
    for event, columns in segment.events.items():
        good = _possible(event, columns)
        if not good.all():
            what = what or f"row {_row(columns, int(np.flatnonzero(~good)[0]))} cannot be: {event}"
            columns = chosen(columns, good)
        kept[event] = columns
    if not what:
        return segment
    status = segment.status if segment.status in (OPEN, TORN) else DAMAGED
    return replace(segment, events=kept, status=status, path=f"{segment.path} ({what})")


def _row(columns: Columns, at: int) -> int:
    return int(columns["seq"][at]) if "seq" in columns else at


def _possible(event: str, columns: Columns) -> Flags:
    good: Flags = np.ones(rows(columns), bool)
    for name, values in columns.items():
        kind = EVENTS.get(event, {}).get(name)
        if values is None or kind in (TEXT, WORD):
            continue
        if kind == INTS:
            good &= _possible_lists(name, np.asarray(values), np.asarray(columns[name + "_len"]).astype(np.int64))
        elif name in BOUNDS and len(values):
            least, most = BY_EVENT.get((event, name), BOUNDS[name])
            least += name == "host" and event != ORDER  # rows of control have none
            if values.min() < least or values.max() > most:
                good &= (values >= least) & (values <= most)
        if event == ORDER and name in BY_KIND and columns.get("kind") is not None and len(values):
            most, kinds = BY_KIND[name]
            if values.max() > most:
                good &= (values <= most) | ~np.isin(columns["kind"], list(kinds))
    return good


def _possible_lists(name: str, values: Any, lengths: Any) -> Flags:
    good: Flags = lengths <= (2 * N_MAX if name == "spool" else 2 * (SLOT_MAX + 1))
    odd = np.zeros(len(values), bool)
    if name in PAIRS:
        good &= lengths % 2 == 0
        place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        odd = place % 2 == 1
        bad = (values < 0) | (values > np.where(odd, PAIRS[name], SLOT_MAX))
    else:
        good &= lengths <= SLOT_MAX + 1
        bad = (values < 0) | (values > N_MAX)
    if bad.any():
        good[np.repeat(np.arange(len(lengths)), lengths)[bad]] = False
    return good


def chosen(columns: Mapping[str, Any], keep: Flags) -> dict[str, Any]:
    """These rows of columns."""
    made: dict[str, Any] = {}
    for name, values in columns.items():
        if values is None:
            made[name] = None
        elif isinstance(values, list):
            made[name] = [value for value, kept in zip(values, keep.tolist(), strict=True) if kept]
        elif name + "_len" in columns:
            made[name] = np.asarray(values)[np.repeat(keep, np.asarray(columns[name + "_len"]).astype(np.int64))]
        else:
            made[name] = np.asarray(values)[keep]
    return made
