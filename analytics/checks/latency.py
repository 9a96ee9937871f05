"""Latencies as histograms that add up, and what a handoff cost a host.

Source: audit.md 3.3. 64 buckets per decade: a percentile is exact to 3.7 %. Latency of a delivery: from the order event
at the message's origin to the acknowledgement at the host's station, so two stations' clocks; what is negative is
counted apart (bucket NEGATIVE) and is a matter of clocks, not of order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.history import History, StationOrder
from roamcast.analytics.streams import Deliveries
from roamcast.analytics.tables import Ints

PER_DECADE = 64
HOUR = 3_600_000_000
"""us"""
FAR = 1 << 10
"""Numbers of hours or stations further apart are counted by sorting, not in one array."""
NEGATIVE = -1


def buckets(latency: Ints) -> Ints:
    """The bucket of each latency, us."""
    made = np.full(len(latency), NEGATIVE, np.int64)
    there = latency >= 0
    made[there] = np.log10(np.maximum(latency[there], 1)) * PER_DECADE
    return made


def of_clients(history: History, everybody: Iterable[tuple[int, Deliveries]], since: int = 0) -> pa.Table:
    """Histograms of the deliveries of clients that were acknowledged from `since` on, us.

    By "client"; by "hour" of the acknowledgement, in hours since 1970; by "home", the station of the session.
    """
    counted, rows, hours, homes = [], [], [], []
    for client, mine in everybody:
        real = np.flatnonzero((mine["acked"] != 0) & (mine["message"] >= 0) & (mine["wall"] > max(0, since - 1)))
        wall = mine["wall"][real]
        row = buckets(wall - history.wall[mine["message"][real]]) + 1
        counted.append((client, np.bincount(row)))
        rows.append(row)
        hours.append(wall // HOUR)
        homes.append(mine["station"][real])
    row = np.concatenate([*rows, np.zeros(0, np.int64)])
    parts = [table("client", counted)]
    for of, ids in (("hour", hours), ("home", homes)):
        parts.append(table(of, _by(np.concatenate([*ids, np.zeros(0, np.int64)]), row)))
    return pa.concat_tables(parts)


def _by(number: Ints, row: Ints) -> list[tuple[int, Ints]]:
    """(number, counts of its rows) for each number."""
    if not len(number):
        return []
    low, width = int(number.min()), int(row.max()) + 1
    if int(number.max()) - low > FAR:
        numbers, at = np.unique(number, return_inverse=True)
    else:
        numbers, at = np.arange(low, int(number.max()) + 1), number - low
    counts = np.bincount(at * width + row, minlength=len(numbers) * width).reshape(-1, width)
    return list(zip(numbers.tolist(), counts, strict=True))


def of_station(history: History, station: int, order: StationOrder, since: int = 0) -> tuple[int, Ints]:
    """(station, counts from bucket NEGATIVE on) of the rows of others in its order: how long they took to get there."""
    real = (order.message >= 0) & (order.wall >= since)
    real[real] = history.slot[order.message[real]] != station
    return station, np.bincount(buckets(order.wall[real] - history.wall[order.message[real]]) + 1)


def table(of: str, counted: Sequence[tuple[int, Ints]]) -> pa.Table:
    """Histograms as a table of `tables.LATENCIES`."""
    ids, rows, counts = [], [], []
    for number, count in counted:
        there = np.flatnonzero(count)
        ids.append(np.full(len(there), number, np.int64))
        rows.append(there - 1)
        counts.append(count[there])
    nothing = [np.zeros(0, np.int64)]
    columns = {name: np.concatenate(v or nothing) for name, v in (("id", ids), ("bucket", rows), ("count", counts))}
    return tables.table(tables.LATENCIES, {"of": [of] * len(columns["id"]), **columns})


def added_up(parts: Sequence[pa.Table]) -> pa.Table:
    """One histogram of each thing, sorted by `tables.LATENCIES`."""
    made = pa.concat_tables([*parts, tables.empty(tables.LATENCIES)])
    made = made.group_by(["of", "id", "bucket"]).aggregate([("count", "sum")]).rename_columns({"count_sum": "count"})
    return made.select(tables.LATENCIES.names).sort_by([(name, "ascending") for name in ("of", "id", "bucket")])


def percentile(latencies: pa.Table, share: float) -> float:
    """The latency, us, below which `share` (0 to 1) of all non-negative ones of the table are; nan if there is none."""
    bucket, count = tables.column(latencies, "bucket"), tables.column(latencies, "count")
    bucket, count = bucket[bucket != NEGATIVE], count[bucket != NEGATIVE]
    if not len(bucket):
        return float("nan")
    by = np.argsort(bucket, kind="stable")
    below = np.cumsum(count[by])
    at = int(bucket[by][np.searchsorted(below, share * below[-1])])
    return float(10 ** ((at + 0.5) / PER_DECADE))


def handoffs(client: int, mine: Deliveries, since: int = 0) -> dict[str, Ints]:
    """Columns of `tables.GAPS`: between the last acknowledgement of a session and the first of the next one."""
    acked = np.flatnonzero((mine["acked"] != 0) & (mine["wall"] > 0))
    e, station, wall = mine["e"][acked], mine["station"][acked], mine["wall"][acked]
    at = np.flatnonzero((e[1:] != e[:-1]) & (wall[1:] >= since))
    return {
        "client": np.full(len(at), client, np.int64), "e": e[at + 1], "former": station[at], "station": station[at + 1],
        "begin": wall[at], "end": wall[at + 1], "wall": wall[at + 1],
    }  # fmt: skip
