"""Who is subscribed to what where: which SUB of a client is in force at a position of a session.

Source: docs/protocols/delivery-log.md, 'Topics'; one-order.md 3.2, 4.1. Subscriptions evolve along a host's stream:
what counts for a message is the last change on its topic, in the order of the host's own numbers, that the base of the
session covers or that stands before the message in the order of the session's station. If that is a SUB, the host is
owed the message, unless others have ended the SUB before. Size: one row per change and station.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, laid_out, message_key, running_max, starts_of
from roamcast.analytics.history import NEVER, TO_ITSELF, TO_SUBSCRIBERS, History
from roamcast.analytics.streams import Deliveries, Sessions
from roamcast.analytics.subscription_ends import Ends
from roamcast.analytics.tables import Flags, Ints, Tables


@dataclass(slots=True)
class Force:
    """What is in force in some places; a row for each place."""

    change: Ints
    """Index in `Subscriptions` of the last change before it; -1: there is none."""
    sure: Flags
    """Subscribed: the host is owed what is said there."""
    maybe: Flags
    """The same, or the SUB was ended while things were under way, and nobody knows how far they came."""


class Subscriptions:
    """All changes of subscriptions: SUBs and their ends, sorted by (client, topic, number)."""

    def __init__(self, history: History, sessions: Sessions, made: Tables, floor: Mapping[int, int]) -> None:
        """floor: slot -> n; what is below was settled by earlier nights: it stands before all that is not."""
        self._history, self._sessions = history, sessions
        lost = [row["slot"] for row in made["closed"].to_pylist() if not row["heir"]]
        self._reached = {
            column: running_max(np.where(sessions.seen, sessions.base[:, column], 0), sessions.client)
            for column in np.unique(history.column_of_slot[lost]).tolist()
        }
        """Column of a lost station -> the greatest number that each session or one before it counts as had."""
        limit = np.array([floor.get(each, 0) for each in history.slots.tolist()], np.int64)
        self._lay_out(made["changes"], limit)
        void = self.old(limit) & ~self._told
        if void.any():  # what of them still stands, the earlier night has told
            self._lay_out(made["changes"].filter(pa.array(~void[self._of])), limit)
        self.ends = Ends(self, history, sessions, made)
        self._mark_dropped()
        self._count_rows()

    def _lay_out(self, changes: pa.Table, limit: Ints) -> None:
        history, sessions = self._history, self._sessions
        client, topic, number, sub, slot, n, place, station, position = (
            tables.column(changes, name) for name in tables.CHANGES.names
        )
        first = starts_of(client, topic, number, slot, n)
        self.client, self.number, self.slot, self.n, self.place = (
            values[first] for values in (client, number, slot, n, place)
        )
        self.sub: Flags = sub[first] != 0
        self.topic = np.searchsorted(history.topics, topic[first])
        """Index in `History.topics`."""
        self.column = history.column_of_slot[self.slot] if len(first) else first
        self.message = history.find(self.slot, self.n)
        """-1: settled by an earlier night."""
        of = self._of = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(client))))
        self._told: Flags = np.zeros(len(first), bool)
        self._told[of[station == 0]] = True
        ordered = np.flatnonzero(station > 0)
        key = self._place_key(of[ordered], history.column_of_slot[station[ordered]])
        by = np.argsort(key, kind="stable")
        self._placed: Ints = key[by]
        self._position: Ints = position[ordered][by]
        self.settled: Flags = self.n < limit[self.column] if len(first) else np.zeros(0, bool)
        pair = self._pair(self.client, self.topic)
        self.pair_begins: Ints = starts_of(pair)
        self._pairs: Ints = pair[self.pair_begins]
        """(client, topic) of each group of changes; those of group i: pair_begins[i] to pair_begins[i + 1]."""
        self.pair_begins = np.append(self.pair_begins, len(pair))
        self.pair_topic = self.topic[self.pair_begins[:-1]]
        clients = np.arange(len(sessions.host_of_client) + 1)
        self.pairs_of = np.searchsorted(self.client[self.pair_begins[:-1]], clients)
        """Groups of client i: pairs_of[i] to pairs_of[i + 1]."""
        self.of = np.searchsorted(self.client, clients)
        """Changes of client i: of[i] to of[i + 1]."""

    def __len__(self) -> int:
        return len(self.client)

    def _pair(self, client: Ints, topic: Ints) -> Ints:
        key: Ints = client * np.int64(len(self._history.topics) + 1) + topic
        return key

    def _place_key(self, change: Ints, column: Ints) -> Ints:
        key: Ints = change * np.int64(len(self._history.slots) + 1) + column
        return key

    def old(self, limit: Ints) -> Flags:
        """Which changes are settled and stand before everything that is not, at every station. limit: n per slot."""
        history = self._history
        made: Flags = self.n < limit[self.column] if len(self) else np.zeros(0, bool)
        every = np.arange(len(self))
        for station, order in history.orders.items() if made.any() else ():
            fresh = history.n[order.message] >= limit[history.column[order.message]]
            first = int(order.position[fresh].min(initial=NEVER))
            position = self.position_at(every, np.full(len(self), station, np.int64))
            made &= (position < first) | (position == NEVER)
        return made

    def position_at(self, change: Ints, station: Ints) -> Ints:
        """Position of each change in the order of a station; 0: before all that is told of it; NEVER: not in it."""
        at = found(self._placed, self._place_key(change, self._history.column_of_slot[station]))
        made: Ints = np.where(self.settled[change], 0, NEVER)
        made[at >= 0] = self._position[at[at >= 0]]
        return made

    def covered(self, change: Ints, session: Ints) -> Flags:
        """Whether the bases of sessions cover changes, or did so before what a lost station alone had was taken out."""
        column = self.column[change]
        made: Flags = self.n[change] <= self._sessions.base[session, column]
        for lost, reached in self._reached.items():
            made |= (column == lost) & (self.n[change] <= reached[session])
        return made

    def passed(self, change: Ints, session: Ints, station: Ints, position: Ints) -> Flags:
        """Whether the host of a session has passed each change before a position in the order of a station.

        An heir that had come late does not have what the session's own station has ordered before.
        """
        sessions = self._sessions
        made = self.covered(change, session)
        left = np.flatnonzero(~made)
        where = self.position_at(change[left], station[left])
        made[left] = where < position[left]
        late = left[(where == NEVER) & (station[left] != sessions.station[session[left]])]
        made[late] = self.position_at(change[late], sessions.station[session[late]]) < NEVER
        return made

    def in_force(self, session: Ints, topic: Ints, position: Ints, station: Ints | None = None) -> Force:
        """What is in force on topics (indices) at positions of sessions.

        station: in whose order the positions are; None: in those of the sessions' own stations.
        """
        sessions = self._sessions
        at = found(self._pairs, self._pair(sessions.client[session], topic))
        begin = self.pair_begins[np.maximum(at, 0)]
        count = np.where(at >= 0, self.pair_begins[np.maximum(at, 0) + 1] - begin, 0) if len(self) else 0 * session
        owner, change = laid_out(begin, count)
        whose = sessions.station[session] if station is None else station
        before = np.flatnonzero(self.passed(change, session[owner], whose[owner], position[owner]))
        last = np.full(len(session), -1, np.int64)
        last[owner[before]] = change[before]  # the last one of each counts
        known = np.flatnonzero(last >= 0)
        known = known[self.sub[last[known]]]
        sure, maybe = np.zeros(len(session), bool), np.zeros(len(session), bool)
        own = np.ones(len(known), bool) if station is None else station[known] == sessions.station[session[known]]
        sure[known], maybe[known] = self.ends.stand(last[known], session[known], position[known], own)
        return Force(last, sure, maybe)

    def were_given(self, session: Ints, message: Ints, position: Ints) -> Flags:
        """Whether the audience of these messages, which sessions have come to at positions, allows to say: given.

        Only of messages on topics it is a question; a subscription or its end counts as not given.
        """
        made: Flags = np.ones(len(session), bool)
        asked = np.flatnonzero(self._history.topic[message] >= 0)
        if len(asked):
            force = self.in_force(session[asked], self._history.topic[message[asked]], position[asked])
            made[asked] = force.sure & (self._history.audience[message[asked]] == TO_SUBSCRIBERS)
        return made

    # ---- deliveries ----

    def expand(self, begin: int, end: int) -> list[Deliveries]:
        """What sessions of clients begin to end - 1 gave of topics, of subscriptions and of their ends."""
        if self.of[begin] == self.of[end]:
            return []
        a, b = (int(i) for i in self._sessions.range_of[[begin, end]])
        return [self._on_topics(a, b), self._own_changes(a, b)]

    def _topic_ranges(self, a: int, b: int) -> tuple[Ints, Ints, Ints, Ints]:
        """For sessions a to b - 1 and each topic that their clients were ever subscribed to: (session, topic, begin and
        end in `History.topic_rows` of what they can have given)."""
        history, sessions = self._history, self._sessions
        groups = self.pairs_of[sessions.client[a:b]]
        session, group = laid_out(groups, self.pairs_of[sessions.client[a:b] + 1] - groups)
        session += a
        topic = self.pair_topic[group]
        low, high = (
            np.searchsorted(history.topic_rows, history.topic_key(topic, rows[session]))
            for rows in (sessions.low, sessions.high)
        )
        return session, topic, low, high

    def _count_rows(self) -> None:
        """Tell the sessions how many rows on topics each of them has to look at."""
        if not len(self):
            return
        for a in range(0, len(self._sessions.e), 100_000):
            b = min(a + 100_000, len(self._sessions.e))
            session, _, low, high = self._topic_ranges(a, b)
            self._sessions.topic_rows[a:b] = np.bincount(session - a, high - low, minlength=b - a)

    def _on_topics(self, a: int, b: int) -> Deliveries:
        history, sessions = self._history, self._sessions
        session, topic, low, high = self._topic_ranges(a, b)
        owner, at = laid_out(low, high - low)
        session, topic = session[owner], topic[owner]
        row = history.topic_rows[at] - history.topic_key(topic, np.zeros(len(at), np.int64))
        message = history.all_orders.message[row]
        fresh = history.n[message] > sessions.base[session, history.column[message]]
        session, topic, row, message = (values[fresh] for values in (session, topic, row, message))
        position = history.all_orders.position[row]
        sure = self.in_force(session, topic, position).sure
        return self._columns(session[sure], position[sure], message[sure])

    def _own_changes(self, a: int, b: int) -> Deliveries:
        sessions = self._sessions
        client = sessions.client[a:b]
        session, change = laid_out(self.of[client], self.of[client + 1] - self.of[client])
        session += a
        position = self.position_at(change, sessions.station[session])
        given = (self.message[change] >= 0) & (position > 0) & (position <= sessions.given[session])
        given &= self.n[change] > sessions.base[session, self.column[change]]
        session, change, position = (values[given] for values in (session, change, position))
        sure = ~self.sub[change]
        subs = np.flatnonzero(~sure)
        own = np.ones(len(subs), bool)
        sure[subs] = self.ends.stand(change[subs], session[subs], position[subs], own)[0]
        return self._columns(session[sure], position[sure], self.message[change][sure])

    def _columns(self, session: Ints, position: Ints, message: Ints) -> Deliveries:
        history = self._history
        return {
            "session": session, "position": position, "message": message, "slot": history.slot[message],
            "n": history.n[message],
        }  # fmt: skip

    def _mark_dropped(self) -> None:
        """Spool entries that went in the middle of their session, since the SUB that they were owed under had ended."""
        sessions, history, ends = self._sessions, self._history, self.ends
        if not len(ends.in_session):
            return
        known = np.flatnonzero(sessions.spool_message >= 0)
        message = sessions.spool_message[known]
        known = known[(history.topic[message] >= 0) & ~self._is_end(message)]
        session, message = sessions.spool_session[known], sessions.spool_message[known]
        at = found(ends.in_session, ends.session_key(session, history.topic[message]))
        late = (at >= 0) & (sessions.spool_position[known] > ends.in_session_c[np.maximum(at, 0)])
        sessions.dropped[known[late]] = True

    def _is_end(self, message: Ints) -> Flags:
        """Whether messages are ends of subscriptions."""
        made: Flags = self._history.kind[message] > tables.FIRST_CHANGE
        made &= self._history.audience[message] == TO_ITSELF
        return made

    def keys(self) -> Ints:
        """`message_key` of each change."""
        return message_key(self.slot, self.n)
