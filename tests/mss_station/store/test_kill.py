"""SIGKILL at any point of a commit, and a log cut at any place: a tick is there as a whole or not at all.

A tick that was reported is there in any case.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.middleware.causal_unicast.records import MailImage
from roamcast.middleware.writes import DurableState, LastValue, PutRecord
from roamcast.mss_station.store import STORE_NAME, StationIdentity, Store, read_found, read_history

CHILD = Path(__file__).parent / "children" / "commits.py"
COMMITS = runpy.run_path(str(CHILD))
LOG_NAME = STORE_NAME + "-wal"
STATEMENTS = 50
"""Of a tick, BEGIN and COMMIT among them."""


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


def expected_after(n: int) -> DurableState:
    """Configuration and group after the tick that ended with row n."""
    state = DurableState()
    for each in range(3, n + 1, 3):
        state.apply((*COMMITS["make_group"](each), *COMMITS["make_lan"](each)))
    return state


def expected_mail(n: int) -> MailImage:
    """Station mail after the tick that ended with row n."""
    image = MailImage()
    for each in range(3, n + 1, 3):
        for write in COMMITS["make_mail"](each):
            image.apply(write)
    return image


def check_group_and_lan(directory: Path, image: DurableState, expected: DurableState) -> None:
    assert (image.view, image.reserved, image.invitations, image.held) == (
        expected.view, expected.reserved, expected.invitations, expected.held,
    )  # fmt: skip
    assert all(image.spools[key] == expected.spools[key] for key in image.held)
    assert (image.lan.entries, image.lan.alive) == (expected.lan.entries, expected.lan.alive)
    assert read_found(directory) == expected.lan.found
    for key in ("hosts/0", "hosts/1"):
        assert read_history(directory, key) == [line for _, line in sorted(expected.lan.history.get(key, {}).items())]


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
        lines = [(n, 1, n, n % 5 + 1, (1, n)) for n in range(3, stored + 1, 3)]
        assert image.spools.get(COMMITS["KEY"], []) == lines
        last = LastValue(stored, (stored, 1, 0), 1, stored - 1, stored - 1, False)
        assert image.last == ({stored: last} if stored else {})
        assert len(image.spools) == (2 if stored else 0)
        kept = [(1, stored - 1)] if stored else []
        assert sorted(image.items) == sorted([(1, n) for n in range(3, stored + 1, 3)] + kept)
        check_group_and_lan(directory, image, expected_after(stored))
        assert store.load_mail(1) == expected_mail(stored)
        assert store.load_mail_lost() == {each: (each,) for each in range(3, stored + 1, 3)}
    connection = sqlite3.connect(directory / STORE_NAME)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_killed_at_random_again_and_again(directory: Path, identity: StationIdentity) -> None:
    for reports in (1, 2, 3, 40, 5, 200, 7):
        check(directory, identity, killed_after(start(directory), reports))


@pytest.mark.parametrize("statement", range(1, STATEMENTS + 1))
def test_killed_inside_a_transaction(directory: Path, identity: StationIdentity, statement: int) -> None:
    reported = killed_after(start(directory, 35, statement), 0)
    assert reported == 34 * 3
    check(directory, identity, reported)


def test_no_statement_is_left_out_above(directory: Path) -> None:
    child = start(directory, 35, STATEMENTS + 1)
    assert child.communicate(timeout=60)[0].endswith(b"\n105\n") and child.returncode == 1


def test_a_log_that_is_cut_anywhere_holds_whole_commits(
    tmp_path: Path, directory: Path, identity: StationIdentity
) -> None:
    """Power loss may tear what was not reported yet: what the log holds up to there counts, by whole transactions."""
    cut = tmp_path / "cut"
    cut.mkdir()
    sizes: list[int] = []
    with Store.open(directory, identity) as store:
        store.commit([PutRecord(COMMITS["RECORD"])])
        for n in range(3, 31, 3):
            store.commit(COMMITS["make_tick"](n))
            sizes.append(store.wal_bytes())
        log = (directory / LOG_NAME).read_bytes()
        file = (directory / STORE_NAME).read_bytes()
    assert sizes == sorted(set(sizes)) and sizes[-1] == len(log), "the log grew with each commit, and was not copied"
    for end in sorted({*range(sizes[0], len(log), 9001), *sizes, *(size - 1 for size in sizes[1:])}):
        (cut / STORE_NAME).write_bytes(file)
        (cut / LOG_NAME).write_bytes(log[:end])
        whole = 3 * sum(size <= end for size in sizes)
        check(cut, identity, whole)
        with Store.open(cut, identity) as store:
            assert store.load().lan.alive == whole
