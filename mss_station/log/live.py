"""Events about live messages on their way into a station's delivery log: bounded, and of no weight.

They are no facts of the store, so they go past its tail: into memory, and from there into the next block, behind what
that has to hold. A second has at most `PER_SECOND` of them; misses are added up, and of what is taken and handed down
beyond that only the numbers are kept. A crash loses what no block has yet. Source: docs/protocols/delivery-log.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from roamcast.middleware.delivery_log import HANDED, HOST, LIVE, LIVE_EVENTS, MISSED, UNTOLD, Logged
from roamcast.middleware.settings import SECOND
from roamcast.transport.segment_rows import Packed, numbered, pack

PER_SECOND: Final = 1_000
WAITING_MAX: Final = 4 * PER_SECOND
"""In memory, for a disk that takes no blocks."""
MISSES_MAX: Final = 256
"""Pairs of cause and station that are added up for one block; the others are told of no station."""


class LiveRecords:
    """What waits for a block, in the order in which it came."""

    def __init__(self, name_of: Callable[[int], str | None]) -> None:
        self.oldest = 0
        """When the first of what waits came."""
        self._name_of = name_of
        self._waiting: list[Packed] = []
        self._missed: Counter[tuple[int, int]] = Counter()
        self._untold: Counter[str] = Counter()
        self._named: set[int] = set()
        self._second = 0
        self._in_second = 0
        self._open: list[Logged] = []
        """Of the tick of which it is not known what becomes of it."""
        self._wall = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._missed) + bool(self._untold)

    def take(self, effects: Sequence[Logged], wall: int) -> None:
        """Of a tick."""
        self._open, self._wall = [effect for effect in effects if effect.event in LIVE_EVENTS], wall

    def closed(self, committed: bool, now: int) -> None:
        """The tick is over; what it told counts, unless it was rolled back."""
        opened, self._open = self._open, []
        if not committed or not opened:
            return
        if not len(self):
            self.oldest = now
        if now - self._second >= SECOND:
            self._second, self._in_second = now, 0
        for effect in opened:
            if effect.event == MISSED:
                cause, slot, count = effect.values
                named = (cause, slot) in self._missed or len(self._missed) < MISSES_MAX
                self._missed[cause, slot if named else 0] += count
            elif self._in_second < PER_SECOND and len(self._waiting) < WAITING_MAX:
                self._in_second += 1
                self._add(effect.event, effect.values)
            else:
                self._untold[effect.event] += 1

    def _add(self, event: str, values: Sequence[Any]) -> None:
        if event == LIVE and (host := values[1]) not in self._named:
            self._named.add(host)
            name = self._name_of(host)
            if name is not None:
                self._waiting.append(pack(HOST, 0, self._wall, (host, name)))
        self._waiting.append(pack(event, 0, self._wall, values))

    def packed(self, first: int) -> list[Packed]:
        """All that waits, numbered from `first` on."""
        more = [pack(MISSED, 0, self._wall, (*key, count)) for key, count in sorted(self._missed.items())]
        if self._untold:
            more.append(pack(UNTOLD, 0, self._wall, (self._untold[LIVE], self._untold[HANDED])))
        return [numbered(event, number) for number, event in enumerate([*self._waiting, *more], first)]

    def written(self) -> None:
        """A block has it."""
        self._waiting.clear()
        self._missed.clear()
        self._untold.clear()

    def begin_segment(self) -> None:
        """Names of hosts are to be told again."""
        self._named.clear()
