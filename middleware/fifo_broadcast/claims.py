"""The claim matrix of OP: who says it has what, with the column minima kept incrementally.

Source: paper 001 (AL and PAL); fifo-broadcast.md section 0 point 4 and (b).
"""

from __future__ import annotations

from collections.abc import Sequence


class ClaimMatrix:
    """claims[i][k]: station i claims all of stream k up to that number. Claims are true for ever, merged by max."""

    __slots__ = ("_at_minimum", "claims", "members", "minima")

    def __init__(self, members: Sequence[int], start: Sequence[int]) -> None:
        self.members = tuple(members)
        self.claims = {i: list(start) for i in members}
        self.minima = list(start)
        self._at_minimum = [len(members)] * len(start)

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
        column = [self.claims[i][stream] for i in self.members]
        self.minima[stream] = min(column)
        self._at_minimum[stream] = column.count(self.minima[stream])
        return True
