"""Numbers, times and foreign text as people read them. Times are UTC, whatever the machine's time zone is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NAME_MAX, TEXT_MAX = 48, 600
"""Characters of a name or a text that are shown."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(text: str, length: int = TEXT_MAX) -> str:
    """Foreign text without signs that move others (line ends, escapes, changes of direction), cut at `length`."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else _escaped(sign) for sign in text[: 2 * length])
    return text if len(text) <= length else text[: length - 1] + "…"


def _escaped(sign: str) -> str:
    return sign.encode("ascii", "backslashreplace").decode() if ord(sign) > 127 else repr(sign)[1:-1]


def count(number: float) -> str:
    """1,234,567."""
    return f"{number:,.0f}"


def counted(number: int, thing: str, things: str = "") -> str:
    """1 host, 2 hosts."""
    return f"{count(number)} {thing if number == 1 else things or thing + 's'}"


def listed(parts: list[str]) -> str:
    """A, b and c."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def duration(us: float | None) -> str:
    """12 ms, 3.4 s, 2 h 05 min; two or three digits. None: there is none."""
    if us is None:
        return "–"
    for limit, unit, name in ((1_000, 1, "µs"), (1_000_000, 1_000, "ms"), (60_000_000, 1_000_000, "s")):
        if us < limit * 0.9995:
            value = us / unit
            return f"{value:.{0 if value >= 99.5 or unit == 1 else 1 if value >= 9.95 else 2}f} {name}"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def share(part: float | None) -> str:
    """0.25 %. None: of nothing."""
    return "–" if part is None else f"{100 * part:.2f} %"


def instant(us: int) -> str:
    """2027-01-15 12:00:03.500000; empty for 0."""
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%S.%f") if us else ""
