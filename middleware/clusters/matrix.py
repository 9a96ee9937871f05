"""The claim matrix of a cluster, with its column minima kept incrementally.

As `fifo_broadcast.claims`, but by the numbers of the elements, which are not dense here, and with elements that come
and go. Source: paper 001 (AL and PAL); fifo-broadcast.md (b).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Matrix:
    """rows[i][j]: element i claims stream j up to that number."""

    __slots__ = ("_at_minimum", "cells", "minima", "rows")

    def __init__(self, elements: Iterable[int], start: Mapping[int, int]) -> None:
        self.rows = {i: dict(start) for i in elements}
        self.minima = dict(start)
        self._at_minimum = dict.fromkeys(start, len(self.rows))
        self.cells = 0
        """Cells touched so far: what the matrix costs."""

    def merge(self, element: int, stream: int, value: int) -> bool:
        """Whether the minimum of the column has risen."""
        self.cells += 1
        row = self.rows[element]
        old = row[stream]
        if value <= old:
            return False
        row[stream] = value
        if old > self.minima[stream]:
            return False
        self._at_minimum[stream] -= 1
        return not self._at_minimum[stream] and self._count(stream)

    def _count(self, stream: int) -> bool:
        column = [row[stream] for row in self.rows.values()]
        self.cells += len(column)
        before, least = self.minima[stream], min(column, default=self.minima[stream])
        self.minima[stream], self._at_minimum[stream] = least, column.count(least)
        return least > before

    def drop(self, element: int) -> list[int]:
        """The element does not count any more. Returns the columns whose minimum has risen."""
        self.rows.pop(element, None)
        return [stream for stream in self.minima if self._count(stream)]

    def add(self, element: int, base: Mapping[int, int]) -> None:
        """One more row, which begins with `base`, and one more column, of which nobody has anything."""
        for row in self.rows.values():
            row.setdefault(element, 0)
        self.minima.setdefault(element, 0)
        self.rows[element] = {stream: base.get(stream, 0) for stream in self.minima}
        for stream in self.minima:
            self._count(stream)
