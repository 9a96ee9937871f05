"""What the store holds of the group: records held for a retiring station, and what a flipped bit does to the rest."""

from __future__ import annotations

import runpy
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.membership.invitations import DropInvitation, Invitation, Newcomer, PutInvitation
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.settings import Settings
from roamcast.middleware.spool_writes import DropSpoolItems, SpoolAdd
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.writes import DropHeld, PutHeld, PutRecord, PutReservation, PutView, RecordImage
from roamcast.mss_station.errors import StoreDamaged
from roamcast.mss_station.store import STORE_NAME, StationIdentity, Store
from roamcast.transport.serving_codec import encode_item

CHILD = Path(__file__).parent / "children" / "commits.py"
RECORD: RecordImage = replace(runpy.run_path(str(CHILD))["RECORD"], state="open", arr=7, lastseq=40, shift=12)
VIEW = View((1, 2, 3), {2: (3, (0, 9)), 3: (0, ())}, {2: Ending(3, 9, (4, 0))}, frozenset([3]), frozenset([2]))
INVITATION = Invitation("k" * 40, 4, 1_000_000, Newcomer((1 << 64) - 1, "s" * 40))


def edit(directory: Path, statement: str) -> int:
    connection = sqlite3.connect(directory / STORE_NAME, isolation_level=None)
    changed = connection.execute(statement).rowcount
    connection.close()
    return changed


COLUMNS = {
    "group_view": "content checksum",
    "reservation": "slot generation checksum",
    "invitation": "key slot expires used_generation used_key checksum",
}


def test_every_column_of_the_schema_is_one_of_those_below(directory: Path) -> None:
    connection = sqlite3.connect(directory / STORE_NAME)
    for table, columns in COLUMNS.items():
        names = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        assert names - set(columns.split()) <= {"one"}
    connection.close()


@pytest.mark.parametrize("other", ["CASE typeof({0}) WHEN 'integer' THEN {0} + 1 ELSE {0} || ' ' END", "NULL", "x''"])
@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in COLUMNS.items() for c in columns.split()])
def test_one_other_value_and_the_store_is_refused(
    directory: Path, identity: StationIdentity, table: str, column: str, other: str
) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutView(VIEW), PutReservation(4, (1 << 64) - 2), PutInvitation(INVITATION)])
    try:
        assert edit(directory, f"UPDATE {table} SET {column} = {other.format(column)}") == 1
    except sqlite3.IntegrityError:
        return  # not even possible
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged, match=f"{table}.*checksum is wrong"):
        store.load()


@pytest.mark.parametrize("part", [b"[[1, 2, 3], [[2", b"k" * 40, b"s" * 40], ids=["view", "key", "newcomer"])
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_never_believed(directory: Path, identity: StationIdentity, part: bytes, bit: int) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutView(VIEW), PutInvitation(INVITATION)])
    path = directory / STORE_NAME
    content = bytearray(path.read_bytes())
    assert content.count(part) == 1
    content[content.index(part) + 2] ^= 1 << bit
    path.write_bytes(content)
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged):
        store.load()


def test_the_last_word_of_a_tick_counts(directory: Path, identity: StationIdentity) -> None:
    other = replace(INVITATION, key="o" * 40)
    with Store.open(directory, identity) as store:
        store.commit([PutView(VIEW), PutInvitation(INVITATION), PutInvitation(other), PutReservation(5, 1)])
        store.commit(
            [
                PutView(VIEW),
                PutView(View((1, 2))),
                PutReservation(5, 2),
                DropInvitation(other.key),
                PutInvitation(other),
                DropInvitation(INVITATION.key),
            ]
        )
        state = store.load()
        assert state.view == View((1, 2)) and state.reserved == {5: 2}
        assert state.invitations.invitations == {other.key: other}


def hold(store: Store) -> None:
    """The record is held for station 2, with two messages in its spool, one of them at a negative position."""
    items = (SpoolItem(2, 5, b"five", 4), SpoolItem(3, 6, b"six", 3))
    store.commit([PutHeld(2, RECORD), SpoolAdd(RECORD.key, ((-3, 2, 5, 0, (0, 0)), (9, 3, 6, 7, (2, 4))), items)])


def test_the_spool_of_a_held_record_is_nobody_elses(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        hold(store)
        image = store.load()
        assert image.held == {RECORD.key: (2, RECORD)} and not image.records
        core = StationCore(slot=1, founders=(1, 2), settings=Settings(), image=image, encode_item=encode_item)
        _, record = core.ledger.held[RECORD.key]
        assert [(entry.position, entry.item.n) for entry in record.spool] == [(-3, 5), (9, 6)]
        assert [(entry.item.topic, entry.item.sub) for entry in record.spool] == [(0, (0, 0)), (7, (2, 4))]
        assert len(core.ledger.spools) == 2, "its items are in use"
        assert store.load_item(2, 5) == b"five"


def test_the_heir_takes_the_spool_over_with_the_record(directory: Path, identity: StationIdentity) -> None:
    """Also under a record whose spool gets longer in the same tick, and if one is held again."""
    ours = replace(RECORD, base_c=-3)
    with Store.open(directory, identity) as store:
        hold(store)
        more = SpoolAdd(RECORD.key, ((10, 3, 7, 0, (0, 0)),), (SpoolItem(3, 7, b"seven", 5),))
        store.commit([DropHeld(RECORD.key, True), more, PutRecord(ours)])
        image = store.load()
        assert not image.held and image.records == {ours.key: ours}
        assert image.spools == {ours.key: [(-3, 2, 5, 0, (0, 0)), (9, 3, 6, 7, (2, 4)), (10, 3, 7, 0, (0, 0))]}
        store.commit([PutHeld(3, RECORD)])
        assert store.load().held == {RECORD.key: (3, RECORD)} and store.load().records == {ours.key: ours}


def test_what_is_held_no_more_goes_with_its_spool(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        hold(store)
        store.commit([DropHeld(RECORD.key, False), DropSpoolItems(((2, 5), (3, 6)))])
        image = store.load()
        assert not image.held and not image.spools and not image.items
        assert store.load_item(2, 5) is None
