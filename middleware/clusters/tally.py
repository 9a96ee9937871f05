"""What a sub-gateway counts for one of its claims: what the other clusters have, and what they are told of this one.

There is one tally for each of three questions: whether rows are *stored* by all (level 2), whether all *know* so
(level 3), and whether those that live have them (flow, which promises nothing). Rows that came from this cluster are
numbered by the sub-gateway as it forwards them (GSEQ); the others name them by that number.

Source: fifo-broadcast.md (b) 'Gateway' (GAL, GPAL, unm, unp, GRL), B9-B12.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from roamcast.middleware.clusters.levels import Prefix


class Tally:
    """One question at one sub-gateway."""

    def __init__(self) -> None:
        self.through = 0
        """GAL[t][t]: own GSEQs up to here hold in this cluster, in every row, other gateways included."""
        self.there: dict[int, Prefix] = {}
        """GAL[t][u]: GSEQs of sub-gateway u whose relays hold at every station of this cluster."""
        self._forwarded: deque[tuple[int, int]] = deque()
        self._open: dict[int, deque[tuple[int, int]]] = {}
        self._relays: dict[int, deque[tuple[int, int, int]]] = {}
        self._held: dict[int, deque[tuple[int, int, int]]] = {}

    def forward(self, gseq: int, source: int, number: int) -> None:
        """A row of this cluster's station went to the others under this GSEQ."""
        self._forwarded.append((source, number))
        self._open.setdefault(source, deque()).append((gseq, number))

    def relay(self, stream: int, number: int, home: int, gseq: int) -> None:
        """A row of another cluster stands in this stream here, under this number; numbers of a stream ascend."""
        self.there.setdefault(home, Prefix())
        for queue in (self._relays, self._held):
            queue.setdefault(stream, deque()).append((number, home, gseq))

    def arrived(self, home: int) -> int:
        """GAL[t][u]."""
        return self.there[home].count if home in self.there else 0

    def count_home(self, minimum: Callable[[int], int]) -> bool:
        """Rows of this cluster: `minimum` of a stream says how far it holds in every row. Whether anything moved."""
        before = self.through
        while self._forwarded and self._forwarded[0][1] <= minimum(self._forwarded[0][0]):
            self._forwarded.popleft()
            self.through += 1
        return self.through > before

    def count_relays(self, minimum: Callable[[int], int]) -> bool:
        """Relays in this cluster: `minimum` of a stream says how far it holds at every station."""
        has_moved = False
        for stream, queue in self._relays.items():
            if not queue:
                continue
            end = minimum(stream)
            while queue and queue[0][0] <= end:
                _, home, gseq = queue.popleft()
                self.there[home].mark(gseq)
                has_moved = True
        return has_moved

    def release(self, beyond: int, through: Mapping[int, int]) -> bool:
        """All other clusters have GSEQs up to `beyond`; each home cluster all of its own up to `through`."""
        has_moved = False
        for queue in self._open.values():
            while queue and queue[0][0] <= beyond:
                queue.popleft()
                has_moved = True
        for held in self._held.values():
            while held and held[0][2] <= through[held[0][1]]:
                held.popleft()
                has_moved = True
        return has_moved

    def limit(self, stream: int, stored: int) -> int:
        """How far a claim about the stream may go: up to the first row that is still waited for elsewhere."""
        waits = self._open.get(stream)
        if waits:
            stored = min(stored, waits[0][1] - 1)
        held = self._held.get(stream)
        if held:
            stored = min(stored, held[0][0] - 1)
        return stored

    def is_empty(self) -> bool:
        """Whether nothing is waited for."""
        return not any((self._forwarded, *self._open.values(), *self._relays.values(), *self._held.values()))
