"""What an agent acknowledges without giving it to its application: so a journal does not have it, and nothing is lost.

Source: docs/protocols/host-link.md; middleware/mobile_host/inbox.py. Refused messages are told by receipts. Of the
presence of a host nothing is given that is older than what was given before. And at another station a message on a
topic may stand before the end of its subscription that the application was given already.
"""

from __future__ import annotations

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.history import REFUSED, TO_ITSELF, TO_SUBSCRIBERS, History
from roamcast.analytics.owed import Owed
from roamcast.analytics.receivers import Journals
from roamcast.analytics.streams import Deliveries, Sessions
from roamcast.analytics.subscriptions import Subscriptions
from roamcast.analytics.tables import Flags, Ints


def _rank(history: History, message: Ints | int) -> Ints:
    """Attempt, and away after attached."""
    made: Ints = 2 * history.number[message] + (history.kind[message] == tables.LAST_PRESENCE)
    return made


class Withheld:
    """Looks it up, client by client."""

    def __init__(
        self, history: History, sessions: Sessions, subscriptions: Subscriptions, owed: Owed, journals: Journals
    ) -> None:
        self._history, self._sessions, self._subscriptions = history, sessions, subscriptions
        self._owed, self._journals = owed, journals

    def of_claims(self, client: int, claims: Deliveries) -> Flags:
        """Which claims of a client's stations its agent may have kept to itself; none of which nothing is known."""
        a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
        made: Flags = claims["message"] >= 0
        session = a + np.searchsorted(self._sessions.e[a:b], claims["e"][made])
        made[made] = self._may_be(client, claims["message"][made], session)
        return made

    def messages(self, client: int) -> Ints:
        """Messages that the agent need not give, if it comes to them."""
        message, session = self._owed.of(client)
        refused = np.flatnonzero(
            (self._history.kind == REFUSED) & (self._history.audience == self._sessions.host_of_client[client])
        )
        return np.concatenate((refused, message[self._may_be(client, message, session)]))

    def _may_be(self, client: int, message: Ints, session: Ints) -> Flags:
        history = self._history
        others = (history.audience[message] == TO_ITSELF) & (history.client[message] != client)
        made: Flags = (history.kind[message] == REFUSED) | others  # of another incarnation
        asked = np.flatnonzero(history.audience[message] == TO_SUBSCRIBERS)
        if len(asked):
            made[asked] |= self._old_presence(client, message[asked], session[asked])
            made[asked] |= self._behind_end(client, message[asked], session[asked])
        return made

    def _old_presence(self, client: int, message: Ints, session: Ints) -> Flags:
        """Whether the application may have had something newer of the same incarnation of the host: a message, or a
        last value, which no journal has, and which stood before its SUB or had been passed elsewhere.
        """
        history, sessions = self._history, self._sessions
        made: Flags = np.zeros(len(message), bool)
        given = self._journals.message[self._journals.of(client)]
        for i in np.flatnonzero(history.kind[message] >= tables.FIRST_PRESENCE).tolist():
            x, s = int(message[i]), int(session[i])
            known = history.on_topic[slice(*history.topic_begins[history.topic[x] : history.topic[x] + 2].tolist())]
            newer = known[(history.place[known] == history.place[x]) & (_rank(history, known) > _rank(history, x))]
            position = history.position_at(int(sessions.station[s]), np.append(newer, x))
            before = (position[:-1] > 0) & (position[:-1] < position[-1])
            before |= history.n[newer] <= sessions.base[s, history.column[newer]]
            made[i] = bool((before | np.isin(newer, given)).any())
        return made

    def _behind_end(self, client: int, message: Ints, session: Ints) -> Flags:
        """Whether the end of the subscription was given in an earlier session, and comes again behind the message."""
        sessions, subscriptions, journals = self._sessions, self._subscriptions, self._journals
        made: Flags = np.zeros(len(message), bool)
        rows = journals.of(client)
        mine = np.arange(*(int(i) for i in subscriptions.of[client : client + 2]))
        topic = self._history.topic[message]
        for end in mine[~subscriptions.sub[mine] & (subscriptions.message[mine] >= 0)].tolist():
            given = journals.e[rows][journals.message[rows] == subscriptions.message[end]]
            if not len(given):
                continue
            later = np.flatnonzero((topic == subscriptions.topic[end]) & (sessions.e[session] > given.min()))
            again = subscriptions.n[end] > sessions.base[session[later], subscriptions.column[end]]
            key = np.full(len(later), subscriptions.keys()[end])
            made[later] |= again | (sessions.in_spool(session[later], key) < 0)
        return made
