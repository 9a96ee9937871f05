"""The audit in one process, without Spark: over a list of segments, bucket by bucket of hosts.

Source: audit.md R5, section 4. The checks are those that every engine runs (judgement.py). Memory: messages and orders,
and the deliveries of one bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import memory
from roamcast.analytics.checks.clock import NOT_EXTENDED
from roamcast.analytics.deliveries import DeliveryFolder, published
from roamcast.analytics.engine import (
    EVENTS,
    HEADER,
    REPAIRING,
    ROWS_MAX,
    EngineError,
    Report,
    Say,
    Wanted,
    assembled,
    silent,
)
from roamcast.analytics.evidence import Segment
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import Case, Options, Outcome
from roamcast.analytics.reading import Keys, files, header_of, read
from roamcast.analytics.tables import Tables


class LocalEngine:
    """An `engine.Engine`. rows_max: deliveries of a bucket. deliveries: a folder for them (deliveries.py)."""

    def __init__(self, rows_max: int = ROWS_MAX, deliveries: str | None = None) -> None:
        memory.keep()
        self._rows_max = rows_max
        self._deliveries = deliveries

    def key_files(self, logs: str) -> Path:
        """The folder."""
        return Path(logs)

    def read(self, logs: str, wanted: Wanted, keys: Keys | None, say: Say = silent) -> list[Segment]:
        """Read and verify what is wanted below a directory."""
        directory = Path(logs)
        if not directory.is_dir():
            raise EngineError(f"{logs}: no directory here. The local engine reads local ones, Spark also URLs")
        there = files(directory)
        made = []
        first: dict[tuple[Any, ...], tuple[int, Path]] = {}
        for place, path in enumerate(there, 1):
            header = header_of(path) or {}
            what = wanted(header)
            if what == HEADER:
                log, seq = (header["id"], header["slot"], header["generation"]), int(header["seq"])
                first[log] = min(first.get(log, (seq, path)), (seq, path))
            elif what:
                made.append(read(path, keys))
            say(f"reading {place} of {len(there)} files")
        return made + [replace(read(path, keys), events={}) for _, path in first.values()]

    def judge(
        self, made: Tables, differences: pa.Table, orders: pa.Table, options: Options, say: Say = silent
    ) -> Report:
        """Run all checks, one bucket behind the other."""
        case = Case(made, orders, options)
        buckets = case.buckets(self._rows_max)
        with published(self._deliveries, options.since) as folder:
            outcome = _passed(case, buckets, say, folder)
            if any(row["kind"] == NOT_EXTENDED for row in outcome.findings):
                say(REPAIRING)
                cycle = case.repair_clock(buckets)
                outcome = _passed(case, buckets, say, None)
                outcome.findings += cycle
        return assembled(made, differences, case, outcome)


def audit(segments: Sequence[Segment], options: Options | None = None, rows_max: int = ROWS_MAX) -> Report:
    """Judge everything that these segments tell."""
    made, differences = ingest(segments)
    return LocalEngine(rows_max).judge(made, differences, made["orders"], options or Options())


def audit_directory(directory: Path, keys: Keys | None = None, options: Options | None = None) -> Report:
    """Judge all files of a directory. keys: how signatures are verified; None: they are not looked at."""
    return audit(LocalEngine().read(str(directory), lambda header: EVENTS, keys), options)


def _passed(case: Case, buckets: Sequence[tuple[int, int]], say: Say, folder: DeliveryFolder | None) -> Outcome:
    """One pass over everything with the clock that the case has now."""
    outcome = case.of_the_whole()
    for place, (begin, end) in enumerate(buckets, 1):
        found = case.deliveries(begin, end)
        if folder is not None:
            folder.write(case, place - 1, found)
        outcome.add(case.of_clients(begin, end, found))
        say(f"judging {place} of {len(buckets)} buckets of hosts")
    for part in case.live_parts:
        outcome.add(case.of_live(part))
    return outcome
