"""Settings of an element of a cluster: every limit and timer, in microseconds and rows."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.settings import MS, SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Immutable. The timers are those of the flat broadcast; a poll waits longer, since gateways answer later."""

    claims_tick: int = 20 * MS
    nack_timeout: int = 60 * MS
    poll_timeout: int = 240 * MS
    """Doubled with each poll that brings nothing, up to `heartbeat`."""
    send_window: int = 1024
    """W: rows of the own stream that not every living peer has taken."""
    relay_window: int = 4096
    """W_g: relays that not every living station of the cluster has taken."""
    out_of_order_max: int = 1024
    rows_max: int = 256
    """Rows of one frame."""
    heartbeat: int = 5 * SECOND
    down_after: int = 15 * SECOND
