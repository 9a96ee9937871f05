"""Who is owed what from where: the incarnations of each host in turn, their starts and ends, and streams that ended.

Source: docs/protocols/delivery-log.md, `member`, `session`, `closed`; overview 8. A host's first incarnation is owed
what the enrolment's base does not cover. A later one goes on where the one before it stood, or, if it was told of a
gap, from its first session's base.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.columns import matrix
from roamcast.analytics.history import NEVER, History
from roamcast.analytics.streams import Sessions, ragged
from roamcast.analytics.tables import Flags, Ints, Tables

BIND = 4
"""Kind of the row by which an incarnation is the first one of its host."""

ENROLLED, EXPIRED, LEFT = 0, 1, 2
"""`what` of members; as in middleware/delivery_log.py."""


@dataclass(slots=True)
class Life:
    """One incarnation of a host."""

    client: int
    host: int
    """Index in `History.hosts`."""
    start: Ints
    """n per slot (columns of `History.slots`): nothing up to it is owed."""
    enrolled: bool
    """The start is known from the enrolment: not only claimed by the first session."""
    joined: bool = False
    """It came as a new incarnation of a name, with a JOIN row."""
    heir_of: tuple[int, ...] = ()
    """Earlier incarnations whose deliveries count, for this one goes on where they stood."""
    live: bool = True
    """It may still be given what it is owed: it has not left, was not replaced, its custody has not expired."""
    expired: list[int] = field(default_factory=list)
    """When its custody ended, by expiry or because it left, us."""


class Membership:
    """The lives of all hosts, and the cuts of stations that ended."""

    def __init__(self, history: History, sessions: Sessions, made: Tables) -> None:
        members, clients = made["members"], made["clients"]
        self.client, self.what, self.wall = (tables.column(members, name) for name in ("client", "what", "wall"))
        width = int(history.slots.max(initial=0)) + 1
        self._base = matrix(*ragged(members, "base"), width)[:, history.slots]
        self._join = tables.column(clients, "join")
        self._sessions = sessions
        self._first = set(history.client[history.kind == BIND].tolist())
        """Clients that are known to be the first incarnations of their hosts."""
        incarnation = clients.column("incarnation").to_numpy()
        self._unbound = incarnation == 0
        self.lives: dict[int, Life] = {}
        by_host: dict[int, list[int]] = {}
        for client, host in enumerate(sessions.host_of_client.tolist()):
            by_host.setdefault(host, []).append(client)
        for host, its in by_host.items():
            self._of_host(host, its)
        self.cut = np.full(len(history.slots), NEVER)
        """Per slot: the last number of an ended station; NEVER: it has not ended."""
        self.lost: set[int] = set()
        """Slots of stations that were lost, with whatever only they had."""
        self._known_ended: dict[tuple[int, int], int] = {}
        for row in made["closed"].to_pylist():
            key = (row["station"], row["slot"])
            self._known_ended[key] = min(row["wall"], self._known_ended.get(key, NEVER))
            at = int(history.column_of_slot[row["slot"]])
            self.cut[at] = min(int(self.cut[at]), row["cut"])
            if row["heir"] == 0:
                self.lost.add(row["slot"])

    def knew_ended(self, station: Ints, slot: int, wall: Ints) -> Flags:
        """Whether each station knew at a time of its own clock that the station of a slot, which others say, had ended.

        One that does not log it joined later and has known it from the start.
        """
        since = [self._known_ended.get((own, slot), 0) for own in station.tolist()]
        known: Flags = wall >= np.array(since, np.int64)
        return known

    def _of_host(self, host: int, its: list[int]) -> None:
        rows = np.flatnonzero(np.isin(self.client, its))
        enrolments = rows[self.what[rows] == ENROLLED]
        bound = [client for client in its if not self._unbound[client] and self._first_session(client) is not None]
        earliest = min(map(self._first_wall, bound), default=0)
        is_told = not self._first.isdisjoint(bound)

        def place(client: int) -> tuple[int, int]:
            """Without a JOIN row it is the first one, as a BIND row says, or that row is not ordered yet."""
            join, wall = int(self._join[client]), self._first_wall(client)
            first = client in self._first if is_told else wall == earliest
            return join or (0 if first else NEVER), wall

        bound.sort(key=place)
        left = [int(w) for w in self.wall[rows[(self.what[rows] == LEFT)]]]
        enrolled = len(enrolments) > 0
        start = self._base[enrolments].max(axis=0) if enrolled else None  # it may be enrolled again before it comes
        before: tuple[int, ...] = ()
        for i, client in enumerate(bound or [c for c in its if self._unbound[c]][:1]):
            first = self._first_session(client)
            base = self._sessions.base[first] if first is not None else start
            told = first is not None and bool(self._sessions.gap[first])
            if start is None or (i > 0 and told):
                start, before, enrolled = base, (), False
            if start is None:
                continue
            mine = rows[(self.client[rows] == client) | ((i == 0) & self._unbound[self.client[rows]])]
            expired = sorted(int(w) for w in self.wall[mine[self.what[mine] != ENROLLED]])
            last = self._last_session_wall(client)
            ended = bool(left) or i + 1 < len(bound) or (bool(expired) and expired[-1] >= last)
            self.lives[client] = Life(
                client, host, start, enrolled, bool(self._join[client]), before, not ended, expired
            )
            before = (*before, client)

    def _first_session(self, client: int) -> int | None:
        a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
        return a if b > a else None

    def _first_wall(self, client: int) -> int:
        first = self._first_session(client)
        return int(self._sessions.wall[first]) if first is not None else 0

    def _last_session_wall(self, client: int) -> int:
        a, b = (int(i) for i in self._sessions.range_of[client : client + 2])
        return int(self._sessions.wall[b - 1]) if b > a else 0
