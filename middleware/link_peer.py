"""The link with one peer: when Link is said next, and when the connection is given up. The rules are in `links`."""

from __future__ import annotations

from dataclasses import dataclass, field

from roamcast.middleware.effects import Channel
from roamcast.middleware.link_effects import Member, Seen
from roamcast.middleware.settings import MS, SECOND

RETRY_MIN = SECOND
RETRY_MAX = 30 * SECOND
UNSENT_RETRY = 200 * MS
"""A Link that the DEALER could not take (no connection) is said again after this, without doubling."""

PROBE = 5 * SECOND
PROBES_MAX, PROBES_MAX_HEARD = 3, 12
"""So many without an answer: the connection is dead; if the peer is heard on its own one, this one may only be slow."""


@dataclass(slots=True)
class LinkPeer:
    """One peer, and the DEALER to it. Times in microseconds."""

    member: Member
    seen: Seen
    answered: bool = False
    ever_answered: bool = False
    due: int = 0
    retry: int = RETRY_MIN
    said_at: int | None = None
    heard_at: int | None = None
    refusal: str = ""
    unanswered: int = 0
    """How often a linked peer was asked since its last answer."""
    mute: bool = False
    skew: int = 0
    channels: list[Channel] = field(default_factory=list)

    def take_turn(self, now: int) -> bool:
        """Whether Link has to be said now; then it is due again later."""
        if now < self.due:
            return False
        if not self.answered:
            self.due, self.retry = now + self.retry, min(2 * self.retry, RETRY_MAX)
            return True
        self.due = now + PROBE
        heard = self.heard_at is not None and now - self.heard_at < PROBES_MAX * PROBE
        self.mute = self.unanswered >= (PROBES_MAX_HEARD if heard else PROBES_MAX)
        self.unanswered += 1
        return not self.mute

    def begin(self, now: int) -> None:
        """The connection is new, or not linked any more."""
        self.answered, self.due, self.retry, self.unanswered, self.mute = False, now, RETRY_MIN, 0, False

    def end(self) -> None:
        """The connection is lost."""
        self.answered = self.mute = False

    def unsent(self, now: int) -> None:
        """Link could not be sent. On a connection that is linked that is like no answer."""
        if not self.answered:
            self.due, self.retry = now + UNSENT_RETRY, RETRY_MIN

    def take_answer(self, now: int) -> None:
        """Link was answered."""
        if not self.answered:
            self.due = now + PROBE
        self.answered = self.ever_answered = True
        self.refusal, self.unanswered, self.mute = "", 0, False
