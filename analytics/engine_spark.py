"""The audit on Spark: the reference engine of the nightly run, for logs and clusters of any size.

Source: audit.md R5, section 5. Reading: every file is a row (`binaryFile`; of a `file:` without its content, which the
task reads), decoded and verified in tasks, its events staged as Parquet. Judging: the case is laid down once in the
staging folder, every worker process maps it, and buckets of hosts are judged in one `mapInArrow` pass. Nothing per
delivery comes to the driver.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import memory
from roamcast.analytics.checks.clock import NOT_EXTENDED
from roamcast.analytics.deliveries import DeliveryFolder, published
from roamcast.analytics.engine import REPAIRING, ROWS_MAX, EngineError, Report, Say, Wanted, assembled, silent
from roamcast.analytics.evidence import Segment
from roamcast.analytics.judgement import Case, Options, Outcome
from roamcast.analytics.reading import Keys
from roamcast.analytics.spark.events import read_parts
from roamcast.analytics.spark.files import LogFiles, key_files, log_files
from roamcast.analytics.spark.session import failing, start
from roamcast.analytics.spark.tasks import CASE, JUDGED, PARTS, JudgeBuckets, ReadFiles
from roamcast.analytics.staging import Folder, Staging, local_path
from roamcast.analytics.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_BYTES_MAX = 128 << 20
"""What is larger does not go through the JVM: the driver reads it. A task takes up to four times as much."""

ROWS_MIN = 250_000
"""Deliveries below which a bucket is not cut further."""

BUCKETS_PER_CORE = 2
"""At least; more if buckets would be too large, and as many for every core."""

READING = {
    "spark.sql.files.ignoreCorruptFiles": "true",  # such a file is no reason to stop: the driver reads it again
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.openCostInBytes": str(128 << 10),  # very many small files are few tasks
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
}

EVERY = 1.0
"""s between two lines of progress."""


class SparkEngine:
    """An `engine.Engine`. Close it, or use it as a context manager: its part of the staging folder goes then.

    staging: a folder that driver and workers reach by the same name: a path, or a URL that Arrow knows (s3:, hdfs:).
    master: None: what spark-submit, the environment or Spark's configuration say, else local on all cores.
    rows_max: deliveries of a bucket. deliveries: a folder for them (deliveries.py). conf: settings of Spark.

    Raises:
        EngineError: no Java, no pyspark, Spark does not start, no staging folder. Nothing was done then.
    """

    def __init__(
        self,
        staging: str,
        *,
        master: str | None = None,
        rows_max: int = ROWS_MAX,
        deliveries: str | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self._rows_max, self._deliveries = rows_max, deliveries
        memory.keep()
        self._staging = Staging(staging)
        self._folders: dict[str, Folder] = {}
        try:
            local = self._staging.local
            scratch = str(local / "spark") if local else None
            log = local / "spark.log" if local else Path(os.devnull)
            self.session, self._started = start(master, conf or {}, scratch, log)
        except BaseException:
            self._staging.close()
            raise

    def close(self) -> None:
        """Stop Spark, if this engine has started it, and remove what was staged."""
        if self._started:
            self._started = False
            with suppress(Exception):  # Java may have died; there is nothing to stop then
                self.session.stop()
        self._staging.close()

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- reading ----

    def key_files(self, logs: str) -> Path | list[tuple[str, bytes]]:
        """The folder, or what it has of them on another file system."""
        local = local_path(logs)
        with failing(f"{logs}: reading failed"):
            return Path(local) if local is not None else key_files(self.session, logs)

    def read(self, logs: str, wanted: Wanted, keys: Keys | None, say: Say = silent) -> list[Segment]:
        """Read and verify what is wanted below `logs`, on any file system that this Spark knows."""
        with failing(f"{logs}: reading failed"):
            self._check_apart(logs)
            files = log_files(self.session, logs)
            folder = self._fresh("read")
            task = ReadFiles(folder, files.shown, wanted, keys)
            parts = self._parts(files, task, say) if files.names else []
            found = read_parts(folder, [part["part"] for part in parts])
            if len(found) != sum(part["files"] for part in parts):
                raise EngineError(f"{logs}: Spark has read {len(found)} files and tells of others")
            made = [found[name] if name in found else files.read(name, wanted, keys) for name in files.names]
        kept = [segment for segment in made if segment is not None]
        say(f"read {len(made)} of {len(files.names)} files: {len(kept)} are of this run")
        return kept

    def _check_apart(self, logs: str) -> None:
        """Staged files below the logs would be taken for logs."""
        local, staging = local_path(logs), self._staging.local
        if local is not None and staging is not None and staging.is_relative_to(os.path.abspath(local)):
            raise EngineError(f"the staging folder must not be below the logs ({staging.parent})")

    def _parts(self, files: LogFiles, task: ReadFiles, say: Say) -> list[dict[str, Any]]:
        reader = self.session.read.format("binaryFile").options(recursiveFileLookup="true", __globPaths__="false")
        with self._set(READING):
            rows = reader.load(files.url)
            if files.content is None:
                rows = rows.select("path")
            else:
                rows = rows.where(f"length <= {FILE_BYTES_MAX}").select("path", "content")
            parts = rows.mapInArrow(task, PARTS)
            return self._collected(parts, say, f"reading {len(files.names)} files: {{}} of {{}} parts")[0]

    # ---- judging ----

    def judge(
        self, made: Tables, differences: pa.Table, orders: pa.Table, options: Options, say: Say = silent
    ) -> Report:
        """Run all checks, buckets of hosts side by side."""
        case = Case(made, orders, options)
        cores = self.session.sparkContext.defaultParallelism
        expected = int(case.sessions.rows().sum())
        rounds = max(BUCKETS_PER_CORE, -(-expected // (self._rows_max * cores)))
        fair = max(ROWS_MIN, expected // (rounds * cores))
        buckets = case.buckets(min(self._rows_max, fair))
        with failing("judging failed"), published(self._deliveries, options.since) as folder:
            outcome = self._passed(case, buckets, folder, say)
            if any(row["kind"] == NOT_EXTENDED for row in outcome.findings):
                say(REPAIRING)
                cycle = case.repair_clock(buckets)
                outcome = self._passed(case, buckets, None, say)
                outcome.findings += cycle
        return assembled(made, differences, case, outcome)

    def _passed(
        self, case: Case, buckets: list[tuple[int, int]], deliveries: DeliveryFolder | None, say: Say
    ) -> Outcome:
        """One pass over everything with the clock that the case has now."""
        count = len(buckets) + len(case.live_parts)
        if not count:
            return case.of_the_whole()
        folder = self._fresh("judged")
        folder.put(CASE, case.of_clients_only())
        task = JudgeBuckets(folder, tuple(buckets), deliveries)
        numbers = self.session.range(0, count, 1, count)
        judged = numbers.mapInArrow(task, JUDGED)
        text = "judging: {} of {} buckets of hosts"
        rows, outcome = self._collected(judged, say, text, case.of_the_whole)
        if sorted(row["bucket"] for row in rows) != list(range(count)):
            raise EngineError("not every bucket of hosts was judged")
        for row in sorted(rows, key=lambda row: int(row["bucket"])):
            outcome.add(folder.get(row["outcome"]))
        return outcome

    # ---- Spark ----

    def _fresh(self, purpose: str) -> Folder:
        """A folder that no task has seen; the one before it for this purpose goes."""
        if purpose in self._folders:
            self._folders[purpose].remove()
        made = self._staging.folder.within(f"{purpose}-{secrets.token_hex(4)}")
        self._folders[purpose] = made
        return made

    @contextmanager
    def _set(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change settings of the session for a while."""
        conf = self.session.conf
        before = {name: conf.get(name, None) for name in settings}
        for name, value in settings.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    conf.unset(name)
                else:
                    conf.set(name, old)

    def _collected(
        self, frame: DataFrame, say: Say, text: str, meanwhile: Callable[[], Outcome] | None = None
    ) -> tuple[list[dict[str, Any]], Outcome]:
        """The rows of a small frame, and what is computed here `meanwhile`. text: of the progress, with two numbers."""
        context, group = self.session.sparkContext, secrets.token_hex(8)

        def rows() -> list[dict[str, Any]]:
            context.setJobGroup(group, text, interruptOnCancel=True)
            return [row.asDict() for row in frame.collect()]

        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(rows)
            try:
                outcome = meanwhile() if meanwhile else Outcome()
                told = ""
                while not wait([job], EVERY).done:
                    if (progress := self._progress(group, text)) != told:
                        say(progress)
                    told = progress
            except BaseException:
                with suppress(Exception):
                    context.cancelJobGroup(group)
                raise
            return job.result(), outcome

    def _progress(self, group: str, text: str) -> str:
        tracker = self.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage]
        return text.format(sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known))
