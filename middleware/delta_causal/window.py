"""What was accepted within delta: messages that wait, and the names of those that were delivered.

A message that waits is found again by the one thing that it waits for first: that another one is delivered, or that
the clock passes a reading. Work and memory do not grow with what waits for something else.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from roamcast.middleware.delta_causal.messages import LiveMessage
from roamcast.middleware.delta_causal.past import Id, Past
from roamcast.middleware.errors import ensure

Block = tuple[int, Id | None]
"""(reading from which it blocks no more, the message whose delivery lifts it too)."""


class Window:
    """Of one station. Readings of the clock never go back."""

    def __init__(self, own: int, delta: int, mutants: frozenset[str] = frozenset()) -> None:
        self.held: Counter[int] = Counter()
        """Sender -> messages in the window."""
        self.bytes_waiting = 0
        self._own = own
        self._delta = delta
        self._mutants = mutants
        self._messages: dict[Id, LiveMessage | None] = {}
        """None: delivered."""
        self._ages: list[Id] = []
        """Heap of all of them."""
        self._awaited: dict[Id, Past] = {}
        self._blocks: dict[Id, Block] = {}
        """Both of each message that waits."""
        self._dependent: dict[Id, list[Id]] = {}
        """Message -> those that it blocks."""
        self._timers: list[tuple[int, Id, Id | None]] = []
        """Heap of (reading, who waits, for whom); some have become void."""
        self._ready: list[Id] = []
        self.settled = 0
        """What has a stamp up to this and is not here will never be taken: nothing waits for it."""

    def __contains__(self, message: Id) -> bool:
        return message in self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def waiting(self) -> list[LiveMessage]:
        """Messages that are not delivered yet, in the order of their stamps, which is a causal one."""
        return [message for _, message in sorted(self._messages.items()) if message is not None]

    def has_to_wait(self, awaited: Past, clock: int) -> bool:
        """Whether something of this is not settled here."""
        return self._block(awaited, clock) is not None

    def take(self, message: LiveMessage, awaited: Past, clock: int) -> None:
        """It came in time, for the first time."""
        name = message.id
        self._messages[name] = message
        self.held[message.src] += 1
        self.bytes_waiting += message.size
        heappush(self._ages, name)
        self._awaited[name] = awaited
        self._place(name, clock)

    def next_ready(self, clock: int) -> LiveMessage | None:
        """The message with the smallest stamp that waits for nothing; it counts as delivered from now on."""
        timers = self._timers
        while timers and timers[0][0] <= clock:
            reading, name, blocker = heappop(timers)
            if blocker is not None:
                self._dependent.pop(blocker, None)  # all of these have a timer of this very reading
            if self._blocks.get(name) == (reading, blocker):
                self._place(name, clock)
        return self._deliver(heappop(self._ready), clock) if self._ready else None

    def settle(self, stamp: int, clock: int) -> None:
        """Nothing that is stamped up to `stamp` is taken any more: what waits with such a stamp is ready now."""
        if stamp > self.settled:
            self.settled = stamp
            for name in list(self._blocks):
                self._place(name, clock)

    def lacks(self, message: Id, clock: int) -> bool:
        """Whether it may still come, or waits."""
        is_settled = message[0] <= self.settled or self._is_over(message, clock)
        return not is_settled and message[1] != self._own and not self._is_delivered(message)

    def forget(self, clock: int) -> None:
        """What is over can neither come again nor be waited for."""
        while self._ages and self._is_over(self._ages[0], clock):
            name = heappop(self._ages)
            ensure(self._messages.pop(name, None) is None, f"live message {name} waited beyond its deadline")
            self.held[name[1]] -= 1
            if not self.held[name[1]]:
                del self.held[name[1]]

    def next_deadline(self) -> int | None:
        """The reading at which a message that waits may be ready."""
        timers = self._timers
        while timers and self._blocks.get(timers[0][1]) != (timers[0][0], timers[0][2]):
            heappop(timers)
        return timers[0][0] if timers else None

    def _deliver(self, name: Id, clock: int) -> LiveMessage | None:
        message = self._messages[name]
        self._messages[name] = None
        self.bytes_waiting -= message.size if message is not None else 0
        for dependent in self._dependent.pop(name, ()):
            if dependent in self._awaited:
                self._place(dependent, clock)
        return message

    def _place(self, name: Id, clock: int) -> None:
        block = self._block(self._awaited[name], clock)
        if block is None:
            self._blocks.pop(name, None)
            del self._awaited[name]
            heappush(self._ready, name)
            return
        reading, blocker = self._blocks[name] = block
        heappush(self._timers, (reading, name, blocker))
        if blocker is not None:
            self._dependent.setdefault(blocker, []).append(name)

    def _block(self, awaited: Past, clock: int) -> Block | None:
        """The first thing of `awaited` that is not settled. What is over is settled, and what was delivered here."""
        over = max(clock - self._delta + ("deadline_inclusive" in self._mutants), self.settled + 1)
        if awaited.horizon >= over:
            return awaited.horizon + self._delta + 1, None
        for entry in awaited.entries:
            if entry[0] >= over and entry[1] != self._own and not self._is_delivered(entry):
                return entry[0] + self._delta + 1, entry
        return None

    def _is_delivered(self, entry: Id) -> bool:
        if "stamp_only" in self._mutants:
            return any(name[0] == entry[0] and message is None for name, message in self._messages.items())
        return entry in self._messages and self._messages[entry] is None

    def _is_over(self, message: Id, clock: int) -> bool:
        return message[0] + self._delta < clock
