"""Token buckets: how often someone may do something."""

from __future__ import annotations

from collections.abc import Hashable


class Buckets:
    """One bucket for each key; full at first."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, tuple[float, int]] = {}

    def take(self, key: Hashable, now: int, burst: int, interval: int) -> bool:
        """Take a token, if there is one. A bucket holds `burst` tokens and gets one every `interval` microseconds."""
        tokens, since = self._buckets.get(key, (float(burst), now))
        tokens = min(float(burst), tokens + (now - since) / interval)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        return allowed

    def forget(self, key: Hashable) -> None:
        """The key is gone."""
        self._buckets.pop(key, None)
