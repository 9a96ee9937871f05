"""Live messages, and what the core asks of its driver. Nothing of it is ever stored or acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from roamcast.middleware.delta_causal.past import Id, Lists
from roamcast.middleware.effects import Reject

STAMP_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """One message as it travels; the same for all destinations."""

    src: int
    """Slot of the sending station."""
    stamp: int
    """Hybrid clock of the sender, microseconds: larger than every stamp in the past of this message."""
    delta: int
    """Under which it was sent."""
    destinations: tuple[int, ...] | None
    """Slots of stations, ascending; None: all but the sender."""
    past: Lists
    """The tag: what waits for what, at every destination."""
    body: bytes

    @property
    def id(self) -> Id:
        """Its name; no other message has it."""
        return self.stamp, self.src

    @property
    def size(self) -> int:
        """Bytes of what it carries for the application."""
        return len(self.body)

    def is_to(self, slot: int) -> bool:
        """Whether this station is one of its destinations."""
        return slot != self.src and (self.destinations is None or slot in self.destinations)


class Why(Enum):
    """Why a sound message was dropped. None of it is an error of the peer."""

    LATE = "late"
    """It came after its deadline."""
    DUPLICATE = "duplicate"
    QUIET = "quiet"
    """This station has started, or changed delta, a moment ago."""
    AHEAD = "ahead"
    """Its stamp is further ahead than clocks may differ: a clock is wrong, there or here. An operator wants to know."""
    DELTA = "delta"
    """It was sent under another delta."""
    OVERTAKEN = "overtaken"
    """Something that may follow it was handed over here already: `LiveStation.settle`."""
    FULL = "full"
    """Too many messages of its sender are here, or too many bytes wait already."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The next message, in delta-causal order."""

    message: LiveMessage


@dataclass(frozen=True, slots=True)
class Drop:
    """A message that came was not taken, and will not be delivered because of this arrival."""

    src: int
    stamp: int
    why: Why


LiveEffect = Deliver | Drop | Reject
