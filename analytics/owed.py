"""What a client is owed for the sake of its subscriptions, whether it was given it or not, and what it may be given.

Source: docs/protocols/delivery-log.md, 'Topics'. A host passes a message in the last of its sessions whose base does
not cover it, by the order of that session's station; or, where that was retired meanwhile, by that of its heir. It is
owed what all orders say in which it can have passed the message; and may be given what any of them says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roamcast.analytics.columns import N_BITS, found
from roamcast.analytics.history import NEVER, TO_SUBSCRIBERS, History
from roamcast.analytics.streams import Deliveries, Sessions
from roamcast.analytics.subscription_ends import BEFORE, heirs_of
from roamcast.analytics.subscriptions import Force, Subscriptions
from roamcast.analytics.tables import Flags, Ints, Tables

NOTHING = np.zeros(0, np.int64)


@dataclass(slots=True)
class Passing:
    """Where a client has passed some messages, or will."""

    session: Ints
    """Index in Sessions; -1: it had passed them before the first one that is known, or there is none."""
    turn: Ints
    """The same, counted among the sessions in which it took part, from 0."""


class Owed:
    """Looks up what is owed, client by client; nothing is kept."""

    def __init__(
        self, history: History, sessions: Sessions, subscriptions: Subscriptions, made: Tables, since_ever: bool
    ) -> None:
        """since_ever: subscriptions of before what is read are known, too."""
        self._history, self._sessions, self._subscriptions = history, sessions, subscriptions
        self._since_ever = since_ever
        self._heirs = heirs_of(made)

    def of(self, client: int) -> tuple[Ints, Ints]:
        """Messages on topics, subscriptions and their ends that a client is owed surely; and in which session each."""
        subscriptions, history = self._subscriptions, self._history
        a, b = (int(i) for i in subscriptions.of[client : client + 2])
        taken = self._taken_part(client)
        if a == b or not len(taken):
            return NOTHING, NOTHING
        topics = subscriptions.pair_topic[subscriptions.pairs_of[client] : subscriptions.pairs_of[client + 1]]
        cuts = zip(history.topic_begins[topics].tolist(), history.topic_begins[topics + 1].tolist(), strict=True)
        messages = np.concatenate([history.on_topic[i:j] for i, j in cuts])
        messages, passing = self._passed(taken, messages)
        change, owed = self._by_orders(passing.session, messages)
        mine = np.arange(a, b)[subscriptions.message[a:b] >= 0]
        own, of_own = self._passed(taken, subscriptions.message[mine])
        asked = np.concatenate((messages[owed], own))
        change = np.concatenate((change[owed], mine[np.isin(subscriptions.message[mine], own)]))
        session, turn = (
            np.concatenate((every[owed], more))
            for every, more in ((passing.session, of_own.session), (passing.turn, of_own.turn))
        )
        good = ~self._ended_first(taken, asked, change, Passing(session, turn))
        return asked[good], session[good]

    def _passed(self, taken: Ints, messages: Ints) -> tuple[Ints, Passing]:
        """Those messages that are passed in sessions which are known, and where."""
        passing = self._passing(taken, messages)
        known = np.flatnonzero(passing.session >= 0)
        return messages[known], Passing(passing.session[known], passing.turn[known])

    def _taken_part(self, client: int) -> Ints:
        a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
        return a + np.flatnonzero(self._sessions.seen[a:b])

    def _passing(self, sessions: Ints, messages: Ints) -> Passing:
        """The last of these sessions of one client whose base, or an earlier one's, does not cover each message."""
        history = self._history
        base = np.maximum.accumulate(self._sessions.base[sessions], axis=0)
        width = base.shape[1]
        flat = ((np.arange(width) << (N_BITS + 1)) + base).T.reshape(-1)
        column = history.column[messages]
        at = np.searchsorted(flat, (column << (N_BITS + 1)) + history.n[messages], side="left")
        turn = at - column * len(sessions) - 1
        if not len(sessions):
            return Passing(np.full(len(messages), -1), turn)
        return Passing(np.where(turn >= 0, sessions[np.maximum(turn, 0)], -1), turn)

    def _by_orders(self, session: Ints, messages: Ints) -> tuple[Ints, Flags]:
        """(SUB, whether the client is owed them under it): in all orders in which sessions can have passed messages."""
        history, subscriptions = self._history, self._subscriptions
        told = np.zeros(len(messages), bool)
        owed = np.ones(len(messages), bool)
        change = np.full(len(messages), -1, np.int64)
        for rows, station, position in self._orders(session, messages):
            force = subscriptions.in_force(session[rows], history.topic[messages[rows]], position, station)
            told[rows] = True
            owed[rows] &= force.sure
            change[rows] = np.where(change[rows] >= 0, change[rows], force.change)
        return change, told & owed

    def _orders(self, session: Ints, messages: Ints) -> list[tuple[Ints, Ints, Ints]]:
        """(rows, stations, positions): messages in the orders of their sessions' stations and, of those, heirs."""
        made = []
        for own in np.unique(self._sessions.station[session]).tolist():
            mine = np.flatnonzero(self._sessions.station[session] == own)
            for each in (own, *self._heirs.get(own, ())):
                position = self._history.position_at(each, messages[mine])
                there = mine[position > 0]
                made.append((there, np.full(len(there), each, np.int64), position[position > 0]))
        return made

    def _ended_first(self, taken: Ints, messages: Ints, change: Ints, passing: Passing) -> Flags:
        """Whether the SUB of each message was ended by others while the message was under way to its host."""
        sessions, ends = self._sessions, self._subscriptions.ends
        made: Flags = np.zeros(len(messages), bool)
        rows = np.flatnonzero(self._subscriptions.sub[change] & (ends.e[change] < NEVER))
        if not len(rows):
            return made
        sub = change[rows]
        e, c = ends.e[sub], ends.c[sub]
        opening = c == BEFORE
        numbers = sessions.e[taken]
        end = np.searchsorted(numbers, e, side="right") - 1
        end = np.where(opening, np.searchsorted(numbers, e, side="left") - 1, end)
        there = passing.turn[rows] == end
        position = np.zeros(len(rows), np.int64)
        for each in np.unique(sessions.station[passing.session[rows]]).tolist():
            mine = sessions.station[passing.session[rows]] == each
            position[mine] = self._history.position_at(each, messages[rows[mine]])
        made[rows] = (passing.turn[rows] > end) | (there & (opening | (position == 0) | (position > c)))
        waits = np.flatnonzero(end >= 0)
        key = self._history.key[messages[rows[waits]]]
        spooled = sessions.in_spool(taken[end[waits]], key)
        made[rows[waits]] |= (spooled < 0) & (opening[waits] | (spooled > c[waits]))
        return made

    # ---- what it may be given ----

    def unasked(self, client: int, mine: Deliveries) -> tuple[Ints, Flags]:
        """Rows of what a client was given, by spools or by its journal, on topics that it was not subscribed to there.

        Also of which of them that is not sure: it may have been subscribed before what is known of it begins.
        """
        history, sessions = self._history, self._sessions
        message = mine["message"]
        asked = np.flatnonzero((message >= 0) & ((mine["position"] < 0) | (mine["station"] == 0)))
        asked = asked[history.audience[message[asked]] == TO_SUBSCRIBERS]
        if not len(asked):
            return NOTHING, np.zeros(0, bool)
        a, b = (int(i) for i in sessions.range_of[client : client + 2])
        at = found(sessions.e[a:b], mine["e"][asked])
        asked, session = asked[at >= 0], a + at[at >= 0]
        spooled = mine["position"][asked] < 0
        allowed, change = np.ones(len(asked), bool), np.full(len(asked), -1, np.int64)
        allowed[~spooled], change[~spooled] = self._allowed_in_order(session[~spooled], message[asked[~spooled]])
        for each in np.unique(session[spooled]).tolist():
            rows = np.flatnonzero(spooled & (session == each))
            allowed[rows], change[rows] = self._allowed_in_spool(client, each, message[asked[rows]])
        begins_late = bool(a < b and sessions.le[a] != 0)
        unknown = (change < 0) & (begins_late or not self._since_ever)
        return asked[~allowed], unknown[~allowed]

    def _allowed_in_order(self, session: Ints, message: Ints) -> tuple[Flags, Ints]:
        """Whether sessions may give messages by the orders of their own stations, and the last change before each."""
        history, sessions = self._history, self._sessions
        made: Flags = np.zeros(len(session), bool)
        change = np.full(len(session), -1, np.int64)
        for each in np.unique(sessions.station[session]).tolist():
            mine = np.flatnonzero(sessions.station[session] == each)
            position = history.position_at(each, message[mine])
            fresh = history.n[message[mine]] > sessions.base[session[mine], history.column[message[mine]]]
            there = mine[(position > 0) & fresh]
            position = position[(position > 0) & fresh]
            force = self._subscriptions.in_force(session[there], history.topic[message[there]], position)
            made[there], change[there] = force.maybe, force.change
        return made, change

    def _allowed_in_spool(self, client: int, session: int, message: Ints) -> tuple[Flags, Ints]:
        """The same for messages in the spool of a session."""
        history, subscriptions = self._history, self._subscriptions
        made: Flags = np.zeros(len(message), bool)
        change = self._within(client, session, message)
        made[change >= 0] = subscriptions.sub[change[change >= 0]]
        taken = self._taken_part(client)
        passing = self._passing(taken[taken < session], message)
        rows = np.flatnonzero((change < 0) & (passing.session >= 0))
        for part, station, position in self._orders(passing.session[rows], message[rows]):
            mine = rows[part]
            force = subscriptions.in_force(passing.session[mine], history.topic[message[mine]], position, station)
            made[mine] |= force.maybe & self._stands_at_begin(force, session)
            change[mine] = np.maximum(change[mine], force.change)
        return made, change

    def _within(self, client: int, session: int, message: Ints) -> Ints:
        """The last change on each message's topic that stands before it in the spool; -1: there is none."""
        sessions, subscriptions = self._sessions, self._subscriptions
        mine = np.arange(*(int(i) for i in subscriptions.of[client : client + 2]))
        each = np.full(len(mine), session, np.int64)
        position = sessions.in_spool(each, subscriptions.keys()[mine])
        mine, position = mine[position < 0], position[position < 0]
        where = sessions.in_spool(np.full(len(message), session, np.int64), self._history.key[message])
        last = np.full(len(message), -1, np.int64)
        for change, at in zip(mine.tolist(), position.tolist(), strict=True):  # few: as many as it has asked for
            last[(self._history.topic[message] == subscriptions.topic[change]) & (where > at)] = change
        return last

    def _stands_at_begin(self, force: Force, session: int) -> Flags:
        """Whether SUBs had not been ended when a session began."""
        ends, e = self._subscriptions.ends, int(self._sessions.e[session])
        stands: Flags = force.change >= 0
        known = force.change[stands]
        ended = (ends.e[known] < e) | ((ends.e[known] == e) & (ends.c[known] == BEFORE))
        stands[stands] = ~ended | ends.doubtful[known]
        return stands
