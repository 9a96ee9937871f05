"""SIGKILL at any point of a commit: what was reported is there, and a tick is there as a whole or not at all."""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.mss_station.store import STORE_NAME, StationIdentity, Store

CHILD = Path(__file__).parent / "children" / "commits.py"


def start(directory: Path, kill_tick: int = 0, kill_statement: int = 0) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, str(CHILD), str(directory), str(kill_tick), str(kill_statement)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, bufsize=0)


def killed_after(child: subprocess.Popen[bytes], reports: int) -> int:
    """Kill once so many ticks were reported (0: it kills itself); the last number that came out."""
    assert child.stdout is not None
    output = b""
    while not reports or output.count(b"\n") < reports:
        readable, _, _ = select.select([child.stdout], [], [], 60)
        assert readable, "the child says nothing for a minute"
        part = os.read(child.stdout.fileno(), 1 << 16)
        if not part:
            break
        output += part
    child.kill()
    output += child.stdout.read()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    lines = output.split(b"\n")[:-1]
    return int(lines[-1]) if lines else 0


def check(directory: Path, identity: StationIdentity, reported: int) -> None:
    with Store.open(directory, identity) as store:
        image = store.load()
        stored = image.streams[1].stored if image.streams else 0
        assert reported <= stored <= reported + 3, "a reported tick is missing, or one that was never made is there"
        assert stored % 3 == 0
        assert sorted(image.rows) == [(1, n) for n in range(max(0, stored - 90) + 1, stored + 1)]
        assert all(
            row.position == row.n and len(store.load_item(*row.id) or b"") == 3000 for row in image.rows.values()
        )
        assert image.last_position == image.hlc == stored == sum(record.lastseq for record in image.records.values())
        assert [entry for spool in image.spools.values() for entry in spool] == [
            (n, 1, n) for n in range(3, stored + 1, 3)
        ]
        assert sorted(image.items) == [(1, n) for n in range(3, stored + 1, 3)]
    connection = sqlite3.connect(directory / STORE_NAME)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_killed_at_random_again_and_again(directory: Path, identity: StationIdentity) -> None:
    for reports in (1, 2, 3, 40, 5, 200, 7):
        check(directory, identity, killed_after(start(directory), reports))


@pytest.mark.parametrize("statement", range(1, 12))
def test_killed_inside_a_transaction(directory: Path, identity: StationIdentity, statement: int) -> None:
    reported = killed_after(start(directory, 35, statement), 0)
    assert reported == 34 * 3
    check(directory, identity, reported)
