"""Live messages that were taken here and went out, and are not yet given to hosts here; what their hosts are told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.delta_causal.past import Id
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import LiveRefused
from roamcast.middleware.live_frames import LiveCast

DROPPED = {
    "unfounded": "what it follows has not come here",
    "expired": "it was over before hosts here could be given it",
    "behind": "what it follows did not come here in time",
    "overtaken": "hosts here may have been given what follows it",
}
"""Code of LIVE_REFUSED -> text."""


@dataclass(frozen=True, slots=True)
class Own:
    """Taken here; its host, in the session in which it came, is told if it is dropped here."""

    id: Id
    cast: LiveCast
    channel: Channel
    record: Record
    e: int
    tag: int

    @property
    def over(self) -> int:
        """The reading from which it is."""
        return self.id[0] + self.cast.delta + 1


class LiveOwn(deque[Own]):
    """All of them at one station, in the order of stamps."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def tell(self, own: Own, why: str) -> None:
        """Its host is told why it was dropped here, if it was; not in another session than that in which it came."""
        record = own.record
        same = self._ledger.channels.get(own.channel) is record and record.sess == own.e and record.state == "open"
        if why and own.tag and (same or "live_told" in self._ledger.mutants):
            self._ledger.tell(own.channel, LiveRefused(why, DROPPED[why], own.tag))

    def overtake(self, stamp: int) -> int:
        """A host that comes may have been given these elsewhere, up to `stamp`. Returns how many are dropped."""
        return 0 if "live_own" in self._ledger.mutants else self._drop("overtaken", lambda own: own.id[0] <= stamp)

    def expire(self, reading: int) -> int:
        """Drop what is over. Returns how many."""
        return self._drop("behind", lambda own: own.over <= reading)

    def _drop(self, why: str, ends: Callable[[Own], bool]) -> int:
        dropped = 0
        while self and ends(self[0]):
            self.tell(self.popleft(), why)
            dropped += 1
        return dropped
