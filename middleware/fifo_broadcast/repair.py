"""Rows that are missing here are asked for, point to point; every station answers for every stream from its table.

Source: fifo-broadcast.md Q4: first whoever brings the stream; after two vain requests any live station that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from roamcast.middleware.effects import Effect, Reject, SendPeer
from roamcast.middleware.fifo_broadcast.batches import batches
from roamcast.middleware.fifo_broadcast.standing import Standing
from roamcast.middleware.station_frames import Nack


@dataclass(slots=True)
class _Request:
    """What is missing of one origin and when it is asked for next."""

    due: int
    tries: int = 0
    asked_to: int = 0


class Repair:
    """The requests of one station, and its answers."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._requests: dict[int, _Request] = {}
        self._asked_third: dict[int, int] = {}

    def was_asked(self, station: int, origin: int) -> bool:
        """Whether the last request for rows of `origin` went to this station, which is another one."""
        return self._asked_third.get(origin) == station

    def update(self, origin: int, now: int, progress: bool) -> None:
        """What is known of the stream, or stored of it (`progress`), has changed."""
        standing = self._standing
        stored = standing.table.origins[origin].stored
        if origin == standing.own or stored >= standing.known[origin]:
            self._requests.pop(origin, None)
            self._asked_third.pop(origin, None)
            return
        request = self._requests.get(origin)
        if request is None:
            self._requests[origin] = _Request(now + standing.settings.nack_timeout)
        elif progress:
            answered = request.tries > 0 and stored >= request.asked_to
            self._requests[origin] = _Request(now if answered else now + standing.settings.nack_timeout)

    def hurry(self, origin: int, now: int) -> None:
        """What is missing is not on its way: ask at once, for the first time."""
        request = self._requests.get(origin)
        if request is not None and not request.tries:
            request.due = now

    def answer(self, sender: int, nack: Nack) -> list[Effect]:
        """From the table, at most nack_rows_max rows or nack_bytes_max bytes."""
        standing = self._standing
        if nack.origin not in standing.origins or not 1 <= nack.first <= nack.last:
            return [Reject(sender, "bad-nack", f"NACK {nack.origin} {nack.first}..{nack.last}")]
        if nack.first <= standing.table.origins[nack.origin].floor:
            return []  # a late copy: the asker has claimed these rows since, else they would still be here
        last = min(nack.last, nack.first + standing.settings.nack_rows_max - 1)
        rows = standing.table.rows(nack.origin, nack.first, last)
        for batch in batches(nack.origin, rows, standing.settings):
            return [SendPeer(sender, batch)]
        return []

    def ask(self, now: int, early: Mapping[int, Collection[int]]) -> list[Effect]:
        """The requests that are due. `early`, by origin: the numbers that came out of order."""
        due = [item for item in sorted(self._requests.items()) if item[1].due <= now]
        asked = [self._ask(origin, request, early[origin], now) for origin, request in due]
        return [effect for effect in asked if effect is not None]

    def _ask(self, origin: int, request: _Request, early: Collection[int], now: int) -> Effect | None:
        standing, settings = self._standing, self._standing.settings
        first = standing.table.origins[origin].stored + 1
        last = min(standing.known[origin], first + settings.nack_rows_max - 1)
        if early:
            last = min(last, max(first, min(early) - 1))
        target = self._target(origin, request, first, now)
        if target != origin:
            self._asked_third[origin] = target
        delay = min(settings.nack_timeout << min(request.tries, 16), settings.poll_timeout_max)
        self._requests[origin] = _Request(now + delay, request.tries + 1, last)
        return None if target == standing.own else SendPeer(target, Nack(origin, first, last))

    def _target(self, origin: int, request: _Request, first: int, now: int) -> int:
        """Whom to ask; this station itself: nobody for now."""
        standing = self._standing
        closed = origin in standing.words.view.closed
        target = standing.own if closed else standing.leader(standing.place.brought(origin), now) or origin
        if (closed or request.tries >= 2) and "no_third_party" not in standing.mutants:
            place, claims = standing.place, standing.accepted.claims
            holders = [
                i
                for i in place.near
                if i != origin and (closed or standing.is_live(i, now)) and claims[i][origin] >= first
            ] or [i for i in place.far if i != origin and standing.is_heard(i, now)]  # what they have is not known
            holders = [origin] * (not closed) + holders
            target = holders[request.tries % len(holders)] if holders else target
        return target

    def deadlines(self) -> list[int]:
        """When the requests are due."""
        return [request.due for request in self._requests.values()]
