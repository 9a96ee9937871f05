"""The store holds what `DurableState` holds after the same writes."""

from __future__ import annotations

import dataclasses
import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.lan_update.records import HISTORY_MAX, LanImage
from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.spool_writes import PutItems, SpoolAdd
from roamcast.middleware.writes import DropRows, DurableState, PlaceRow, PutLastSeq, PutRow, PutStart, Write
from roamcast.mss_station.store import StationIdentity, Store, read_found, read_history, read_lan

WORKLOAD = runpy.run_path(str(Path(__file__).with_name("workload.py")))
LAN_KEYS: tuple[str, ...] = WORKLOAD["LAN_KEYS"]


def stored_form(image: DurableState) -> dict[str, Any]:
    """The image as `load` gives it: items stay in the store, empty spools have no entry."""
    form = {field.name: getattr(image, field.name) for field in dataclasses.fields(DurableState)}
    form["rows"] = {i: dataclasses.replace(row, item=None if row.size else b"") for i, row in image.rows.items()}
    form["items"] = {i: dataclasses.replace(it, item=None if it.size else b"") for i, it in image.items.items()}
    form["spools"] = {key: spool for key, spool in image.spools.items() if spool}
    form["lan"] = LanImage(dict(image.lan.entries), image.lan.alive, [], dict(image.lan.history))
    for key in image.lan.history:
        form["lan"].forget(key)
    return form


def check(store: Store, directory: Path, workload: Any) -> set[str]:
    """Compare all; returns the names of what was not empty."""
    loaded, expected = stored_form(store.load()), stored_form(workload.image)
    for name, value in expected.items():
        assert loaded[name] == value, name
    lan = workload.image.lan
    expected |= {f"lan.{field.name}": getattr(lan, field.name) for field in dataclasses.fields(LanImage)}
    expected["invitations"] = expected["invitations"].invitations
    assert read_lan(directory) == loaded["lan"]
    assert read_found(directory) == lan.found and store.found_count() == len(lan.found)
    for key in LAN_KEYS:
        assert read_history(directory, key) == [line for _, line in sorted(lan.history.get(key, {}).items())]
    for message, item in workload.bytes_of.items():
        kept = message in workload.image.rows or message in workload.image.items
        assert store.load_item(*message) == (item if kept else None), message
    (orphans,) = store._connection.execute(
        "SELECT (SELECT count(*) FROM record_lastseq) - (SELECT count(*) FROM record)"
    ).fetchone()
    assert orphans == 0
    return {name for name, value in expected.items() if value}


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, None])
def test_same_as_the_image_after_random_writes(directory: Path, identity: StationIdentity, seed: int | None) -> None:
    is_known = seed is not None
    seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    print("seed", seed)
    workload = WORKLOAD["Workload"](seed)
    seen: set[str] = set()
    store = Store.open(directory, identity, durability="process")
    for step in range(150):
        store.commit(workload.batch())
        if workload.rng.random() < 0.1:
            store.close()
            store = Store.open(directory, identity, durability="process")
        if step % 10 == 0:
            seen |= check(store, directory, workload)
    check(store, directory, workload)
    store.close()
    lan = {f"lan.{field.name}" for field in dataclasses.fields(LanImage)}
    if not is_known:
        return  # it has not been seen that these writes come across everything
    assert seen == {field.name for field in dataclasses.fields(DurableState)} | lan
    assert any(len(lines) == HISTORY_MAX for lines in workload.image.lan.history.values())


@pytest.mark.parametrize("seed", [1, 2, 3, None])
def test_same_as_the_image_of_a_newcomer(directory: Path, identity: StationIdentity, seed: int | None) -> None:
    is_known = seed is not None
    seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    print("seed", seed)
    workload = WORKLOAD["Joining"](seed)
    seen: set[str] = set()
    store = Store.open(directory, identity, durability="process")
    for step in range(150):
        store.commit(workload.batch())
        if workload.rng.random() < 0.1:
            store.close()
            store = Store.open(directory, identity, durability="process")
        if step % 4 == 0:
            seen |= check(store, directory, workload)
    store.close()
    assert not is_known or seen >= {"rows", "streams", "last_position", "hlc", "hosts", "view", "last", "items"}


def test_a_tick_may_accept_spool_and_drop_one_row(directory: Path, identity: StationIdentity, make_row: Any) -> None:
    key = (1 << 32 | 7, 9, 0)
    with Store.open(directory, identity) as store:
        row = make_row(1)
        store.commit(
            [PutRow(row, 1), SpoolAdd(key, ((1, 1, 1, 7, (2, 3)),), (SpoolItem(1, 1, None, 4),)), DropRows(1, 1)]
        )
        image = store.load()
        assert image.rows == {} and image.streams[1].floor == 1
        assert image.spools == {key: [(1, 1, 1, 7, (2, 3))]} and image.items == {(1, 1): SpoolItem(1, 1, None, 4)}
        assert store.load_item(1, 1) == b"item"


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(PlaceRow(1, 2, 2, 5), id="place a row that is not there"),
        pytest.param(PutLastSeq((1, 1, 1), 1, (1, 1)), id="lastseq of no record"),
        pytest.param(SpoolAdd((1, 1, 1), ((1, 2, 2, 0, (0, 0)),), (SpoolItem(2, 2, None, 1),)), id="item from nowhere"),
        pytest.param(PutItems((SpoolItem(2, 2, None, 1),)), id="last value from nowhere"),
        pytest.param(
            SpoolAdd((1, 1, 1), ((1, 1, 1, 0, (0, 0)), (1, 1, 1, 0, (0, 0))), ()), id="two entries at one position"
        ),
    ],
)
def test_writes_against_the_store_are_a_bug_and_change_nothing(
    directory: Path, identity: StationIdentity, make_row: Any, second: Write
) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(1), 1)])
        before = store.load()
        with pytest.raises(InvariantError):
            store.commit([PutRow(make_row(3, slot=2), 2), PutStart(9), second])
        assert store.load() == before


def test_a_position_is_given_once(directory: Path, identity: StationIdentity, make_row: Any) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutRow(make_row(1), 1)])
        with pytest.raises(InvariantError):
            store.commit([PutRow(make_row(2), 1)])
        with pytest.raises(InvariantError):
            store.commit([PutRow(make_row(1), 2)])
        assert store.load().last_position == 1


def test_a_row_without_its_item_or_beyond_the_key_is_a_bug(
    directory: Path, identity: StationIdentity, make_row: Any
) -> None:
    with Store.open(directory, identity) as store:
        for bad in (dataclasses.replace(make_row(1), item=None), make_row(1 << 40), make_row(1, slot=1 << 23)):
            with pytest.raises(InvariantError):
                store.commit([PutRow(bad)])
        assert store.load() == DurableState()


def test_many_rows_go_at_once_for_a_reader_and_little_by_little_from_the_file(
    directory: Path, identity: StationIdentity, make_row: Any
) -> None:
    def count(store: Store) -> int:
        (rows,) = store._connection.execute("SELECT count(*) FROM message").fetchone()
        return int(rows)

    store = Store.open(directory, identity)
    store.commit([PutRow(make_row(n), n) for n in range(1, 3001)])
    store.commit([PutRow(make_row(1, slot=2), 3001), DropRows(1, 2990), DropRows(2, 1)])
    assert 1000 < count(store) < 3000
    expected = [(1, n) for n in range(2991, 3001)]
    assert sorted(store.load().rows) == expected
    store.commit([DropRows(1, 2980)])
    assert store.load().streams[1].floor == 2990
    store.close()
    with Store.open(directory, identity) as store:
        assert sorted(store.load().rows) == expected
        assert count(store) > len(expected)
        steps = 1
        while store.remove_dropped():
            steps += 1
        assert steps < 4 and count(store) == len(expected)
        store.commit([DropRows(1, 5)])
        assert not store.remove_dropped()
        assert sorted(store.load().rows) == expected
