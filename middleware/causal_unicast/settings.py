"""Settings of the causal unicast: every limit and timer, in microseconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.settings import MIB, MS, SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """Immutable."""

    body_bytes_max: int = 256 << 10
    outbox_bytes_max: int = 64 * MIB
    """Mail to one addressee that it has not acknowledged; more is refused to the application."""
    held_bytes_max: int = 64 * MIB
    """Mail that waits here for what comes before it; more is left with its senders."""
    inbox_bytes_max: int = 64 * MIB
    """Mail that the application has not taken: from here on nothing new is taken from peers."""
    window_mails: int = 64
    """Sent to one station and not acknowledged; the rest follows when these are ..."""
    window_bytes: int = MIB
    """... and no more than this, but always one."""
    retry: int = 250 * MS
    retry_max: int = 5 * SECOND
    """Mail that is not acknowledged goes out again after `retry`, doubling to this."""
    records_max: int = 1 << 16
    """s-records in a header, so that it fits into a frame: 257 stations that live together have no more."""
    gap_max: int = 1 << 32
    """A count that is further above what is known here makes no sense."""
