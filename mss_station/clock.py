"""The clocks of a station process."""

from __future__ import annotations

import time


class Clock:
    """The only reader of the clocks: monotonic and UTC, both in microseconds."""

    def now(self) -> int:
        """Monotonic microseconds."""
        return time.monotonic_ns() // 1_000

    def wall(self) -> int:
        """UTC microseconds."""
        return time.time_ns() // 1_000
