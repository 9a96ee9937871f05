"""How far each station's rows have come at one element: levels 2 and 3, in order whatever stream a row came in.

After a take-over the rows of one station stand in two streams, whose levels rise independently of each other: a level
is told per (LSRC, LSEQ), in order (B17, scenario (d) 18 of fifo-broadcast.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from roamcast.middleware.clusters.frames import Item
from roamcast.middleware.clusters.table import StreamTable


class Prefix:
    """A count that grows over what has been marked without a gap."""

    __slots__ = ("_beyond", "count")

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._beyond: set[int] = set()

    def mark(self, number: int) -> None:
        """This number is there."""
        if number != self.count + 1:
            self._beyond.add(number)
            return
        self.count = number
        while self.count + 1 in self._beyond:
            self.count += 1
            self._beyond.remove(self.count)


class Levels:
    """Rows on their way from stored to stable to known stable. `stable` and `known_stable` are by station."""

    def __init__(self, table: StreamTable, mutants: frozenset[str]) -> None:
        self._mutants = mutants
        self._stored: dict[int, deque[tuple[int, int]]] = {j: deque() for j in table.streams}
        self._stable: dict[int, deque[tuple[int, int]]] = {j: deque() for j in table.streams}
        self._reached: tuple[dict[int, Prefix], dict[int, Prefix]] = ({}, {})
        self._moved: dict[tuple[int, int], int] = {}
        kept: dict[int, set[int]] = {}
        for j, _, item in table.kept():
            self._stored[j].append((item.slot, item.n))
            kept.setdefault(item.slot, set()).add(item.n)
        for origin, stored in table.origins.items():
            open_numbers = kept.get(origin, set())
            first = min(open_numbers, default=stored + 1)
            for reached in self._reached:
                reached[origin] = Prefix(first - 1)
                for n in range(first, stored + 1):
                    if n not in open_numbers:
                        reached[origin].mark(n)

    def add(self, stream: int) -> None:
        """One more stream."""
        self._stored.setdefault(stream, deque())
        self._stable.setdefault(stream, deque())

    def store(self, stream: int, item: Item) -> None:
        """The next entry of a stream has been stored."""
        self._stored[stream].append((item.slot, item.n))

    def stabilise(self, stream: int, count: int) -> None:
        """So many more entries of the stream are stable."""
        moved = [self._stored[stream].popleft() for _ in range(count)]
        self._stable[stream].extend(moved)
        self._mark(0, moved)

    def settle(self, stream: int, count: int) -> None:
        """So many more are known to be stable."""
        self._mark(1, [self._stable[stream].popleft() for _ in range(count)])

    def _mark(self, level: int, names: Iterable[tuple[int, int]]) -> None:
        for origin, n in names:
            prefix = self._reached[level].setdefault(origin, Prefix())
            before = prefix.count
            if "no_lift" in self._mutants:
                prefix.count = n
            else:
                prefix.mark(n)
            if prefix.count != before:
                self._moved[level + 2, origin] = prefix.count

    def take_moved(self) -> dict[tuple[int, int], int]:
        """(level, station) -> how far, of all that has moved since this was last asked."""
        moved, self._moved = self._moved, {}
        return moved

    @property
    def stable(self) -> dict[int, int]:
        """Level 2: everybody in all clusters has the rows of each station up to here."""
        return {origin: prefix.count for origin, prefix in self._reached[0].items()}

    @property
    def known_stable(self) -> dict[int, int]:
        """Level 3: everybody knows so."""
        return {origin: prefix.count for origin, prefix in self._reached[1].items()}
