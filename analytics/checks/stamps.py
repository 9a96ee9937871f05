"""Stamps: what they cover, and whether they are honest.

Source: audit.md 3.2 step 6; middleware/rows.py, `Row.stamp`. A stamp says per station how much of its stream came
before. Rows carry what changed against the row before of the same station: a value is looked up, no vector is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import N_BITS, place_text
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.membership import Membership
from roamcast.analytics.receivers import Receiver
from roamcast.analytics.tables import Flags, Ints

UNKNOWN = -1
"""The stamp of this message is not known: the origin's log, or its beginning, is not there."""

CELLS_MAX = 1_000_000
"""Sends times slots that are looked at together."""


class Stamps:
    """The stamps of all messages, as their changes."""

    def __init__(self, history: History, stamps: pa.Table, start: Mapping[int, int] | None = None) -> None:
        """`start`: slot -> n from which on the stamps are known, if that is not 1 (see `state.Carried.stamps`)."""
        self._history = history
        self._start = start or {}
        slot, entry, n, value = (tables.column(stamps, name) for name in ("slot", "entry", "n", "value"))
        width = len(history.slots) + 1
        self._width = width
        inside = np.isin(slot, history.slots) & np.isin(entry, history.slots)
        line = history.column_of_slot[slot[inside]] * width + history.column_of_slot[entry[inside]]
        by = np.lexsort((n[inside], line))
        line = line[by]
        self._n, self._value = n[inside][by], value[inside][by]
        self._begin = np.searchsorted(line, np.arange(width * width + 1))
        self._key = (line << N_BITS) | self._n
        self._since, self._from_start = self._stretches(history)

    def _stretches(self, history: History) -> tuple[Ints, Flags]:
        """Per message: from which n on every row of its origin up to it is there; and whether that is the start."""
        since = np.full(history.count, NEVER)
        from_start: Flags = np.zeros(history.count, bool)
        cuts = np.append(np.searchsorted(history.slot, history.slots), history.count).tolist()
        for slot, begin, end in zip(history.slots.tolist(), cuts[:-1], cuts[1:], strict=True):
            n, own = history.n[begin:end], history.by_origin[begin:end]
            new = np.ones(len(n), bool)
            new[1:] = (np.diff(n) != 1) | ~own[:-1]
            first = n[np.maximum.accumulate(np.where(new, np.arange(len(n)), 0))] if len(n) else n
            since[begin:end] = np.where(own, first, NEVER)
            from_start[begin:end] = own & (first == self._start.get(slot, 1))
        return since, from_start

    def value(self, message: Ints, column: Ints) -> Ints:
        """What the stamp of each message says of a slot (given as column); UNKNOWN where it is not known."""
        history = self._history
        line = history.column[message] * self._width + column
        at = np.searchsorted(self._key, (line << N_BITS) | history.n[message], side="right") - 1
        changed = at >= self._begin[line]
        says = np.where(self._from_start[message], 0, UNKNOWN)
        known = np.flatnonzero(changed)
        known = known[(self._n[at[known]] >= self._since[message[known]]) | self._from_start[message[known]]]
        says[known] = self._value[at[known]]
        own = history.column[message] == column
        says[own] = history.n[message[own]]
        return says

    def covers(self, y: Ints, x: Ints) -> Flags:
        """Whether the stamp of y says that x came before it."""
        told: Flags = self.value(y, self._history.column[x]) >= self._history.n[x]
        other: Flags = x != y
        both: Flags = told & other
        return both


def understated(
    history: History, stamps: Stamps, membership: Membership, receiver: Receiver, name: str
) -> list[dict[str, Any]]:
    """Find sends whose stamp does not cover what the sender had been given: `stamp_understated`.

    What a lost station had beyond its cut no stamp can name; and once a station knows that another one has ended, its
    stamps do not name that one any more: everybody has its whole stream.
    """
    if not len(receiver.sent) or not len(receiver.message):
        return []
    column, n = history.column[receiver.message], history.n[receiver.message]
    told = np.flatnonzero(n <= membership.cut[column])
    sends, width = len(receiver.sent), len(history.slots)
    made: list[dict[str, Any]] = []
    step = max(1, CELLS_MAX // sends)
    for first in range(0, width, step):
        last = min(first + step, width)
        mine = told[(column[told] >= first) & (column[told] < last)] if step < width else told
        seen = _seen(receiver, mine, column[mine] - first, n[mine], last - first)
        says = stamps.value(np.tile(receiver.sent, last - first), np.repeat(np.arange(first, last), sends))
        says = says.reshape(seen.shape)
        wrong = (says != UNKNOWN) & (says < seen)
        for k in np.flatnonzero(wrong.any(axis=1)).tolist():
            which = np.flatnonzero(wrong[k])
            if membership.cut[first + k] < NEVER:
                sent = receiver.sent[which]
                slot = int(history.slots[first + k])
                which = which[~membership.knew_ended(history.slot[sent], slot, history.wall[sent])]
            rows = mine[column[mine] == first + k]
            made += [
                _told(history, receiver, name, i, int(rows[int(np.argmax(n[rows] == seen[k, i]))]), int(says[k, i]))
                for i in which.tolist()
            ]
    return made


def _seen(receiver: Receiver, rows: Ints, column: Ints, n: Ints, width: int) -> Ints:
    """For each column and send: the highest n of `rows` that stand before the send at the receiver; 0: none."""
    sends = len(receiver.sent)
    before = np.concatenate(([0], receiver.given_before(), [len(receiver.message)]))
    send = np.repeat(np.arange(sends + 1), np.diff(before))[rows]
    seen = np.zeros(width * (sends + 1), np.int64)
    np.maximum.at(seen, column * (sends + 1) + send, n)
    highest: Ints = np.maximum.accumulate(seen.reshape(width, sends + 1), axis=1)[:, :sends]
    return highest


def _told(history: History, receiver: Receiver, name: str, i: int, row: int, says: int) -> dict[str, Any]:
    """The finding for send i, which does not cover row `row`."""
    sent, given = int(receiver.sent[i]), int(receiver.message[row])
    return {
        "kind": "stamp_understated", "client": receiver.client, "host": name, "station": history.slot[sent],
        "slot": history.slot[sent], "n": history.n[sent], "other_slot": history.slot[given],
        "other_n": history.n[given], "place": receiver.sent_place[i], "other_place": receiver.place[row],
        "wall": history.wall[sent],
        "witness": f"host {name} had {history.name(given)} at {place_text(receiver.place[row])} when it sent "
        f"{history.name(sent)} at {place_text(receiver.sent_place[i])}, but its stamp says {says} of station "
        f"{history.slot[given]}",
    }  # fmt: skip
