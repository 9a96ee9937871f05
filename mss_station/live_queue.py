"""Live messages of hosts that wait, unread, until there is time for them: a short queue for each host, and turns.

Every host has one turn in a round, so who floods gets no more than others. A host that has had no turn in this round
goes first: who sends now and then need not wait for all that flood. Of a full queue the oldest message goes, for the
newest is worth most and the order stays; so what a flooding host is given is fresh.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from roamcast.middleware.settings import MIB
from roamcast.mss_station.user_id import Owner

HOST_FRAMES_MAX: Final = 32
BYTES_MAX: Final = 8 * MIB
"""Of all queues. No host has more than what is left for others."""

FRAME_BYTES: Final = 256
"""What one takes beside its own bytes; so there are no more than 32,768."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A live message that has come."""

    channel: bytes
    owner: Owner
    data: bytes
    since: int
    """Monotonic, microseconds."""

    @property
    def size(self) -> int:
        """Of memory."""
        return len(self.data) + FRAME_BYTES


@dataclass(slots=True)
class _Line:
    """The queue of one host."""

    frames: deque[Waiting] = field(default_factory=deque)
    size: int = 0


class LiveQueue:
    """Of one station. Work for a message does not grow with hosts or with what waits."""

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}
        """By host number; it stays until its turn, though it may be empty."""
        self._new: deque[int] = deque()
        self._old: deque[int] = deque()
        """Hosts that have had no turn in this round, and the others: each line is in one of them."""
        self.size = 0
        """Bytes of all, `FRAME_BYTES` each included; 0: nothing waits."""

    def put(self, waiting: Waiting) -> int:
        """Take it in. Returns how many were dropped for want of room: the oldest of its host, or itself."""
        number = waiting.owner.number
        line = self._lines.get(number)
        if line is None:
            line = self._lines[number] = _Line()
            self._new.append(number)
        dropped = 0
        while line.frames and (len(line.frames) >= HOST_FRAMES_MAX or not self._fits(line, waiting)):
            self._pop(line)
            dropped += 1
        if not self._fits(line, waiting):
            return dropped + 1
        line.frames.append(waiting)
        self._grow(line, waiting.size)
        return dropped

    def _fits(self, line: _Line, waiting: Waiting) -> bool:
        return line.size + waiting.size <= BYTES_MAX - self.size

    def take(self) -> Waiting | None:
        """The oldest message of the host whose turn it is."""
        while ring := self._new or self._old:
            number = ring.popleft()
            if (line := self._lines[number]).frames:
                self._old.append(number)
                return self._pop(line)
            del self._lines[number]
        return None

    def take_of(self, number: int) -> Waiting | None:
        """The oldest message of this host, out of turn."""
        line = self._lines.get(number)
        return self._pop(line) if line is not None and line.frames else None

    def drop(self, number: int, channel: bytes | None = None) -> int:
        """Drop what has come from this host, on this channel or on any. Returns how many."""
        line = self._lines.get(number)
        if line is None:
            return 0
        kept = [waiting for waiting in line.frames if channel is not None and waiting.channel != channel]
        dropped = len(line.frames) - len(kept)
        self._grow(line, sum(waiting.size for waiting in kept) - line.size)
        line.frames = deque(kept)
        return dropped

    def _pop(self, line: _Line) -> Waiting:
        waiting = line.frames.popleft()
        self._grow(line, -waiting.size)
        return waiting

    def _grow(self, line: _Line, size: int) -> None:
        line.size += size
        self.size += size
