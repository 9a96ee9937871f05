"""What the station's loop asks of station mail; mail_service.py and mail_desk.py are that."""

from __future__ import annotations

from typing import Protocol

from roamcast.middleware.causal_unicast.frames import MailLinkFrame
from roamcast.middleware.delivery_log import Logged
from roamcast.mss_station.store import StoreWrite


class MailPart(Protocol):
    """A part of every tick."""

    def begin(self, now: int) -> None:
        """Open a tick. now: monotonic, microseconds."""

    def receive(self, slot: int, frame: MailLinkFrame) -> None:
        """A frame of the linked peer `slot`."""

    def link_up(self, slot: int) -> None:
        """The peer has come to be linked."""

    def tell_obstacles(self) -> None:
        """Before the core's timers: what keeps this station from being retired."""

    def flush(self) -> tuple[list[StoreWrite], list[Logged]]:
        """Close the tick: what is to be made durable, and what the delivery log tells of it."""

    def committed(self) -> None:
        """It is durable: send what stands behind it."""

    def start_again(self) -> None:
        """It was rolled back: all anew from the store."""

    def next_deadline(self) -> int | None:
        """When a tick has something to send again."""

    def configure(self) -> None:
        """The group's settings have changed."""


class MailQueue(Protocol):
    """What waits for a tick."""

    def serve(self, now: int) -> None:
        """Do what can be done now; may open a tick."""

    def waits_until(self) -> int | None:
        """When a request is given up."""
