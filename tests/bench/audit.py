"""What an audit costs, beside what Spark takes to read the same deliveries, shuffle them by host and sort them.

Ways go in turn in one run, and the least CPU of each counts: user and system time of the driver, the JVM and the Python
workers. The logs are those of an honest group (tests/analytics/made_logs.py), 50 stations and 200 hosts, as files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import made_logs
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from bench import audit_sql
from bench.child import Json
from bench.cpu import Cost, measured, peak_mib
from bench.plan import Plan

from roamcast.analytics.engine import Engine, Report, silent
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.engine_spark import SparkEngine
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import Case, Options
from roamcast.analytics.nights import everything
from roamcast.analytics.verdict import CLEAN

STATIONS, HOSTS, MOVES = 50, 200, 6
COLUMNS = ("client", "place", "slot", "n", "station", "wall")
"""What the floor reads of a delivery; the rows lie in the order of time."""

FLOOR = "Spark: read, shuffle by host, sort (floor)"
CHECKS, WHOLE = "audit on Spark, checks", "audit on Spark, from files"
TARGETS = {CHECKS: 0.6, WHOLE: 1.5}
"""CPU in floors, wanted."""

GATES = {CHECKS: 1.0, WHOLE: 2.0}
"""CPU in floors from which on the run ends with 1: figures move by a fifth from run to run."""

CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "32"}
MASTER = "local[2,4]"


class NotClean(Exception):
    """An audit of honest logs found something."""


class Scene:
    """One size: files, tables, and the deliveries as Parquet."""

    def __init__(self, home: Path, messages: int, plan: Plan) -> None:
        self.logs, self.deliveries = home / "logs", home / "deliveries.parquet"
        self.logs.mkdir(parents=True)
        segments = made_logs.logs(messages, STATIONS, HOSTS, MOVES, 7)
        self.events = made_logs.write(segments, self.logs)
        plan.say(f"{self.events:,} events of {STATIONS} stations written")
        self.made, self.differences = ingest(LocalEngine().read(str(self.logs), everything, None))
        case = Case(self.made, self.made["orders"], Options())
        rows = case.deliveries(0, len(case.names))
        self.count = len(rows["place"])
        by = np.argsort(rows["wall"], kind="stable")  # as they happen
        columns = {name: rows[name][by] for name in COLUMNS}
        pq.write_table(pa.table(columns), self.deliveries, compression="zstd")
        facts = self.made["messages"].select(["client", "number", "hlc", "slot", "n"])
        pq.write_table(facts, home / "messages.parquet")
        self.messages = home / "messages.parquet"

    def judge(self, engine: Engine) -> Report:
        """The checks alone, on tables that are there."""
        return checked(engine.judge(self.made, self.differences, self.made["orders"], Options(), silent))


def whole(logs: Path, engine: Engine) -> Report:
    """From files to the verdict."""
    made, differences = ingest(engine.read(str(logs), everything, None, silent))
    return checked(engine.judge(made, differences, made["orders"], Options(), silent))


def checked(report: Report) -> Report:
    """Raises NotClean."""
    if report.verdict != CLEAN:
        raise NotClean(str(report.findings.slice(0, 3).to_pylist()))
    return report


def floor(session: Any, deliveries: Path, sort: bool) -> None:
    """Spark: read; shuffle by host and sort by (host, place), unless `sort` is False."""
    frame = session.read.parquet(str(deliveries)).select(*COLUMNS)
    if sort:
        frame = frame.repartition("client").sortWithinPartitions("client", "place")
    frame.write.format("noop").mode("overwrite").save()


def measure_size(home: Path, messages: int, repeats: int, spark: SparkEngine, plan: Plan) -> Json:
    """All ways at one size."""
    scene = Scene(home, messages, plan)
    local = LocalEngine()
    ways: dict[str, Callable[[], object]] = {
        "Spark: read": lambda: floor(spark.session, scene.deliveries, sort=False),
        FLOOR: lambda: floor(spark.session, scene.deliveries, sort=True),
        CHECKS: lambda: scene.judge(spark),
        WHOLE: lambda: whole(scene.logs, spark),
        "audit in one process, checks": lambda: scene.judge(local),
        "audit in one process, from files": lambda: whole(scene.logs, local),
        "DuckDB: read, sort": lambda: audit_sql.sort(scene.deliveries),
        "DuckDB: part of the checks in SQL": lambda: audit_sql.checks(scene.deliveries, scene.messages),
    }
    best: dict[str, Cost] = {}
    for turn in range(1 + repeats):
        for name, work in ways.items():
            cost = measured(work)
            if turn:  # the first one warms up
                old = best.get(name)
                best[name] = cost if old is None or cost.cpu_s < old.cpu_s else old
        plan.say(f"{scene.count:,} deliveries: round {turn} of {repeats}")
    return {
        "deliveries": scene.count,
        "events": scene.events,
        "ways": {name: {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s} for name, cost in best.items()},
        "peak_mib": peak_mib(),
    }


def measure_hard(home: Path, plan: Plan) -> Json:
    """Shapes that are hard for a cluster: one host with half of all deliveries; very many small files.

    Each is made in a process of its own, and audited in one: only so its memory can be told.
    """
    scale, found = plan.audit_hard, []
    shapes = {
        "one host has half of all": ((int(2_500_000 * scale), 2, 10, 0, 7, 0.89), 1 << 62),
        "very many small files": ((int(5_000 * scale), STATIONS, HOSTS, MOVES, 7), 13),
    }
    for i, (name, shape) in enumerate(shapes.items()):
        logs = home / f"hard{i}"
        alone(make, logs, *shape)
        found.append({"name": name, **alone(hard, logs)})
        plan.say(f"{name}: {found[-1]['wall_s']:.0f} s")
        shutil.rmtree(logs)
    return found


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do it in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def make(logs: Path, about: tuple[Any, ...], size: int) -> None:
    """Write the files of one shape."""
    logs.mkdir()
    made_logs.write(made_logs.logs(*about), logs, size)


def hard(logs: Path) -> Json:
    """Audit one shape, in a session of its own."""
    with SparkEngine(str(logs.with_suffix(".staging")), master=MASTER, conf=CONF) as spark:
        found: list[Report] = []
        cost = measured(lambda: found.append(whole(logs, spark)))
        told = {"deliveries": found[0].outcome.deliveries, "files": sum(1 for _ in logs.iterdir())}
        return told | {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_mib": peak_mib()}


def measure(home: Path, plan: Plan) -> Json:
    """All sections."""
    with SparkEngine(str(home / "staging"), master=MASTER, conf=CONF) as spark:
        found = [measure_size(home / str(size), size, plan.repeats, spark, plan) for size in plan.audit_messages]
    return {"audit": found, "hard": measure_hard(home, plan)}
