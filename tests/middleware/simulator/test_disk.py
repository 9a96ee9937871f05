"""The disk: what a crash keeps, and the durability mutants."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from random import Random
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import (
    DropEntry,
    Entry,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.middleware.membership.invitations import DropInvitation, Invitation, PutInvitation
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.simulator.disk import Disk, DiskFault, copy_state, disk_faults
from roamcast.middleware.spool_writes import SpoolAdd
from roamcast.middleware.writes import (
    DropRows,
    DurableState,
    HostEntry,
    PlaceRow,
    PutHost,
    PutReservation,
    PutRow,
    PutStart,
)


@dataclass(frozen=True)
class Fact:
    value: int


@dataclass(frozen=True)
class Other:
    value: int


def disk(seed: int, *faults: DiskFault) -> Disk[list[int]]:
    def apply(state: list[int], facts: tuple[Any, ...]) -> None:
        state.extend(fact.value for fact in facts)

    return Disk([], apply, list, Random(seed), faults)


def test_synced_units_survive_and_of_the_others_a_prefix_of_whole_units() -> None:
    kept = []
    for seed in range(60):
        made = disk(seed)
        made.write((Fact(1), Fact(2)))
        made.sync()
        told: list[int] = []
        for first in (3, 5, 7):
            made.write((Fact(first), Fact(first + 1)), partial(told.append, first))
        made.crash()
        assert made.load() == list(range(1, 3 + 2 * len(told)))
        assert told == [3, 5, 7][: len(told)]
        kept.append(len(told))
    assert sorted(dict.fromkeys(kept)) == [0, 1, 2, 3]


def test_a_start_sees_nothing_unsynced_and_owns_its_copy() -> None:
    made = disk(1)
    made.write((Fact(1),))
    assert made.load() == []
    made.sync()
    made.load().append(99)
    assert made.load() == [1]


def test_forgotten_facts_are_lost_in_the_crash_and_only_there() -> None:
    made = disk(1, DiskFault("disk", "Fact"))
    made.write((Fact(1), Other(2)))
    made.sync()
    assert made.state == [1, 2]
    made.crash()
    assert made.load() == [2]
    made.crash()
    assert made.load() == [2]


def test_late_facts_are_lost_only_if_they_are_the_newest() -> None:
    lost = []
    for seed in range(40):
        made = disk(seed, DiskFault("late", "Fact"))
        for value in range(10):
            made.write((Fact(value),))
        made.sync()
        made.crash()
        lost.append(10 - len(made.load()))
    assert sorted(dict.fromkeys(lost)) == [1, 2, 3, 4]


def test_a_split_step_can_be_cut_in_its_middle() -> None:
    seen = []
    for seed in range(40):
        made = disk(seed, DiskFault("split", "Other"))
        made.write((Fact(1), Other(2), Fact(3)))
        made.crash()
        seen.append(len(made.load()))
    assert sorted(dict.fromkeys(seen)) == [0, 1, 2, 3]


def test_mutants_are_named_by_class_and_field() -> None:
    wanted = ["disk:PutRow", "late:PutRecord:state=moved", "agent-late:Acked", "no_query"]
    assert disk_faults(wanted, "station") == (
        DiskFault("disk", "PutRow"),
        DiskFault("late", "PutRecord", "state", "moved"),
    )
    (agent,) = disk_faults(wanted, "agent")
    assert agent == DiskFault("late", "Acked")
    host = PutHost(HostEntry(1, 0, (0, 0, 0), gone=True))
    assert not agent.hits(host)
    assert DiskFault("disk", "PutStart", "starts", "3").hits(PutStart(3))
    assert not DiskFault("disk", "PutStart", "starts", "3").hits(PutStart(4))


def test_a_wiped_disk_holds_what_it_was_given() -> None:
    made = disk(1)
    made.write((Fact(1),))
    made.reset([7])
    made.crash()
    assert made.load() == [7]


ENTRY = Entry("k", Version(5, 0, "a", 1), b"")
LAN = (PutEntry(ENTRY), PutAlive(5), PutFound(ENTRY, 5), PutHistory(ENTRY, 5))


def full_state() -> DurableState:
    state = DurableState()
    row = Row(1, 1, (), 5, Kind.BROADCAST, 9, 8, 1, (1, 0), 0, b"item", 4)
    key = (9, 8, 0)
    state.apply(
        (
            PutStart(3),
            PutRow(row),
            PlaceRow(1, 1, 4, 5),
            DropRows(2, 0),
            PutHost(HostEntry(9, 8, (5, 1, 1), gone=False)),
            SpoolAdd(key, ((-1, 1, 1),), (SpoolItem(1, 1, b"item", 4),)),
            PutReservation(3, 7),
            PutInvitation(Invitation("key", 3, 8)),
            *LAN,
        )
    )
    return state


@pytest.mark.parametrize("name", [field.name for field in fields(DurableState)])
def test_a_copy_of_a_store_has_everything_and_shares_nothing_that_changes(name: str) -> None:
    state = full_state()
    copy = copy_state(state)
    assert getattr(copy, name) == getattr(state, name)
    copy.apply((PutStart(4), DropRows(1, 1), PutHost(HostEntry(10, 0, (0, 0, 0), gone=True))))
    later = replace(ENTRY, version=Version(6, 0, "a", 1))
    copy.apply((PutReservation(4, 7), DropInvitation("key"), DropEntry("k"), PutFound(ENTRY, 9), PutHistory(later, 9)))
    copy.spools[9, 8, 0].clear()
    copy.items.clear()
    copy.last_position, copy.hlc = 100, 100
    assert getattr(state, name) == getattr(full_state(), name)
