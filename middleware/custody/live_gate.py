"""Whether this station's clock is good enough for live service. Nothing else depends on it."""

from __future__ import annotations

from typing import NamedTuple

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.peer_clocks import INTERVAL
from roamcast.middleware.settings import MS

AWAITED = 4 * INTERVAL
"""A peer that is linked has told how far it is ahead by then, also when the own clock has jumped."""


class _Found(NamedTuple):
    """A peer's clock."""

    ahead: int
    """Of the own one, microseconds."""
    base: int
    """The own one less the monotonic one, then."""
    at: int


class LiveGate:
    """What peers' clocks say of the own one: it is wrong if it differs too much from more than half of them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._found: dict[int, _Found] = {}
        self._base = 0
        """The own clock less the monotonic one, as it was when they were last compared."""
        self._jumped = 0
        """So far has the own clock jumped ahead, and most peers have not said yet what they think of it."""
        self._off = 0
        """How far the own clock is off; 0: not too far."""

    def compare(self, peer: int, ahead: int) -> None:
        """The clock of `peer` is `ahead` of the own one, as was just found."""
        ledger = self._ledger
        self._found[peer] = _Found(ahead, ledger.wall - ledger.now, ledger.now)
        self._judge()

    def _judge(self) -> None:
        """Where the own clock has lost on the monotonic one it was set. Where it has gained, that may have stood still:
        a peer counts as it was found, but if it is more than clocks may differ by, it is to be found anew."""
        ledger, before = self._ledger, self._off
        most = ledger.settings.live_skew
        self._base = ledger.wall - ledger.now
        found = [one for slot, one in self._found.items() if slot in ledger.fifo.peers]
        jumps = [self._base - one.base for one in found if ledger.now <= one.at + AWAITED]
        jumps = [jump for jump in jumps if jump > most]
        known = sorted(one.ahead - min(0, self._base - one.base) for one in found if self._base - one.base <= most)
        self._jumped = max(jumps) if len(jumps) > len(known) else 0
        if self._jumped:
            return
        far = [one for one in known if abs(one) > most]
        self._off = known[len(known) // 2] if 2 * len(far) > len(known) else 0
        if bool(self._off) != bool(before):
            level, event = ("alarm", "live-refused") if self._off else ("info", "live-resumed")
            ledger.notice(level, event, clock_off_ms=-self._off // MS, limit_ms=most // MS)

    def closed(self) -> tuple[str, str] | None:
        """(code, text) why there is no live service; None: there is. A step of the own clock counts at once."""
        if self._found and (self._jumped or abs(self._ledger.wall - self._ledger.now - self._base) > MS):
            self._judge()
        if self._jumped:
            text = f"the clock of this station has jumped ahead by {self._jumped // MS} ms, or the machine has slept"
            return "clock", f"{text}: it is compared with the others first"
        if not self._off:
            return None
        most = self._ledger.settings.live_skew // MS
        side = "behind" if self._off > 0 else "ahead of"
        text = f"the clock of this station is {abs(self._off) // MS} ms {side} those of the others; at most {most} ms"
        return "clock", f"{text} are allowed for live messages, all else goes on"
