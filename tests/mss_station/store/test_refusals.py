"""A store that cannot serve this station is refused with a reason, and is not changed by that."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.spool_writes import SpoolAdd
from roamcast.middleware.writes import DropLast, DropRows, DurableState, LastValue, PutLast, PutRow, PutStart
from roamcast.mss_station.errors import (
    StoreDamaged,
    StoreError,
    StoreExists,
    StoreForeign,
    StoreIdentity,
    StoreMissing,
    StoreUnwritable,
    StoreVersion,
)
from roamcast.mss_station.store import RESERVE_BYTES, RESERVE_NAME, STORE_NAME, StationIdentity, Store

REMEDY = "mss-station stations retire DIR ID --lost) and let it join again (mss-station join DIR TOKEN --rejoin"


def refused(directory: Path, identity: StationIdentity, kind: type[StoreError]) -> str:
    """Open must fail with exactly `kind` and leave the file and its log as they are; the text names the file."""
    before = contents(directory)
    with pytest.raises(kind) as caught:
        Store.open(directory, identity)
    assert type(caught.value) is kind
    assert contents(directory) == before
    assert str(directory / STORE_NAME) in str(caught.value)
    return str(caught.value)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.glob(STORE_NAME + "*")
        if not path.name.endswith("-shm") and path.stat().st_size
    }


def edit(directory: Path, statement: str) -> None:
    connection = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_a_new_store_is_empty_private_and_has_its_reserve(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        assert store.load() == DurableState()
        assert store.has_reserve()
    assert stat.S_IMODE((directory / STORE_NAME).stat().st_mode) == 0o600
    assert (directory / RESERVE_NAME).stat().st_blocks * 512 >= RESERVE_BYTES
    assert {path.name for path in directory.iterdir()} == {STORE_NAME, RESERVE_NAME}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o400])
def test_a_store_that_others_can_read_is_warned_of(
    directory: Path, identity: StationIdentity, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    (directory / STORE_NAME).chmod(mode)
    with contextlib.suppress(StoreUnwritable):
        Store.open(directory, identity).close()
    assert (f"chmod 600 {directory / STORE_NAME}" in caplog.text) == bool(mode & 0o077)


def test_create_keeps_a_store_that_is_there(directory: Path, identity: StationIdentity) -> None:
    before = contents(directory)
    with pytest.raises(StoreExists):
        Store.create(directory, identity)
    assert contents(directory) == before


def test_create_goes_over_what_a_killed_one_left(tmp_path: Path, identity: StationIdentity) -> None:
    (tmp_path / (STORE_NAME + ".new")).write_bytes(b"half made" * 1000)
    Store.create(tmp_path, identity)
    with Store.open(tmp_path, identity) as store:
        assert store.load() == DurableState()


def test_a_missing_store_is_not_made_anew(directory: Path, identity: StationIdentity) -> None:
    (directory / STORE_NAME).unlink()
    text = refused(directory, identity, StoreMissing)
    assert "never made in its place" in text and REMEDY in text
    assert not (directory / STORE_NAME).exists()


@pytest.mark.parametrize("content", [b"", b"garbage" * 2000, b"SQLite format 3\0"], ids=["empty", "garbage", "short"])
def test_garbage(directory: Path, identity: StationIdentity, content: bytes) -> None:
    (directory / STORE_NAME).write_bytes(content)
    assert REMEDY in refused(directory, identity, StoreForeign)


def test_another_programs_database(directory: Path, identity: StationIdentity) -> None:
    edit(directory, "PRAGMA application_id = 7")
    assert "another program" in refused(directory, identity, StoreForeign)


@pytest.mark.parametrize("version", [0, 5, -1])
def test_unknown_version(directory: Path, identity: StationIdentity, version: int) -> None:
    edit(directory, f"PRAGMA user_version = {version}")
    text = refused(directory, identity, StoreVersion)
    assert f"format {version}" in text and "Run the release that wrote it" in text


def test_newer_version_only_in_the_log_of_a_killed_process(directory: Path, identity: StationIdentity) -> None:
    crashed = directory / "crashed"
    crashed.mkdir()
    newer = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
    newer.execute("PRAGMA user_version = 5")
    for name in (STORE_NAME, STORE_NAME + "-wal"):
        shutil.copy(directory / name, crashed / name)
    newer.close()
    assert set(contents(crashed)) == {STORE_NAME, STORE_NAME + "-wal"}
    assert "format 5" in refused(crashed, identity, StoreVersion)


@pytest.mark.parametrize("change", [{"station_id": "south"}, {"slot": 2}, {"generation": 5}])
def test_another_stations_store(directory: Path, identity: StationIdentity, change: dict[str, object]) -> None:
    text = refused(directory, dataclasses.replace(identity, **change), StoreIdentity)  # type: ignore[arg-type]
    assert "'north'" in text and "f00df00df00df00d" in text


def filled(directory: Path, identity: StationIdentity, make_row: Callable[..., Row]) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(n, item=bytes(500)), n) for n in range(1, 200)])


def test_a_damaged_page(directory: Path, identity: StationIdentity, make_row: Callable[..., Row]) -> None:
    filled(directory, identity, make_row)
    path = directory / STORE_NAME
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(8192))
    text = refused(directory, identity, StoreDamaged)
    assert "do not start with an empty or an older one" in text and REMEDY in text


def test_a_cut_file(directory: Path, identity: StationIdentity, make_row: Callable[..., Row]) -> None:
    filled(directory, identity, make_row)
    os.truncate(directory / STORE_NAME, 5 * 4096)
    refused(directory, identity, StoreDamaged)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE message SET kind = 99 WHERE id % 7 = 0",
        "UPDATE message SET stamp = x'0102' WHERE id % 7 = 0",
        "DELETE FROM self",
    ],
)
def test_values_that_nobody_wrote(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row], statement: str
) -> None:
    filled(directory, identity, make_row)
    edit(directory, statement)
    with pytest.raises(StoreDamaged), Store.open(directory, identity) as store:
        store.load()


@pytest.mark.parametrize(
    ("name", "flipped"),
    [("moved_epoch", "mowed_epoch"), ("addressee", "addressed"), ("slot INTEGER PRIMARY", "slou INTEGER PRIMARY")],
)
def test_a_schema_that_nobody_wrote(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row], name: str, flipped: str
) -> None:
    """A bit of its text has flipped; whichever statement is the first to meet it."""
    connection = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (name, flipped))
    connection.close()
    with pytest.raises(StoreDamaged, match=r"damaged .*--rejoin"), Store.open(directory, identity) as store:
        store.load()
        store.commit([PutRow(make_row(1), 1)])


ITEM = b"head" + bytes(range(256)) * 20 + b"body"


def flip_a_bit(directory: Path, part: bytes) -> None:
    """One bit of the only place in the file where `part` stands; nothing else changes, and no check of SQLite minds."""
    path = directory / STORE_NAME
    content = bytearray(path.read_bytes())
    assert content.count(part) == 1
    content[content.index(part)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("part", [b"head", b"body"])
@pytest.mark.parametrize("where", ["log", "spools", "copied to the spools"])
def test_a_flipped_bit_of_an_item_is_never_given_out(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row], where: str, part: bytes
) -> None:
    key = (1 << 32 | 7, 9, 0)
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(n, item=b"another"), n) for n in (1, 2, 4)])
        if where != "spools":
            store.commit([PutRow(make_row(3, item=ITEM), 3)])
        if where != "log":
            given = None if where.startswith("copied") else ITEM
            store.commit([SpoolAdd(key, ((3, 1, 3, 0, (0, 0)),), (SpoolItem(1, 3, given, len(ITEM)),)), DropRows(1, 3)])
        assert store.load_item(1, 3) == ITEM
    edit(directory, "VACUUM")  # nothing is left of what was dropped
    flip_a_bit(directory, part)
    with Store.open(directory, identity) as store:
        store.load()
        assert store.load_item(1, 4) == b"another", "the others are served"
        with pytest.raises(StoreDamaged) as caught:
            store.load_item(1, 3)
    text = str(caught.value)
    assert "message (1, 3)" in text and str(directory / STORE_NAME) in text and "Put back an undamaged copy" in text


COLUMNS = "topic first second third message position cleared checksum"


@pytest.mark.parametrize("column", COLUMNS.split())
def test_a_flipped_bit_of_a_last_value_is_refused(directory: Path, identity: StationIdentity, column: str) -> None:
    value = LastValue(1 << 62 | 5, (1_795_000_000_000_000, 3, 0), 3, 70_000, 12, False)
    with Store.open(directory, identity) as store:
        store.commit([PutLast(value)])
        assert store.load().last == {value.topic: value}
    connection = sqlite3.connect(directory / STORE_NAME)
    assert {name for _, name, *_ in connection.execute("PRAGMA table_info(last_value)")} == set(COLUMNS.split())
    connection.close()
    edit(directory, f"UPDATE last_value SET {column} = {column} + 4")
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged, match=r"last_value.*checksum is wrong"):
        store.load()


def test_the_last_word_of_a_tick_on_a_topic_counts(directory: Path, identity: StationIdentity) -> None:
    old, new = (LastValue(7, (n, 1, 0), 1, n, n, False) for n in (1, 2))
    with Store.open(directory, identity) as store:
        store.commit([PutLast(old), PutLast(new), PutLast(replace(old, topic=8)), DropLast((8, 9))])
        assert store.load().last == {7: new}
        store.commit([DropLast((7,)), PutLast(old)])
        assert store.load().last == {7: old}


@pytest.mark.parametrize("item", ["x''", "'text'", "x'6974656d00'"])
@pytest.mark.parametrize("table", ["message", "spool_item"])
def test_an_item_of_another_length_or_type(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row], table: str, item: str
) -> None:
    with Store.open(directory, identity) as store:
        store.commit(
            [
                SpoolAdd((1, 1, 1), ((1, 2, 1, 0, (0, 0)),), (SpoolItem(2, 1, b"item", 4),)),
                PutRow(make_row(1, slot=2), 1),
            ]
        )
        if table == "spool_item":
            store.commit([DropRows(2, 1)])
    edit(directory, f"UPDATE {table} SET item = {item}")
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged, match=r"message \(2, 1\)"):
        store.load()
        store.load_item(2, 1)


def test_damage_met_by_a_commit_ends_the_process_and_not_the_data(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    filled(directory, identity, make_row)
    path = directory / STORE_NAME
    with Store.open(directory, identity) as store, path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(path.stat().st_size - 4096))
        with pytest.raises(StoreDamaged):
            store.commit([PutStart(1), PutRow(make_row(200), 200)])


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that another user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="roamcast-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def in_child_without_rights(work: Callable[[], None]) -> int:
    """Exit status of `work` in a forked child that is not root: 0 if it returned."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()
        status = 0
    except BaseException as error:
        print(f"in the child: {error!r}", flush=True)
    finally:
        os._exit(status)


def test_a_directory_that_cannot_be_written(open_to_all: Path, identity: StationIdentity) -> None:
    Store.create(open_to_all, identity)
    (open_to_all / STORE_NAME).chmod(0o444)
    open_to_all.chmod(0o555)

    def work() -> None:
        with pytest.raises(StoreUnwritable, match="cannot be written"):
            Store.open(open_to_all, identity)

    before = contents(open_to_all)
    assert in_child_without_rights(work) == 0
    assert contents(open_to_all) == before
    open_to_all.chmod(0o755)


def test_a_file_that_cannot_be_written(open_to_all: Path, identity: StationIdentity) -> None:
    Store.create(open_to_all, identity)
    (open_to_all / STORE_NAME).chmod(0o444)
    open_to_all.chmod(0o777)

    def work() -> None:
        with Store.open(open_to_all, identity) as store:
            with pytest.raises(StoreUnwritable):
                store.commit([PutStart(1)])
            assert store.load() == DurableState()

    assert in_child_without_rights(work) == 0
