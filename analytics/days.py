"""UTC days, as audits count them. The standard library is enough for it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

DAY = 86_400_000_000
"""us"""

WHOLE = "all"
"""In place of a day: a run over all that there is."""


def today() -> date:
    """The UTC day it is."""
    return datetime.now(UTC).date()


def span(day: str) -> tuple[int, int]:
    """Begin and end of a UTC day, us."""
    begin = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    end = begin + timedelta(days=1)
    return int(begin.timestamp()) * 1_000_000, int(end.timestamp()) * 1_000_000
