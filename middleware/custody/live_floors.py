"""Live messages that wait until all rows that they follow have their places here; each for one such row at a time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.delta_causal.past import Id
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.rows import MessageId
from roamcast.middleware.settings import MIB

WAITING_MAX = 10_000
WAITING_BYTES_MAX = 16 * MIB
"""More are dropped."""


class LiveFloors:
    """Of one station. Work per row that is placed grows with the stations that are waited for, and what it frees."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._casts: dict[Id, LiveCast] = {}
        self._bytes = 0
        """Of their bodies."""
        self._for: dict[int, list[tuple[int, Id]]] = {}
        """Station -> heap of (its row that is waited for, who waits)."""
        self._over: list[tuple[int, Id]] = []
        """Heap of (reading from which it is over, message); some have gone on."""

    def __len__(self) -> int:
        return len(self._casts)

    def blocker(self, cast: LiveCast) -> MessageId | None:
        """A row that it follows and that has no place here yet. What exists nowhere any more holds nobody up.

        A slot that is not known yet is that of a station that is about to join.
        """
        if "live_floor" in self._ledger.mutants:
            return None
        return next((row for row in cast.floor if self._lacks(*row)), None)

    def _lacks(self, slot: int, n: int) -> bool:
        table = self._ledger.table
        return slot >= table.width or table.origins[slot].delivered < self._ledger.view.cut_of(slot, n)

    def hold(self, name: Id, cast: LiveCast, blocker: MessageId) -> bool:
        """It waits, for this row first. False: too many do."""
        if name not in self._casts:
            if len(self._casts) >= WAITING_MAX or self._bytes + len(cast.body) > WAITING_BYTES_MAX:
                return False
            self._casts[name] = cast
            self._bytes += len(cast.body)
            heappush(self._over, (name[0] + cast.delta + 1, name))
            self._block(name, blocker)
        return True

    def _block(self, name: Id, blocker: MessageId) -> None:
        heappush(self._for.setdefault(blocker[0], []), (blocker[1], name))

    def freed(self) -> list[tuple[Id, LiveCast]]:
        """Those that need not wait any more, in the order of stamps."""
        found = []
        for slot, heap in list(self._for.items()):
            while heap and not self._lacks(slot, heap[0][0]):
                name = heappop(heap)[1]
                cast = self._casts.get(name)
                if cast is None:
                    continue
                blocker = self.blocker(cast)
                if blocker is None:
                    found.append((name, self._casts.pop(name)))
                    self._bytes -= len(cast.body)
                else:
                    self._block(name, blocker)
            if not heap:
                del self._for[slot]
        return sorted(found, key=lambda one: one[0])

    def forget(self, clock: int) -> int:
        """Drop what is over. Returns how many."""
        before = len(self._casts)
        while self._over and (self._over[0][0] <= clock or self._over[0][1] not in self._casts):
            cast = self._casts.pop(heappop(self._over)[1], None)
            self._bytes -= len(cast.body) if cast is not None else 0
        if sum(map(len, self._for.values())) > 2 * len(self._casts) + WAITING_MAX // 10:
            self._for = {slot: [one for one in heap if one[1] in self._casts] for slot, heap in self._for.items()}
            for heap in self._for.values():
                heapify(heap)
        return before - len(self._casts)

    def next_deadline(self) -> int | None:
        """The reading at which `forget` has something to do."""
        return self._over[0][0] if self._over else None
