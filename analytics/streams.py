"""Deliveries, derived: what each host was given in its sessions, and at which place.

Source: docs/protocols/delivery-log.md, 'Deliveries'. All sessions of a bucket are expanded at once; there is no loop
per delivery or per session. `Places` answers the opposite question: when was this host first given that message?
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, laid_out, matrix, message_key, starts_of
from roamcast.analytics.history import NEVER, TO_ALL, TO_SUBSCRIBERS, History
from roamcast.analytics.ingest_sessions import session_keys
from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Flags, Ints, Tables

if TYPE_CHECKING:
    from roamcast.analytics.receivers import Journals
    from roamcast.analytics.subscriptions import Subscriptions

Deliveries = dict[str, Ints]
"""Columns of `tables.DELIVERIES`, sorted by (client, place); and `slot`, `n` of the message."""


class Sessions:
    """The sessions table as arrays, with the range of positions that each one can have given anything in."""

    def __init__(self, history: History, made: Tables) -> None:
        sessions, clients = made["sessions"], made["clients"]
        self.client, self.station, self.e, self.at, self.le, self.acked, self.given, self.wall, gap = (
            tables.column(sessions, name)
            for name in ("client", "station", "e", "at", "le", "acked", "given", "wall", "gap")
        )
        self.gap: Flags = gap != 0
        self.base = matrix(*ragged(sessions, "base"), int(history.slots.max(initial=0)) + 1)[:, history.slots]
        """n per slot, columns as in `History.slots`."""
        self.seen = self._seen(history, made["acks"])
        """Whether the host took part. If not, its WELCOME never came, and what the base says is no claim."""
        self.host_of_client: Ints = np.searchsorted(history.hosts, tables.column(clients, "host"))
        self.first = self._first_positions(history)
        self.low, self.high = self._ranges(history)
        """The rows of `History.all_orders` in which each session can have given anything."""
        self._low, self._high = self.low, self.high
        if history.plain is not None:
            self._low, self._high = np.searchsorted(history.plain, self.low), np.searchsorted(history.plain, self.high)
        self._spool(history, sessions)
        self.dropped: Flags = np.zeros(len(self.spool_session), bool)
        """Spool entries that went before it was known that they were given, since the SUB that they were owed under had
        ended; `Subscriptions` fills this in, and the next."""
        self.topic_rows = np.zeros(len(self.e), np.int64)
        """How many rows on topics each session has to look at."""
        self.range_of = np.searchsorted(self.client, np.arange(len(self.host_of_client) + 1))
        """Sessions of client i: range_of[i] to range_of[i + 1]."""

    def _seen(self, history: History, acks: pa.Table) -> Flags:
        sends = history.by_sender
        known = np.concatenate((
            session_keys(tables.column(acks, "client"), tables.column(acks, "e")),
            session_keys(history.client[sends], history.place[sends] >> PLACE_SHIFT),
        ))  # fmt: skip
        seen: Flags = np.isin(session_keys(self.client, self.e), known)
        return seen

    def _first_positions(self, history: History) -> Ints:
        """The first position of the session's station with a row that its base does not cover; NEVER if there is none.

        No order of a station is trusted to be in the order of n: the smallest position of what is uncovered counts.
        """
        first = np.full(len(self.e), NEVER)
        for station, order in history.orders.items():
            mine = np.flatnonzero(self.station == station)
            if not len(mine):
                continue
            position = np.full(history.count + 1, NEVER)
            position[order.message[::-1]] = order.position[::-1]  # what no station tells of goes behind the others
            for k, (a, b) in enumerate(pairwise(history.begins.tolist())):
                if a == b:
                    continue
                lowest = np.append(np.minimum.accumulate(position[a:b][::-1])[::-1], NEVER)
                begin = lowest[np.searchsorted(history.n[a:b], self.base[mine, k], side="right")]
                first[mine] = np.minimum(first[mine], begin)
        return first

    def _ranges(self, history: History) -> tuple[Ints, Ints]:
        low, high = np.zeros(len(self.e), np.int64), np.zeros(len(self.e), np.int64)
        for station, order in history.orders.items():
            mine = np.flatnonzero(self.station == station)
            begin = history.range_of_order[station][0]
            low[mine] = begin + np.searchsorted(order.position, np.maximum(self.first[mine], 1))
            high[mine] = begin + np.searchsorted(order.position, self.given[mine], side="right")
        return low, np.maximum(low, high)

    def _spool(self, history: History, sessions: pa.Table) -> None:
        """Spool entries of all sessions as columns: session, position, slot, n, message."""
        offsets, values = ragged(sessions, "spool")
        length = np.diff(offsets) // 2
        owner, element = laid_out(np.zeros(len(length), np.int64), length)
        self.spool_session = owner
        self.spool_position = element - length[owner]
        self.spool_slot = values[offsets[:-1][owner] + 2 * element]
        self.spool_n = values[offsets[:-1][owner] + 2 * element + 1]
        self.spool_message = history.find(self.spool_slot, self.spool_n)

    def in_spool(self, session: Ints, key: Ints) -> Ints:
        """The position of messages (as `message_key`) in the spools of sessions; 0: not in it."""
        made = np.zeros(len(session), np.int64)
        asked = np.flatnonzero(np.isin(session, self.spool_session))
        keys = message_key(self.spool_slot, self.spool_n)
        begin, end = np.searchsorted(self.spool_session, (session[asked], session[asked] + 1))
        owner, at = laid_out(begin, end - begin)
        hit = np.flatnonzero(keys[at] == key[asked][owner])
        made[asked[owner[hit]]] = self.spool_position[at[hit]]
        return made

    def rows(self) -> Ints:
        """How many positions each session has at most to look at: about its deliveries, for a broadcast group."""
        return self._high - self._low + self.topic_rows

    def expand(self, history: History, begin: int, end: int, more: Iterable[Deliveries] = ()) -> Deliveries:
        """Lay out what the sessions of clients begin to end - 1 gave, sorted by (client, place).

        more: what they gave for the sake of subscriptions, as `Subscriptions.expand` makes it.
        """
        a, b = int(self.range_of[begin]), int(self.range_of[end])
        made, spooled = self._from_orders(history, a, b), self._from_spools(a, b)
        others = [part for part in more if len(part["session"])]
        if len(spooled["session"]) or others:  # a session's spool has positions below 0
            parts = [spooled, made, *others]
            made = {name: np.concatenate([part[name] for part in parts]) for name in made}
            by = (
                np.lexsort((made["position"], made["session"]))
                if others
                else np.argsort(made["session"], kind="stable")
            )
            made = {name: values[by] for name, values in made.items()}
        session = made.pop("session") - a
        count = np.bincount(session, minlength=b - a)
        for name, values in (("client", self.client), ("e", self.e), ("station", self.station)):
            made[name] = np.repeat(values[a:b], count)
        made["place"] = (made["e"] << PLACE_SHIFT) | (made["position"] + PLACE_ZERO)
        made["acked"] = (made["position"] <= np.repeat(self.acked[a:b], count)).astype(np.int64)
        return made

    def _from_spools(self, a: int, b: int) -> dict[str, Ints]:
        i, j = np.searchsorted(self.spool_session, (a, b))
        session, position = self.spool_session[i:j], self.spool_position[i:j]
        taken = (position <= self.given[session]) & ~self.dropped[i:j]
        return {
            "session": session[taken],
            "position": position[taken],
            "message": self.spool_message[i:j][taken],
            "slot": self.spool_slot[i:j][taken],
            "n": self.spool_n[i:j][taken],
        }

    def _from_orders(self, history: History, a: int, b: int) -> dict[str, Ints]:
        session, row = laid_out(self._low[a:b], self._high[a:b] - self._low[a:b])
        session += a
        row = row if history.plain is None else history.plain[row]
        what = history.all_orders.message[row]
        n = history.n[what]
        width = self.base.shape[1]
        meant = n > self.base.reshape(-1)[session * width + history.column[what]]
        to = history.audience[what]
        mail = np.flatnonzero(to != TO_ALL)
        meant[mail] &= to[mail] == self.host_of_client[self.client[session[mail]]]
        if not meant.all():
            session, row, what, n = session[meant], row[meant], what[meant], n[meant]
        return {
            "session": session, "position": history.all_orders.position[row], "message": what,
            "slot": history.slot[what], "n": n,
        }  # fmt: skip


def ragged(source: pa.Table, name: str) -> tuple[Ints, Ints]:
    """A list column: (offsets, values)."""
    values = source.column(name).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pa.list_(pa.int64()))
    offsets = np.asarray(values.offsets).astype(np.int64)
    flat = np.asarray(values.values).astype(np.int64)
    return offsets - offsets[:1].sum(), flat[offsets[:1].sum() :]


def add_walls(deliveries: Deliveries, acks: pa.Table) -> None:
    """Add `wall`: of the first acknowledgement that covers the delivery; 0 where none does.

    deliveries: of clients whose acknowledgements are in `acks` (which may have more). Both are sorted by (client, e).
    """
    walls = np.zeros(len(deliveries["place"]), np.int64)
    key = session_keys(deliveries["client"], deliveries["e"])
    wanted = session_keys(tables.column(acks, "client"), tables.column(acks, "e"))
    c, wall = tables.column(acks, "c"), tables.column(acks, "wall")
    first = starts_of(key)
    last = np.append(first[1:], len(key))
    session = found(key[first], wanted)
    known = session >= 0
    session, c, wall = session[known], c[known], wall[known]
    # Position counts within a session: rank everything by (session, position) in one number.
    span = np.int64(1) << 40
    rank = np.repeat(np.arange(len(first)), last - first) * span + np.minimum(
        deliveries["position"] + (1 << 33), span - 1
    )
    upto = np.searchsorted(rank, session * span + np.minimum(c + (1 << 33), span - 1), side="right")
    lower = first[session]
    previous = np.concatenate(([0], upto[:-1]))
    same = np.concatenate(([False], session[1:] == session[:-1])) if len(session) else np.zeros(0, bool)
    begin = np.where(same, np.maximum(previous, lower), lower)
    owner, element = laid_out(begin, upto - begin)
    walls[element] = wall[owner]
    deliveries["wall"] = walls


class Places:
    """At which place a client was first given a message: by its journal where there is one, else by its sessions."""

    def __init__(self, history: History, sessions: Sessions, journals: Journals, subscriptions: Subscriptions) -> None:
        self._history = history
        self._sessions = sessions
        self._subscriptions = subscriptions
        spooled = (sessions.spool_position <= sessions.given[sessions.spool_session]) & ~sessions.dropped
        session = sessions.spool_session[spooled]
        key = self._key(sessions.client[session], sessions.spool_message[spooled])
        place = (sessions.e[session] << PLACE_SHIFT) | (sessions.spool_position[spooled] + PLACE_ZERO)
        by = np.lexsort((place, key))
        first = by[starts_of(key[by])]
        self._spool_key, self._spool_place = key[first], place[first]
        key = self._key(journals.client, journals.message)
        by = np.lexsort((journals.row, key))
        first = by[starts_of(key[by])]
        self._given_key, self._given_place = key[first], journals.place[first]
        self.journaled: Flags = np.zeros(len(sessions.host_of_client), bool)
        self.journaled[journals.clients] = True

    def _key(self, client: Ints, message: Ints) -> Ints:
        return (client << 40) | (message + 1)

    def first(self, client: Ints, message: Ints) -> Ints:
        """The place of each pair; NEVER if the client was not given that message."""
        key = self._key(client, message)
        best = np.full(len(client), NEVER)
        journaled = self.journaled[client]
        at = found(self._given_key, key)
        hit = journaled & (at >= 0)
        best[hit] = self._given_place[at[hit]]
        at = found(self._spool_key, key)
        hit = ~journaled & (at >= 0)
        best[hit] = self._spool_place[at[hit]]
        asked = np.flatnonzero(~journaled)
        for part in np.array_split(asked, max(1, len(asked) // 200_000)):
            best[part] = np.minimum(best[part], self._in_sessions(client[part], message[part]))
        return best

    def _in_sessions(self, client: Ints, message: Ints) -> Ints:
        """The same from the stations' orders alone."""
        history, sessions = self._history, self._sessions
        owner, session = laid_out(sessions.range_of[client], sessions.range_of[client + 1] - sessions.range_of[client])
        what = message[owner]
        to = history.audience[what]
        fits = (to == TO_ALL) | (to == sessions.host_of_client[client[owner]]) | (to == TO_SUBSCRIBERS)
        fits &= history.n[what] > sessions.base[session, history.column[what]]
        owner, session, what = owner[fits], session[fits], what[fits]
        best = np.full(len(client), NEVER)
        for station in np.unique(sessions.station[session]).tolist():
            mine = sessions.station[session] == station
            position = history.position_at(station, what[mine])
            given = (position > 0) & (position <= sessions.given[session[mine]])
            given[given] = self._subscriptions.were_given(session[mine][given], what[mine][given], position[given])
            place = (sessions.e[session[mine]] << PLACE_SHIFT) | (position + PLACE_ZERO)
            np.minimum.at(best, owner[mine][given], place[given])
        return best
