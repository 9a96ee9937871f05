"""What runs in Spark's workers: reading files, judging buckets. Nothing of Spark itself is needed for it.

Input and output are Arrow batches, for `mapInArrow`. What is big goes through the staging folder; a row that comes back
only names it. A name has a random part, so of two attempts at the same work only the one that Spark counts is used.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import memory
from roamcast.analytics.deliveries import DeliveryFolder
from roamcast.analytics.engine import EVENTS, NOTHING, Wanted
from roamcast.analytics.evidence import Segment
from roamcast.analytics.judgement import Case, Outcome
from roamcast.analytics.reading import Keys, decode, header_in, header_of, read
from roamcast.analytics.spark.events import PartWriter
from roamcast.analytics.staging import Folder

PARTS = "part string, files long, skipped long"
CASE = "case"
JUDGED = "bucket long, outcome string, deliveries long"


@dataclass(frozen=True)
class Shown:
    """How a file is called in reports: as the local engine calls it."""

    root: str
    """The folder of the logs, absolute."""
    shown: str
    """As the caller calls it."""

    def __call__(self, path: str) -> str:
        """The name of the file with this path."""
        return self.shown + path.removeprefix(self.root) if path.startswith(self.root) else path


@dataclass(frozen=True)
class ReadFiles:
    """Batches of (path) or (path, content) -> one row of PARTS. Without content it is opened here: a `file:`."""

    folder: Folder
    shown: Shown
    wanted: Wanted
    keys: Keys | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read every file that is wanted."""
        part = secrets.token_hex(8)
        writer, skipped = PartWriter(self.folder, part), []
        for batch in batches:
            for i, path in enumerate(batch.column(0).to_pylist()):
                if batch.num_columns == 1:
                    name, segment = self._opened(path)
                else:
                    name, segment = path, self._decoded(path, batch.column(1)[i].as_py())
                if segment is None:
                    skipped.append(name)
                else:
                    writer.add(name, segment)
        count = writer.close(skipped)
        yield pa.RecordBatch.from_pydict({"part": [part], "files": [count], "skipped": [len(skipped)]})

    def _decoded(self, path: str, data: bytes) -> Segment | None:
        what = self.wanted(header_in(data) or {})
        return None if what == NOTHING else _needed(decode(data, path, self.keys), what)

    def _opened(self, url: str) -> tuple[str, Segment | None]:
        path = Path(url.removeprefix("file:"))
        what = self.wanted(header_of(path) or {})
        if what == NOTHING:
            return self.shown(str(path)), None
        segment = _needed(read(path, self.keys), what)
        segment.path = self.shown(segment.path)
        return self.shown(str(path)), segment


def _needed(segment: Segment, what: int) -> Segment:
    return segment if what == EVENTS else replace(segment, events={})


@dataclass(frozen=True)
class JudgeBuckets:
    """Batches of numbers of buckets, and behind them of parts of what is live, -> a row of JUDGED for each."""

    folder: Folder
    buckets: tuple[tuple[int, int], ...]
    deliveries: DeliveryFolder | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge each bucket."""
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                outcome = self._judged(kept_case(self.folder), bucket)
                name = secrets.token_hex(8)
                self.folder.put(name, outcome)
                yield pa.RecordBatch.from_pydict(
                    {"bucket": [bucket], "outcome": [name], "deliveries": [outcome.deliveries]}
                )

    def _judged(self, case: Case, bucket: int) -> Outcome:
        if bucket >= len(self.buckets):
            return case.of_live(case.live_parts[bucket - len(self.buckets)])
        begin, end = self.buckets[bucket]
        found = case.deliveries(begin, end)
        if self.deliveries is not None:
            self.deliveries.write(case, bucket, found)
        return case.of_clients(begin, end, found)


_kept: dict[Folder, Case] = {}


def kept_case(folder: Folder) -> Case:
    """The case of a pass: a worker process loads it once, and keeps no other. Processes share its arrays."""
    if folder not in _kept:
        memory.keep()
        _kept.clear()
        _kept[folder] = folder.get(CASE)
    return _kept[folder]
