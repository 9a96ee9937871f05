"""Rows whose item is elsewhere, in the store: they come back as such, give no item to anybody, and are filled once."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.writes import DropRows, DurableState, PlaceRow, PutBody, PutItems, PutRow, Write
from roamcast.mss_station.errors import StoreDamaged
from roamcast.mss_station.item_budget import ROW_BYTES, ItemBudget
from roamcast.mss_station.store import StationIdentity, Store

MakeRow = Callable[..., Row]


@pytest.fixture
def store(directory: Path, identity: StationIdentity) -> Iterator[Store]:
    with Store.open(directory, identity) as store:
        yield store


@pytest.fixture
def lean(make_row: MakeRow) -> Row:
    return replace(make_row(1), item=None, size=4, lean=True)


def model(*writes: Write) -> DurableState:
    state = DurableState()
    state.apply(writes)
    return state


def without_items(state: DurableState) -> dict[tuple[int, int], Row]:
    return {ident: replace(row, item=None) for ident, row in state.rows.items()}


def test_a_lean_row_comes_back_lean_and_has_no_item_to_give(store: Store, lean: Row, make_row: MakeRow) -> None:
    writes = (PutRow(lean), PutRow(make_row(2)), PlaceRow(1, 1, 1, 9))
    store.commit(writes)
    assert without_items(store.load()) == without_items(model(*writes))
    assert store.load().rows[1, 1].lean
    assert store.load_item(1, 1) is None
    assert store.load_item(1, 2) == b"item"


@pytest.mark.parametrize("ticks", [1, 2])
def test_a_body_makes_it_whole(store: Store, lean: Row, ticks: int) -> None:
    writes: tuple[Write, ...] = (PutRow(lean), PutBody(lean, b"body"))
    for part in (writes,) if ticks == 1 else ((writes[0],), (writes[1],)):
        store.commit(part)
    assert without_items(store.load()) == without_items(model(*writes))
    assert not store.load().rows[1, 1].lean
    assert store.load_item(1, 1) == b"body"


@pytest.mark.parametrize("seed", range(4))
def test_random_rows_and_bodies_are_as_in_the_model(
    store: Store, directory: Path, identity: StationIdentity, make_row: MakeRow, seed: int
) -> None:
    rng, state = random.Random(seed), DurableState()
    bodies: dict[tuple[int, int], bytes] = {}
    stored = floor = 0
    for _ in range(40):
        writes: list[Write] = []
        for _ in range(rng.randint(1, 6)):
            waiting = [row for row in state.rows.values() if row.lean]
            if waiting and rng.random() < 0.4:
                row = rng.choice(waiting)
                writes.append(PutBody(row, bodies[row.id]))
            elif stored - floor > 9:
                floor += rng.randint(1, 5)
                writes.append(DropRows(1, floor))
            else:
                stored += 1
                row = make_row(stored, item=rng.randbytes(rng.choice((1, 20, 9_000))))
                bodies[row.id] = row.item or b""
                lean = rng.random() < 0.6
                writes.append(PutRow(replace(row, item=None, lean=True) if lean else row, stored))
            state.apply((writes[-1],))
        store.commit(writes)
        loaded = store.load()
        assert without_items(loaded) == without_items(state)
        for ident, row in state.rows.items():
            assert store.load_item(*ident) == (None if row.lean else bodies[ident])


def test_a_body_that_does_not_fit_or_comes_twice_is_a_fault_of_ours(store: Store, lean: Row) -> None:
    store.commit((PutRow(lean),))
    with pytest.raises(InvariantError):
        store.commit((PutBody(lean, b"longer"),))
    store.commit((PutBody(lean, b"body"),))
    with pytest.raises(InvariantError):
        store.commit((PutBody(lean, b"ydob"),))
    assert store.load_item(1, 1) == b"body"


def test_only_a_lean_row_is_put_without_its_item(store: Store, make_row: MakeRow) -> None:
    with pytest.raises(InvariantError):
        store.commit((PutRow(replace(make_row(1), item=None)),))


def test_no_empty_item_is_copied_from_it_to_the_spools(store: Store, lean: Row) -> None:
    store.commit((PutRow(lean),))
    with pytest.raises(InvariantError):
        store.commit((PutItems((SpoolItem(1, 1, None, 4),)),))
    store.commit((PutItems((SpoolItem(1, 1, b"body", 4),)),))
    assert store.load_item(1, 1) == b"body", "a spool has it, which came with custody"
    assert store.load().rows[1, 1].lean


def test_it_is_dropped_like_any_other(store: Store, lean: Row, make_row: MakeRow) -> None:
    store.commit((PutRow(lean), PutRow(make_row(2)), PlaceRow(1, 1, 1, 9), PlaceRow(1, 2, 2, 9)))
    store.commit((DropRows(1, 1),))
    assert list(store.load().rows) == [(1, 2)]


def test_a_row_that_has_an_item_and_says_that_it_is_elsewhere_is_damaged(
    directory: Path, identity: StationIdentity, make_row: MakeRow
) -> None:
    with Store.open(directory, identity) as store:
        store.commit((PutRow(make_row(1)),))
    with sqlite3.connect(directory / "station.db") as connection:
        connection.execute("UPDATE message SET checksum = -4")
    connection.close()
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged):
        store.load()


def test_a_body_that_came_counts_in_the_budget_of_items(lean: Row, make_row: MakeRow) -> None:
    budget = ItemBudget(2 * ROW_BYTES + 7)
    budget.committed([PutRow(lean)])
    assert budget.bytes_held == 0
    lean.item, lean.lean = b"body", False
    budget.committed([PutBody(lean, b"body")])
    assert budget.bytes_held == ROW_BYTES + 4
    budget.committed([PutRow(make_row(2))])
    assert (lean.item, lean.size) == (None, 4)
