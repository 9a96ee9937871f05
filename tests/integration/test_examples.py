"""The demo and the small examples, run as a user runs them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def children(pid: int) -> list[int]:
    """Processes started by `pid` that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def test_demo_runs_and_its_verdict_is_good(seed: int, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "demo"), "--seconds", "8", "--seed", str(seed)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("lost 0, doubled 0, out of order 0")
    for row in ("messages", "deliveries", "handoffs", "cuts", "station crashes", "latency p50", "handoff p99"):
        assert re.search(rf"^  {row} +[\d,.]+", done.stdout, re.M), f"no row {row!r} in\n{done.stdout}"
    assert not list(tmp_path.iterdir()), "the demo left files behind"


@pytest.mark.parametrize("arguments", [["--hosts", "0"], ["--stations", "99"], ["--seconds", "x"], ["--no-such"]])
def test_demo_tells_wrong_use(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / "demo"), *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_ends_all_processes_when_it_is_stopped(number: int, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "demo"), "--keep", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: len(list((tmp_path / "run" / "logs").glob("*.jsonl"))) >= 3, "the load has begun", 60)
        until(lambda: len(children(demo.pid)) >= 6, "stations and agents run", 30)
        mine = children(demo.pid)
        demo.send_signal(number)
        text, _ = demo.communicate(timeout=40)
        assert demo.returncode in (130, 143), text
        time.sleep(0.05)
        assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]
        assert str(tmp_path / "run") in text
    finally:
        demo.kill()


@pytest.mark.parametrize("name", ["quickstart.py", "sealed_chat.py"])
def test_example(name: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {
        "quickstart.py": ["alice: hello, everybody", "alice: only for you"],
        "sealed_chat.py": ["the stations saw no word of it"],
    }
    for line in expected[name]:
        assert line in done.stdout, done.stdout
