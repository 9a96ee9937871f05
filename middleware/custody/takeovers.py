"""Two devices with one identity, each of which ends the other and comes again: that is noticed, told, and slowed down.

A device that moves, however often, ends its own sessions and says so (HELLO names the last one). Two devices do not
know of each other's: the one that comes second is a new incarnation, and the first, which is attached, loses its name.
Several times within a minute, and the identity is suspended for a while: its HELLOs are answered WAIT with the reason,
its custody stays where it is. Source: security.md, 'a cloned agent state'; field case BL-18.
"""

from __future__ import annotations

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import Wait
from roamcast.middleware.settings import SECOND

SPAN = 60 * SECOND


class Takeovers:
    """Counts, per host, devices that lost their name here while they were attached."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._counts: dict[int, tuple[int, int]] = {}
        """Host -> (since, count)."""
        self._suspended: dict[int, int] = {}
        """Host -> until when."""

    def count(self, number: int) -> None:
        """A newer incarnation has ended one that was attached; one too many suspends the identity."""
        ledger = self.ledger
        since, count = self._counts.get(number, (ledger.now, 0))
        since, count = (since, count + 1) if ledger.now - since < SPAN else (ledger.now, 1)
        self._counts[number] = (since, count)
        if count == ledger.settings.takeovers_max:
            del self._counts[number]
            self._suspended[number] = ledger.now + SPAN
            ledger.notice("alarm", "identity-suspended", host=ledger.name_of(number), seconds=SPAN // SECOND)

    def suspended(self, number: int) -> bool:
        """Whether the host may not attach or move now."""
        until = self._suspended.get(number)
        if until is not None and self.ledger.now >= until:
            del self._suspended[number]
            return False
        return until is not None

    def refuse(self, channel: Channel) -> None:
        """Tell a device of a suspended identity."""
        reason = "two devices use this identity in turn: enrol one of them under a name of its own"
        self.ledger.tell(channel, Wait(reason, self.ledger.own, 0))
