"""Is the own clock right? A fast clock must not write entries that hide all others until it is that late.

Every packet carries its sender's clock. A node that is further than `skew_max` off the median of its peers takes no
local updates. Receivers never look at the time of a version: who refused some would stop passing them on.
"""

from __future__ import annotations

from roamcast.middleware.lan_update.replica import Replica
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.lan_update.talks import Talks
from roamcast.middleware.settings import SECOND


class ClockGuard:
    """The own clock among those of the peers."""

    def __init__(self, replica: Replica, talks: Talks, settings: LanSettings) -> None:
        self._replica = replica
        self._talks = talks
        self._settings = settings
        self._told = False

    def skew(self) -> int | None:
        """How far the own clock is ahead of the peers' median, microseconds; None: no peer was heard.

        Of an even number of peers, the one of the two in the middle that is nearer to the own clock.
        """
        clocks = [talk.clock for talk in self._talks.members() if talk.clock is not None]
        ahead = sorted(self._replica.wall - self._replica.now - clock for clock in clocks)
        if not ahead:
            return None
        return min(ahead[(len(ahead) - 1) // 2], ahead[len(ahead) // 2], key=abs)

    def is_off(self) -> bool:
        """Whether the own clock is not to be trusted."""
        skew = self.skew()
        return skew is not None and abs(skew) > self._settings.skew_max

    def watch(self) -> None:
        """Tell the operator, once each time that it goes wrong and that it is right again."""
        off = self.is_off()
        if off != self._told:
            self._told = off
            level, event = ("alarm", "lan-clock-off") if off else ("info", "lan-clock-right")
            self._replica.notice(level, event, ahead_s=round((self.skew() or 0) / SECOND))
