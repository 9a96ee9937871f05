"""Station mail: posted before it arrives, once, nothing skipped, in causal order; its numbers and headers.

Source: docs/protocols/causal-unicast.md, Promise. A header's V is not believed: it must be what its sender had been
delivered by then. If that holds everywhere, V is the past of a mail, and what V counts to a station must have been
delivered there before. Per pair of stations these are sorted numbers and searches; nothing is looked at mail by mail.
Memory: 8 bytes per mail and station.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.columns import found, message_key, starts_of
from roamcast.analytics.tables import INFO, UNDECIDED, VIOLATION, Flags, Ints, Tables

TOLD_MAX = 100
"""Findings of one kind that are told one by one; the rest is counted in the last one."""

SETTLED = 0
"""Addressee of what an earlier night has kept though it is settled: for its number and its header."""

NEVER = np.iinfo(np.int64).max

Finding = dict[str, Any]


@dataclass(slots=True)
class About:
    """What the rest of the audit knows of stations and times."""

    incomplete: set[int]
    """Stations whose log is not whole, or was not in an earlier night that was settled all the same."""
    ended: set[int]
    lost: set[int]
    """Ended, with whatever only they had."""
    reach: dict[int, int]
    """Station -> how far its log goes, us."""
    until: int
    margin: int
    grace: int


class Mails:
    """All station mail of a run."""

    def __init__(self, made: Tables) -> None:
        posts, arrivals = made["posts"], made["arrivals"]
        self.slot, self.n, self.to, self.after, self.wall, self.seg, self.log = (
            tables.column(posts, name) for name in ("slot", "n", "to", "after", "wall", "seg", "log")
        )
        self.station, self.position, self.sender, self.number, self.when, self.at_log = (
            tables.column(arrivals, name) for name in ("station", "position", "slot", "n", "wall", "log")
        )
        self.kept: Flags = tables.column(arrivals, "seg") == 0
        self.any = bool(len(self.slot) or len(self.station))
        if not self.any:
            return
        key = message_key(self.slot, self.n)
        self.first = starts_of(key)
        self.keys = key[self.first]
        at = found(self.keys, message_key(self.sender, self.number))
        at = np.append(self.first, -1)[at]
        self.post: Ints = np.where(np.append(self.to, SETTLED)[at] != SETTLED, at, -1)
        """Per arrival: the row of `posts`, -1: there is none."""
        lists = posts.column("vector").combine_chunks()
        values = lists.flatten().to_numpy().astype(np.int64)
        self.slots: Ints = np.unique(np.concatenate((self.slot, self.to, self.station, self.sender, values[::2])))
        pairs = np.diff(lists.offsets.to_numpy().astype(np.int64)) // 2
        self.vector = self._vectors(np.repeat(np.arange(len(pairs)), pairs), values)
        mine = self.post >= 0
        mine[mine] = self.to[self.post[mine]] == self.station[mine]
        self.meant: Flags = mine
        self.place = self._places()

    def _vectors(self, row: Ints, values: Ints) -> Ints:
        """V of every mail, its own entry the number before it: what is in its past."""
        made = np.zeros((len(self.slot), len(self.slots)), np.int64)
        np.maximum.at(made, (row, np.searchsorted(self.slots, values[::2])), values[1::2])
        cuts = np.append(starts_of(self.slot), len(self.slot)).tolist()
        for a, b in pairwise(cuts):
            np.maximum.accumulate(made[a:b], axis=0, out=made[a:b])
        made[np.arange(len(self.slot)), np.searchsorted(self.slots, self.slot)] = self.n - 1
        return made

    def _places(self) -> Ints:
        """Per post: the row of its first arrival at its addressee, NEVER: it is not there."""
        made = np.full(len(self.slot), NEVER)
        rows = np.flatnonzero(self.meant)
        np.minimum.at(made, self.post[rows], rows)
        firsts: Ints = made[self.first]
        return np.repeat(firsts, np.diff(np.append(self.first, len(made))))

    def name(self, post: int) -> str:
        """As people write it."""
        return f"mail {self.slot[post]}:{self.n[post]}"

    def past_of_arrivals(self, a: int, b: int) -> Ints:
        """V of the arrivals a to b - 1, as far as it is known."""
        made = np.zeros((b - a, len(self.slots)), np.int64)
        post = self.post[a:b]
        made[post >= 0] = self.vector[post[post >= 0]]
        return made

    def stations(self) -> Iterator[tuple[int, int, int]]:
        """Each station with arrivals, and their rows a to b - 1."""
        cuts = np.append(starts_of(self.station), len(self.station)).tolist()
        for a, b in pairwise(cuts):
            yield int(self.station[a]), a, b


class MailCheck:
    """All checks of station mail."""

    def __init__(self, mails: Mails, about: About) -> None:
        self._mails = mails
        self._about = about
        self._skipper = np.full(len(mails.slot), NEVER)
        """Per post: the first arrival at its addressee that has it in its past and stands before it."""
        if mails.any:
            self._find_skipped()

    def findings(self) -> list[Finding]:
        """All of them. Of a group without station mail there are none."""
        if not self._mails.any:
            return []
        of_each = [*self._numbers(), *self._unposted(), *self._twice()]
        return [*of_each, *self._skipped(), *self._waiting(), *self._headers()]

    def unsettled(self) -> tuple[Ints, Ints]:
        """Posts and arrivals that the next night needs: what is under way, and the last row of each station."""
        mails, about = self._mails, self._about
        if not mails.any:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        posts = self.under_way()
        posts[np.append(starts_of(mails.slot)[1:], len(mails.slot))[: len(np.unique(mails.slot))] - 1] = True
        last = self._last_number()[np.searchsorted(mails.slots, mails.sender)]
        arrivals = (mails.post < 0) & (mails.number > last) & ~np.isin(mails.sender, list(about.ended))
        arrivals[[b - 1 for _, _, b in mails.stations()]] = True
        return np.flatnonzero(posts), np.flatnonzero(arrivals)

    def under_way(self) -> Flags:
        """Per post: it may still arrive."""
        mails, ended = self._mails, list(self._about.ended)
        open_ones: Flags = (mails.place == NEVER) & (self._skipper == NEVER) & (mails.to != SETTLED)
        return open_ones & ~(np.isin(mails.slot, ended) | np.isin(mails.to, ended))

    def header(self, post: int) -> list[int]:
        """V of a post without its own entry: slot, count, slot, count, ..."""
        mails = self._mails
        pairs = zip(mails.slots.tolist(), mails.vector[post].tolist(), strict=True)
        return [number for slot, count in pairs if count and slot != mails.slot[post] for number in (slot, count)]

    # ---- numbers ----

    def _numbers(self) -> list[Finding]:
        """Own numbers and positions must be 1, 2, ... in the order of the log: `mail_numbers`."""
        mails, made = self._mails, []
        lines = (
            (mails.slot, mails.n, mails.log, mails.wall, mails.seg == 0, "number"),
            (mails.station, mails.position, mails.at_log, mails.when, mails.kept, "inbox position"),
        )
        for station, number, log, wall, kept, what in lines:
            same = (station[1:] == station[:-1]) & ~(kept[1:] & kept[:-1])
            bad = np.flatnonzero(same & ((np.diff(number) != 1) | (np.diff(log) < 0))) + 1
            for i, rest in _few(bad):
                text = f"station {station[i]} has {what} {number[i]} of station mail next to {number[i - 1]} in its log"
                made.append(self._row("mail_numbers", text, rest, {int(station[i])}) | {
                    "station": station[i], "wall": wall[i], "place": number[i] if what != "number" else 0,
                })  # fmt: skip
        return made

    # ---- each mail by itself ----

    def _unposted(self) -> Iterator[Finding]:
        """Arrivals that their sender has posted to somebody else or not at all: `mail_invented`."""
        mails, about = self._mails, self._about
        own = np.searchsorted(mails.slots, mails.sender)
        first, last, floor = (each[own] for each in (self._first_number(), self._last_number(), self._settled_number()))
        elsewhere = (mails.post >= 0) & ~mails.meant
        reach = np.array([about.reach.get(slot, 0) for slot in mails.slots.tolist()], np.int64)[own]
        unknown = (mails.post < 0) & (mails.number > np.maximum(first, floor)) & (reach > 0)
        unknown &= ~np.isin(mails.sender, list(about.lost))
        surely = elsewhere | (mails.number < last) | (mails.when + about.grace < reach)
        soon = (about.until > 0) & (mails.when + about.margin > about.until)
        for i, rest in _few(np.flatnonzero(elsewhere | (unknown & (surely | ~soon)))):
            text = f"mail {mails.sender[i]}:{mails.number[i]} arrived at station {mails.station[i]}, and station "
            text += f"{mails.sender[i]} " + (
                f"had posted it to station {mails.to[mails.post[i]]}" if elsewhere[i] else "does not tell of it"
            )
            row = self._row("mail_invented", text, rest, {int(mails.sender[i])}) | self._arrival(i)
            yield row if surely[i] else row | {"severity": UNDECIDED}

    def _twice(self) -> Iterator[Finding]:
        """Arrivals of what has arrived there before: `mail_twice`."""
        mails = self._mails
        key = message_key(mails.sender, mails.number)
        by = np.lexsort((mails.position, key, mails.station))
        same = (np.diff(key[by]) == 0) & (np.diff(mails.station[by]) == 0)
        again = np.zeros(len(key), bool)
        again[by[1:][same]] = True
        ended = list(self._about.ended)
        settled = (mails.post < 0) & ~np.isin(mails.sender, ended) & ~np.isin(mails.station, ended)
        settled &= mails.number <= self._settled_number()[np.searchsorted(mails.slots, mails.sender)]
        for i, rest in _few(np.flatnonzero((again | settled) & ~mails.kept)):
            text = f"mail {mails.sender[i]}:{mails.number[i]} arrived at station {mails.station[i]} again"
            text += "" if again[i] else ": an earlier night has seen it settled"
            of = {int(mails.station[i]), int(mails.sender[i])}
            yield self._row("mail_twice", text, rest, of) | self._arrival(i)

    # ---- order ----

    def _find_skipped(self) -> None:
        mails = self._mails
        for station, a, b in mails.stations():
            past = np.maximum.accumulate(mails.past_of_arrivals(a, b), axis=0)
            mine = np.flatnonzero(mails.to == station)
            cuts = np.append(starts_of(mails.slot[mine]), len(mine)).tolist()
            for c, d in pairwise(cuts):
                rows = mine[c:d]
                column = past[:, np.searchsorted(mails.slots, mails.slot[rows[0]])]
                at = np.searchsorted(column, mails.n[rows]) + a  # the first arrival that has it in its past
                bad = (at < b) & (at < mails.place[rows])
                self._skipper[rows[bad]] = at[bad]

    def _skipped(self) -> Iterator[Finding]:
        """Mail that came behind what has it in its past (`mail_causal`), or never (`mail_lost`)."""
        mails, ended = self._mails, list(self._about.ended)
        skipped = self._skipper < NEVER
        came = mails.place < NEVER
        gone = np.isin(mails.slot, ended) | np.isin(mails.to, ended)
        for kind, which in (("mail_causal", skipped & came), ("mail_lost", skipped & ~came & ~gone)):
            for i, rest in _few(np.flatnonzero(which)):
                y = int(self._skipper[i])
                other = f"mail {mails.sender[y]}:{mails.number[y]}"
                text = f"station {mails.to[i]} was delivered {other} at {mails.position[y]}, which has {mails.name(i)} "
                text += "in its past; "
                row = self._row(kind, "", rest, {int(mails.to[i]), int(mails.slot[i])}) | {
                    "station": mails.to[i], "slot": mails.slot[i], "n": mails.n[i], "other_slot": mails.sender[y],
                    "other_n": mails.number[y], "other_place": mails.position[y], "wall": mails.when[y],
                }  # fmt: skip
                if kind == "mail_causal":
                    x = int(mails.place[i])
                    row |= {"place": mails.position[x], "wall": mails.when[x]}
                    text += f"that came at {mails.position[x]}"
                else:
                    text += "that never came"
                yield row | {"witness": text}

    def _waiting(self) -> Iterator[Finding]:
        """Mail under way for longer than `grace` though both logs go on: `mail_waiting`. Of a full inbox it may be."""
        mails, about = self._mails, self._about
        waits = self.under_way()
        reach = np.array([about.reach.get(slot, 0) for slot in mails.slots.tolist()], np.int64)
        both = np.minimum(*(reach[np.searchsorted(mails.slots, each)] for each in (mails.slot, mails.to)))
        late = mails.wall + about.grace < both
        for severity, which in ((UNDECIDED, waits & late), (INFO, waits & ~late & (about.until == 0))):
            for i, rest in _few(np.flatnonzero(which)):
                text = f"{mails.name(i)} to station {mails.to[i]} has not arrived there"
                yield self._row("mail_waiting", text, rest, set()) | {
                    "severity": severity, "station": mails.to[i], "slot": mails.slot[i], "n": mails.n[i],
                    "wall": mails.wall[i],
                }  # fmt: skip

    # ---- headers ----

    def _headers(self) -> Iterator[Finding]:
        """Headers that count other mail than their sender had been delivered: `mail_header`."""
        mails = self._mails
        whole = self._all_is_known()
        ranges = {station: (a, b) for station, a, b in mails.stations()}
        for station in np.unique(mails.slot).tolist():
            rows = np.flatnonzero(mails.slot == station)
            known = whole or mails.n[rows[0]] == 1 or mails.seg[rows[0]] == 0
            if not known or station not in ranges:
                continue
            a, b = ranges[station]
            past = mails.past_of_arrivals(a, b)
            past[np.arange(b - a), np.searchsorted(mails.slots, mails.sender[a:b])] = mails.number[a:b]
            past = np.vstack((np.zeros((1, past.shape[1]), np.int64), np.maximum.accumulate(past, axis=0)))
            rows = rows[(mails.to[rows] != station) & (mails.seg[rows] != 0)]
            had = past[np.searchsorted(mails.position[a:b], mails.after[rows], side="right")]
            says = mails.vector[rows]
            wrong = (says != had) if whole else (says < had)
            wrong[:, np.searchsorted(mails.slots, station)] = False
            for i, rest in _few(np.flatnonzero(wrong.any(axis=1))):
                k = int(np.flatnonzero(wrong[i])[0])
                text = f"the header of {mails.name(rows[i])} counts {says[i, k]} mails of station {mails.slots[k]}, "
                text += f"and its sender had {had[i, k]} in its past"
                yield self._row("mail_header", text, rest, {station}) | {
                    "station": station, "slot": station, "n": mails.n[rows[i]], "wall": mails.wall[rows[i]],
                }  # fmt: skip

    def _all_is_known(self) -> bool:
        """Whether every log is there from its first mail on: only so can a header count too much."""
        mails = self._mails
        begins = mails.n[starts_of(mails.slot)], mails.position[[a for _, a, _ in mails.stations()]]
        kept = mails.kept.any() or (mails.seg == 0).any()
        whole = not self._about.incomplete and not kept and bool((mails.post >= 0).all())
        return whole and all(bool((each == 1).all()) for each in begins)

    # ---- parts ----

    def _per_slot(self, values: Ints, rows: Ints, empty: int) -> Ints:
        made = np.full(len(self._mails.slots), empty)
        made[np.searchsorted(self._mails.slots, self._mails.slot[rows])] = values
        return made

    def _first_number(self) -> Ints:
        """Per slot: the first number that its log tells of; 0 if it has none."""
        rows = starts_of(self._mails.slot)
        return self._per_slot(self._mails.n[rows], rows, 0)

    def _last_number(self) -> Ints:
        rows = np.append(starts_of(self._mails.slot)[1:], len(self._mails.slot))[: len(np.unique(self._mails.slot))] - 1
        return self._per_slot(self._mails.n[rows], rows, 0)

    def _settled_number(self) -> Ints:
        """Per slot: up to which an earlier night has seen its numbers."""
        made = np.zeros(len(self._mails.slots), np.int64)
        rows = np.flatnonzero(self._mails.seg == 0)
        np.maximum.at(made, np.searchsorted(self._mails.slots, self._mails.slot[rows]), self._mails.n[rows])
        return made

    def _row(self, kind: str, text: str, rest: int, of: set[int]) -> Finding:
        """A finding that rests on the logs of these stations."""
        severity = UNDECIDED if of & self._about.incomplete else VIOLATION
        return {"kind": kind, "severity": severity, "count": 1 + rest, "witness": text}

    def _arrival(self, i: int) -> Finding:
        mails = self._mails
        return {
            "station": mails.station[i], "slot": mails.sender[i], "n": mails.number[i], "place": mails.position[i],
            "wall": mails.when[i],
        }  # fmt: skip


def _few(rows: Ints) -> Iterator[tuple[int, int]]:
    """The first of these rows; with the last of them, how many more there are."""
    for count, i in enumerate(rows[:TOLD_MAX].tolist(), 1):
        yield i, len(rows) - TOLD_MAX if count == TOLD_MAX else 0
