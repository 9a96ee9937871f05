"""The clocks of a station process."""

from __future__ import annotations

import time
from typing import Final

MOMENT_US: Final = 500
READINGS_MAX: Final = 5


class Clock:
    """The only reader of the clocks: monotonic and UTC, both in microseconds."""

    def now(self) -> int:
        """Monotonic microseconds."""
        return time.monotonic_ns() // 1_000

    def wall(self) -> int:
        """UTC microseconds."""
        return time.time_ns() // 1_000

    def both(self) -> tuple[int, int]:
        """(monotonic, UTC), read at one moment: a process may be stopped between any two calls."""
        for _ in range(READINGS_MAX):
            now, wall = self.now(), self.wall()
            if self.now() - now <= MOMENT_US:
                break
        return now, wall
