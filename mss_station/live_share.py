"""How much of the station's one thread goes to live messages, so that a flood of them holds nothing else up.

A sixth of the time, and of what was not used no more than some milliseconds are kept. A frame that comes when the
share is used up is dropped before it is read: that costs a tenth of what taking it would. What comes from hosts is
dropped first. It is in no order yet and nobody misses it, while all that follows a message of another station waits
for it until it is over; so stations that are flooded take fewer, and not more than they can pass on to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from roamcast.mss_station.tally import Tally

PART: Final = 6
"""One of so many parts. What is not counted (ticks around the messages, reading what is dropped) is as much again."""

KEPT_US_MAX: Final = 10_000
"""Time that is kept for a burst. Longer than one live message ever takes, shorter than a commit."""

PEERS_US: Final = 20_000
"""What stations' messages may take beyond that, in advance: for as long this thread may have had no time at all."""


RARE_US: Final = 20_000
"""A host whose last live message was taken longer ago than this goes before others: nobody is starved by who floods."""

RARE_ADVANCE_US: Final = 5_000
"""What such hosts' messages may take, in advance."""

HOSTS_MAX: Final = 65_536

TAKEN_MAX: Final = 4
"""Of hosts' messages in one tick: what goes out at its end has to fit into hosts' queues, beside what is durable."""


class LiveShare:
    """One for a station process.

    Args:
        now: reads the monotonic clock, microseconds.
    """

    def __init__(self, now: Callable[[], int], tally: Tally) -> None:
        self._now = now
        self._tally = tally
        self._left = PART * KEPT_US_MAX
        """Parts of microseconds."""
        self._since = now()
        self._taken = 0
        self._took_at: dict[int, int] = {}
        """When the last live message of a host was taken."""

    def admits_peer(self) -> bool:
        """Whether a live message that another station has taken may be taken now; if not it is counted: drop it."""
        self._refill()
        return self._counted(self._left > -PART * PEERS_US, "live_shed_of_peers")

    def admits(self, host: int) -> bool:
        """The same for a live message that comes from this host."""
        now = self._refill()
        rare = self._took_at.get(host, -RARE_US) + RARE_US <= now
        left, room = (PART * RARE_ADVANCE_US, 2 * TAKEN_MAX) if rare else (0, TAKEN_MAX)
        if not self._counted(self._left > -left and self._taken < room, "live_shed"):
            return False
        if len(self._took_at) >= HOSTS_MAX:
            self._took_at.clear()
        self._took_at[host] = now
        self._taken += 1
        return True

    def _refill(self) -> int:
        now = self._now()
        self._left = min(PART * KEPT_US_MAX, self._left + now - self._since)
        self._since = now
        return now

    def _counted(self, admitted: bool, name: str) -> bool:
        if not admitted:
            self._tally.count(name)
        return admitted

    def next_tick(self) -> None:
        """What was taken has gone out."""
        self._taken = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """What is done within is for live messages."""
        begun = self._now()
        try:
            yield
        finally:
            self._left -= PART * (self._now() - begun)
