"""The demo and the small examples, run as a user runs them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


STORY = [
    r"s3 is invited by s[12] and asks to be counted in",
    r"s3 has joined",
    r"(s[12]) is killed",
    r"settings/away-max is set to 14d at s[123], while \1 is down",
    r"\1 is started again",
    r"(s[12]) is being retired",
    r"\2 has handed over everything and has ended by itself",
]
"""Lines of the demo in their order."""

ON_TOPICS = [
    r"h02 is taken out of the crew at s[12]",
    r"h02 is told that its subscription to crew has ended",
    r"h02 may again, has subscribed anew",
]
"""So are these."""


SITES = [
    r"two sites: s3 in the north, s4 in the south; s1 joins them, s2 stands by",
    r"s1 is killed \(SIGKILL\) under load",
    r"s2 forwards between the sites in the place of s1",
    r"s1 is started again",
    r"s1 forwards again, s2 stands by",
]
"""And these, with --clusters."""


def processes(home: Path) -> set[int]:
    """Processes that have something of `home` on their command line."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(home) in (entry / "cmdline").read_text():
                found.add(int(entry.name))
    return found


def test_demo_runs_and_its_verdict_is_good(seed: int, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "demo"), "--audit", "--seconds", "12", "--seed", str(seed)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("lost 0, doubled 0, out of order 0")
    for row in ("messages", "deliveries", "on topics", "last values", "handoffs", "cuts", "latency p50", "handoff p99"):
        assert re.search(rf"^  {row} +[\d,.]+", done.stdout, re.M), f"no row {row!r} in\n{done.stdout}"
    assert re.search(".*".join(ON_TOPICS), done.stdout, re.S), done.stdout
    tell_the_story(done.stdout)
    assert "verdict of the audit, from the logs alone: clean" in done.stdout, done.stdout
    page = re.search(r"^page of the audit: (.+)$", done.stdout, re.M)
    assert page and Path(page[1]).read_text().lower().startswith("<!doctype html>")
    left = {path.name for home in tmp_path.glob("roamcast-demo-*") for path in home.iterdir()}
    assert left == {"audit"}, "the demo left files behind"


def test_demo_kills_the_gateway_between_two_sites(seed: int) -> None:
    command = [sys.executable, str(EXAMPLES / "demo"), "--clusters", "--stations", "5", "--hosts", "6"]
    done = subprocess.run(
        [*command, "--seconds", "8", "--seed", str(seed)], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("lost 0, doubled 0, out of order 0")
    assert re.search(".*".join(SITES), done.stdout, re.S), done.stdout


def tell_the_story(text: str) -> None:
    """All that an operator did has come to its end."""
    told = re.search(".*".join(STORY), text, re.S)
    assert told, text
    assert f"`config get` at {told[1]} says 14d too" in text, text


@pytest.mark.parametrize(
    "arguments",
    [["--hosts", "0"], ["--stations", "99"], ["--seconds", "x"], ["--no-such"], ["--clusters", "--stations", "4"]],
)
def test_demo_tells_wrong_use(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / "demo"), *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.mark.parametrize(
    ("moment", "numbers"),
    [
        ("^seed ", [signal.SIGINT]),
        ("the load begins$", [signal.SIGTERM]),
        ("is taken out of the crew", [signal.SIGINT]),
        ("asks to be counted in$", [signal.SIGINT, signal.SIGINT]),
        ("is set to 14d", [signal.SIGINT]),
        ("is being retired", [signal.SIGTERM, signal.SIGINT]),
    ],
    ids=["set-up", "load", "a right is gone", "joining", "a station is down", "retiring"],
)
def test_demo_ends_all_processes_when_it_is_stopped(moment: str, numbers: list[int], seed: int, tmp_path: Path) -> None:
    home = tmp_path / "run"
    command = [sys.executable, str(EXAMPLES / "demo"), "--keep", str(home), "--seconds", "12", "--seed", str(seed)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert demo.stdout is not None
        told = []
        for line in demo.stdout:
            told.append(line)
            if re.search(moment, line.rstrip()):
                break
        for number in numbers:
            demo.send_signal(number)
        text, _ = demo.communicate(timeout=40)
        assert demo.returncode in [128 + number for number in numbers], "".join(told) + text
        assert not processes(home)
        assert str(home) in text and "Traceback" not in text
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
