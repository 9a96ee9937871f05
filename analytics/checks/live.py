"""Live messages: in one causal order with all else at every station, once, in time; and the same at hosts by journals.

Source: docs/protocols/delta-causal.md, 'In the one order'; its specification, B.c: J2, J3, J7. Every finding rests on
rows that are there: a log may lack what it tells of live messages, and nothing follows from that. All of a part is
looked up in sorted columns; the loops are over stations and over hosts with journals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.columns import place_text
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.lives import Lives, live_name
from roamcast.analytics.receivers import Journals
from roamcast.analytics.tables import INFO, UNDECIDED, VIOLATION, Flags, Ints, Tables

TOLD_MAX = 100
"""Findings of one kind, station or host that are told one by one; the rest is counted in the last one."""

Finding = dict[str, Any]
_SPAN = np.int64(1) << 40
LATER = int(_SPAN) - 1
"""Behind all positions and numbers."""


def untold(made: Tables) -> list[Finding]:
    """Stations that did not tell of each live message: what is found of these is not all there is."""
    rows = made["untold"]
    station, count, wall = (tables.column(rows, name) for name in ("station", "handed", "wall"))
    count = count + tables.column(rows, "taken")
    return [
        {"kind": "live_untold", "severity": INFO, "station": slot, "count": int(count[station == slot].sum()),
         "wall": int(wall[station == slot].max()),
         "witness": f"station {slot} had more live messages than its log tells of one by one"}
        for slot in np.unique(station).tolist()
    ]  # fmt: skip


class Sends:
    """The rows of hosts by own numbers, and where each station has them."""

    def __init__(self, history: History) -> None:
        self.message = history.by_sender
        self.client = history.client[self.message]
        self.key = self.client * _SPAN + np.minimum(history.number[self.message], _SPAN - 1)
        self._history = history
        self._upto: dict[int, Ints] = {}
        self._since: dict[int, Ints] = {}

    def upto(self, station: int) -> Ints:
        """Per row: the last position of any up to its number; 0: that station has ordered none of these."""
        if station not in self._upto:
            position: Ints = self._history.position_at(station, self.message)
            self._upto[station] = last_up_to(position, self.client)
        return self._upto[station]

    def since(self, station: int) -> Ints:
        """Per row: the first position of any from its number on; LATER: that station has ordered none of these."""
        if station not in self._since:
            position = self._history.position_at(station, self.message)
            self._since[station] = first_from(np.where(position > 0, position, LATER), self.client)
        return self._since[station]

    def last_before(self, client: Ints, number: Ints) -> Ints:
        """The row of the largest number up to `number`; -1: there is none."""
        at = np.searchsorted(self.key, client * _SPAN + number, side="right") - 1
        there = (at >= 0) & (client >= 0) & (np.append(self.client, -1)[at] == client)
        return np.where(there, at, -1)

    def first_behind(self, client: Ints, number: Ints) -> Ints:
        """The row of the smallest number above `number`; -1: there is none."""
        at = np.searchsorted(self.key, client * _SPAN + number, side="right")
        there = (client >= 0) & (np.append(self.client, -1)[at] == client)
        return np.where(there, at, -1)


def last_up_to(values: Ints, group: Ints) -> Ints:
    """The running maximum within each group. Values below LATER; groups ascend."""
    made: Ints = np.maximum.accumulate(group * _SPAN + values) - group * _SPAN
    return made


def first_from(values: Ints, group: Ints) -> Ints:
    """The running minimum within each group, from its end. Values up to LATER; groups ascend."""
    made: Ints = np.minimum.accumulate((group * _SPAN + values)[::-1])[::-1] - group * _SPAN
    return made


class LiveCheck:
    """Of one part. first: stamps below are judged by the part before."""

    def __init__(
        self, history: History, lives: Lives, sends: Sends, cut: Ints, incomplete: set[int], first: int
    ) -> None:
        self._history = history
        self._lives = lives
        self._sends = sends
        self._cut = cut
        self._incomplete = incomplete
        self._first = first
        self._pasts = lives.pasts()

    # ---- stations ----

    def of_stations(self) -> Iterator[Finding]:
        """What stations handed down: `live_causal`, `live_twice`, `live_late`, `live_early`, `live_overtaken`."""
        for station, a, b in self._lives.handed_by():
            yield from self._late(station, a, b)
            yield from self._twice(station, a, b)
            yield from self._inverted(station, a, b)
            yield from self._before_floor(station, a, b)
            yield from self._before_own(station, a, b)
            yield from self._behind_followers(station, a, b)

    def _mine(self, stamp: Ints) -> Flags:
        mine: Flags = stamp >= self._first
        return mine

    def _told(self, kind: str, rows: Ints, a: int, text: str = "") -> Iterator[tuple[int, Finding]]:
        """A finding for each of these rows of `handed`, and the row."""
        lives = self._lives
        for count, i in enumerate((rows[:TOLD_MAX] + a).tolist(), 1):
            rest = len(rows) - TOLD_MAX if count == TOLD_MAX else 0
            yield i, {
                "kind": kind, "severity": VIOLATION, "count": 1 + max(0, rest), "station": int(lives.station[i]),
                "slot": int(lives.of_slot[i]), "n": int(lives.of_stamp[i]), "place": int(lives.position[i]),
                "wall": int(lives.wall[i]),
                "witness": f"station {lives.station[i]} handed {live_name(int(lives.handed_key[i]))} down {text}",
            }  # fmt: skip

    def _late(self, station: int, a: int, b: int) -> Iterator[Finding]:
        lives = self._lives
        live = lives.handed_live[a:b]
        by = np.append(lives.stamp + lives.deadline, NEVER)[live]
        late = (lives.reading[a:b] > by) & self._mine(lives.of_stamp[a:b])
        for i, row in self._told("live_late", np.flatnonzero(late), a):
            over = lives.reading[i] - by[i - a]
            yield row | {"witness": f"{row['witness']}{over} us after its deadline, by its own clock"}

    def _twice(self, station: int, a: int, b: int) -> Iterator[Finding]:
        lives = self._lives
        again = ~_first_of(lives.handed_key[a:b]) & self._mine(lives.of_stamp[a:b])
        for _, row in self._told("live_twice", np.flatnonzero(again), a, "again"):
            yield row

    def _inverted(self, station: int, a: int, b: int) -> Iterator[Finding]:
        lives = self._lives
        slot, stamp = lives.of_slot[a:b], lives.of_stamp[a:b]
        had = lives.with_itself(self._pasts, lives.handed_live[a:b], slot, stamp, 1)
        for i, j in self._later_first(had, slot, stamp):
            for at, row in self._told("live_causal", np.array([i]), a):
                other = live_name(int(lives.handed_key[a + j]))
                yield row | {
                    "other_slot": int(slot[j]), "other_n": int(stamp[j]), "other_place": int(lives.position[a + j]),
                    "count": row["count"], "witness": f"{row['witness']}after {other}, which comes after it",
                    "wall": int(lives.wall[at]),
                }  # fmt: skip

    def _later_first(self, had: Ints, slot: Ints, stamp: Ints) -> list[tuple[int, int]]:
        """(row, an earlier row that follows it). had: per row, its past; its own stamp less one."""
        if len(stamp) < 2:
            return []
        column = np.searchsorted(self._lives.slots, slot)
        before = np.maximum.accumulate(had, axis=0)[:-1]
        bad = np.flatnonzero(before[np.arange(len(before)), column[1:]] >= stamp[1:]) + 1
        pairs: list[tuple[int, int]] = []
        for i in bad[: 10 * TOLD_MAX].tolist():
            j = int(np.argmax(had[:i, column[i]] >= stamp[i]))
            if stamp[j] >= self._first and len(pairs) < TOLD_MAX:
                pairs.append((i, j))
        return pairs

    def _before_floor(self, station: int, a: int, b: int) -> Iterator[Finding]:
        """Rows that the floor covers and that stand behind the message."""
        lives, history = self._lives, self._history
        order = history.orders.get(station)
        if order is None:
            return
        live = lives.handed_live[a:b]
        asked = np.flatnonzero((live >= 0) & self._mine(lives.of_stamp[a:b]))
        owner, slot, n = _pairs(lives.floor, live[asked])
        owner = asked[owner]
        known = slot < len(history.column_of_slot)
        column = np.where(known, history.column_of_slot[np.where(known, slot, 0)], -1)
        real = np.flatnonzero(order.message >= 0)
        its, its_n = history.column[order.message[real]], history.n[order.message[real]]
        severity = UNDECIDED if station in self._incomplete else VIOLATION
        for k in np.unique(column[column >= 0]).tolist():
            mine = real[its == k]
            if not len(mine):
                continue
            rows = np.flatnonzero(column == k)
            wanted = np.minimum(n[rows], self._cut[k])
            highest = np.maximum.accumulate(its_n[its == k])
            at = np.searchsorted(order.position[mine], lives.position[a:b][owner[rows]], side="right")
            lacks = (np.append(0, highest)[at] < wanted) & (wanted >= its_n[its == k].min())
            for count, r in enumerate(np.flatnonzero(lacks).tolist(), 1):
                if count > TOLD_MAX:
                    break
                for _, row in self._told("live_early", np.array([owner[rows[r]]]), a):
                    other = f"{int(history.slots[k])}:{int(wanted[r])}"
                    yield row | {
                        "severity": severity, "other_slot": int(history.slots[k]), "other_n": int(wanted[r]),
                        "witness": f"{row['witness']}before it had ordered {other}, which comes before it",
                    }  # fmt: skip

    def _before_own(self, station: int, a: int, b: int) -> Iterator[Finding]:
        """What its sender had sent before it, and stands behind it."""
        lives = self._lives
        live = lives.handed_live[a:b]
        client, number = (np.append(values, -1)[live] for values in (lives.client, lives.number))
        at = self._sends.last_before(client, number)
        last = np.append(self._sends.upto(station), 0)[at]
        early = (last > lives.position[a:b]) & self._mine(lives.of_stamp[a:b])
        text = "before a message that its sender had sent before"
        for i, row in self._told("live_early", np.flatnonzero(early), a, text):
            yield row | self._at(station, int(last[i - a]))

    def _behind_followers(self, station: int, a: int, b: int) -> Iterator[Finding]:
        """What somebody sent who had sent the message before, or was given it; and stands before it."""
        lives = self._lives
        since = np.append(self._sends.since(station), LATER)
        live = lives.handed_live[a:b]
        client, number = (np.append(values, -1)[live] for values in (lives.client, lives.number))
        first = since[self._sends.first_behind(client, number)]
        by = np.argsort(lives.heard_key, kind="stable")
        begin, end = (np.searchsorted(lives.heard_key[by], lives.handed_key[a:b], side=side) for side in _SIDES)
        count = end - begin
        owner = np.repeat(np.arange(b - a), count)
        row = by[np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)]
        np.minimum.at(first, owner, since[self._sends.first_behind(lives.by[row], lives.after[row])])
        late = (first <= lives.position[a:b]) & self._mine(lives.of_stamp[a:b])
        for i, told in self._told("live_overtaken", np.flatnonzero(late), a, "after a message that comes after it"):
            yield told | self._at(station, int(first[i - a]))

    def _at(self, station: int, position: int) -> Finding:
        """The row at a position of a station's order, as the other message of a finding."""
        order = self._history.orders[station]
        at = int(np.searchsorted(order.position, position))
        message = int(order.message[at])
        return {
            "other_slot": int(self._history.slot[message]), "other_n": int(self._history.n[message]),
            "other_place": position,
        }  # fmt: skip

    # ---- hosts ----

    def of_hosts(self, journals: Journals, host_of_client: Ints, names: list[str]) -> Iterator[Finding]:
        """What hosts with journals were given: the same kinds, and `live_not_meant`."""
        lives = self._lives
        for client, a, b in lives.heard_by():
            live = lives.heard_live[a:b]
            mine = self._mine(lives.by_stamp[a:b])
            kind, addressee, sender = (np.append(v, -1)[live] for v in (lives.kind, lives.addressee, lives.client))
            host = self._history.hosts[host_of_client[client]]
            own = (sender >= 0) & (host_of_client[np.maximum(sender, 0)] == host_of_client[client])
            wrong = own | ((kind == _MAIL) & (addressee != host))
            for name, which, text in (
                ("live_twice", ~_first_of(lives.heard_key[a:b]), "again"),
                ("live_late", lives.left[a:b] < 0, "after its deadline"),
                ("live_not_meant", wrong, "though it was not for it"),
                ("live_early", self._lacking(journals, client, a, b), "before a message that comes before it"),
                ("live_overtaken", self._passed(journals, client, a, b), "after a message that its sender sent later"),
            ):
                rows = np.flatnonzero(which & mine) + a
                for i in rows[:TOLD_MAX].tolist():
                    yield self._given(name, i, names[client], text) | {"count": 1}
            had = lives.with_itself(self._pasts, live, lives.by_slot[a:b], lives.by_stamp[a:b], 1)
            for i, j in self._later_first(had, lives.by_slot[a:b], lives.by_stamp[a:b]):
                other = live_name(int(lives.heard_key[a + j]))
                yield self._given("live_causal", a + i, names[client], f"after {other}, which comes after it") | {
                    "other_slot": int(lives.by_slot[a + j]), "other_n": int(lives.by_stamp[a + j]),
                    "other_place": int(lives.by_place[a + j]),
                }  # fmt: skip

    def _given(self, kind: str, i: int, name: str, text: str) -> Finding:
        lives = self._lives
        place = int(lives.by_place[i])
        return {
            "kind": kind, "client": int(lives.by[i]), "host": name, "slot": int(lives.by_slot[i]),
            "n": int(lives.by_stamp[i]), "place": place, "wall": int(lives.by_wall[i]),
            "witness": f"{name} was given {live_name(int(lives.heard_key[i]))} {text}, at {place_text(place)}",
        }  # fmt: skip

    def _lacking(self, journals: Journals, client: int, a: int, b: int) -> Flags:
        """Whether something that the floor covers was given later, for the first time."""
        lives, history = self._lives, self._history
        message, place = _given_first(journals, client)
        bad = np.zeros(b - a, bool)
        asked = np.flatnonzero(lives.heard_live[a:b] >= 0)
        owner, slot, n = _pairs(lives.floor, lives.heard_live[a:b][asked])
        known = slot < len(history.column_of_slot)
        owner, slot, n = asked[owner[known]], slot[known], n[known]
        column = history.column_of_slot[slot]
        at = np.searchsorted(place, lives.by_place[a:b], side="right")[owner]
        for k in np.unique(column[column >= 0]).tolist():
            theirs = np.append(np.where(history.column[message] == k, history.n[message], NEVER), NEVER)
            least = np.minimum.accumulate(theirs[::-1])[::-1]
            rows = np.flatnonzero(column == k)
            bad[owner[rows[least[at[rows]] <= n[rows]]]] = True
        return bad

    def _passed(self, journals: Journals, client: int, a: int, b: int) -> Flags:
        """Whether something that its sender sent later was given before."""
        lives, history = self._lives, self._history
        message, place = _given_first(journals, client)
        sender, number = history.client[message], history.number[message]
        by = np.lexsort((number, sender))
        first = np.append(first_from(by, sender[by] + 1), LATER)  # control rows have sender -1
        given = np.searchsorted(place, lives.by_place[a:b], side="right")
        key = sender[by] * _SPAN + number[by]
        live = lives.heard_live[a:b]
        of, behind = (np.append(values, -1)[live] for values in (lives.client, lives.number))
        at = np.searchsorted(key, of * _SPAN + behind, side="right")
        there = (of >= 0) & (np.append(sender[by], -1)[at] == of)
        passed: Flags = there & (first[at] < given)
        return passed


_SIDES: tuple[Any, Any] = ("left", "right")
_MAIL = 1


def _first_of(keys: Ints) -> Flags:
    """Which rows are the first of their key."""
    made = np.zeros(len(keys), bool)
    made[np.unique(keys, return_index=True)[1]] = True
    return made


def _pairs(lists: tuple[Ints, Ints], rows: Ints) -> tuple[Ints, Ints, Ints]:
    """The pairs of some rows of a ragged column: (place in `rows`, first, second)."""
    offsets, values = lists
    count = (offsets[rows + 1] - offsets[rows]) // 2
    owner = np.repeat(np.arange(len(rows)), count)
    at = np.repeat(offsets[rows], count) + 2 * (np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count))
    return owner, values[at], values[at + 1]


def _given_first(journals: Journals, client: int) -> tuple[Ints, Ints]:
    """What a journal has, each message once: (message, place), in the order of places."""
    rows = journals.of(client)
    message, place = journals.message[rows], journals.place[rows]
    first = np.sort(np.unique(message, return_index=True)[1])
    first = first[message[first] >= 0]
    return message[first], place[first]
