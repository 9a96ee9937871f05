"""Causal order by happened-before from program order alone; and by stamps, on the same pairs.

Source: audit.md 3.2. A violation needs an inversion against the verified clock T: x before y in happened-before, and a
receiver that was given y first. Only rows with T below the running maximum are looked at. Whether x is *direct* for y
(the sender of y had been given x before it sent y) is one question about one client: `streams.Places`. Between direct
pairs there can be mail, or messages on topics, that this receiver never gets; they are followed back down to T of x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.analytics.checks.stamps import Stamps
from roamcast.analytics.columns import laid_out, place_text, starts_of
from roamcast.analytics.history import MAIL, History
from roamcast.analytics.receivers import Receiver
from roamcast.analytics.tables import INFO, VIOLATION, Flags, Ints

LAG_MAX = 64
"""Rows before a late one that are tried one by one; beyond, only the last message of each sender is."""

PAIR_CHUNK = 1 << 20


@dataclass(slots=True)
class Pairs:
    """Inverted pairs: a receiver was given y and later (or not yet) x, T(x) < T(y). A row per pair and receiver."""

    x: Ints
    y: Ints
    client: Ints
    station: Ints
    x_place: Ints
    """0: x is owed to the receiver and has not been given."""
    y_place: Ints
    wall: Ints

    @classmethod
    def joined(cls, parts: list[Pairs]) -> Pairs:
        """All rows of several."""
        names = cls.__slots__
        nothing = [np.zeros(0, np.int64)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts] or nothing) for name in names))


def inversions(history: History, clock: Ints, receiver: Receiver, pending: Ints) -> Pairs:
    """All inverted pairs of one receiver, but given ones of one sender (they are for the check of FIFO).

    clock: T per message. pending: messages that the receiver is owed and has not been given: they come after all else.
    """
    message, place, wall = receiver.message, receiver.place, receiver.wall
    if len(pending):
        owed = pending[np.argsort(clock[pending], kind="stable")]
        message = np.concatenate((message, owed))
        place, wall = (np.concatenate((values, np.zeros(len(owed), np.int64))) for values in (place, wall))
    x, y = inverted_rows(clock[message], lambda: history.client[message])
    asked = (history.client[message[x]] != history.client[message[y]]) | (x >= len(receiver.message))
    asked &= history.client[message[y]] >= 0  # a station has had no host's past when it tells of presence
    x, y = x[asked], y[asked]
    unseen = x >= len(receiver.message)
    return Pairs(
        message[x],
        message[y],
        np.full(len(x), receiver.client, np.int64),
        np.full(len(x), receiver.station, np.int64),
        place[x],
        place[y],
        np.where(unseen, wall[y], wall[x]),
    )


def inverted_rows(clock: Ints, sender: Callable[[], Ints]) -> tuple[Ints, Ints]:
    """Pairs of rows (late, earlier one with a greater T). Within LAG_MAX rows all, beyond the last of each sender."""
    if len(clock) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    highest = np.maximum.accumulate(clock)
    late = np.flatnonzero(clock[1:] < highest[:-1]) + 1
    found_late: list[Ints] = []
    found_early: list[Ints] = []
    active = late
    for lag in range(1, LAG_MAX + 1):
        active = active[active >= lag]
        active = active[highest[active - lag] > clock[active]]
        if not len(active):
            break
        hit = active[clock[active - lag] > clock[active]]
        found_late.append(hit)
        found_early.append(hit - lag)
    else:
        active = active[active > LAG_MAX]
        deep = active[highest[active - LAG_MAX - 1] > clock[active]]
        more = _last_of_each_sender(clock, sender(), deep) if len(deep) else None
        if more is not None:
            found_late.append(more[0])
            found_early.append(more[1])
    if not found_late:
        return late[:0], late[:0]
    return np.concatenate(found_late), np.concatenate(found_early)


def _last_of_each_sender(clock: Ints, sender: Ints, deep: Ints) -> tuple[Ints, Ints]:
    """For late rows: of each sender the last row more than LAG_MAX before it, if its T is greater."""
    by = np.argsort(sender, kind="stable")
    first = starts_of(sender[by])
    late: list[Ints] = []
    early: list[Ints] = []
    for rows in np.split(by, first[1:]):
        at = np.searchsorted(rows, deep - LAG_MAX) - 1
        row = rows[np.maximum(at, 0)]
        hit = (at >= 0) & (clock[row] > clock[deep])
        late.append(deep[hit])
        early.append(row[hit])
    return np.concatenate(late), np.concatenate(early)


First = Callable[[Ints, Ints], Ints]
"""(client, message) -> place at which the client was first given the message: `Places.first`."""


class Past:
    """Happened-before between messages, as far as chains of direct steps over mail and topics tell it."""

    def __init__(
        self, history: History, clock: Ints, first: First, sent_place: Ints, topics_of: tuple[Ints, Ints]
    ) -> None:
        """topics_of: (begins, topics): those that client i was ever subscribed to are begins[i] to begins[i + 1]."""
        self._history = history
        self._clock = clock
        self._first = first
        self._sent_place = sent_place
        """Per message: the place at which it was sent."""
        self._rank: Ints = np.empty(history.count, np.int64)
        self._rank[np.argsort(clock, kind="stable")] = np.arange(history.count)
        mails = np.flatnonzero((history.kind == MAIL) & (history.audience >= 0))
        on_topic = history.on_topic[history.client[history.on_topic] >= 0]
        lines = (history.audience[mails], len(history.hosts) + history.topic[on_topic])
        key = (np.concatenate(lines) << 40) | self._rank[np.concatenate((mails, on_topic))]
        by = np.argsort(key)
        self._mail_key, self._mails = key[by], np.concatenate((mails, on_topic))[by]
        """What not everybody gets: mail by addressee, messages of hosts by topic; in the order of T."""
        self._topics_begin, self._topics = topics_of

    def direct(self, x: Ints, y: Ints) -> Flags:
        """Whether the sender of y had sent x, or had been given it, before it sent y."""
        history = self._history
        same = (history.client[x] == history.client[y]) & (history.number[x] < history.number[y])
        told: Flags = same | (self._first(history.client[y], x) <= self._sent_place[y])
        return told

    def before(self, x: Ints, y: Ints, host_of_client: Ints) -> tuple[Flags, Ints]:
        """Whether x happened before y, directly or through what not everybody gets. Also the last such message of that
        chain, -1 if direct."""
        answer: Flags = self.direct(x, y)
        via = np.full(len(x), -1, np.int64)
        root = np.flatnonzero(~answer)
        early, target, hop = x[root], y[root], np.full(len(root), -1, np.int64)
        tried = np.zeros(0, np.int64)
        while len(root) and len(self._mails):
            root, early, target, hop = self._step_back(root, early, target, hop, host_of_client)
            code = root * np.int64(self._history.count + 1) + target
            fresh = ~np.isin(code, tried)
            root, early, target, hop = root[fresh], early[fresh], target[fresh], hop[fresh]
            if not len(root):
                break
            tried = np.concatenate((tried, code[fresh]))
            hit = self.direct(early, target)
            answer[root[hit]] = True
            via[root[hit]] = hop[hit]
            left = ~hit & ~answer[root]
            root, early, target, hop = root[left], early[left], target[left], hop[left]
        return answer, via

    def _step_back(
        self, root: Ints, early: Ints, target: Ints, hop: Ints, host_of_client: Ints
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Replace each target by what its sender had been given before, with T above that of `early`: mails, and what
        was sent on its topics.
        """
        client = self._history.client[target]
        of, topic = laid_out(self._topics_begin[client], self._topics_begin[client + 1] - self._topics_begin[client])
        line = np.concatenate((host_of_client[client], len(self._history.hosts) + self._topics[topic])) << 40
        of = np.concatenate((np.arange(len(target)), of))
        low = np.searchsorted(self._mail_key, line | self._rank[early[of]], side="right")
        high = np.searchsorted(self._mail_key, line | self._rank[target[of]], side="left")
        owner, at = laid_out(low, high - low)
        owner, mail = of[owner], self._mails[at]
        given = self._first(self._history.client[target[owner]], mail) <= self._sent_place[target[owner]]
        owner, mail = owner[given], mail[given]
        pair = np.stack((root[owner], mail), axis=1)
        _, keep = np.unique(pair, axis=0, return_index=True)
        owner, mail = owner[keep], mail[keep]
        return root[owner], early[owner], mail, np.where(hop[owner] >= 0, hop[owner], mail)


def judge(
    history: History, past: Past, stamps: Stamps, pairs: Pairs, host_of_client: Ints, names: list[str]
) -> list[dict[str, Any]]:
    """Findings: `causal` for pairs in happened-before, `causal_stamp` for pairs that only the stamps order."""
    if not len(pairs.x):
        return []
    code = pairs.x * np.int64(history.count + 1) + pairs.y
    unique, first, back = np.unique(code, return_index=True, return_inverse=True)
    x, y = pairs.x[first], pairs.y[first]
    answer, via = np.zeros(len(unique), bool), np.full(len(unique), -1, np.int64)
    for part in np.array_split(np.arange(len(unique)), max(1, len(unique) // PAIR_CHUNK)):
        answer[part], via[part] = past.before(x[part], y[part], host_of_client)
    by_stamp = stamps.covers(y, x)
    made = []
    for i in np.flatnonzero((answer | by_stamp)[back]).tolist():
        j = int(back[i])
        row = _finding(history, pairs, i, names)
        if answer[j]:
            row["witness"] += _proof(history, past, int(pairs.x[i]), int(pairs.y[i]), int(via[j]), names)
        else:
            row |= {"kind": "causal_stamp", "severity": INFO}
            row["witness"] += f"; only the stamp of {history.name(int(pairs.y[i]))} says that it came first"
        made.append(row)
    return made


def _finding(history: History, pairs: Pairs, i: int, names: list[str]) -> dict[str, Any]:
    x, y = int(pairs.x[i]), int(pairs.y[i])
    client, station = int(pairs.client[i]), int(pairs.station[i])
    who = f"station {station}" if station else f"host {names[client]}"
    when = f"at {place_text(pairs.x_place[i], station)}" if pairs.x_place[i] else "not yet"
    return {
        "kind": "causal", "severity": VIOLATION, "client": client, "host": "" if station else names[client],
        "station": station, "slot": history.slot[x], "n": history.n[x], "other_slot": history.slot[y],
        "other_n": history.n[y], "place": pairs.x_place[i], "other_place": pairs.y_place[i], "wall": pairs.wall[i],
        "witness": f"{who} got {history.name(y)} at {place_text(pairs.y_place[i], station)} and "
        f"{history.name(x)} {when}",
    }  # fmt: skip


def _proof(history: History, past: Past, x: int, y: int, via: int, names: list[str]) -> str:
    """In words: where the sender of y had x."""
    sender = names[int(history.client[y])]
    place = place_text(past._sent_place[y])
    if via >= 0:
        at = place_text(past._first(history.client[[y]], np.array([via]))[0])
        what = "mail" if history.kind[via] == MAIL else "message"
        return f"; {sender} had {what} {history.name(via)}, sent after {history.name(x)}, at {at} and sent at {place}"
    if history.client[x] == history.client[y]:
        return f"; {sender} sent both, {history.name(x)} first"
    at = place_text(past._first(history.client[[y]], np.array([x]))[0])
    return f"; {sender}, who sent {history.name(y)} at {place}, had {history.name(x)} at {at}"
