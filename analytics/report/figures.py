"""The numbers of a day: of all, by hour, by station, by host. Only what belongs to the day counts.

Latencies come as histograms (checks/latency.py), exact to 3.7 %. Times in us. What there is nothing to tell of is None,
never NaN.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.checks.latency import HOUR, NEGATIVE, PER_DECADE
from roamcast.analytics.engine import Report
from roamcast.analytics.history import NEVER
from roamcast.analytics.streams import Sessions
from roamcast.analytics.tables import Ints, is_given
from roamcast.analytics.verdict import CLEAN, VIOLATED
from roamcast.middleware.rows import PRESENCE_KINDS, SUBSCRIPTION_KINDS, TOPIC_KINDS, Kind

Floats = npt.NDArray[np.float64]

HOURS = 24
BARS_PER_DECADE = 8
"""Of the histograms that are shown; divides PER_DECADE."""

FEW = 10
"""Deliveries below which a host's percentile tells nothing."""

HOSTS = pa.schema([
    pa.field("host", pa.string()), pa.field("verdict", pa.string()), pa.field("violations", pa.int64()),
    pa.field("undecided", pa.int64()), pa.field("pending", pa.int64()), pa.field("deliveries", pa.int64()),
    pa.field("p50_us", pa.int64()), pa.field("p99_us", pa.int64()), pa.field("handoffs", pa.int64()),
    pa.field("gap_max_us", pa.int64()), pa.field("why", pa.string()),
])  # fmt: skip
"""One row per host, the worst ones first. `pending`: messages that it is still owed at the end of the day. `why`: the
first witness of what decided it. Null: there is none."""

SOUND, OPEN = "closed", "open"

KINDS = {
    "broadcast": [Kind.BROADCAST], "mail": [Kind.MAIL], "refused": [Kind.REFUSED], "topic": sorted(TOPIC_KINDS),
    "subscription": sorted(SUBSCRIPTION_KINDS), "presence": sorted(PRESENCE_KINDS),
}  # fmt: skip
"""How a report calls messages."""


@dataclass(slots=True)
class Spread:
    """Latencies of some things, by their index."""

    count: Ints
    negative: Ints
    p50: Floats
    p99: Floats
    """us; nan where there is none."""


def spread(group: Ints, bucket: Ints, count: Ints, groups: int) -> Spread:
    """Percentiles of histogram rows for each of `groups` groups."""
    timed = bucket != NEGATIVE
    by = np.lexsort((bucket[timed], group[timed]))
    group_by, bucket_by, below = group[timed][by], bucket[timed][by], np.cumsum(count[timed][by])
    total = np.bincount(group_by, count[timed][by], minlength=groups)
    before = np.cumsum(total) - total

    def at(share: float) -> Floats:
        made = np.full(groups, math.nan)
        there = np.flatnonzero(total)
        if len(there):
            rows = np.searchsorted(below, before[there] + share * total[there])
            made[there] = 10 ** ((bucket_by[rows] + 0.5) / PER_DECADE)
        return made

    negative = np.bincount(group[~timed], count[~timed], minlength=groups)
    return Spread((total + negative).astype(np.int64), negative.astype(np.int64), at(0.5), at(0.99))


def whole(value: float) -> int | None:
    """A number of us for JSON."""
    return None if math.isnan(value) else round(value)


def of_kind(latencies: pa.Table, of: str) -> tuple[Ints, Ints, Ints]:
    """Columns id, bucket, count of one kind of histogram."""
    chosen = latencies.filter(pc.equal(latencies.column("of"), of))
    return tables.column(chosen, "id"), tables.column(chosen, "bucket"), tables.column(chosen, "count")


# ---- handoffs ----


@dataclass(slots=True)
class Moves:
    """Sessions that a host went on with at another station; and, apart, times without an acknowledgement."""

    client: Ints
    former: Ints
    station: Ints
    wall: Ints
    again: int
    """Sessions that a host went on with at the same station."""
    gap_client: Ints
    gap_former: Ints
    gap_station: Ints
    gap_end: Ints
    gap: Ints
    """us, from the last acknowledgement before a move to the first one behind it."""


def moves(sessions: Sessions, gaps: pa.Table, since: int) -> Moves:
    """All moves of the day. gaps: `tables.GAPS`, of the day already."""
    seen = np.flatnonzero(sessions.seen)
    client, station, wall = sessions.client[seen], sessions.station[seen], sessions.wall[seen]
    later = np.flatnonzero((client[1:] == client[:-1]) & (wall[1:] >= since)) + 1
    moved = later[station[later] != station[later - 1]]
    columns = {name: tables.column(gaps, name) for name in ("client", "former", "station", "begin", "end")}
    real = columns["former"] != columns["station"]
    of, former, to, begin, end = (values[real] for values in columns.values())
    return Moves(
        client[moved], station[moved - 1], station[moved], wall[moved], len(later) - len(moved),
        of, former, to, end, np.maximum(end - begin, 0),
    )  # fmt: skip


def _greatest(group: Ints, value: Ints, groups: int) -> list[int | None]:
    made = np.full(groups, -1, np.int64)
    np.maximum.at(made, group, value)
    return [number if number >= 0 else None for number in made.tolist()]


def quantile(values: Ints, share: float) -> int | None:
    """The value below which a share of all is; None if there is none."""
    return int(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def gaps(found: Moves) -> dict[str, Any]:
    """What handoffs cost."""
    return {
        "count": len(found.gap), "p50_us": quantile(found.gap, 0.5), "p99_us": quantile(found.gap, 0.99),
        "max_us": quantile(found.gap, 1.0), "histogram": bars(_buckets(found.gap), np.ones(len(found.gap), np.int64)),
    }  # fmt: skip


def _buckets(values: Ints) -> Ints:
    made: Ints = (np.log10(np.maximum(values, 1)) * PER_DECADE).astype(np.int64)
    return made


# ---- latencies ----


def bars(bucket: Ints, count: Ints) -> list[list[int]]:
    """[from, to, count] in us, BARS_PER_DECADE to a decade, without the empty ones."""
    timed = bucket != NEGATIVE
    made = np.bincount(bucket[timed] * BARS_PER_DECADE // PER_DECADE, count[timed]).astype(np.int64)
    return [
        [round(10 ** (i / BARS_PER_DECADE)), round(10 ** ((i + 1) / BARS_PER_DECADE)), int(made[i])]
        for i in np.flatnonzero(made).tolist()
    ]


def of_all(latencies: pa.Table) -> dict[str, Any]:
    """Latencies of all deliveries. `negative`: those that two stations' clocks make less than nothing."""
    _, bucket, count = of_kind(latencies, "hour")
    found = spread(np.zeros(len(bucket), np.int64), bucket, count, 1)
    return {
        "deliveries": int(found.count[0]), "negative": int(found.negative[0]), "p50_us": whole(found.p50[0]),
        "p99_us": whole(found.p99[0]), "histogram": bars(bucket, count),
    }  # fmt: skip


@dataclass(slots=True)
class Sent:
    """Messages of the day."""

    kind: Ints
    wall: Ints

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {name: int(np.isin(self.kind, kinds).sum()) for name, kinds in KINDS.items()}


def by_hour(report: Report, new: Sent, found: Moves) -> list[dict[str, Any]]:
    """The 24 hours of the day, UTC; of a run over many days all of them together."""
    hour, bucket, count = of_kind(report.latencies, "hour")
    latency = spread(hour % HOURS, bucket, count, HOURS)
    sent = np.bincount(new.wall // HOUR % HOURS, minlength=HOURS)
    moved = np.bincount(found.wall // HOUR % HOURS, minlength=HOURS)
    when = found.gap_end // HOUR % HOURS
    longest = _greatest(when, found.gap, HOURS)
    return [
        {
            "hour": i, "messages": int(sent[i]), "deliveries": int(latency.count[i]), "p50_us": whole(latency.p50[i]),
            "p99_us": whole(latency.p99[i]), "handoffs": int(moved[i]),
            "gap_p50_us": quantile(found.gap[when == i], 0.5), "gap_max_us": longest[i],
        }
        for i in range(HOURS)
    ]  # fmt: skip


def new_messages(report: Report) -> Sent:
    """Messages that any station has ordered in the day, and none before."""
    history, since = report.case.history, report.case.options.since
    first = np.full(history.count, NEVER)
    for order in history.orders.values():
        known = order.message >= 0
        np.minimum.at(first, order.message[known], order.wall[known])
    mine = np.flatnonzero(is_given(history.kind) & (first >= since) & (first < NEVER))
    return Sent(history.kind[mine], first[mine])


# ---- stations and files ----


def files_of_day(report: Report) -> list[dict[str, Any]]:
    """Rows of `tables.SEGMENTS` of stations that reach into the day; those without a header, too."""
    since = report.case.options.since
    return [
        row
        for row in report.tables["segments"].to_pylist()
        if row["writer"] != "journal"
        and (not row["slot"] or row["closed"] > since or max(row["wall_last"], row["opened"]) >= since)
    ]


def names_of_stations(report: Report) -> dict[int, str]:
    """Slot -> id, as the newest segment has it."""
    rows = [row for row in report.tables["segments"].to_pylist() if row["writer"] != "journal" and row["slot"]]
    return {row["slot"]: row["id"] for row in sorted(rows, key=lambda row: (row["generation"], row["seq"]))}


def by_station(report: Report, found: Moves, files: list[dict[str, Any]], more: set[int]) -> list[dict[str, Any]]:
    """One row per station, by its number.

    files: `files_of_day`. more: stations to be told of though nothing is known of them.
    """
    names, files_of = names_of_stations(report), defaultdict(list)
    for row in files:
        files_of[row["slot"]].append(row)
    slots = np.array(sorted({*names, *report.case.history.slots.tolist(), *more} - {0}), np.int64)
    home, relay = (_of_slots(report.latencies, of, slots) for of in ("home", "station"))
    to, former, gap_to = (np.searchsorted(slots, values) for values in (found.station, found.former, found.gap_station))
    arrived, left = (np.bincount(values, minlength=len(slots)) for values in (to, former))
    longest = _greatest(gap_to, found.gap, len(slots))
    made = []
    for i, slot in enumerate(slots.tolist()):
        status = [row["status"] for row in files_of[slot]]
        made.append({
            "station": slot, "id": names.get(slot, ""), "deliveries": int(home.count[i]),
            "p50_us": whole(home.p50[i]), "p99_us": whole(home.p99[i]), "relayed": int(relay.count[i]),
            "relay_p50_us": whole(relay.p50[i]), "relay_p99_us": whole(relay.p99[i]), "handoffs_in": int(arrived[i]),
            "handoffs_out": int(left[i]), "gap_max_us": longest[i], "segments_closed": status.count(SOUND),
            "segments_open": status.count(OPEN),
            "segments_bad": sum(each not in (SOUND, OPEN) for each in status),
            "events": sum(row["events"] for row in files_of[slot]),
        })  # fmt: skip
    return made


def _of_slots(latencies: pa.Table, of: str, slots: Ints) -> Spread:
    number, bucket, count = of_kind(latencies, of)
    return spread(np.searchsorted(slots, number), bucket, count, len(slots))


# ---- hosts ----


def by_host(report: Report, found: Moves) -> pa.Table:
    """`HOSTS`."""
    names = report.hosts.column("host").to_pylist()
    index = {name: i for i, name in enumerate(names)}
    of_client = np.array([index[name] for name in report.case.names], np.int64)
    client, bucket, count = of_kind(report.latencies, "client")
    latency = spread(of_client[client], bucket, count, len(names))
    moved = np.bincount(of_client[found.client], minlength=len(names))
    longest = _greatest(of_client[found.gap_client], found.gap, len(names))
    columns = {name: report.hosts.column(name).to_pylist() for name in report.hosts.column_names}
    columns |= {
        "deliveries": latency.count.tolist(), "handoffs": moved.tolist(), "gap_max_us": longest,
        "p50_us": [whole(value) for value in latency.p50.tolist()],
        "p99_us": [whole(value) for value in latency.p99.tolist()],
    }  # fmt: skip
    made = tables.table(HOSTS, columns)
    by = np.lexsort((
        np.arange(len(names)), -np.nan_to_num(latency.p99), -tables.column(made, "undecided"),
        -tables.column(made, "violations"),
    ))  # fmt: skip
    return made.take(pa.array(by))


def hosts(table: pa.Table, worst: int, slowest: int) -> dict[str, Any]:
    """How many hosts are what, and the worst and the slowest ones. table: `by_host`."""
    judged = table.column("verdict").to_pylist()
    timed = table.filter(pc.greater_equal(table.column("deliveries"), FEW))
    timed = timed if len(timed) else table.filter(pc.greater(table.column("deliveries"), 0))
    timed = timed.filter(pc.is_valid(timed.column("p99_us")))
    slow = timed.sort_by([("p99_us", "descending"), ("host", "ascending")])
    p99 = tables.column(timed, "p99_us")
    return {
        "clean": judged.count(CLEAN), "violated": judged.count(VIOLATED), "undecided": judged.count("undecided"),
        "pending": sum(table.column("pending").to_pylist()),
        "active": int((tables.column(table, "deliveries") > 0).sum()),
        "p99_us": {"median": quantile(p99, 0.5), "max": quantile(p99, 1.0)},
        "worst": table.slice(0, worst).to_pylist(),
        "slowest": slow.slice(0, slowest).select(["host", "deliveries", "p50_us", "p99_us"]).to_pylist(),
    }  # fmt: skip
