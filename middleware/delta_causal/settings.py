"""Settings of the delta-causal core: every limit, in microseconds, bytes and numbers of messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from roamcast.middleware.settings import MIB, MS


class Rule(Enum):
    """How a tag that had to be cut is read."""

    HORIZON = "horizon"
    """One entry a sender, and one stamp for all that was cut: wait for what is listed, and until that is over."""
    PAPER = "paper"
    """Paper 003: every message is listed; a full list means to wait until its newest entry is over. For comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Immutable. Raises ValueError if they make no sense.

    `delta` is one for the whole group: messages sent under another one are dropped, and counted. All else may differ
    from station to station under Rule.HORIZON; Rule.PAPER needs one `entries_max` for all.
    """

    delta: int = 500 * MS
    """A message that is older is not taken any more."""
    skew: int = 50 * MS
    """Two clocks of the group differ by no more than this, stamps that run ahead of a clock included."""
    entries_max: int | None = 4
    """MAX_CB: entries of one list of a tag; None: all. 0: only the stamp of what was cut. Measured in
    docs/protocols/delta-causal.md: 4 waits little longer than all."""
    rule: Rule = Rule.HORIZON
    body_bytes_max: int = 64 << 10
    kept_max: int = 10_000
    """Messages of one sender that wait here or were delivered within delta; more are dropped, and counted."""
    waiting_bytes_max: int = 16 * MIB
    """Of all messages that wait here. One that would have to wait beyond that is dropped, and counted."""
    tag_entries_max: int = 1 << 14
    """Entries in all lists of a tag that comes from a peer."""

    def __post_init__(self) -> None:
        least = 1 if self.rule is Rule.PAPER else 0
        if self.delta < 1 or self.skew < 0 or self.kept_max < 1:
            raise ValueError("delta and kept_max are at least 1, skew is at least 0")
        if self.entries_max is not None and self.entries_max < least:
            raise ValueError(f"entries_max is at least {least} under the rule {self.rule.value}, or None")

    @property
    def quiet(self) -> int:
        """How long after a start nothing is sent or taken: then all that an earlier life knew of is over.

        Stamps run ahead of a clock by `skew` at most, and it may have been set back by `skew` during the start.
        """
        return self.delta + 2 * self.skew + 1
