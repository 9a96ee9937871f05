"""What the link machine is told of stations, and what it asks of its driver (see links.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from roamcast.middleware.effects import Channel, Notice, Reject
from roamcast.middleware.station_frames import Link, LinkFrame


@dataclass(slots=True, frozen=True)
class Identity:
    """What this process says of itself."""

    group: str
    id: str
    slot: int
    generation: int
    boot: int
    """Random 64 bits of this life."""
    starts: int
    """Count of lives, this one included; durable before the first Link."""


@dataclass(slots=True, frozen=True)
class Member:
    """A configured peer station."""

    slot: int
    id: str
    generation: int


@dataclass(slots=True, frozen=True)
class Seen:
    """The newest life of a peer that has linked here."""

    starts: int
    boot: int


class MailBooks(Protocol):
    """What a station's books say of station mail (causal_unicast); they are durable, and only grow."""

    @property
    def sent_number(self) -> int:
        """Number of the newest own mail."""

    def known_of(self, peer: int) -> int:
        """The highest number of a mail of `peer` that anything here tells of."""

    def acknowledged_by(self, peer: int) -> int:
        """The highest own number that `peer` has acknowledged."""


class NoMail:
    """The books of a station that has never heard of any mail."""

    sent_number = 0

    def known_of(self, peer: int) -> int:
        """None."""
        return 0

    def acknowledged_by(self, peer: int) -> int:
        """None."""
        return 0


@dataclass(slots=True)
class SayLink:
    """Send `frame` on the DEALER to `slot`; if it cannot take it, report `unsent`."""

    slot: int
    frame: Link


@dataclass(slots=True)
class Answer:
    """Send `frame` on the ROUTER to `channel`; if it cannot be sent, forget it."""

    channel: Channel
    frame: LinkFrame


@dataclass(slots=True)
class Remember:
    """Keep `seen` of `slot` over restarts (a loss of it weakens the check, nothing else)."""

    slot: int
    seen: Seen


@dataclass(slots=True)
class Linked:
    """The DEALER to `slot` has come to be linked: what was sent to that peer before may not have reached it."""

    slot: int


@dataclass(slots=True)
class Stop:
    """This store went back in time: the process must end and say `text`."""

    text: str


LinkEffect = SayLink | Answer | Remember | Linked | Stop | Notice | Reject
