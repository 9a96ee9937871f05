"""Hosts whose queues were full: when to try again what is durable, if they give no sign of life before.

A flood of live messages fills the queue of a host that reads all the time; it is empty again after some milliseconds,
in which the host is given nothing live. A host that sleeps is tried again ever less often, and then not any more.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

FIRST_US: Final = 2_000
LAST_US: Final = 500_000
FORGOTTEN_US: Final = 2_000_000
"""After so long without a full queue the first wait is short again."""

KNOWN_MAX: Final = 4_096


class FullQueues:
    """Of one station. Times are monotonic microseconds."""

    def __init__(self) -> None:
        self._due: list[tuple[int, bytes]] = []
        self._waits: dict[bytes, tuple[int, int]] = {}
        """Channel -> (the last wait, since when)."""

    def add(self, channel: bytes, now: int) -> None:
        """The channel did not take a frame."""
        wait, since = self._waits.pop(channel, (0, 0))
        wait = 2 * wait if wait and now < since + wait + FORGOTTEN_US else FIRST_US
        if wait <= LAST_US:
            if len(self._waits) >= KNOWN_MAX:
                self._waits.clear()
            self._waits[channel] = wait, now
            heappush(self._due, (now + wait, channel))

    def take(self, now: int) -> list[bytes]:
        """Channels that are to be tried again now."""
        found = []
        while self._due and self._due[0][0] <= now:
            found.append(heappop(self._due)[1])
        return found

    def next_deadline(self) -> int | None:
        """When `take` has something to return; None: never."""
        return self._due[0][0] if self._due else None
