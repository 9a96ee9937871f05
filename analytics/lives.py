"""Live messages of a run as arrays, and what came before each: by what stations handed down before they took it.

Source: docs/protocols/delta-causal.md, B.b; docs/protocols/audit.md, 'Live messages'. Everything live is over after
delta, so a run is cut into *parts* by stamps; a part has the two deltas before it along, and is judged by itself.
A message is known by its key: stamp << 10 | slot, which sorts in causal order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, place_of, starts_of
from roamcast.analytics.streams import ragged
from roamcast.analytics.tables import PLACE_SHIFT, Flags, Ints, Tables

SLOT_BITS = 10
PART_ROWS, PART_CELLS = 400_000, 4_000_000
"""Rows of a part, and rows times stations that are named: 8 bytes for each of these, some times over."""
OVERLAP_MAX = 600_000_000
"""us. A station that lies about delta makes no part much larger."""
ROUNDS_MAX = 64
"""How many stations and hosts a chain of messages may run through within two deltas."""


def live_key(slot: Ints, stamp: Ints) -> Ints:
    """One number for a live message."""
    key: Ints = (stamp << SLOT_BITS) | slot
    return key


def live_name(key: int) -> str:
    """As people write it."""
    return f"live message {key & ((1 << SLOT_BITS) - 1)}:{key >> SLOT_BITS}"


@dataclass(frozen=True, slots=True)
class Part:
    """Stamps from `first` up to `end` are judged; what is stamped from `low` on is looked at."""

    low: int
    first: int
    end: int


class LiveTables:
    """The tables, or those rows of them that are stamped in a part."""

    def __init__(self, made: Tables) -> None:
        self.lives, self.handed, self.heard = (made[name] for name in ("lives", "handed", "heard"))

    @property
    def any(self) -> bool:
        """Whether something live is told of at all."""
        return any(len(each) for each in (self.lives, self.handed, self.heard))

    def parts(self, rows_max: int = PART_ROWS) -> list[Part]:
        """All of them."""
        if not self.any:
            return []
        named = np.unique(np.concatenate([tables.column(each, "slot") for each in self._all()]))
        past = ragged(self.lives, "past")[1][::2]
        rows_max = max(1, min(rows_max, PART_CELLS // len(np.union1d(named, past))))
        stamps = np.sort(np.concatenate([tables.column(each, "stamp") for each in self._all()]))
        overlap = min(2 * int(tables.column(self.lives, "delta").max(initial=0)), OVERLAP_MAX)
        cuts = np.unique(stamps[::rows_max]).tolist()
        return [Part(first - overlap, first, end) for first, end in pairwise([*cuts, int(stamps[-1]) + 1])]

    def of(self, part: Part) -> LiveTables:
        """Its rows."""
        made = []
        for each in self._all():
            stamp = tables.column(each, "stamp")
            keep = (stamp >= part.low) & (stamp < part.end)
            made.append(each if keep.all() else each.filter(pa.array(keep)))
        return LiveTables(dict(zip(("lives", "handed", "heard"), made, strict=True)))

    def _all(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        return self.lives, self.handed, self.heard


class Lives:
    """A part."""

    def __init__(self, made: LiveTables, journaled: Flags) -> None:
        """journaled: per client, whether its journal is used."""
        lives = made.lives
        first = starts_of(live_key(*(tables.column(lives, name) for name in ("slot", "stamp"))))
        lives = lives.take(pa.array(first)) if len(first) < len(lives) else lives
        self.slot, self.stamp, self.client, self.e, self.number, self.kind, self.addressee, self.log = (
            tables.column(lives, name)
            for name in ("slot", "stamp", "client", "e", "number", "kind", "addressee", "log")
        )
        self.delta, self.deadline = (tables.column(lives, name) for name in ("delta", "deadline"))
        self.key = live_key(self.slot, self.stamp)
        self.floor = ragged(lives, "floor")
        past = ragged(lives, "past")
        handed = made.handed
        self.station, self.of_slot, self.of_stamp, self.position, self.reading, self.wall, self.at_log = (
            tables.column(handed, name) for name in ("station", "slot", "stamp", "position", "reading", "wall", "log")
        )
        self.handed_key = live_key(self.of_slot, self.of_stamp)
        self.handed_live = found(self.key, self.handed_key)
        """Per row of `handed`: its row among those that were taken, -1: nobody tells of that."""
        heard = made.heard
        if len(heard):
            heard = heard.filter(pa.array(journaled[tables.column(heard, "client")]))
        self.by, self.by_e, by_c, self.by_slot, self.by_stamp, self.after, self.left, self.by_wall = (
            tables.column(heard, name) for name in ("client", "e", "c", "slot", "stamp", "after", "left", "wall")
        )
        self.by_place = place_of(self.by_e, by_c)
        self.heard_key = live_key(self.by_slot, self.by_stamp)
        self.heard_live = found(self.key, self.heard_key)
        self.slots: Ints = np.unique(np.concatenate((self.slot, self.of_slot, self.by_slot, past[1][::2])))
        self._past = past
        self._column = np.searchsorted(self.slots, self.slot)

    def handed_by(self) -> Iterator[tuple[int, int, int]]:
        """Each station that handed something down, and its rows a to b - 1, in the order of its log."""
        cuts = np.append(starts_of(self.station), len(self.station)).tolist()
        for a, b in pairwise(cuts):
            yield int(self.station[a]), a, b

    def heard_by(self) -> Iterator[tuple[int, int, int]]:
        """The same of clients with journals."""
        cuts = np.append(starts_of(self.by), len(self.by)).tolist()
        for a, b in pairwise(cuts):
            yield int(self.by[a]), a, b

    # ---- what came before what ----

    def pasts(self) -> Ints:
        """Per message that was taken, and slot: all that is stamped up to this there came before it; 0: nothing.

        By its own tag, and by program order: of stations (what they handed down and took before), of hosts with
        journals (what they were given before they sent it), and so on. What is older than two deltas is left out.
        """
        made = np.zeros((len(self.key), len(self.slots)), np.int64)
        offsets, values = self._past
        owner = np.repeat(np.arange(len(self.key)), np.diff(offsets) // 2)
        np.maximum.at(made, (owner, np.searchsorted(self.slots, values[::2])), values[1::2])
        streams = [*self._of_stations(), *self._of_hosts()]
        oldest = (self.stamp - 2 * self.delta)[:, None]
        for _ in range(ROUNDS_MAX):
            before = made.copy()
            made[made < oldest] = 0
            self._follow_tags(made)
            for stream in streams:
                stream.follow(self, made)
            made[made < oldest] = 0
            if (made == before).all():
                break
        return made

    def _follow_tags(self, made: Ints) -> None:
        for k, slot in enumerate(self.slots.tolist()):
            at = found(self.key, live_key(np.full(len(made), slot), made[:, k]))
            hit = np.flatnonzero(at >= 0)
            made[hit] = np.maximum(made[hit], made[at[hit]])

    def with_itself(self, made: Ints, live: Ints, slot: Ints, stamp: Ints, less: int) -> Ints:
        """Of rows: the past of a message and itself. live: -1: its past is not known. less: from its own stamp."""
        rows = np.zeros((len(live), len(self.slots)), np.int64)
        rows[live >= 0] = made[live[live >= 0]]
        at = (np.arange(len(live)), np.searchsorted(self.slots, slot))
        rows[at] = np.maximum(rows[at], stamp - less)
        return rows

    def _of_stations(self) -> Iterator[_Stream]:
        handed = {station: (a, b) for station, a, b in self.handed_by()}
        for station in np.unique(self.slot).tolist():
            mine = np.flatnonzero(self.slot == station)
            mine = mine[np.argsort(self.log[mine], kind="stable")]
            a, b = handed.get(station, (0, 0))
            upto = np.searchsorted(self.at_log[a:b], self.log[mine])
            yield _Stream(mine, upto, self.handed_live[a:b], self.of_slot[a:b], self.of_stamp[a:b], True)

    def _of_hosts(self) -> Iterator[_Stream]:
        for client, a, b in self.heard_by():
            mine = np.flatnonzero(self.client == client)
            session = np.searchsorted(self.by_place[a:b], self.e[mine] << PLACE_SHIFT)
            answered = np.searchsorted(self.after[a:b], self.number[mine])
            upto = np.maximum(session, answered)
            yield _Stream(mine, upto, self.heard_live[a:b], self.by_slot[a:b], self.by_stamp[a:b], False)


@dataclass(slots=True)
class _Stream:
    """Messages `taken` of which each comes after the first `upto` of some others; and, if so, after each other."""

    taken: Ints
    upto: Ints
    live: Ints
    slot: Ints
    stamp: Ints
    is_line: bool

    def follow(self, lives: Lives, made: Ints) -> None:
        """Put the past of what came before into that of what was taken."""
        if len(self.live):
            had = np.maximum.accumulate(lives.with_itself(made, self.live, self.slot, self.stamp, 0), axis=0)
            some = self.upto > 0
            rows = self.taken[some]
            made[rows] = np.maximum(made[rows], had[self.upto[some] - 1])
        if self.is_line and len(self.taken) > 1:
            sent = lives.with_itself(made, self.taken, lives.slot[self.taken], lives.stamp[self.taken], 0)
            later = self.taken[1:]
            made[later] = np.maximum(made[later], np.maximum.accumulate(sent, axis=0)[:-1])
