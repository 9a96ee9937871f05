"""`roamcast-audit` as a process that is ended at any time, and under spark-submit. BL-74."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roamcast.analytics import cli
from roamcast.analytics.spark.java import java_home

DAY = "2026-01-01"


def audit(logs: Path, out: Path, day: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "roamcast.analytics.cli", "--logs", logs, "--out", out, "--date", day]
    return subprocess.Popen(
        [*map(str, command), "--engine", "local"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_leaves_nothing_that_is_taken_for_a_report(tmp_path: Path, number: signal.Signals) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    assert audit(logs, out, DAY).wait(30) == 4
    before = (out / DAY / "report.json").read_bytes()
    for i in range(2_000):
        (logs / f"noise{i}").write_bytes(os.urandom(50_000))
    running = audit(logs, out, "all")
    end = time.monotonic() + 30
    lock = out / ".lock"
    lock.unlink()
    while not lock.exists() and time.monotonic() < end:
        time.sleep(0.01)
    running.send_signal(number)
    _, said = running.communicate(timeout=30)
    assert running.returncode in (-number, 128 + number), said
    assert b"Traceback" not in said
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == [DAY]
    assert (out / DAY / "report.json").read_bytes() == before
    assert audit(logs, out, "all").wait(60) == 4
    assert not [path.name for path in out.iterdir() if path.name.endswith((".part", ".old"))]


def test_spark_submit_runs_the_same_main(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "notes.txt").write_text("no segment")
    submit = Path(sys.executable).with_name("spark-submit")
    command = [submit, "--master", "local[1]", cli.__file__, "--logs", tmp_path / "logs", "--out", tmp_path / "out"]
    home = java_home(os.environ, tmp_path)
    environment = {**os.environ, "PATH": f"{submit.parent}:{os.environ['PATH']}"}
    environment |= {"JAVA_HOME": home} if home else {}
    done = subprocess.run(
        [*map(str, command), "--date", DAY], capture_output=True, text=True, timeout=180, env=environment
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "notes.txt" in done.stdout
    report = json.loads((tmp_path / "out" / DAY / "report.json").read_text())
    assert report["verdict"] == "undecided" and report["run"]["engine"].startswith("spark")
