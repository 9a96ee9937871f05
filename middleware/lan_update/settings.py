"""Settings of the LAN update layer, in microseconds (lan-update.md C.b)."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.settings import DAY, SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class LanSettings:
    """Immutable. `stale_after` must stay below `purge_after` minus the weak connection time and the clock error."""

    packet_timeout: int = 2 * SECOND
    """Tw: a packet that is not acknowledged after this has failed."""
    exchange_interval: int = 30 * SECOND
    """T_ae: lapsed peers get digests; `alive` is noted; purging is looked at."""
    entries_max: int = 100
    """M: entries in one packet."""
    entries_bytes_max: int = 512 << 10
    kept_max: int = 10_000
    """Keys remembered per peer whose packets failed; more are left to the digests."""
    stale_after: int = 25 * DAY
    """A: a node that was not fresh for longer is stale at its start."""
    purge_after: int = 30 * DAY
    """Q: a tombstone that every member holds goes after this."""
    skew_max: int = 300 * SECOND
    """A node whose clock is further off the median of its peers takes no local updates."""
    value_bytes_max: int = 16 << 10
    key_bytes_max: int = 200
