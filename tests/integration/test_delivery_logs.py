"""Delivery logs of real runs: they hold after any kill, and the audit finds in them what happened and nothing else."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from demo.cluster import must, run_command
from harness import Bench, until

from roamcast.analytics import keys
from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.nights import Source, audit_whole
from roamcast.analytics.verdict import CLEAN

PLACES = {"a": "s1", "b": "s2", "c": "s3", "d": "s1"}


def uploaded(bench: Bench, to: Path) -> Path:
    """Stop all stations and upload what they have logged."""
    for station in bench.cluster.stations:
        if not station.over:
            station.stop()
        told = run_command("mss-station", "logs", "verify", station.directory, "--json")
        assert told.returncode == 0, told.stdout
        must("mss-station", "logs", "upload", station.directory, to)
    return to


def audited(folder: Path) -> Report:
    """The audit of all, by the keys beside the segments."""
    known, found = keys.load(folder)
    return audit_whole(Source(engine=LocalEngine(), logs=str(folder), keys=known, doubts=found)).report


def test_stations_that_are_killed_under_load_have_logged_all_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    for _ in range(6):
        bench.load(list(PLACES), rate=20, roam_s=1)
        bench.run_for(bench.rng.uniform(0.5, 1.2))
        station = bench.station(bench.rng.choice(["s1", "s2", "s3"]))
        station.kill()
        station.start()
        station.wait_ready()
    verdict = bench.settle()
    report = audited(uploaded(bench, bench.home / "uploaded"))
    found = [row for row in report.findings.to_pylist() if row["severity"] != "info"]
    assert report.verdict == CLEAN and not found, found[:5]
    kinds = report.tables["messages"].column("kind").to_pylist()
    assert sum(kind in (0, 1) for kind in kinds) == verdict.messages


def test_a_log_that_is_not_there_is_never_innocence(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20)
    bench.run_for(1.5)
    bench.settle()
    folder = uploaded(bench, bench.home / "uploaded")
    assert audited(folder).verdict == CLEAN
    shutil.rmtree(next(folder.glob("*/s2-*")))
    assert audited(folder).verdict not in (CLEAN, "")


def test_restarts_that_overlap_and_uploads(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    station, to = bench.station("s1"), bench.home / "uploads"
    with (station.directory / "station.toml").open("a") as file:
        file.write(f'\n[log]\nupload = "{to}"\n')
    bench.hosts({"a": "s1"})
    bench.send("a", 3)
    told = until(lambda: (log := station.status()["log"])["upload"]["last"] and log, "an upload")
    assert (told["segment"], told["problem"], told["upload"]["problem"]) == (1, None, None)
    assert "last upload 20" in must("mss-station", "status", station.directory)
    assert [path.name for path in to.glob("*/s1-*/*")] == ["keys.json"]
    for _ in range(2):  # BL-70: a new process comes while the old one still runs
        old = station.process
        assert old is not None
        station.start()
        bench.send("a", 2)
        time.sleep(0.3)
        assert station.running and old.poll() is None
        begin = time.monotonic()
        old.send_signal(signal.SIGTERM)
        assert old.wait(20) == 0 and time.monotonic() - begin < 5
        station.wait_ready()
        until(lambda: station.status()["log"]["upload"]["last"], "an upload")
    bench.settle()
    station.stop()
    told = run_command("mss-station", "logs", "verify", station.directory, "--json")
    assert told.returncode == 0, told.stdout
    found = json.loads(told.stdout)
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1)) and len(found) > 1
    assert {one["status"] for one in found} == {"closed"}
    copied = {int(path.stem) for path in to.glob("*/s1-*/*.rclog")}
    assert copied >= set(range(1, len(found)))  # what was closed last goes with the next start
