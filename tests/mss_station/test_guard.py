"""Commits that fail: what is taken in which state, when it is tried again, what the operator is told."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.settings import SECOND
from roamcast.middleware.writes import PutRow, PutStart
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.mss_station.tally import Tally

IDENTITY = StationIdentity("s1", 1, 5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    Store.create(tmp_path, IDENTITY)
    with Store.open(tmp_path, IDENTITY) as store:
        yield store


def guard_of(store: Store) -> StoreGuard:
    return StoreGuard(store, 3, Tally(), KillPoint(), lambda: 77)


def row(n: int, size: int = 10) -> PutRow:
    return PutRow(Row(1, n, (), 0, Kind.BROADCAST, 1, 1, n, (1, 0), 0, b"x" * size, size), n)


def limit_pages(store: Store, more: int) -> None:
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + more}")


def test_a_commit_that_goes_through_is_timed(store: Store) -> None:
    guard = guard_of(store)
    assert guard.commit([row(1)], 0)
    assert (guard.state, guard.reason) == ("open", None)
    assert not guard.probe(10 * SECOND)


def test_no_room_gives_up_the_reserve_and_comes_back_when_it_can_be_made_again(store: Store) -> None:
    guard = guard_of(store)
    limit_pages(store, 2)
    assert not guard.commit([row(1, 100_000)], 0)
    assert guard.state == "reserve" and "full" in str(guard.reason) and guard.since == 77
    assert not store.has_reserve()
    assert guard.commit([PutStart(3)], 1), "what is small still commits"
    assert not guard.probe(SECOND - 1)
    assert guard.probe(SECOND), "the volume has room, so the reserve is made again"
    assert guard.state == "open" and guard.reason is None and store.has_reserve()


def test_no_room_in_spite_of_the_reserve_closes(store: Store) -> None:
    guard = guard_of(store)
    limit_pages(store, 2)
    assert not guard.commit([row(1, 100_000)], 0)
    assert not guard.commit([row(1, 100_000)], 1)
    assert guard.state == "closed"
    limit_pages(store, 100)
    assert guard.probe(SECOND + 1) and guard.state == "open"
    assert guard.commit([row(1, 100_000)], SECOND + 2)


def test_another_writer_closes_and_the_operator_is_told_at_once_and_every_ten_seconds(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guard_of(store)
    other = sqlite3.connect(tmp_path / "station.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.WARNING, "roamcast.station"):
        assert not guard.commit([row(1)], 0)
        assert guard.state == "closed"
        assert len(caplog.records) == 1
        for second in range(1, 4):
            assert not guard.probe(second * SECOND)
        assert len(caplog.records) == 1
        assert not guard.probe(10 * SECOND)
        assert len(caplog.records) == 2 and "lock" in caplog.text
        other.execute("ROLLBACK")
        other.close()
        assert guard.probe(11 * SECOND)
        assert "works_again" in caplog.text
    assert guard.commit([row(1)], 12 * SECOND)
