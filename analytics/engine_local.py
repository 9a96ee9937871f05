"""The audit in one process, without Spark: over a list of segments, bucket by bucket of hosts.

Source: audit.md R5, section 4. The checks are those that every engine runs (judgement.py). Memory: messages and orders,
and the deliveries of one bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables, verdict
from roamcast.analytics.checks.clock import NOT_EXTENDED
from roamcast.analytics.evidence import Segment
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import Case, Options, Outcome
from roamcast.analytics.reading import Keys, files, read_all
from roamcast.analytics.tables import Tables

ROWS_MAX = 2_000_000
"""Deliveries of a bucket: some 200 bytes each while it is judged. One host is never cut."""


@dataclass(slots=True)
class Report:
    """What a run found, as tables."""

    verdict: str
    hosts: pa.Table
    """`verdict.VERDICTS`"""
    findings: pa.Table
    """`tables.VIOLATIONS`, sorted"""
    latencies: pa.Table
    gaps: pa.Table
    tables: Tables
    case: Case
    outcome: Outcome


def audit(segments: Sequence[Segment], options: Options | None = None, rows_max: int = ROWS_MAX) -> Report:
    """Judge everything that these segments tell."""
    made, differences = ingest(segments)
    return judge(made, differences, made["orders"], options or Options(), rows_max)


def audit_directory(directory: Path, keys: Keys | None = None, options: Options | None = None) -> Report:
    """Judge all files of a directory. keys: how signatures are verified; None: they are not looked at."""
    return audit(read_all(files(directory), keys), options)


def judge(made: Tables, differences: pa.Table, orders: pa.Table, options: Options, rows_max: int = ROWS_MAX) -> Report:
    """Run all checks over tables. differences: what ingest found. orders: all orders that were read, for holes."""
    case = Case(made, orders, options)
    buckets = case.buckets(rows_max)
    outcome = _passed(case, buckets)
    if any(row["kind"] == NOT_EXTENDED for row in outcome.findings):
        cycle = case.repair_clock(buckets)
        outcome = _passed(case, buckets)
        outcome.findings += cycle
    findings = sorted_findings(pa.concat_tables([differences, tables.violations(outcome.findings)]))
    pending = {client: len(messages) for client, messages in outcome.pending.items()}
    return Report(
        verdict.overall(findings),
        verdict.per_host(made["clients"], findings, pending),
        findings,
        pa.concat_tables([*outcome.latencies, tables.empty(tables.LATENCIES)]),
        _gaps(outcome),
        made,
        case,
        outcome,
    )


def _passed(case: Case, buckets: Sequence[tuple[int, int]]) -> Outcome:
    """One pass over everything with the clock that the case has now."""
    outcome = case.of_the_whole()
    for begin, end in buckets:
        outcome.add(case.of_clients(begin, end))
    return outcome


def sorted_findings(findings: pa.Table) -> pa.Table:
    """In one order whatever the buckets were."""
    names = ("kind", "host", "station", "slot", "n", "other_slot", "other_n", "place", "other_place", "witness")
    return findings.sort_by([(name, "ascending") for name in names])


def _gaps(outcome: Outcome) -> pa.Table:
    if not outcome.gaps:
        return tables.empty(tables.GAPS)
    return tables.table(
        tables.GAPS, {name: np.concatenate([gap[name] for gap in outcome.gaps]) for name in tables.GAPS.names}
    )
