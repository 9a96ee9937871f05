"""Station mail: from events to tables. Source: docs/protocols/delivery-log.md, `posted` and `arrived`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import laid_out
from roamcast.analytics.evidence import Segment, joined, joined_lists, origin_of
from roamcast.analytics.tables import Flags, Ints, Tables
from roamcast.middleware.delivery_log import ARRIVED, POSTED


def mail_tables(stations: Sequence[Segment]) -> Tables:
    """Make `posts` and `arrivals`; `log` keeps the order of the log where numbers do not stand in it.

    What an earlier night has kept goes before what is read again: rows up to the last one it kept are left out.
    """
    posts = _columns(stations, POSTED, "number", "addressee", "after", "size")
    posts["slot"], posts["n"], posts["to"] = posts.pop("station"), posts.pop("number"), posts.pop("addressee")
    by = _fresh(posts["slot"], posts["n"], posts["seg"])
    vector = lists(joined_lists(stations, POSTED, "vector"), by)
    arrivals = _columns(stations, ARRIVED, "position", "slot", "number")
    arrivals["n"] = arrivals.pop("number")
    of_arrivals = _fresh(arrivals["station"], arrivals["position"], arrivals["seg"])
    return {
        "posts": tables.table(tables.POSTS, {**{name: each[by] for name, each in posts.items()}, "vector": vector}),
        "arrivals": tables.table(tables.ARRIVALS, {name: each[of_arrivals] for name, each in arrivals.items()}),
    }


def _columns(stations: Sequence[Segment], event: str, *names: str) -> dict[str, Ints]:
    segment = origin_of(stations, event)
    made = {name: joined(stations, event, name) for name in (*names, "wall")}
    made["station"] = np.array([s.station for s in stations], np.int64)[segment]
    made["seg"] = np.array([_number(s) for s in stations], np.int64)[segment]
    made["off"] = joined(stations, event, "seq")
    made["log"] = np.arange(len(segment))
    return made


def _number(segment: Segment) -> int:
    """0: an earlier night has kept it. No file is that, whatever its header says."""
    return max(1, int(segment.header.get("seq") or 0)) if segment.path else 0


def _fresh(station: Ints, number: Ints, seg: Ints) -> Ints:
    """Rows by (station, number), without those read again that an earlier night is done with."""
    last = np.full(int(station.max(initial=0)) + 1, -1, np.int64)
    kept: Flags = seg == 0
    np.maximum.at(last, station[kept], number[kept])
    by = np.lexsort((number, station))
    return by[(kept | (number > last[station]))[by]]


def lists(ragged: tuple[Ints, Ints], by: Ints) -> pa.Array:
    """The rows `by` of a ragged column."""
    offsets, values = ragged
    lengths = offsets[by + 1] - offsets[by]
    _, element = laid_out(offsets[by], lengths)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values[element], pa.int64()))
