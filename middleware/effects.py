"""What a core asks of its driver. Effects are an ordered list and order is meaning.

The driver's one duty (overview section 5): a `Persist` must be durable before anything behind it in the list leaves
the process. Group commit does that for a whole tick: first all `Persist` of the list in one transaction, then the rest.
A `Logged` becomes durable with the next `Persist` behind it, in this tick or a later one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.host_frames import DownFrame, LiveMsg
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.station_frames import PeerFrame
from roamcast.middleware.writes import Write

Channel = Hashable
"""One connection of one host, as the driver names it (the ROUTER's random routing id)."""


@dataclass(slots=True)
class Persist:
    """Apply all writes in one atomic, durable step."""

    writes: tuple[Write, ...]


@dataclass(slots=True)
class Deliver:
    """One MSG frame for many hosts at once: encode once, send to each channel in order.

    A channel that cannot take it is reported back by `channel_full` or `channel_lost`.
    """

    channels: Sequence[Channel]
    prev: int
    last: int
    entries: Sequence[tuple[int, Row | SpoolItem]]
    """(position, holder of the encoded item); `holder.item` None: load it from the store by (slot, n)."""


@dataclass(slots=True)
class SendHost:
    """One frame for one host."""

    channel: Channel
    frame: DownFrame


@dataclass(slots=True)
class SendLive:
    """One live frame for many hosts: encode once. A channel that cannot take it, or has refused a frame in this tick,
    gets none, and nobody is told."""

    channels: Sequence[Channel]
    frame: LiveMsg


@dataclass(slots=True)
class SendPeer:
    """One frame for one station; rows and spool items without bytes are loaded before it is encoded."""

    slot: int
    frame: PeerFrame


@dataclass(slots=True)
class Broadcast:
    """One frame for several stations: encode once."""

    frame: PeerFrame
    to: tuple[int, ...] | None = None
    """Slots; None: every peer."""


@dataclass(slots=True)
class CloseChannel:
    """Put the channel on the drop list after what was sent before."""

    channel: Channel
    reason: str


@dataclass(slots=True)
class Reject:
    """A host's or peer's frame was refused; counted by code. `source` is a Channel, or a slot for a peer."""

    source: Channel
    code: str
    text: str


@dataclass(slots=True)
class Notice:
    """A fact an operator wants: level 'info' | 'warning' | 'alarm'."""

    level: str
    event: str
    fields: dict[str, Any]


@dataclass(slots=True)
class Halt:
    """This station has ended: it was retired, or never became a member. It must stop and not start again."""

    text: str


@dataclass(slots=True)
class SlotGiven:
    """Every station has confirmed that `slot` is for the station `id` of this generation: `sponsor` may follow."""

    id: str
    generation: int
    slot: int


@dataclass(slots=True)
class HandedOver:
    """A retiring station has nothing left that anybody needs: its retirement may be told to all."""

    heir: int


@dataclass(slots=True)
class Renew:
    """This newcomer has its sponsor's snapshot: a core made anew from the store is a member."""


GroupEffect = Renew | Halt | SlotGiven | HandedOver
HostEffect = Deliver | SendHost | SendLive | CloseChannel
Effect = Persist | Logged | HostEffect | SendPeer | Broadcast | Reject | Notice | GroupEffect
