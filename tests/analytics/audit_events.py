"""Events as rows -> segments as the audit reads them; for tests."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from roamcast.analytics.evidence import Segment
from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT, WORD

Row = tuple[int, str, Sequence[Any]]
"""(wall, event, values in the order of the event's columns)"""


def columns(rows: Iterable[tuple[int, int, Sequence[Any]]], event: str) -> dict[str, Any]:
    """(seq, wall, values) of one event as columns."""
    rows = list(rows)
    made: dict[str, Any] = {
        "seq": np.array([row[0] for row in rows], np.int64),
        "wall": np.array([row[1] for row in rows], np.int64),
    }
    for i, (name, kind) in enumerate(EVENTS[event].items()):
        values = [row[2][i] for row in rows]
        if kind == INTS:
            made[name + "_len"] = np.array([len(value) for value in values], np.uint32)
            made[name] = np.array([number for value in values for number in value], np.int64)
        elif kind == TEXT:
            made[name] = values
        else:
            made[name] = np.array([int(value) for value in values], np.uint64 if kind == WORD else np.int64)
    return made


def segment(rows: Sequence[Row], header: dict[str, Any], status: str = "closed") -> Segment:
    """One segment of these events; its chain end is a digest of them."""
    by_event: dict[str, list[tuple[int, int, Sequence[Any]]]] = defaultdict(list)
    for seq, (wall, event, values) in enumerate(rows):
        by_event[event].append((seq, wall, values))
    walls = [row[0] for row in rows]
    end = hashlib.sha256(repr((header, list(rows))).encode()).digest()
    return Segment(
        {"schema": 1, "writer": "station", "group": "g", "generation": 1, "opened": min(walls, default=0), **header},
        {event: columns(found, event) for event, found in by_event.items()},
        status,
        f"{header.get('id', header.get('slot'))}-{header['seq']}.log",
        end if status in ("closed", "unsigned") else b"",
        max(walls, default=0),
        len(rows),
    )


def segments(rows: Sequence[Row], size: int, **header: Any) -> list[Segment]:
    """One writer's events, `size` to a segment, chained."""
    made: list[Segment] = []
    for seq, at in enumerate(range(0, max(1, len(rows)), size), 1):
        prev = made[-1].end if made else b""
        made.append(segment(rows[at : at + size], {**header, "seq": seq, "prev": prev}))
    return made
