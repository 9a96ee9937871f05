"""What became of live messages in a day, station by station: taken, handed down, and missed by cause."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.engine import Report
from roamcast.analytics.report.figures import names_of_stations
from roamcast.analytics.tables import Ints
from roamcast.middleware.delivery_log import CAUSES

OVER = ("late", "behind", "expired")
"""Causes by which a message has missed its deadline."""
NOT_COUNTED = ("unfounded", "refused", "duplicate")
"""Causes of what was never under way to the hosts of this station."""


def by_station(report: Report) -> list[dict[str, Any]]:
    """A row for each station whose log tells of live messages, by its number.

    `handed`: messages; `deliveries`: the same for each host. `over_share`: of all that were under way to hosts here,
    or came too late for that, those that missed their deadline. `untold`: live messages that the log does not name;
    they are among `taken` and `handed`.
    """
    since, names = report.case.options.since, names_of_stations(report)
    made: dict[int, dict[str, Any]] = defaultdict(_empty)
    for station, _, count in _sums(report, "lives", "slot", since):
        made[station]["taken"] += count
    for station, hosts, count in _sums(report, "handed", "station", since, "hosts"):
        made[station]["handed"] += count
        made[station]["deliveries"] += hosts
    for name in ("taken", "handed"):
        for station, count, _ in _sums(report, "untold", "station", since, name):
            made[station][name] += count
            made[station]["untold"] += count
    for code, cause in enumerate(CAUSES):
        for station, count, _ in _sums(report, "missed", "station", since, "count", code):
            made[station]["missed"][cause] = count
    return [
        {"station": station, "id": names.get(station, ""), **row, "over_share": _over(row)}
        for station, row in sorted(made.items())
    ]


def _empty() -> dict[str, Any]:
    return {"taken": 0, "handed": 0, "deliveries": 0, "untold": 0, "missed": {}}


def _sums(
    report: Report, table: str, by: str, since: int, name: str | None = None, cause: int | None = None
) -> list[tuple[int, int, int]]:
    """(station, sum of a column, rows) of a table of live messages, of the day alone."""
    rows = report.tables[table]
    keep = tables.column(rows, "wall") >= since
    if cause is not None:
        keep &= tables.column(rows, "cause") == cause
    station = tables.column(rows, by)[keep]
    values: Ints = tables.column(rows, name)[keep] if name else np.zeros(len(station), np.int64)
    there, at = np.unique(station, return_inverse=True)
    sums = np.zeros(len(there), np.int64)
    np.add.at(sums, at, values)
    counts = np.bincount(at, minlength=len(there))
    return list(zip(there.tolist(), sums.tolist(), counts.tolist(), strict=True))


def _over(row: dict[str, Any]) -> float | None:
    """The share, to six digits; None: there was nothing."""
    missed = {cause: count for cause, count in row["missed"].items() if cause not in NOT_COUNTED}
    total = row["handed"] + sum(missed.values())
    return round(sum(missed.get(cause, 0) for cause in OVER) / total, 6) if total else None
