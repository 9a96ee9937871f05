"""Whether this station's clock is good enough for live service. Nothing else depends on it."""

from __future__ import annotations

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.settings import MS


class LiveGate:
    """What peers' clocks say of the own one: it is wrong if it differs too much from more than half of them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._clocks: dict[int, int] = {}
        """Peer -> its clock, less the monotonic clock here, microseconds."""
        self._base = 0
        """The own clock less the monotonic one, as it was when they were last compared."""
        self._off = 0
        """How far the own clock is off; 0: not too far."""

    def compare(self, peer: int, ahead: int) -> None:
        """The clock of `peer` is `ahead` of the own one, as was just found."""
        self._clocks[peer] = ahead + self._ledger.wall - self._ledger.now
        self._judge()

    def _judge(self) -> None:
        ledger, before = self._ledger, self._off
        self._base = ledger.wall - ledger.now
        known = sorted(clock - self._base for slot, clock in self._clocks.items() if slot in ledger.fifo.peers)
        far = [one for one in known if abs(one) > ledger.settings.live_skew]
        self._off = known[len(known) // 2] if 2 * len(far) > len(known) else 0
        if bool(self._off) != bool(before):
            level, event = ("alarm", "live-refused") if self._off else ("info", "live-resumed")
            ledger.notice(level, event, clock_off_ms=-self._off // MS, limit_ms=ledger.settings.live_skew // MS)

    def closed(self) -> tuple[str, str] | None:
        """(code, text) why there is no live service; None: there is. A step of the own clock counts at once."""
        if abs(self._ledger.wall - self._ledger.now - self._base) > MS and self._clocks:
            self._judge()
        if not self._off:
            return None
        most = self._ledger.settings.live_skew // MS
        side = "behind" if self._off > 0 else "ahead of"
        text = f"the clock of this station is {abs(self._off) // MS} ms {side} those of the others; at most {most} ms"
        return "clock", f"{text} are allowed for live messages, all else goes on"
