"""The tail of the delivery log lies in the store: with what it tells, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.rows import Row
from roamcast.middleware.writes import PlaceRow, PutRow
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


def test_a_store_of_the_format_before_is_raised_with_all_that_it_holds(
    directory: Path, identity: StationIdentity, make_row: Callable[..., Row]
) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(1), 1)])
        before = store.load()
    connection = sqlite3.connect(directory / STORE_NAME)
    connection.executescript("DROP TABLE log_tail; PRAGMA user_version = 1")
    connection.close()
    for _ in range(2):
        with Store.open(directory, identity) as store:
            assert store.load() == before
            store.commit([PutTail(1, b"a"), DropTail(1)])


def test_a_tail_of_format_2_is_packed_otherwise_and_goes(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutTail(1, b"a")])
    connection = sqlite3.connect(directory / STORE_NAME)
    connection.executescript("PRAGMA user_version = 2")
    connection.close()
    with Store.open(directory, identity) as store:
        assert store.load_tail() == []
