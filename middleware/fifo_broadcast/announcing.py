"""CLAIMS: what one station says of all it has and knows, when, and to whom.

Claims go to the stations near. What the group looks like to this station goes to all, directly, whenever that changes,
and with each heartbeat while an end is not settled: the rules of membership wait for every living station. A far
station that has shown another group is asked, and answers the asker alone.
Source: fifo-broadcast.md Q5, composition.md section 3; docs/protocols/clusters.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from roamcast.middleware.effects import Broadcast, Effect, SendPeer
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.fifo_broadcast.standing import Standing
from roamcast.middleware.membership.view import GroupView
from roamcast.middleware.station_frames import Claims

Entries = tuple[tuple[int, int], ...]

NO_MARK = 0
"""Of a station that is no gateway: it says whom it does not hear, and nothing for others."""


class Announcing:
    """When one station says what."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.owe_full = True
        self._want_all = True
        self._owed_far: set[int] = set()
        self._said: list[list[int]] = [[] for _ in range(6)]
        """Stored, stable, R; and the same of what is told for all that a gateway sees."""
        self._said_view: GroupView | None = None
        self._claims_at = 0
        self._full_at = 0

    def wanted_by(self, station: int) -> None:
        """The station asks for everything."""
        if station in self._standing.place.far:
            self._owed_far.add(station)
        else:
            self.owe_full = True

    def begin_anew(self) -> None:
        """Claims are for other stations, or mean something else: all is said, and asked for, again."""
        self.owe_full = self._want_all = True

    # ---- when ----

    def tick(self, now: int, hlc: int, sent: int) -> list[Effect]:
        """The CLAIMS that are due at `now`. `sent`: the highest own number that was sent."""
        standing = self._standing
        want = self._poll(now)
        owed = standing.dirty or self.owe_full or bool(want) or bool(self._owed_far)
        due = (owed and now >= self._claims_at + standing.settings.claims_tick) or now >= self.full_due
        if not standing.peers or not due:
            return []
        out: list[Effect] = []
        if self._owed_far:
            frame = self.full(hlc, sent)
            out += [SendPeer(slot, frame) for slot in sorted(self._owed_far) if slot in standing.peers]
            self._owed_far.clear()
        to = self._to(now, want)
        out.append(Broadcast(self._claims(now, hlc, sent, want), to))
        return out

    @property
    def full_due(self) -> int:
        """When everything is said again."""
        return self._full_at + self._standing.settings.heartbeat

    def _to(self, now: int, want: tuple[int, ...]) -> tuple[int, ...] | None:
        """Who hears it; None: all."""
        standing = self._standing
        if not standing.place.far:
            return None
        if "views_near" in standing.mutants:
            return standing.place.near
        words, view = standing.words.say(), standing.words.view
        unsettled = bool(words.closings) or bool(view.closed.keys() - view.dropped)
        if words != self._said_view or (unsettled and now >= self.full_due):
            return None
        reach = standing.reach(now)
        return (*reach, *(slot for slot in want if slot not in reach))

    def _lagging(self, now: int) -> list[int]:
        """Live peers that have not claimed everything stored here, or see another group."""
        standing = self._standing
        stored = standing.table.vector("stored")
        return [
            i
            for i in standing.peers
            if standing.is_live(i, now) and (not standing.words.agrees(i) or self._lags(i, stored))
        ]

    def _lags(self, peer: int, stored: list[int]) -> bool:
        """Whether claims of the peer may have been lost."""
        standing = self._standing
        if peer in standing.place.far:
            return not standing.words.views[peer].serving
        if any(standing.accepted.claims[peer][k] < stored[k] for k in standing.origins):
            return True
        told = standing.accepted.beyond.get(peer)
        return told is not None and not standing.down.get(peer) and any(told[k] < stored[k] for k in standing.origins)

    def _poll(self, now: int) -> tuple[int, ...]:
        standing = self._standing
        if self._want_all:
            return tuple(i for i in standing.peers if i not in standing.place.far or i not in standing.words.views)
        if now < standing.progress + standing.patience or "no_poll" in standing.mutants:
            return ()
        want = tuple(self._lagging(now))
        if want:
            standing.progress = now
            standing.patience = min(2 * standing.patience, standing.settings.poll_timeout_max)
        return want

    def next_deadline(self, now: int) -> int:
        """When `tick` has something to do next."""
        standing = self._standing
        due = [self.full_due]
        if standing.dirty or self.owe_full or self._want_all or self._owed_far:
            due.append(self._claims_at + standing.settings.claims_tick)
        if "no_poll" not in standing.mutants and self._lagging(now):
            due.append(standing.progress + standing.patience)
        return min(due)

    # ---- what ----

    def _own(self) -> tuple[list[int], list[int], list[int]]:
        standing = self._standing
        own = standing.own
        return standing.table.vector("stored"), standing.stable_claims.claims[own], standing.reduce.claims[own]

    def _seen(self) -> tuple[list[int], list[int], list[int]]:
        """What holds at all that this gateway sees."""
        standing = self._standing
        stored, stable, reduce = self._own()
        return (
            stored if "own_for_all" in standing.mutants else standing.accepted.seen,
            stable if "stable_for_all" in standing.mutants else standing.stable_claims.seen,
            reduce if "reduce_for_all" in standing.mutants else standing.reduce.seen,
        )

    def _entries(self, kind: int, vector: list[int], full: bool) -> Entries:
        said = self._said[kind]
        said += [0] * (len(vector) - len(said))
        entries = tuple((k, vector[k]) for k in self._standing.origins if full or vector[k] != said[k])
        for k, value in entries:
            said[k] = value
        return entries

    def _claims(self, now: int, hlc: int, sent: int, want: tuple[int, ...]) -> Claims:
        standing = self._standing
        full = self.owe_full or now >= self.full_due
        own = [self._entries(kind, vector, full) for kind, vector in enumerate(self._own())]
        beyond = None
        if standing.place.is_gateway:
            told = [self._entries(3 + kind, vector, full) for kind, vector in enumerate(self._seen())]
            beyond = Beyond(standing.place.mark, told[0], told[1], told[2], self._silent(standing.place.near, now))
        elif silent := self._silent(standing.place.gateways, now):
            beyond = Beyond(NO_MARK, down=silent)
        words = standing.words.say()
        frame = Claims(full, own[0], own[1], own[2], sent, hlc, want, words, beyond)
        standing.dirty = self.owe_full = self._want_all = False
        self._said_view = words
        self._claims_at = now
        if full:
            self._full_at = now
        return frame

    def _silent(self, stations: Sequence[int], now: int) -> tuple[int, ...]:
        return tuple(slot for slot in stations if self._standing.is_silent(slot, now))

    def full(self, hlc: int, sent: int) -> Claims:
        """Everything for one station alone, one that is far or not counted; what was said to all stays so."""
        stored, stable, reduce = (tuple((k, vector[k]) for k in self._standing.origins) for vector in self._own())
        return Claims(True, stored, stable, reduce, sent, hlc, (), self._standing.words.say())
