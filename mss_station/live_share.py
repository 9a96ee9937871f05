"""How much of the station's one thread goes to live messages, so that a flood of them holds nothing else up.

Half of the time, and of what was not used no more than a few milliseconds are kept. A frame that comes when the share
is used up is dropped before it is read: that costs a hundredth of what taking it would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from roamcast.mss_station.tally import Tally

KEPT_US_MAX: Final = 4_000
"""Time that is kept for a burst. Longer than one live message ever takes, shorter than a commit."""


class LiveShare:
    """One for a station process.

    Args:
        now: reads the monotonic clock, microseconds.
    """

    def __init__(self, now: Callable[[], int], tally: Tally) -> None:
        self._now = now
        self._tally = tally
        self._left = 2 * KEPT_US_MAX
        """Half microseconds."""
        self._since = now()

    def admits(self) -> bool:
        """Whether a live message may be taken now; if not it is counted, and to be dropped."""
        now = self._now()
        self._left = min(2 * KEPT_US_MAX, self._left + now - self._since)
        self._since = now
        if self._left > 0:
            return True
        self._tally.count("live_shed")
        return False

    @contextmanager
    def used(self) -> Iterator[None]:
        """What is done within is for live messages."""
        begun = self._now()
        try:
            yield
        finally:
            self._left -= 2 * (self._now() - begun)
