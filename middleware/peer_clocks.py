"""How far the clocks of peers are from the own one, by an exchange that takes neither the way nor a pause for it.

Each station says to each peer what its clocks read, UTC and monotonic, and how it sees the peer's monotonic clock. No
frame comes before it was sent: a clock that it shows to be ahead is ahead by that at least, however long it was on its
way. Each end so bounds one side; of the last few frames the fastest counts. The monotonic clock is never set, so
readings before a step of UTC go on to count; but it stands still while the machine sleeps or a VM is paused, and only
UTC goes on. The two look alike: UTC has gained. So where it has gained, older readings count as if there had been a
pause, until there are newer ones, which tell a step.
Source: RFC 5905 section 8 (offset and root distance); docs/protocols/delta-causal.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from roamcast.middleware.live_frames import LiveClock
from roamcast.middleware.settings import MS, SECOND

INTERVAL = 2 * SECOND
"""Between two frames to one peer."""
KEPT = 4
"""Frames of a peer that count."""
GAINED = 2 * MS
"""By less UTC does not gain on the own monotonic clock: two readings are not quite of one moment."""


@dataclass(slots=True)
class _Peer:
    seen: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Its monotonic clock less the own one, on arrival; at most that, if it has stood still since."""
    heard: int = 0
    """What it read in the newest frame."""
    base: int | None = None
    """Its UTC less that, there."""

    def take(self, frame: LiveClock, now: int) -> None:
        base = frame.wall - frame.now
        if self.base is not None and base > self.base:
            self.seen = deque((one - (base - self.base) for one in self.seen), KEPT)
        self.base, self.heard = base, frame.now
        self.seen.append(frame.now - now)


class PeerClocks:
    """Of one station process. Sans-IO; all times in microseconds."""

    def __init__(self) -> None:
        self._peers: dict[int, _Peer] = {}
        self._base: int | None = None
        """The own UTC less the own monotonic clock."""
        self._gained = 0
        """When it had grown last, monotonic."""

    def follow(self, slots: frozenset[int]) -> None:
        """Peers that are linked now; of the others nothing is known."""
        for slot in self._peers.keys() - slots:
            del self._peers[slot]

    def say(self, slot: int, now: int, wall: int) -> LiveClock:
        """What to tell the peer now."""
        self._read(now, wall)
        peer = self._peers.get(slot) or _Peer()
        return LiveClock(wall, now, max(peer.seen, default=None), peer.heard)

    def hear(self, slot: int, frame: LiveClock, now: int, wall: int) -> int | None:
        """By how much the peer's clock is ahead of the own one at least (below 0: behind); None: not known yet."""
        self._read(now, wall)
        peer = self._peers.setdefault(slot, _Peer())
        peer.take(frame, now)
        if frame.yours is None or frame.heard < self._gained:
            return None
        there, here = max(peer.seen), frame.yours
        if there + here > 0:  # both were here before they were sent: one of the clocks has stood still
            peer.seen = deque(list(peer.seen)[-1:], KEPT)
            return None
        ahead = frame.wall - frame.now - (wall - now)
        return max(0, there + ahead) or min(0, ahead - here)

    def _read(self, now: int, wall: int) -> None:
        base = wall - now
        if self._base is not None and base > self._base + GAINED:
            self._gained = now
        self._base = base
