"""How much of the station's one thread goes to live messages, so that a flood of them holds nothing else up.

A sixth of the time, and of what was not used no more than some milliseconds are kept. What comes from hosts when the
share is used up waits (live_queue.py), and when there is too much of it, it is dropped before it is read: that costs a
tenth of what taking it would. It is in no order yet and nobody misses it, while all that follows a message of another
station waits for it until it is over: so these may take some time in advance. Stations that are flooded take fewer of
hosts, and not more than they can pass on to each other.
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


REST_US: Final = 2_000
"""When all was used up it goes on after a rest of so long: not a tick for every message."""

TAKEN_MAX: Final = 8
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

    def admits_peer(self) -> bool:
        """Whether a live message that another station has taken may be taken now; if not it is counted: drop it."""
        self._refill()
        if self._left > -PART * PEERS_US:
            return True
        self._tally.count("live_shed_of_peers")
        return False

    def admits(self, most: int = TAKEN_MAX) -> bool:
        """Whether a live message of a host may be taken now. most: of this tick."""
        self._refill()
        return self._left > 0 and self._taken < most

    def admits_at(self) -> int:
        """When the next tick may take some of them."""
        return self._since if self._left > 0 else self._since - self._left + REST_US

    def took(self) -> None:
        """One of a host has been taken."""
        self._taken += 1

    def _refill(self) -> None:
        now = self._now()
        self._left = min(PART * KEPT_US_MAX, self._left + now - self._since)
        self._since = now

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
