"""Whether hosts' messages are taken now, and what hosts are told while they are not.

Closed after a start until a peer has answered (a store that went back must not give numbers twice), when the disk or
the log is full, or when the driver says so. Source: overview sections 7, 8, 10.
"""

from __future__ import annotations

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import Wait


class Gate:
    """The state of the uplinks of one station."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.linked = False
        """A configured peer has answered LINK since the start: new numbers may be given."""
        self.reason: str | None = None
        self.by = 0
        """Slot of the station that is the reason; 0 = none."""

    def closed(self) -> str | None:
        """Why nothing is taken; None if it is."""
        if self.ledger.view.sponsor:
            return "this station is still joining the group"
        if self.ledger.view.retiring:
            return "this station is being retired"
        return self.reason if self.linked else "no peer station has answered since the start"

    def say(self, channel: Channel) -> None:
        """Tell a host to wait, and for what."""
        self.ledger.tell(channel, Wait(self.closed() or "", self.by, 0))
