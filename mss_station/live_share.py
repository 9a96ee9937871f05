"""How much of the station's one thread goes to live messages, so that a flood of them holds nothing else up.

A third of the time, and of what was not used no more than some milliseconds are kept. A frame that comes when the
share is used up is dropped before it is read: that costs a tenth of what taking it would. What comes from hosts is
dropped first. It is in no order yet and nobody misses it, while all that follows a message of another station waits
for it until it is over; so stations that are flooded take fewer, and not more than they can pass on to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from roamcast.mss_station.tally import Tally

PART: Final = 3
"""One of so many parts. What is not counted (ticks around the messages, reading what is dropped) is as much again."""

KEPT_US_MAX: Final = 10_000
"""Time that is kept for a burst. Longer than one live message ever takes, shorter than a commit."""

PEERS_US: Final = 20_000
"""What stations' messages may take beyond that, in advance: for as long this thread may have had no time at all."""


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

    def admits(self, *, of_peer: bool) -> bool:
        """Whether a live message may be taken now; if not it is counted, and to be dropped.

        Args:
            of_peer: another station has taken it from a host.
        """
        now = self._now()
        self._left = min(PART * KEPT_US_MAX, self._left + now - self._since)
        self._since = now
        if self._left > -PART * PEERS_US if of_peer else self._left > 0 and self._taken < TAKEN_MAX:
            self._taken += 1
            return True
        self._tally.count("live_shed_of_peers" if of_peer else "live_shed")
        return False

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
