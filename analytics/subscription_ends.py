"""SUBs that others than the host have ended: by a right that went, with custody that was given up, or with a station
that was lost and took along what it knew of its hosts.

Source: docs/protocols/delivery-log.md, `ended`. An end counts if the host took part in the session in which it was
told. One in a session that the host never saw counts if its custody was at that station: then it had ended before the
next session that it saw. Elsewhere it was the end of a copy that nobody has used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.columns import found, laid_out, message_key, starts_of
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.ingest_sessions import session_keys
from roamcast.analytics.streams import Sessions
from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Flags, Ints, Tables

if TYPE_CHECKING:
    from roamcast.analytics.subscriptions import Subscriptions

BEFORE = 1 - PLACE_ZERO
"""As in middleware/delivery_log.py; a test compares them."""


def heirs_of(made: Tables) -> dict[int, tuple[int, ...]]:
    """Slot of a retired station -> its heir, the heir of that, ..."""
    heir = {row["slot"]: row["heir"] for row in made["closed"].to_pylist() if row["heir"]}
    chains: dict[int, tuple[int, ...]] = {}
    for slot in heir:
        chain = [slot]
        while chain[-1] in heir and heir[chain[-1]] not in chain:
            chain.append(heir[chain[-1]])
        chains[slot] = tuple(chain[1:])
    return chains


class Ends:
    """For each change in `Subscriptions`: where it was ended, if it is a SUB that others than the host have ended."""

    def __init__(self, changes: Subscriptions, history: History, sessions: Sessions, made: Tables) -> None:
        self._sessions = sessions
        self._keys = session_keys(sessions.client, sessions.e)
        count = len(changes)
        self.e = np.full(count, NEVER)
        """The session; NEVER: it was not ended."""
        self.c = np.full(count, NEVER)
        """What the host had acknowledged of that session by then; BEFORE: it ended before that began."""
        self.last = np.full(count, NEVER)
        """In that session nothing behind this position is given."""
        self.doubtful: Flags = np.zeros(count, bool)
        """It may have survived: it was under way when its station ended all that it knew."""
        self.by_every: Flags = np.zeros(count, bool)
        """Its end is one of all SUBs, before the session."""
        self.stale: Flags = np.zeros(len(made["ended"]), bool)
        """Rows of `ended` about custody that had been given away."""
        self._width = np.int64(len(history.topics) + 1)
        self.in_session = self.in_session_c = np.zeros(0, np.int64)
        """Topics of SUBs that ended in the middle of sessions, as `session_key`, sorted; and the first `c` of each."""
        if count:
            self._set(changes, made)

    def _set(self, changes: Subscriptions, made: Tables) -> None:
        client, slot, n, e, c, last, station, wall = (
            tables.column(made["ended"], name) for name in ("client", "slot", "n", "e", "c", "last", "station", "wall")
        )
        valid, unseen = self._counts(made, client, e, c, station, wall)
        every = np.flatnonzero(valid & ~unseen & (slot == 0) & (c == BEFORE))
        c, last = np.where(unseen, BEFORE, c), np.where(unseen, BEFORE, last)
        self._before_sessions(changes, found(self._keys, session_keys(client[every], e[every])))
        one = np.flatnonzero(valid & (slot > 0))
        key = message_key(slot[one], n[one])
        by_key = np.argsort(changes.keys(), kind="stable")
        at = found(changes.keys()[by_key], key)
        one, change = one[at >= 0], by_key[at[at >= 0]]
        mine = changes.client[change] == client[one]
        self._end(change[mine], e[one][mine], c[one][mine], last[one][mine])
        self._set_in_sessions(changes)

    def _counts(self, made: Tables, client: Ints, e: Ints, c: Ints, station: Ints, wall: Ints) -> tuple[Flags, Flags]:
        """Which ends count, and which of all were told in sessions that their hosts did not see."""
        good = self._seen(client, e)
        unseen = ~good
        good[unseen] = self._in_custody(made, client[unseen], e[unseen], station[unseen])
        self._find_stale(made, np.flatnonzero(good & (c > BEFORE)), (client, e, station, wall))
        return good & ~self.stale, unseen

    def _find_stale(self, made: Tables, rows: Ints, of: tuple[Ints, Ints, Ints, Ints]) -> None:
        """Ends at stations that had given custody away before, to one where the host took part in a session."""
        client, e, station, wall = (values[rows] for values in of)
        whose, owner, to, when = (tables.column(made["handoffs"], n) for n in ("client", "station", "e", "wall"))
        begin, end = np.searchsorted(whose, client), np.searchsorted(whose, client + 1)
        row, at = laid_out(begin, end - begin)
        gone = (owner[at] == station[row]) & (to[at] > e[row]) & (when[at] < wall[row])  # not in the same tick
        row, at = row[gone], at[gone]
        known = found(self._keys, session_keys(whose[at], to[at])) >= 0
        self.stale[rows[row[known & self._seen(whose[at], to[at])]]] = True

    def _in_custody(self, made: Tables, client: Ints, e: Ints, station: Ints) -> Flags:
        """Whether stations had the custody of clients in sessions that these did not see: as in the last seen one."""
        sessions = self._sessions
        seen = np.flatnonzero(sessions.seen)
        if not len(seen):
            return np.zeros(len(client), bool)
        at = np.searchsorted(self._keys[seen], session_keys(client, e)) - 1
        before = seen[np.maximum(at, 0)]
        known = (at >= 0) & (sessions.client[before] == client)
        holder = sessions.station[before]
        good: Flags = known & (holder == station)
        heirs = heirs_of(made)
        for i in np.flatnonzero(known & ~good & np.isin(holder, list(heirs))).tolist():
            good[i] = int(station[i]) in heirs[int(holder[i])]
        return good

    def _seen(self, client: Ints, e: Ints) -> Flags:
        """Whether the host took part in sessions; of those that are settled it is known."""
        at = found(self._keys, session_keys(client, e))
        seen: Flags = np.ones(len(at), bool)
        seen[at >= 0] = self._sessions.seen[at[at >= 0]]
        return seen

    def _before_sessions(self, changes: Subscriptions, told: Ints) -> None:
        """All SUBs that their station knew of end before these sessions, and before those that tell of a gap."""
        sessions = self._sessions
        session = np.union1d(told[told >= 0], np.flatnonzero(sessions.gap & sessions.seen))
        client = sessions.client[session]
        owner, change = laid_out(changes.of[client], changes.of[client + 1] - changes.of[client])
        session, change = session[owner][changes.sub[change]], change[changes.sub[change]]
        had = sessions.in_spool(session, changes.keys()[change]) == 0
        covered = changes.covered(change, session)
        under_way = ~covered & (changes.place[change] >> PLACE_SHIFT < sessions.e[session])
        for which, doubtful in ((covered & had, False), (under_way, True)):
            before = np.full(which.sum(), BEFORE)
            self._end(change[which], sessions.e[session[which]], before, before, doubtful, by_every=True)

    def _end(self, change: Ints, e: Ints, c: Ints, last: Ints, doubtful: bool = False, by_every: bool = False) -> None:
        """The first end of each counts."""
        by = np.lexsort((c, e, change))
        first = by[starts_of(change[by])]
        change, e, c, last = change[first], e[first], c[first], last[first]
        earlier = (e < self.e[change]) | ((e == self.e[change]) & (c < self.c[change]))
        change = change[earlier]
        self.e[change], self.c[change], self.last[change] = e[earlier], c[earlier], last[earlier]
        self.doubtful[change], self.by_every[change] = doubtful, by_every

    def session_key(self, session: Ints, topic: Ints) -> Ints:
        """One number for a session (index) and a topic (index)."""
        key: Ints = session * self._width + topic
        return key

    def _set_in_sessions(self, changes: Subscriptions) -> None:
        ended = np.flatnonzero((self.e < NEVER) & (self.c > BEFORE))
        session = found(self._keys, session_keys(changes.client[ended], self.e[ended]))
        ended, session = ended[session >= 0], session[session >= 0]
        key = self.session_key(session, changes.topic[ended])
        by = np.lexsort((self.c[ended], key))
        first = by[starts_of(key[by])]
        self.in_session, self.in_session_c = key[first], self.c[ended][first]

    def stand(self, change: Ints, session: Ints, position: Ints, own: Flags) -> tuple[Flags, Flags]:
        """Whether SUBs still stand at positions of sessions: (surely, perhaps). own: in the order of their station."""
        e, begins = self._sessions.e[session], self.e[change]
        sure: Flags = (e < begins) | ((e == begins) & own & (position <= self.c[change]))
        maybe: Flags = sure | ((e == begins) & ((position <= self.last[change]) | (~own & (self.c[change] > BEFORE))))
        return sure & ~(self.doubtful[change] & (e >= begins)), maybe | self.doubtful[change]
