"""Live messages between stations, and what other frames say of them. Nothing of it is stored.

Source: one-order.md section 5; docs/protocols/delta-causal.md, section 'In the one order'.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.rows import Kind

LiveTags = tuple[tuple[int, Past], ...]
"""(row number, the live past of that row and of those behind it in the frame), ascending; before the first: nothing."""


@dataclass(slots=True, frozen=True)
class LiveClock:
    """What the clock of a station reads, now and then to each peer."""

    wall: int
    """UTC microseconds."""
    now: int
    """Its monotonic clock."""
    yours: int | None
    """By how much that of the peer was ahead of it when the fastest of the peer's last frames came; None: none has."""
    heard: int
    """What that of the peer read in its newest frame that came; 0: none has."""


@dataclass(slots=True, frozen=True)
class LiveCast:
    """A live message of a host, from the station that took it to all others. It may be lost, doubled, overtaken."""

    stamp: int
    """Hybrid clock of the station that took it, microseconds UTC."""
    delta: int
    """Under which it was sent, microseconds; the same in the whole group."""
    past: Past
    """The live messages that it comes after."""
    floor: tuple[tuple[int, int], ...]
    """(slot, n): the rows that it comes after; no other slots."""
    deadline: int
    """It is given to nobody later than this after its stamp, microseconds; at most delta."""
    host: int
    """Number of its sender."""
    incarnation32: int
    """Low 32 bits of the sender's incarnation."""
    kind: Kind
    """BROADCAST, MAIL or TOPIC: whom it is for."""
    addressee: int
    """Host number for MAIL, topic number for TOPIC, else 0."""
    body: bytes
