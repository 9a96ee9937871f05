"""How far the clocks of peers are from the own one, by an exchange that takes neither the way nor a step for it.

Each station says to each peer what its clocks read, UTC and monotonic, and how it sees the peer's monotonic clock. That
clock is never set, so readings before a step of UTC go on to count. What takes long on the way looks like a clock that
is behind, in both directions: half the difference of the two is free of it, as far as both ways take as long; by what
they may differ, half of the whole way, nobody's clock is called off. Of the last few frames the fastest one counts.
Source: RFC 5905 section 8 (offset and root distance); docs/protocols/delta-causal.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from roamcast.middleware.live_frames import LiveClock
from roamcast.middleware.settings import SECOND

INTERVAL = 2 * SECOND
"""Between two frames to one peer."""
KEPT = 4
"""Frames of a peer that count."""


@dataclass(slots=True)
class _Peer:
    seen: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Its monotonic clock less the own one, on arrival."""


class PeerClocks:
    """Of one station process. Sans-IO; all times in microseconds."""

    def __init__(self) -> None:
        self._peers: dict[int, _Peer] = {}

    def follow(self, slots: frozenset[int]) -> None:
        """Peers that are linked now; of the others nothing is known."""
        for slot in self._peers.keys() - slots:
            del self._peers[slot]

    def say(self, slot: int, now: int, wall: int) -> LiveClock:
        """What to tell the peer now."""
        seen = self._peers[slot].seen if slot in self._peers else ()
        return LiveClock(wall, now, max(seen, default=None))

    def hear(self, slot: int, frame: LiveClock, now: int, wall: int) -> int | None:
        """By how much the peer's clock is ahead of the own one at least (below 0: behind); None: not known yet."""
        peer = self._peers.setdefault(slot, _Peer())
        peer.seen.append(frame.now - now)
        if frame.yours is None:
            return None
        there, here = max(peer.seen), frame.yours
        ahead = (there - here) // 2 + (frame.wall - frame.now) - (wall - now)
        doubt = max(0, -(there + here)) // 2
        return max(0, ahead - doubt) if ahead > 0 else min(0, ahead + doubt)
