"""The disk, other processes and the log: commits fail as a whole, say why, and work again afterwards."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from roamcast.middleware.rows import Row
from roamcast.middleware.writes import DropRows, PutRow, PutStart, Write
from roamcast.mss_station.errors import StoreBusy, StoreFull
from roamcast.mss_station.store import RESERVE_NAME, STORE_NAME, StationIdentity, Store

MIB = 1 << 20

CHILDREN = Path(__file__).parent / "children"

HOLD_WRITE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
print("free", flush=True)
"""


def rows(make_row: Callable[..., Row], first: int, last: int, size: int) -> Sequence[Write]:
    return [PutRow(make_row(n, item=bytes(size)), n) for n in range(first, last + 1)]


def test_disk_full_on_a_small_volume(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=24m none "{tmp_path}"'
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*enter, mount], capture_output=True).returncode:
        pytest.skip("no volume of one's own can be mounted here")
    script = [*enter, f'{mount} && exec "$@"', "sh", sys.executable, str(CHILDREN / "full_disk.py"), str(tmp_path)]
    run = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert run.stdout == "fine\n", run.stderr


def test_a_write_that_the_system_refuses(directory: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(CHILDREN / "file_limit.py"), str(directory)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "fine\n", run.stderr


def test_full_file_rolls_back_and_takes_rows_again(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    with Store.open(directory, identity) as store:
        store.commit(rows(make_row, 1, 10, 3000))
        store._connection.execute("PRAGMA max_page_count = 30")
        before = store.load()
        with pytest.raises(StoreFull, match="free space"):
            store.commit([PutStart(5), *rows(make_row, 11, 60, 3000)])
        assert store.load() == before
        store.commit([DropRows(1, 10)])
        assert store.unused_bytes() > 0
        store.commit(rows(make_row, 11, 20, 3000))
        assert sorted(store.load().rows) == [(1, n) for n in range(11, 21)]


def test_reserve_is_made_again_when_there_is_room(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        free = store.free_space()
        assert store.has_reserve() and store.release_reserve()
        assert not (directory / RESERVE_NAME).exists() and not store.has_reserve()
        assert store.free_space() > free - MIB
        assert store.restore_reserve() and store.has_reserve()


def test_outside_write_lock(directory: Path, identity: StationIdentity, make_row: Callable[..., Row]) -> None:
    with Store.open(directory, identity) as store:
        store.commit(rows(make_row, 1, 5, 10))
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_WRITE_LOCK, str(directory / STORE_NAME)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout and holder.stdin and holder.stdout.readline() == "held\n"
        begun = time.monotonic()
        tries = 0
        while time.monotonic() - begun < 1:
            with pytest.raises(StoreBusy, match="another process"):
                store.commit(rows(make_row, 6, 10, 10))
            tries += 1
        assert 2 <= tries <= 6, "each try waits, and not for long"
        assert len(store.load().rows) == 5, "reading goes on"
        holder.communicate("\n")
        store.commit(rows(make_row, 6, 10, 10))
        assert len(store.load().rows) == 10


def test_log_is_bounded_and_shrinks_after_a_reader_outside(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    with Store.open(directory, identity, durability="process") as store:
        for n in range(1, 601, 2):
            store.commit(rows(make_row, n, n + 1, 9000))
        assert store.log_bytes() > 2 * MIB
        assert store.wal_bytes() < 6 * MIB, "our own readers hold nothing"
        reader = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchall()
        for n in range(601, 901, 10):
            store.commit(rows(make_row, n, n + 9, 250_000))
        assert store.wal_bytes() > 70 * MIB
        assert not store.checkpoint(), "the reader still holds it"
        reader.execute("COMMIT")
        store.commit(rows(make_row, 901, 901, 10))
        store.commit(rows(make_row, 902, 902, 10))
        assert store.wal_bytes() <= 64 * MIB, "it shrinks by itself"
        assert store.checkpoint()
        assert store.wal_bytes() == 0
        reader.close()
        assert len(store.load().rows) == 902


def test_nothing_waits_on_a_read_of_ours(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    with Store.open(directory, identity) as store:
        store.commit(rows(make_row, 1, 50, 100))
        store.load()
        assert store.load_item(1, 7) is not None and store.load_item(1, 99) is None
        outside = sqlite3.connect(directory / STORE_NAME, isolation_level=None, timeout=0)
        assert outside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        outside.close()


@pytest.mark.parametrize(("durability", "synchronous"), [("power", 2), ("process", 1)])
def test_settings_of_the_connection(
    directory: Path, identity: StationIdentity, durability: str, synchronous: int
) -> None:
    with Store.open(directory, identity, durability=durability) as store:  # type: ignore[arg-type]
        settings = {
            name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "wal_autocheckpoint", "journal_size_limit", "busy_timeout")
        }
        assert settings == {
            "synchronous": synchronous,
            "journal_mode": "wal",
            "wal_autocheckpoint": 1000,
            "journal_size_limit": 64 * MIB,
            "busy_timeout": 250,
        }
