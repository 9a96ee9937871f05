"""Tables as a person reads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def columns(head: Sequence[str], rows: Sequence[Sequence[object]], most: int = sys.maxsize) -> list[str]:
    """At most so many rows under a head, each column as wide as it needs; then an empty line. Nothing without a row."""
    if not rows:
        return []
    shown = [head, *([str(cell) for cell in row] for row in rows[:most])]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"... and {len(rows) - most} more (see --json)"] if len(rows) > most else []
    return [*lines, *more, ""]
