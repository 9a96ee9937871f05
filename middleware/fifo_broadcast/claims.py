"""The claim matrix of OP: who says it has what, with the column minima kept incrementally.

Source: paper 001 (AL and PAL); fifo-broadcast.md section 0 point 4 and (b).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ClaimMatrix:
    """claims[i][k]: station i claims all of stream k up to that number. Claims are true for ever, merged by max."""

    __slots__ = ("_at_minimum", "claims", "minima")

    def __init__(self, members: Iterable[int], start: Sequence[int]) -> None:
        self.claims = {i: list(start) for i in members}
        self.minima = list(start)
        self._at_minimum = [len(self.claims)] * len(start)

    def merge(self, station: int, stream: int, value: int) -> bool:
        """Station claims `value` of `stream`. Returns whether the column minimum rose."""
        row = self.claims[station]
        old = row[stream]
        if value <= old:
            return False
        row[stream] = value
        if old > self.minima[stream]:
            return False
        self._at_minimum[stream] -= 1
        if self._at_minimum[stream]:
            return False
        self._count(stream)
        return True

    def _count(self, stream: int) -> None:
        column = [row[stream] for row in self.claims.values()]
        self.minima[stream] = min(column)
        self._at_minimum[stream] = column.count(self.minima[stream])

    def reshape(self, members: Iterable[int], width: int, start: dict[int, Sequence[int]]) -> None:
        """Other members, or more streams. A row that is new begins with `start` of it, or with nothing claimed."""
        rows = {i: self.claims.get(i) or list(start.get(i, ())) for i in members}
        self.claims = {i: row + [0] * (width - len(row)) for i, row in rows.items()}
        self.minima = [0] * width
        self._at_minimum = [0] * width
        for stream in range(width):
            self._count(stream)
