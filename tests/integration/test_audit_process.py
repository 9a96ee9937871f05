"""`roamcast-audit` as a process that is ended at any time. BL-74."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
