"""Who the host is: its incarnation, and what becomes of everything when a new one is drawn (overview section 7)."""

from __future__ import annotations

import random

from roamcast.middleware.mobile_host.attachment import Attachment
from roamcast.middleware.mobile_host.effects import Receipt, StateLost
from roamcast.middleware.mobile_host.journal import Journal
from roamcast.middleware.mobile_host.session import Session
from roamcast.middleware.mobile_host.state import NewIncarnation, Queued


class Identity:
    """The incarnation of one host. `enrolled_at`: slot of the station that a new one names first."""

    def __init__(
        self, enrolled_at: int, journal: Journal, session: Session, link: Attachment, rng: random.Random
    ) -> None:
        self.renewed = False
        """The incarnation was renewed and has not been welcomed yet."""
        self._enrolled_at = enrolled_at
        self._journal = journal
        self._session = session
        self._link = link
        self._rng = rng

    def lose(self, reason: str) -> None:
        """The session is over, and the state is worth nothing: go on under a new incarnation, over a fresh connection;
        a second time in a row only after a pause.
        """
        self._journal.report("state-lost", reason=reason)
        self.draw(lost=True)
        self._session.inbox.notify(StateLost(0))
        if self.renewed:
            self._link.pause(reason)
        else:
            self.renewed = True
            self._link.start_round(self._link.station)

    def draw(self, lost: bool) -> None:
        """Take a new incarnation. `lost`: there was one before."""
        incarnation = 0
        while incarnation == 0:
            incarnation = self._rng.getrandbits(64)
        outbox = self._session.outbox
        unknown, moved = outbox.renumber()
        self._link.last = self._enrolled_at
        self._session.renew(incarnation)
        queued = (Queued(n, entry.to, entry.body, False, entry.kind) for n, entry in outbox.entries.items())
        self._journal.save(NewIncarnation(incarnation, self._enrolled_at, lost), *queued)
        for number in unknown:
            self._journal.emit(Receipt(number, "unknown"))
        for old, new in moved:
            self._journal.emit(Receipt(old, "renumbered", became=new))
