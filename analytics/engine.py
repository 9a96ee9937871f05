"""What an engine is, and what a run gives: the same checks over the same tables, wherever they are computed.

Source: audit.md R5. An engine reads segments and drives a `Case`: `of_the_whole` once, `of_clients` per bucket of
hosts; if a bucket finds that the clock does not extend happened-before, the clock is repaired and all is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables, verdict
from roamcast.analytics.checks import latency
from roamcast.analytics.evidence import Segment
from roamcast.analytics.judgement import Case, Options, Outcome
from roamcast.analytics.reading import Keys
from roamcast.analytics.tables import Tables

ROWS_MAX = 2_000_000
"""Deliveries of a bucket: some 200 bytes each while it is judged. One host is never cut."""

REPAIRING = "a clock does not extend what happened before: repairing it"
"""Said then, by every engine."""

NOTHING, EVENTS, HEADER = 0, 1, 2
Wanted = Callable[[Mapping[str, Any]], int]
"""Header of a segment (empty: it has none) -> what the run needs of it: NOTHING; EVENTS; or HEADER, with the status of
the file, and that only of the first such segment of each log. More than is needed does no harm. Can be pickled, and so
can `Keys`."""

Say = Callable[[str], None]
"""Hears of the progress, a line each time."""


def silent(_text: str) -> None:
    """A `Say` for nobody."""


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


class Engine(Protocol):
    """Reads and judges. Errors: EngineError if it cannot run at all; what is wrong with a file is a finding."""

    def read(self, logs: str, wanted: Wanted, keys: Keys | None, say: Say) -> list[Segment]:
        """Read and verify all files below `logs` that are wanted; keys None: signatures are not looked at."""

    def key_files(self, logs: str) -> Path | list[tuple[str, bytes]]:
        """Where `keys.load` finds the keys beside the logs: a local folder, or their names and contents."""

    def judge(self, made: Tables, differences: pa.Table, orders: pa.Table, options: Options, say: Say) -> Report:
        """Run all checks over tables. differences: what ingest found. orders: all that were read, for holes."""


class EngineError(Exception):
    """The engine cannot run here; the text says what to do."""


def assembled(made: Tables, differences: pa.Table, case: Case, outcome: Outcome) -> Report:
    """The report of a run, in one order whatever the buckets were."""
    findings = sorted_findings(pa.concat_tables([differences, tables.violations(outcome.findings)]))
    pending = {client: len(messages) for client, messages in outcome.pending.items()}
    return Report(
        verdict.overall(findings),
        verdict.per_host(made["clients"], findings, pending),
        findings,
        latency.added_up(outcome.latencies),
        _gaps(outcome),
        made,
        case,
        outcome,
    )


def sorted_findings(findings: pa.Table) -> pa.Table:
    """In one order whatever the buckets were."""
    names = ("kind", "host", "station", "slot", "n", "other_slot", "other_n", "place", "other_place", "witness")
    return findings.sort_by([(name, "ascending") for name in names])


def _gaps(outcome: Outcome) -> pa.Table:
    if not outcome.gaps:
        return tables.empty(tables.GAPS)
    made = tables.table(
        tables.GAPS, {name: np.concatenate([gap[name] for gap in outcome.gaps]) for name in tables.GAPS.names}
    )
    return made.sort_by([("client", "ascending"), ("e", "ascending")])
