"""The store holds what `DurableState` holds after the same writes."""

from __future__ import annotations

import dataclasses
import os
import random
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.rows import Kind, MessageId, Row, SpoolItem
from roamcast.middleware.writes import (
    DropRecord,
    DropRows,
    DropSpoolItems,
    DurableState,
    HostEntry,
    PlaceRow,
    PutHost,
    PutLastSeq,
    PutRecord,
    PutRow,
    PutStart,
    RecordImage,
    RecordKey,
    SpoolAdd,
    SpoolMove,
    SpoolRenumber,
    SpoolTrim,
    Write,
)
from roamcast.mss_station.store import StationIdentity, Store

SLOTS = 4


def any_value(rng: random.Random, hint: Any) -> Any:
    """A value of a field's type, so that a field added later is tested too."""
    if hint is bool:
        return rng.random() < 0.5
    if hint is int:
        return rng.randrange(1 << rng.randrange(1, 63))
    if hint is str:
        return rng.choice(["", "open", "höst"])
    if hint is bytes:
        return rng.randbytes(rng.randrange(4))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is types.UnionType:
        return any_value(rng, rng.choice(arguments)) if rng.random() < 0.7 else None
    if hint is types.NoneType:
        return None
    assert typing.get_origin(hint) is tuple, f"no values for {hint}"
    if arguments[-1] is Ellipsis:
        return tuple(any_value(rng, arguments[0]) for _ in range(rng.randrange(5)))
    return tuple(any_value(rng, argument) for argument in arguments)


def any_instance(rng: random.Random, kind: type, /, **given: Any) -> Any:
    """An instance of a dataclass with `given` fields, the others at random."""
    hints = typing.get_type_hints(kind)
    values = {f.name: any_value(rng, hints[f.name]) for f in dataclasses.fields(kind) if f.name not in given}
    return kind(**values, **given)


class Workload:
    """Random writes that a core could ask for; `image` is what they make."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.image = DurableState()
        self.bytes_of: dict[MessageId, bytes] = {}
        hosts = [(rng_slot << 32 | 1, incarnation) for rng_slot, incarnation in ((0, 0), (1, 1), (2, (1 << 64) - 1))]
        self.keys: list[RecordKey] = [(*mh, arr) for mh in hosts for arr in (0, 5, 9)]
        self.makers = (
            *(self.put_row,) * 8,
            *(self.place_row,) * 3,
            self.drop_rows,
            self.put_record,
            self.drop_record,
            *(self.put_lastseq,) * 3,
            *(self.spool_add,) * 4,
            self.spool_trim,
            self.spool_renumber,
            self.spool_move,
            self.drop_items,
            self.put_host,
            self.put_start,
        )

    def batch(self) -> list[Write]:
        writes: list[Write] = []
        for _ in range(self.rng.choice((1, 3, 10, 30))):
            write = self.rng.choice(self.makers)()
            if write is not None:
                writes.append(write)
                self.image.apply((write,))
        return writes

    def next_position(self) -> int:
        return self.image.last_position + self.rng.choice((1, 1, 3))

    def put_row(self) -> Write:
        rng, slot = self.rng, self.rng.randrange(SLOTS)
        stream = self.image.streams.get(slot)
        n = (stream.stored if stream else 0) + 1
        item = rng.randbytes(rng.choice((0, 20, 9_000)))
        self.bytes_of[slot, n] = item
        row: Row = any_instance(
            rng,
            Row,
            slot=slot,
            n=n,
            stamp=tuple((k, rng.randrange(1 << 50)) for k in range(SLOTS) if rng.random() < 0.5),
            kind=rng.choice(list(Kind)),
            incarnation=rng.getrandbits(64),
            taken=(rng.randrange(100), rng.randrange(-100, 100)),
            item=item,
            size=len(item),
            position=None,
        )
        return PutRow(row, self.next_position() if rng.random() < 0.7 else None)

    def place_row(self) -> Write | None:
        waiting = [row.id for row in self.image.rows.values() if row.position is None]
        if not waiting:
            return None
        return PlaceRow(*self.rng.choice(waiting), self.next_position(), self.rng.randrange(1 << 50))

    def drop_rows(self) -> Write | None:
        slot = self.rng.randrange(SLOTS)
        stream = self.image.streams.get(slot)
        return DropRows(slot, self.rng.randint(stream.floor, stream.stored)) if stream else None

    def put_record(self) -> Write:
        number, incarnation, arr = self.rng.choice(self.keys)
        image: RecordImage = any_instance(
            self.rng, RecordImage, mh=(number, incarnation), arr=arr, base_c=self.rng.randrange(-9, 9)
        )
        return PutRecord(image)

    def drop_record(self) -> Write:
        return DropRecord(self.rng.choice(self.keys))

    def put_lastseq(self) -> Write | None:
        if not self.image.records:
            return None
        return PutLastSeq(
            self.rng.choice(list(self.image.records)), self.rng.randrange(99), (1, self.rng.randrange(99))
        )

    def spool_add(self) -> Write | None:
        rng, key = self.rng, self.rng.choice(self.keys)
        if not self.image.rows:
            return None
        spool = self.image.spools.get(key)
        pos = spool[-1][0] if spool else -50
        entries, items = [], []
        for slot, n in rng.sample(sorted(self.image.rows), rng.randint(1, min(5, len(self.image.rows)))):
            pos += rng.randint(1, 3)
            entries.append((pos, slot, n))
            if (slot, n) not in self.image.items:
                item = self.bytes_of[slot, n]
                items.append(SpoolItem(slot, n, item if rng.random() < 0.5 else None, len(item)))
        return SpoolAdd(key, tuple(entries), tuple(items))

    def spool_trim(self) -> Write:
        key = self.rng.choice(self.keys)
        spool = self.image.spools.get(key) or [(0, 0, 0)]
        return SpoolTrim(key, self.rng.choice(spool)[0])

    def spool_renumber(self) -> Write:
        return SpoolRenumber(self.rng.choice(self.keys))

    def spool_move(self) -> Write | None:
        free = [key for key in self.keys if not self.image.spools.get(key)]
        return SpoolMove(self.rng.choice(self.keys), self.rng.choice(free)) if free else None

    def drop_items(self) -> Write | None:
        if not self.image.items:
            return None
        ids = sorted(self.image.items)
        return DropSpoolItems(tuple(self.rng.sample(ids, self.rng.randint(1, min(3, len(ids))))))

    def put_host(self) -> Write:
        replaced = tuple(self.rng.getrandbits(64) for _ in range(self.rng.randrange(3)))
        entry: HostEntry = any_instance(
            self.rng, HostEntry, number=self.rng.randrange(5), incarnation=self.rng.getrandbits(64), replaced=replaced
        )
        return PutHost(entry)

    def put_start(self) -> Write:
        return PutStart(self.image.starts + 1)


def stored_form(image: DurableState) -> dict[str, Any]:
    """The image as `load` gives it: items stay in the store, empty spools have no entry."""
    form = {field.name: getattr(image, field.name) for field in dataclasses.fields(DurableState)}
    form["rows"] = {i: dataclasses.replace(row, item=None if row.size else b"") for i, row in image.rows.items()}
    form["items"] = {i: dataclasses.replace(it, item=None if it.size else b"") for i, it in image.items.items()}
    form["spools"] = {key: spool for key, spool in image.spools.items() if spool}
    return form


def check(store: Store, workload: Workload) -> set[str]:
    """Compare all; returns the names of what was not empty."""
    loaded, expected = stored_form(store.load()), stored_form(workload.image)
    for name, value in expected.items():
        assert loaded[name] == value, name
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
    seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    print("seed", seed)
    workload = Workload(seed)
    seen: set[str] = set()
    store = Store.open(directory, identity, durability="process")
    for step in range(150):
        store.commit(workload.batch())
        if workload.rng.random() < 0.1:
            store.close()
            store = Store.open(directory, identity, durability="process")
        if step % 10 == 0:
            seen |= check(store, workload)
    check(store, workload)
    store.close()
    assert seen == {field.name for field in dataclasses.fields(DurableState)}


def test_a_tick_may_accept_spool_and_drop_one_row(directory: Path, identity: StationIdentity, make_row: Any) -> None:
    key = (1 << 32 | 7, 9, 0)
    with Store.open(directory, identity) as store:
        row = make_row(1)
        store.commit([PutRow(row, 1), SpoolAdd(key, ((1, 1, 1),), (SpoolItem(1, 1, None, 4),)), DropRows(1, 1)])
        image = store.load()
        assert image.rows == {} and image.streams[1].floor == 1
        assert image.spools == {key: [(1, 1, 1)]} and image.items == {(1, 1): SpoolItem(1, 1, None, 4)}
        assert store.load_item(1, 1) == b"item"


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(PlaceRow(1, 2, 2, 5), id="place a row that is not there"),
        pytest.param(PutLastSeq((1, 1, 1), 1, (1, 1)), id="lastseq of no record"),
        pytest.param(SpoolAdd((1, 1, 1), ((1, 2, 2),), (SpoolItem(2, 2, None, 1),)), id="item from nowhere"),
        pytest.param(SpoolAdd((1, 1, 1), ((1, 1, 1), (1, 1, 1)), ()), id="two entries at one position"),
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
