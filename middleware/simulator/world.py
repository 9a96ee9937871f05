"""Virtual time and the trace: the only clock and the only memory that a simulated run has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Event = tuple[Any, ...]
"""(virtual time in microseconds, kind, details...); plain numbers, strings and None only."""


class World:
    """An event heap. Events run in the order (time, sequence of their making); nothing else moves time."""

    def __init__(self) -> None:
        self.now = 0
        self.events_run = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, time: int, action: Callable[..., None], *arguments: Any) -> None:
        """Run `action(*arguments)` at virtual `time` (microseconds), at once if that has passed."""
        self._sequence += 1
        heappush(self._heap, (time if time > self.now else self.now, self._sequence, action, arguments))

    def after(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Run `action(*arguments)` `delay` microseconds from now."""
        self._sequence += 1
        heappush(self._heap, (self.now + delay, self._sequence, action, arguments))

    def run_until(self, time: int, events_max: int) -> bool:
        """Run every event up to and including `time`. False: `events_max` in all were run first (a storm)."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.now, _, action, arguments = heappop(heap)
            self.events_run += 1
            if self.events_run > events_max:
                return False
            action(*arguments)
        self.now = max(self.now, time)
        return True


class Alarm:
    """The timer of a node; `ring` is a tick of it, which sets the alarm again."""

    def __init__(self, world: World, ring: Callable[[], object]) -> None:
        self._world = world
        self._ring = ring
        self._due: int | None = None

    def set(self, due: int | None) -> None:
        """Ring at virtual time `due`; None: nothing is wanted beyond what was set before."""
        if due is not None and due != self._due:
            self._due = due
            self._world.at(due, self._expire)

    def clear(self) -> None:
        """A life begins: what the one before wanted is void."""
        self._due = None

    def _expire(self) -> None:
        if self._due is not None and self._due <= self._world.now:
            self._due = None
            self._ring()


class Trace:
    """Everything that happened, in order. `listen` is told each application event as it happens."""

    def __init__(self, world: World, listen: Callable[[Event], None]) -> None:
        self.events: list[Event] = []
        self._world = world
        self._listen = listen

    def note(self, *event: Any) -> None:
        """Record something that only a person reads (frames, faults)."""
        self.events.append((self._world.now, *event))

    def tell(self, *event: Any) -> None:
        """Record an application event; the judge may raise Violation."""
        full = (self._world.now, *event)
        self.events.append(full)
        self._listen(full)

    def sha256(self) -> str:
        """Digest of the whole trace; equal for equal seeds on every machine."""
        digest = hashlib.sha256()
        for start in range(0, len(self.events), 4096):
            digest.update(repr(self.events[start : start + 4096]).encode())
        return digest.hexdigest()

    def tail(self, count: int) -> list[str]:
        """The last `count` events as lines for a person."""
        return [f"{event[0] / 1000:12.3f} ms  {' '.join(map(str, event[1:]))}" for event in self.events[-count:]]
