"""What the station counts, and log lines that a flood of one event cannot multiply."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections import deque
from typing import Final

from roamcast.middleware.effects import Notice, Reject

LINE_INTERVAL_S: Final = 10.0
"""Between two lines of one event; how many were left out is said in the next."""

KEYS_MAX: Final = 1_024
NAMES_MAX: Final = 512
FIELD_CHARS_MAX: Final = 200
LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "alarm": logging.ERROR}
COMMITS_KEPT: Final = 1_024

_log = logging.getLogger("roamcast.station")


class Tally:
    """Counters by name, times of the last commits, and rate-limited log lines."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self._commits: deque[float] = deque(maxlen=COMMITS_KEPT)
        self._salt = secrets.token_bytes(16)
        self._lines: dict[str, tuple[float, int]] = {}

    def count(self, name: str, by: int = 1) -> None:
        """Add `by` to the counter `name`; beyond 512 names to "other"."""
        if name not in self.counters and len(self.counters) >= NAMES_MAX:
            name = "other"
        self.counters[name] = self.counters.get(name, 0) + by

    def committed(self, seconds: float) -> None:
        """One commit took `seconds`."""
        self.count("commits")
        self._commits.append(seconds)

    def commit_p99_ms(self) -> float | None:
        """99th percentile of the last commits, milliseconds; None before the first."""
        if not self._commits:
            return None
        ordered = sorted(self._commits)
        return round(1_000 * ordered[(99 * (len(ordered) - 1)) // 100], 3)

    def reject(self, effect: Reject) -> None:
        """Count a refused frame by its code; one log line per code now and then."""
        self.count(f"reject.{effect.code}")
        source = self._label(effect.source) if isinstance(effect.source, bytes) else f"slot {effect.source}"
        self.line(logging.WARNING, "rejected", f"{effect.code}: {effect.text} (from {source})", effect.code)

    def _label(self, channel: bytes) -> str:
        """Tells channels apart in the log without telling their ids, which a hostile client could make use of."""
        return f"channel {hashlib.blake2b(channel, digest_size=4, key=self._salt).hexdigest()}"

    def notice(self, effect: Notice) -> None:
        """Log a fact; the same one only now and then."""
        self.count(f"notice.{effect.event}")
        fields = " ".join(f"{key}={value}"[:FIELD_CHARS_MAX] for key, value in effect.fields.items())
        self.line(LEVELS[effect.level], effect.event, fields, fields)

    def line(self, level: int, event: str, text: str, key: object = None) -> None:
        """Log `text`, at most one line of (`event`, `key`) per interval."""
        now = time.monotonic()
        name = event if key is None else f"{event}:{key}"
        since, left_out = self._lines.get(name, (now - LINE_INTERVAL_S, 0))
        if now - since < LINE_INTERVAL_S:
            self._lines[name] = (since, left_out + 1)
            return
        if len(self._lines) >= KEYS_MAX:
            self._lines.clear()
        self._lines[name] = (now, 0)
        more = f" ({left_out} more since the last line)" if left_out else ""
        _log.log(level, "%s: %s%s", event, text, more)
