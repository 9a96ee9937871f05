"""Live messages: from events to tables. Source: docs/protocols/delivery-log.md, `live`, `handed`, `missed`, `heard`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.evidence import Segment, joined, joined_lists, origin_of
from roamcast.analytics.ingest_journals import owners, rows_of
from roamcast.analytics.ingest_mails import lists
from roamcast.analytics.tables import Ints, Tables
from roamcast.middleware.delivery_log import HANDED, HEARD, LIVE, MISSED, UNTOLD

ClientOf = Callable[[Ints, npt.NDArray[np.uint64]], Ints]


def live_tables(
    stations: Sequence[Segment], journals: Sequence[Segment], clients: pa.Table, client_of: ClientOf
) -> Tables:
    """Make `lives`, `handed`, `missed`, `untold` and `heard`. Of a group without live messages they are empty."""
    handed = _columns(stations, HANDED, "slot", "stamp", "position", "reading", "hosts")
    by = np.lexsort((handed["log"], handed["station"]))
    return {
        "lives": _lives(stations, client_of),
        "handed": tables.table(tables.HANDED, {name: values[by] for name, values in handed.items()}),
        "missed": tables.table(tables.MISSED, _columns(stations, MISSED, "cause", "slot", "count")),
        "untold": tables.table(tables.UNTOLD, _columns(stations, UNTOLD, "taken", "handed")),
        "heard": _heard(journals, clients),
    }


def _lives(stations: Sequence[Segment], client_of: ClientOf) -> pa.Table:
    names = ("stamp", "host", "e", "number", "kind", "addressee", "delta", "deadline", "horizon")
    made: dict[str, Any] = _columns(stations, LIVE, *names)
    made["slot"] = made["station"]
    made["client"] = client_of(made["host"], joined(stations, LIVE, "incarnation", np.uint64))
    by = np.lexsort((made["log"], made["slot"], made["stamp"]))
    made = {name: values[by] for name, values in made.items()}
    made |= {name: lists(joined_lists(stations, LIVE, name), by) for name in ("past", "floor")}
    return tables.table(tables.LIVES, made)


def _heard(journals: Sequence[Segment], clients: pa.Table) -> pa.Table:
    made = rows_of(journals, owners(journals, clients), HEARD)
    made |= {name: joined(journals, HEARD, name) for name in ("e", "c", "slot", "stamp", "after", "left", "wall")}
    by = np.lexsort((made["row"], made["client"]))
    by = by[made["client"][by] >= 0]
    return tables.table(tables.HEARD, {name: values[by] for name, values in made.items()})


def _columns(stations: Sequence[Segment], event: str, *names: str) -> dict[str, Ints]:
    """`log`: segments one behind the other, events by their place in them, whatever they tell."""
    segment = origin_of(stations, event)
    made = {name: joined(stations, event, name) for name in (*names, "wall")}
    made["station"] = np.array([s.station for s in stations], np.int64)[segment]
    made["seg"] = np.array([int(s.header.get("seq") or 0) for s in stations], np.int64)[segment]
    made["off"] = joined(stations, event, "seq")
    made["log"] = (segment << 32) | made["off"]
    return made
