"""The tail of the delivery log lies in the store: with what it tells, or not at all. Stores of older formats."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.spool_writes import SpoolAdd
from roamcast.middleware.writes import DropLast, LastValue, PlaceRow, PutLast, PutRow
from roamcast.mss_station.store import STORE_NAME, DropTail, PutTail, StationIdentity, Store


def test_what_was_put_is_there_until_it_is_dropped(directory: Path, identity: StationIdentity) -> None:
    tail = [PutTail(1, b"a"), PutTail(2, b"b"), PutTail(3, b"c")]
    with Store.open(directory, identity) as store:
        for each in tail:
            store.commit([each])
        store.commit([DropTail(2)])
        assert store.load_tail() == tail[2:]
    with Store.open(directory, identity) as store:
        assert store.load_tail() == tail[2:]


def test_it_is_rolled_back_with_what_it_tells(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    with Store.open(directory, identity) as store:
        with pytest.raises(InvariantError):
            store.commit([PutRow(make_row(1)), PlaceRow(1, 7, 1, 0), PutTail(1, b"a")])
        assert store.load_tail() == []


MAIL_TABLES = ("count", "record", "out", "held", "inbox", "ends", "acked", "retired", "lost")
LOWER = {
    3: "DROP TABLE last_value; ALTER TABLE spool DROP COLUMN topic; ALTER TABLE spool DROP COLUMN sub;"
    + "".join(f"DROP TABLE mail_{name};" for name in MAIL_TABLES),
    2: "",
    1: "DROP TABLE log_tail;",
}
"""What makes of the format above this one."""


def lower(directory: Path, version: int) -> None:
    """Make the store one of an older format."""
    connection = sqlite3.connect(directory / STORE_NAME)
    for each in range(3, version - 1, -1):
        connection.executescript(LOWER[each])
    connection.executescript(f"PRAGMA user_version = {version}")
    connection.close()


def schema(directory: Path) -> dict[str, list[tuple[object, ...]]]:
    """Table -> its columns."""
    connection = sqlite3.connect(directory / STORE_NAME)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in sorted(tables)}
    connection.close()
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_store_of_a_format_before_is_raised_with_all_that_it_holds(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row], version: int
) -> None:
    fresh, key = schema(directory), (1 << 32 | 7, 9, 0)
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(1), 1), SpoolAdd(key, ((-1, 1, 1, 0, (0, 0)),), (SpoolItem(1, 1, None, 4),))])
        before = store.load()
    lower(directory, version)
    assert schema(directory) != fresh or version == 2
    value = LastValue(7, (5, 1, 0), 1, 1, 1, False)
    for _ in range(2):
        with Store.open(directory, identity) as store:
            assert store.load() == before
            store.commit([PutTail(1, b"a"), DropTail(1), PutLast(value)])
            assert store.load().last == {7: value}
            store.commit([DropLast((7,))])
        assert schema(directory) == fresh


def test_a_tail_of_format_2_is_packed_otherwise_and_goes(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutTail(1, b"a")])
    lower(directory, 2)
    with Store.open(directory, identity) as store:
        assert store.load_tail() == []
