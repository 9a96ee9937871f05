"""What an element lacks of each stream, whom it has asked for it, and when it asks next.

Source: fifo-broadcast.md Q4: point to point, again with doubled patience, in answers of a bounded size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roamcast.middleware.clusters.frames import Nack
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import StreamTable


@dataclass(slots=True)
class _Request:
    due: int
    tries: int = 0
    asked_to: int = 0


class Repair:
    """The requests of one element."""

    def __init__(self, own: int, table: StreamTable, settings: ClusterSettings) -> None:
        self._own = own
        self._table = table
        self._settings = settings
        self._requests: dict[int, _Request] = {}
        self._third: dict[int, int] = {}

    def update(self, stream: int, known: int, now: int, is_progress: bool) -> None:
        """The stream exists up to `known`; perhaps something of it came."""
        stored = self._table.streams[stream].stored
        if stream == self._own or stored >= known:
            self._requests.pop(stream, None)
            self._third.pop(stream, None)
            return
        request = self._requests.get(stream)
        if request is None:
            self._requests[stream] = _Request(now + self._settings.nack_timeout)
        elif is_progress:
            is_answered = request.tries > 0 and stored >= request.asked_to
            self._requests[stream] = _Request(now if is_answered else now + self._settings.nack_timeout)

    def forget(self, element: int) -> None:
        """Nothing is taken from this element any more."""
        self._third = {stream: asked for stream, asked in self._third.items() if asked != element}

    def asked(self, stream: int) -> int | None:
        """Who else than its own element was asked last for the stream."""
        return self._third.get(stream)

    def tries(self, stream: int) -> int:
        """Requests so far that brought nothing."""
        return self._requests[stream].tries

    def ask(self, stream: int, last: int, targets: Sequence[int], now: int) -> tuple[int, Nack] | None:
        """The next of those that may have it, and what it is asked for."""
        request = self._requests[stream]
        first = self._table.streams[stream].stored + 1
        last = min(last, first + self._settings.rows_max - 1)
        delay = min(self._settings.nack_timeout << min(request.tries, 16), self._settings.heartbeat)
        self._requests[stream] = _Request(now + delay, request.tries + 1, last)
        if not targets:
            return None
        target = targets[request.tries % len(targets)]
        if target != stream:
            self._third[stream] = target
        return target, Nack(stream, first, last)

    def due(self, now: int) -> list[int]:
        """Streams to ask for now."""
        return [stream for stream, request in sorted(self._requests.items()) if request.due <= now]

    def deadlines(self) -> Iterable[int]:
        """When something is to be asked for."""
        return (request.due for request in self._requests.values())
