"""Settings of the station's cores: every limit and timer, in microseconds and bytes (overview section 10)."""

from __future__ import annotations

from dataclasses import dataclass

MS = 1_000
SECOND = 1_000_000
DAY = 86_400 * SECOND
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Immutable; a change arrives as the command `Configure`."""

    window_entries: int = 512
    """Entries sent to a host and not acknowledged, spool included."""
    window_bytes: int = MIB
    frame_bytes: int = 48 << 10
    """A MSG frame is cut here; a larger message travels alone."""
    message_bytes_max: int = 256 << 10
    claims_tick: int = 20 * MS
    nack_timeout: int = 60 * MS
    poll_timeout: int = 120 * MS
    poll_timeout_max: int = 2 * SECOND
    copies: int = 1
    """Stations that must have a message before its sender is told that it is stored, and before anybody is given it."""
    lean_bytes: int = 0
    """Mail whose item has so many bytes goes whole only where its addressee probably is; 0: all goes everywhere. With
    `copies` above 1 all goes everywhere too: a header is no copy."""
    pull_retry: int = 100 * MS
    pull_retry_max: int = 5 * SECOND
    send_window: int = 1024
    """W: own rows first sent while n - (lowest stored claim among live stations) <= W."""
    out_of_order_max: int = 1024
    """W_ooo per origin."""
    nack_rows_max: int = 256
    nack_bytes_max: int = MIB
    heartbeat: int = 5 * SECOND
    down_after: int = 15 * SECOND
    topics_max: int = 1_000
    """Subscriptions of one host."""
    presence_grace: int = 10 * SECOND
    """A host counts as away after so long without a connection."""
    spool_grace: int = 10 * SECOND
    spool_behind_rows: int = 10_000
    spool_behind_time: int = 30 * SECOND
    spool_bytes_max: int = 256 * MIB
    away_max: int = 30 * DAY
    ephemeral_away_max: int = 60 * SECOND
    retain_bytes: int = 8 << 30
    retain_rows: int = 2_000_000
    collect_interval: int = 5 * SECOND
    collect_rows: int = 10_000
    handoff_retry: int = 250 * MS
    handoff_retry_max: int = 5 * SECOND
    custody_retry: int = SECOND
    custody_retry_max: int = 60 * SECOND
    spool_part_bytes: int = MIB
    spool_parts_per_answer: int = 8
    wait_interval: int = 5 * SECOND
    attach_interval: int = SECOND
    """Token bucket of HELLOs per host: one token per interval ..."""
    attach_burst: int = 20
    """... up to this many."""
    takeovers_max: int = 5
    """Times within a minute that an attached host loses its name to a newer incarnation: suspended for one then."""
    silence_slack: int = 10 * SECOND
    """A channel silent for twice its ping interval plus this is hung up."""
    live_delta: int = 500 * MS
    """A live message that is older is given to nobody. The same in the whole group."""
    live_skew: int = 50 * MS
    """Clocks of two stations differ by no more than this, or there is no live service."""
    live_entries: int = 4
    """MAX_CB: other live messages that one names as coming before it; what is cut costs waiting."""
    clock_settle: int = 3_600 * SECOND
    """Uptime since the last wall jump over 5 minutes before time may expire anybody."""
