"""How far the clocks of peers are from the own one, by an exchange that does not take the way for a difference.

Each station says its clock to each peer, and by how much it saw the clock of that peer ahead of its own. What takes
long on the way looks like a clock that is behind, alike in both directions: half the difference of the two is free of
it. Of the last few frames the fastest one counts. Source: RFC 5905 section 8 (offset); docs/protocols/delta-causal.md.
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
    """Its clock less the own one, on arrival."""
    told: int | None = None
    """The same of the own clock, as the peer has told it last."""


class PeerClocks:
    """Of one station process. Sans-IO; all times in microseconds."""

    def __init__(self) -> None:
        self._peers: dict[int, _Peer] = {}

    def follow(self, slots: frozenset[int]) -> None:
        """Peers that are linked now; of the others nothing is known."""
        for slot in self._peers.keys() - slots:
            del self._peers[slot]

    def say(self, slot: int, wall: int) -> LiveClock:
        """What to tell the peer now."""
        seen = self._peers[slot].seen if slot in self._peers else ()
        return LiveClock(wall, max(seen, default=None))

    def hear(self, slot: int, frame: LiveClock, wall: int) -> int | None:
        """The peer's clock less the own one; None: not known yet."""
        peer = self._peers.setdefault(slot, _Peer())
        peer.seen.append(frame.wall - wall)
        peer.told = frame.yours
        return None if peer.told is None else (max(peer.seen) - peer.told) // 2
