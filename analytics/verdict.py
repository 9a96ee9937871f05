"""The verdict: clean, violated or undecided, per host and of all. Source: audit.md R1; issue 4, 'Honest verdicts'."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics.tables import UNDECIDED, VIOLATION

CLEAN, VIOLATED = "clean", "violated"
EXIT_CODES = {CLEAN: 0, VIOLATED: 1, UNDECIDED: 4}

VERDICTS = pa.schema([
    pa.field("host", pa.string()), pa.field("verdict", pa.string()), pa.field("violations", pa.int64()),
    pa.field("undecided", pa.int64()), pa.field("pending", pa.int64()), pa.field("why", pa.string()),
])  # fmt: skip
"""One row per host. `why`: the first witness of what decided it."""


def verdict(violations: int, undecided: int) -> str:
    """A violation counts whatever is missing; without one, nothing that is missing may be taken for innocence."""
    return VIOLATED if violations else UNDECIDED if undecided else CLEAN


def per_host(clients: pa.Table, findings: pa.Table, pending: dict[int, int]) -> pa.Table:
    """Judge every host. pending: client -> how many messages it is still owed."""
    rows: dict[str, dict[str, Any]] = {}
    for client, name in zip(clients.column("client").to_pylist(), clients.column("name").to_pylist(), strict=True):
        row = rows.setdefault(name, {"violations": 0, "undecided": 0, "pending": 0, "why": ""})
        row["pending"] += pending.get(client, 0)
    wanted = ("host", "severity", "count", "witness")
    told = sorted(
        zip(*(findings.column(name).to_pylist() for name in wanted), strict=True), key=lambda row: row[1] != VIOLATION
    )
    for host, severity, count, witness in told:
        if host not in rows or severity not in (VIOLATION, UNDECIDED):
            continue
        row = rows[host]
        row["violations" if severity == VIOLATION else "undecided"] += count
        row["why"] = row["why"] or witness
    names = sorted(rows)
    columns: dict[str, list[Any]] = {name: [rows[host][name] for host in names] for name in VERDICTS.names[2:]}
    judged = [verdict(rows[host]["violations"], rows[host]["undecided"]) for host in names]
    return pa.table({"host": names, "verdict": judged, **columns}, schema=VERDICTS)


def overall(findings: pa.Table) -> str:
    """The verdict of the run."""
    severities = findings.column("severity").to_pylist()
    return verdict(severities.count(VIOLATION), severities.count(UNDECIDED))
