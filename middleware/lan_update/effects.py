"""What a node of the LAN update layer asks of its driver; the contract is that of `middleware/effects.py`.

What stands behind a `LanPersist` leaves the process only after it is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.lan_update.records import Entry, LanPacket, LanWrite


@dataclass(slots=True)
class LanPersist:
    """Apply all writes in one atomic, durable step."""

    writes: tuple[LanWrite, ...]


@dataclass(slots=True)
class SendLan:
    """One packet for one node. Report its LanAck by `acked`, or by `failed` that it cannot be sent."""

    peer: str
    packet: LanPacket


@dataclass(slots=True)
class Acknowledge:
    """Answer `LanAck(number)`: the packet was taken, and all that it changed is durable by now."""

    peer: str
    number: int


@dataclass(slots=True)
class Changed:
    """The entry of its key is now this one; also for what was put here, and for a deletion (value None)."""

    entry: Entry


@dataclass(slots=True)
class Dropped:
    """There is no entry of the key any more, not even one that says that it is deleted."""

    key: str


LanEffect = LanPersist | SendLan | Acknowledge | Changed | Dropped | Notice | Reject
