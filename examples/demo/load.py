"""What a host does at random, from its own seed: send, on topics too, subscribe, unsubscribe, and roam."""

from __future__ import annotations

import random
import time
from typing import Any, Final

PATIENCE_S: Final = 0.02
"""How long a host waits for a message before it looks for commands."""


class Load:
    """The command `load` of worker.py, as it goes on."""

    def __init__(self, command: dict[str, Any], rng: random.Random) -> None:
        self._rng = rng
        self._rate, self._mail, self._to = command["rate"], command["mail"], command["to"]
        self._topics, self._topical = command.get("topics", []), command.get("topical", 0)
        self._tunes = command.get("tunes", [])
        self.stations = command["stations"]
        now = time.monotonic()
        self.until = now + command["until"]
        self._every = {"move": command["roam_s"], "tune": command.get("tune_s", 0)}
        self._at = {what: now + self._pause(what) for what in self._every}
        self._send_at = now + rng.expovariate(self._rate) if self._rate else self.until

    def due(self, now: float) -> tuple[str, str | None] | None:
        """("send", addressee or None), ("publish" or "tune", topic), ("move", None), or None: nothing yet."""
        if now >= self.until:
            return None
        for what, at in self._at.items():
            if now >= at:
                self._at[what] = now + self._pause(what)
                return what, self._rng.choice(self._tunes) if what == "tune" else None
        if now < self._send_at:
            return None
        self._send_at += self._rng.expovariate(self._rate)
        kind = self._rng.random()
        if kind < self._mail:
            return "send", self._rng.choice(self._to)
        if kind < self._mail + self._topical:
            return "publish", self._rng.choice(self._topics)
        return "send", None

    def patience(self, now: float) -> float:
        """Seconds until something is due, at most PATIENCE_S."""
        next_at = min(self._send_at, *self._at.values()) if now < self.until else float("inf")
        return min(PATIENCE_S, max(0.0, next_at - now))

    def _pause(self, what: str) -> float:
        every: float = self._every[what]
        return self._rng.expovariate(1 / every) if every else float("inf")
