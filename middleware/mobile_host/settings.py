"""Settings of the agent's core: every limit and timer, in microseconds and bytes (overview sections 7 and 10)."""

from __future__ import annotations

from dataclasses import dataclass

from roamcast.middleware.settings import MIB, MS, SECOND

DEADLINE_S_MAX = 86_400


def deadline_of(seconds: float) -> float:
    """A live message's deadline as an application gives it, in microseconds.

    Raises TypeError: it is no number; ValueError: it is not more than 0, or more than a day.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"deadline is a number of seconds, an int or a float, not {type(seconds).__name__}")
    if not 0 < seconds <= DEADLINE_S_MAX:
        raise ValueError(f"deadline is more than 0 and at most {DEADLINE_S_MAX} seconds")
    return seconds * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Immutable for the life of a core."""

    outbox_entries: int = 1_000
    outbox_bytes: int = 8 * MIB
    message_bytes_max: int = 256 << 10
    """Until a WELCOME says otherwise."""
    name_bytes_max: int = 64
    topic_bytes_max: int = 96
    window_entries: int = 512
    """Until a WELCOME says otherwise."""
    window_excess: int = 64
    """A station with more than this times its window unacknowledged is hung up (a tick's shared frames may go beyond
    the window: all that the station delivered in it)."""
    ack_entries: int = 256
    """ACK after this many acknowledged messages, or a quarter of the window if that is less ..."""
    ack_bytes: int = 256 << 10
    """... or after this many bytes of them (a quarter of the station's window in bytes) ..."""
    ack_delay: int = SECOND
    """... or this long after the first acknowledgement not yet said."""
    ping_active: int = 5 * SECOND
    ping_idle: int = 240 * SECOND
    answer_timeout: int = 10 * SECOND
    """A PING or LEAVE unanswered, or DATA without progress, for this long ends the session."""
    freeze: int = 10 * SECOND
    """The process was not run for this long beyond a deadline: the link is suspect."""
    suspect_timeout: int = 2 * SECOND
    """Time for the answer to the PING on a suspect link."""
    wait_grace: int = 15 * SECOND
    """After a WAIT no timeout runs for this long."""
    attach_timeout: int = 2 * SECOND
    backoff: int = 500 * MS
    backoff_max: int = 8 * SECOND
    settled: int = 5 * SECOND
    """A session that ends younger than this counts as a failed round."""
    hold_min: int = 15 * SECOND
    """Pause after another holder of this identity has attached: between this ..."""
    hold_max: int = 30 * SECOND
    """... and this (with two such holders at most four takeovers a minute)."""
    stale_max: int = 3
    """STALE answers taken on one connection before the attempt counts as failed."""
    live_in_hand: int = 1_000
    """Live messages that came and were not taken; of more the oldest go."""
    late_max: int = 4_096
    """Acknowledgements kept by message id at most (see inbox.py); the oldest go."""
