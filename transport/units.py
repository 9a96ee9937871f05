"""Durations and sizes as an operator writes them: 30d, 250ms, 256MiB. Inside they are whole microseconds and bytes."""

from __future__ import annotations

import re
from typing import Final

from roamcast.middleware.settings import DAY, MS, SECOND

DURATIONS: Final = {"us": 1, "ms": MS, "s": SECOND, "min": 60 * SECOND, "h": 3_600 * SECOND, "d": DAY}
SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
DIGITS_MAX: Final = 18
_NUMBER: Final = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}}) ?([A-Za-z]*)")


def read_number(text: str, units: dict[str, int]) -> int | None:
    """The number in `text` times its unit; without a unit as it stands. None: it is not of that form."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    factor = units.get(match[2]) if match[2] else 1
    return None if factor is None else int(match[1]) * factor


def show_number(number: int, units: dict[str, int]) -> str:
    """`number` in the largest unit of which it is a whole multiple."""
    name, factor = max(
        ((name, factor) for name, factor in units.items() if number % factor == 0), key=lambda unit: unit[1]
    )
    return f"{number // factor}{name}" if number else f"0{min(units, key=lambda name: units[name])}"
