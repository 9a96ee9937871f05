"""The Spark engine finds what the local one finds, over rows and over files. No other file starts Spark."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import simulated
import simulated_journals
import simulated_mails
import test_mails
from audit_world import A, B, story
from stored import store
from test_files import DAY, write
from test_nights import GRACE, MARGIN, broken, days
from test_simulated_topics import with_another

from roamcast.analytics import lives
from roamcast.analytics.carried import load_before, save
from roamcast.analytics.engine import EngineError, Report
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.engine_spark import SparkEngine
from roamcast.analytics.evidence import Segment
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import Options
from roamcast.analytics.nights import Source, audit_night, run_night, span
from roamcast.middleware.simulator.live_order import LiveOrder

FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Buckets of one host each, so that small runs have many."""
    staging = tmp_path_factory.mktemp("staging")
    with SparkEngine(str(staging), master="local[2,4]", rows_max=1, conf=FAST) as engine:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
        yield engine
    assert list(staging.iterdir()) == []


def everything(_header: Mapping[str, Any]) -> bool:
    return True


def same(one: Report, other: Report) -> None:
    assert one.findings.to_pylist() == other.findings.to_pylist()
    assert one.verdict == other.verdict and one.hosts.equals(other.hosts)
    assert one.latencies.equals(other.latencies) and one.gaps.equals(other.gaps)
    assert {c: m.tolist() for c, m in one.outcome.pending.items()} == {
        c: m.tolist() for c, m in other.outcome.pending.items()
    }
    assert (one.outcome.deliveries, one.outcome.pairs) == (other.outcome.deliveries, other.outcome.pairs)


def judged(spark: SparkEngine, segments: list[Segment], options: Options | None = None) -> Report:
    """What both engines find."""
    made, differences = ingest(segments)
    reports = [
        engine.judge(made, differences, made["orders"], options or Options()) for engine in (spark, LocalEngine())
    ]
    same(*reports)
    return reports[0]


def assert_same_segments(one: list[Segment], other: list[Segment]) -> None:
    assert [s.path for s in one] == [s.path for s in other]
    for a, b in zip(one, other, strict=True):
        assert (a.header, a.status, a.end, a.closed, a.count) == (b.header, b.status, b.end, b.closed, b.count)
        assert list(a.events) == list(b.events)
        for event, columns in a.events.items():
            assert columns.keys() == b.events[event].keys()
            for name, values in columns.items():
                plain = b.events[event][name]
                assert (values is None) == (plain is None), (event, name)
                if values is not None:
                    assert list(values) == list(plain), (event, name)
                    assert getattr(values, "dtype", "") == getattr(plain, "dtype", ""), (event, name)


# ---- judging ----


def test_stories(spark: SparkEngine) -> None:
    assert judged(spark, story().segments()).verdict == "clean"
    world = story()
    world.change(2, "session", {"host": A, "e": 2}, base=[0, 5, 3])
    assert judged(spark, world.segments()).verdict == "violated"
    assert judged(spark, story().segments(journals=(A, B))).verdict == "clean"


def test_station_mail(spark: SparkEngine, tmp_path: Path) -> None:
    for i, (world, kinds, _) in enumerate(test_mails.CASES.values()):
        store(simulated_mails.segments(world.rows), tmp_path / str(i))
        read = spark.read(str(tmp_path / str(i)), everything, None)
        one, other = judged(spark, read), judged(spark, simulated_mails.segments(world.rows))
        assert kinds <= {row["kind"] for row in one.findings.to_pylist()}
        witnesses = [
            {row["witness"] for row in each.findings.to_pylist() if "mail" in row["kind"]} for each in (one, other)
        ]
        assert witnesses[0] == witnesses[1]


def test_a_clock_is_repaired(spark: SparkEngine) -> None:
    world = story()
    for station in (1, 2):
        world.change(station, "order", {"slot": 2, "n": 2}, hlc=1)
    told: list[str] = []
    made, differences = ingest(world.segments())
    report = spark.judge(made, differences, made["orders"], Options(), told.append)
    same(report, LocalEngine().judge(made, differences, made["orders"], Options()))
    assert "clock_not_extension" in report.findings.column("kind").to_pylist()
    assert any("repairing" in text for text in told)


def test_runs_of_the_simulator(spark: SparkEngine, seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    for i in range(6):
        chosen = rng.randrange(1_000_000)
        print(f"simulator seed {chosen}")
        simulation, _ = simulated.run("mixed", chosen)
        segments = simulated.logs(simulation)
        print("changed:", broken(segments, rng) if i % 3 else "")
        found += judged(spark, segments).verdict == "violated"
    print(f"{found} of 6 violated")


def test_topics(spark: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, folders, _ = simulated_journals.journaled("topics", 6, monkeypatch)
    segments = simulated.logs(simulation, first=simulated_journals.names(simulation))
    journals = folders.segments()
    report = judged(spark, segments + journals)
    assert report.verdict == "clean" and len(report.case.subscriptions)
    changed = with_another(report, journals, random.Random(6))
    assert "not_subscribed" in judged(spark, segments + changed).findings.column("kind").to_pylist()


def test_live_messages(spark: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts that tasks judge beside the buckets of hosts."""
    monkeypatch.setattr(lives, "PART_CELLS", 20)
    monkeypatch.setattr(LiveOrder, "_inverted", lambda *_: None)  # the run goes on behind the first fault
    mutants = frozenset({"live_settle"})
    simulation, folders, _ = simulated_journals.journaled("mixed-live", 38, monkeypatch, mutants)
    segments = simulated.logs(simulation, first=simulated_journals.names(simulation))
    report = judged(spark, segments + folders.segments())
    assert len(report.case.live_parts) > 1
    assert "live_overtaken" in report.findings.column("kind").to_pylist()


def test_nothing_at_all(spark: SparkEngine, tmp_path: Path) -> None:
    assert spark.read(str(tmp_path), everything, None) == []
    assert judged(spark, []).verdict == "undecided"


# ---- reading ----


def test_bad_files_are_read_as_the_local_engine_reads_them(spark: SparkEngine, tmp_path: Path) -> None:
    """BL-73."""
    logs = tmp_path / "lo gs [1] %41 {a}"
    (logs / "more").mkdir(parents=True)
    paths = write(story(), logs)
    shutil.move(paths[0], logs / "more")
    paths[1].write_bytes(paths[1].read_bytes()[:-9])
    paths[2].write_bytes(paths[2].read_bytes()[:300] + b"\0" + paths[2].read_bytes()[301:])
    (logs / "empty.rclog").write_bytes(b"")
    (logs / "noise.rclog").write_bytes(bytes(range(256)) * 9)
    (logs / "_stray").write_bytes(b"half a fi")
    (logs / ".hidden").write_bytes(b"half a fi")
    (logs / "unreadable").symlink_to("/proc/self/mem")  # no right to read is no hindrance for root
    found = spark.read(str(logs), everything, None)
    assert_same_segments(found, LocalEngine().read(str(logs), everything, None))
    assert len(found) == 8
    report = judged(spark, found)
    assert report.verdict == "undecided"
    told = " ".join(row["witness"] for row in report.findings.to_pylist())
    assert all(name in told for name in ("empty.rclog", "noise.rclog", "_stray", "unreadable"))


def test_another_file_system(spark: SparkEngine, tmp_path: Path) -> None:
    """One that only Hadoop knows: what is in the files comes through Spark."""
    (tmp_path / "logs" / "more").mkdir(parents=True)
    shutil.move(write(story(), tmp_path / "logs")[0], tmp_path / "logs" / "more")
    (tmp_path / "logs" / "noise.rclog").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "logs" / "_stray").write_bytes(b"half a fi")
    (tmp_path / "logs" / ".hidden").write_bytes(b"half a fi")
    (tmp_path / "logs" / "unreadable").symlink_to("/proc/self/mem")
    spark.session._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.site.link./all", f"file:{tmp_path}")
    found = spark.read("viewfs://site/all/logs", everything, None)
    other = LocalEngine().read(str(tmp_path / "logs"), everything, None)
    for segment in other:
        segment.path = segment.path.replace(f"{tmp_path}/logs", "viewfs://site/all/logs")
        segment.path = segment.path.replace("(Input/output error)", "(cannot be read)")
    assert_same_segments(found, sorted(other, key=lambda segment: segment.path))
    assert len(found) == 7
    only = spark.read("viewfs://site/all/logs", lambda header: header.get("seq") == 2, None)
    assert [Path(segment.path).name for segment in only] == ["s1-2.rclog", "s2-2.rclog"]


def test_only_what_is_wanted_comes_back(spark: SparkEngine, tmp_path: Path) -> None:
    write(story(), tmp_path)
    (tmp_path / "_stray").write_bytes(b"half a fi")
    for wanted in (lambda header: header.get("seq") == 2, lambda header: not header):
        found = spark.read(f"file:{tmp_path}", wanted, None)
        assert_same_segments(found, LocalEngine().read(str(tmp_path), wanted, None))
        assert found


def test_names_and_copies_do_not_matter(spark: SparkEngine, tmp_path: Path, seed: int) -> None:
    """BL-74."""
    rng = random.Random(seed)
    simulation, _ = simulated.run("mixed", rng.randrange(1_000_000))
    paths = store(simulated.logs(simulation), tmp_path / "one")
    (tmp_path / "other").mkdir()
    for path in [*paths, paths[0], rng.choice(paths)]:
        shutil.copy(path, tmp_path / "other" / f"{rng.randrange(1 << 60):x}")
    one, other = (judged(spark, spark.read(str(tmp_path / name), everything, None)) for name in ("one", "other"))
    same(one, other)


def test_many_small_files_are_few_tasks(spark: SparkEngine, tmp_path: Path) -> None:
    """BL-77."""
    for i in range(400):
        (tmp_path / f"{i}.rclog").write_bytes(b"RCLOG1\n")
    assert len(spark.read(str(tmp_path), everything, None)) == 400
    assert spark._staging.local is not None
    assert len(list(spark._staging.local.glob("read-*/segments/*"))) <= 4


def test_nights(spark: SparkEngine, tmp_path: Path) -> None:
    """Segments as files, day after day, each engine with its own states."""
    simulation, _ = simulated.run("mixed", 7, skew=0)
    logs = tmp_path / "logs"
    store(simulated.stretched(simulation, 2), logs)
    texts: dict[str, list[str]] = {}
    for name, engine in (("spark", spark), ("local", LocalEngine())):
        states = tmp_path / name
        for day in days(2):
            carried = load_before(states, day)
            found = engine.read(str(logs), everything, None, print)
            night = run_night(found, day, carried, margin=MARGIN, grace=GRACE, engine=engine)
            save(states, night.state)
            texts.setdefault(name, []).append(night.state.text())
            texts[name].append(repr(night.report.findings.to_pylist()) + repr(night.report.hosts.to_pylist()))
    assert texts["spark"] == texts["local"] and '"floor": []' not in texts["spark"][0]


def test_a_night_of_files(spark: SparkEngine, tmp_path: Path) -> None:
    write(story(), tmp_path / "logs" if (tmp_path / "logs").mkdir() is None else tmp_path)
    one, other = (
        audit_night(Source(engine=engine, logs=str(tmp_path / "logs")), tmp_path / "states", DAY)
        for engine in (spark, LocalEngine())
    )
    assert one.report.verdict == "clean" and one.state.text() == other.state.text()


def test_deliveries_are_those_of_the_local_engine(spark: SparkEngine, tmp_path: Path) -> None:
    made, differences = ingest(story().segments())
    since = span(DAY)[0]
    with SparkEngine(str(tmp_path / "st"), rows_max=1, deliveries=str(tmp_path / "spark")) as engine:
        for _ in range(2):
            engine.judge(made, differences, made["orders"], Options(since))
        assert engine.session.sparkContext is spark.session.sparkContext
        rows = engine.session.read.parquet(str(tmp_path / "spark")).where("host = 'ann' and acked").count()
    assert rows == 5 and [path.name for path in (tmp_path / "spark").iterdir()] == [f"day={DAY}"]
    LocalEngine(1, str(tmp_path / "local")).judge(made, differences, made["orders"], Options(since))
    one, other = (pq.read_table(tmp_path / name) for name in ("spark", "local"))
    assert one.equals(other) and one.num_rows == 16


# ---- what goes wrong ----


class DiesOnce:
    """As `Keys`: the first worker process that asks is killed."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, _header: Mapping[str, Any]) -> None:
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_costs_nothing_but_time(spark: SparkEngine, tmp_path: Path) -> None:
    """BL-74."""
    logs = tmp_path / "logs"
    logs.mkdir()
    write(story(), logs)
    found = spark.read(str(logs), everything, DiesOnce(tmp_path / "mark"))  # type: ignore[arg-type]
    assert (tmp_path / "mark").exists()
    assert_same_segments(found, LocalEngine().read(str(logs), everything, DiesOnce(tmp_path / "mark")))  # type: ignore[arg-type]


def fails(_header: Mapping[str, Any]) -> bool:
    raise RuntimeError("a bug in a task")


def test_a_task_that_fails_is_one_line(spark: SparkEngine, tmp_path: Path) -> None:
    write(story(), tmp_path)
    with pytest.raises(EngineError) as told:
        spark.read(str(tmp_path), fails, None)
    assert "a bug in a task" in str(told.value) and "\n" not in str(told.value)


def test_places_that_cannot_be(spark: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no directory here"):
        spark.read(str(tmp_path / "none"), everything, None)
    with pytest.raises(EngineError, match="nowhere"):
        spark.read("nowhere://host/logs", everything, None)
    with SparkEngine(str(tmp_path / "logs" / "staging")) as engine:
        with pytest.raises(EngineError, match="must not be below the logs"):
            engine.read(str(tmp_path / "logs"), everything, None)
    with pytest.raises(EngineError, match="no staging folder"):
        SparkEngine("/proc/none")


ALONE = """
import sys
from roamcast.analytics.engine import EngineError
from roamcast.analytics.engine_spark import SparkEngine
try:
    with SparkEngine(sys.argv[1], master=sys.argv[3] or None, conf=dict([sys.argv[4].split("=", 1)])) as engine:
        print(len(engine.read(sys.argv[2], bool, None)), "segments of", engine.session.sparkContext.master)
except EngineError as error:
    print("EngineError:", error)
"""
TIERED = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"


def alone(tmp_path: Path, master: str = "", **variables: str) -> str:
    """Read logs in a process of its own; nothing but stdout may be written to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "staging"), str(tmp_path / "logs"), master, TIERED],
        env={**kept, **variables}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert list((tmp_path / "staging").iterdir()) == []
    return done.stdout.strip()


def test_with_the_packaged_java_and_another_python_first(tmp_path: Path) -> None:
    """BL-76. No java on the path; `python3` there is another one."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for path in Path(folder).iterdir():
            if not path.name.startswith(("java", "python")) and not (programs / path.name).is_symlink():
                (programs / path.name).symlink_to(path)
    for name in ("python", "python3"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    (tmp_path / "logs").mkdir()
    write(story(), tmp_path / "logs")
    assert alone(tmp_path, PATH=str(programs), TZ="Asia/Kolkata") == "4 segments of local[*,4]"


def test_what_keeps_spark_from_starting_is_one_line(tmp_path: Path) -> None:
    told = alone(tmp_path, master="nonsense")
    assert told.startswith("EngineError: Spark does not start on master nonsense: Master must") and "\n" not in told
    told = alone(tmp_path, JAVA_HOME=str(tmp_path))
    assert told.startswith(f"EngineError: JAVA_HOME={tmp_path} is no Java that starts") and "\n" not in told
