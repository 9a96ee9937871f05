"""Broadcasts between stations by PUB/SUB: who publishes where, who hears it, and who must be sent to one by one.

A publisher cannot know who hears it. So it *offers*: it tells a peer port, token and audiences. The peer subscribes,
and says which audiences it *hears* once something has come that way, a frame or a beat: only then is its subscription
known to work. It says so again and again, and at once when it hears nothing any more. Whoever has not said so lately is
*deaf* and is sent every frame on its own connection. What is lost in between is repaired like all that is lost between
stations: CLAIMS tell what exists, NACK asks for it.

The token is random, of one PUB socket. What is said of another one (of a former life of the publisher, or from before
its keys changed) counts for nothing, and frames under it reach nobody who has subscribed to this one. An audience is a
set of slots; number 0 is all peers. Times are monotonic microseconds. Both sides are told the time about once a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from roamcast.middleware.settings import SECOND

Audience = tuple[int, ...] | None
"""Slots; None: all peers."""

EVERYBODY: Final = 0
AUDIENCES_MAX: Final = 16
"""Of one publisher, beside all: the clusters it belongs to, and those of a view of the group before."""

SILENCE: Final = 4 * SECOND
"""Publishers send a frame or a beat every second: what has been silent for so long is not heard."""
SAY_AGAIN: Final = 5 * SECOND
LEASE: Final = 15 * SECOND
"""Hearing counts for so long. Above twice `SAY_AGAIN`: one that is lost does no harm."""
OFFER_AGAIN: Final = 2 * SECOND
OFFER_AGAIN_MAX: Final = 60 * SECOND
"""The pause doubles: a port that is blocked stays so."""
TRY_AGAIN: Final = 10 * SECOND
GIVE_UP: Final = 180 * SECOND


@dataclass(slots=True, frozen=True)
class Publish:
    """An offer: what I publish for you goes out at this port of my host, under these audiences."""

    token: int
    port: int
    audiences: tuple[int, ...]
    """Ascending."""


@dataclass(slots=True, frozen=True)
class Hearing:
    """Of what you publish under this token I hear these audiences, and no others."""

    token: int
    audiences: tuple[int, ...]
    """Ascending."""


PublishFrame = Publish | Hearing


@dataclass(slots=True)
class _Offer:
    audiences: tuple[int, ...]
    due: int
    pause: int = OFFER_AGAIN


class Publication:
    """What the owner of one PUB socket knows of those who may hear it. Sans-IO.

    Args:
        token: random 64 bits.
        port: where the socket is bound.
    """

    def __init__(self, token: int, port: int) -> None:
        self.token = token
        self.port = port
        self._numbers: dict[Audience, int] = {None: EVERYBODY}
        self._made = EVERYBODY
        self._hearers: dict[int, dict[int, int]] = {EVERYBODY: {}}
        """By audience and slot: until when it counts."""
        self._offers: dict[int, _Offer] = {}

    def number(self, to: Audience) -> int:
        """The number of this audience; a new one replaces the oldest of many."""
        if to not in self._numbers:
            if len(self._numbers) > AUDIENCES_MAX:
                oldest = next(audience for audience in self._numbers if audience is not None)
                del self._hearers[self._numbers.pop(oldest)]
            self._made += 1
            self._numbers[to] = self._made
            self._hearers[self._made] = {}
        return self._numbers[to]

    def numbers(self) -> list[int]:
        """All audiences: each that had no frame is to be sent a beat about once a second."""
        return list(self._numbers.values())

    def hearers(self, number: int) -> Mapping[int, int]:
        """The slots that hear this audience, as far as is known."""
        return self._hearers[number]

    def offers(self, linked: Iterable[int], now: int) -> list[tuple[int, Publish]]:
        """What is to be said to whom now. Whoever has not said for long that it hears is taken for deaf.

        Args:
            linked: slots of the peers that can be told.
        """
        for hearers in self._hearers.values():
            for slot in [slot for slot, until in hearers.items() if until <= now]:
                del hearers[slot]
        said = []
        for slot in linked:
            audiences = tuple(number for to, number in self._numbers.items() if to is None or slot in to)
            offer = self._offers.get(slot)
            if offer is None or offer.audiences != audiences:
                offer = self._offers[slot] = _Offer(audiences, now)
            if all(slot in self._hearers[number] for number in audiences):
                offer.due, offer.pause = now, OFFER_AGAIN
            elif now >= offer.due:
                offer.due, offer.pause = now + offer.pause, min(2 * offer.pause, OFFER_AGAIN_MAX)
                said.append((slot, Publish(self.token, self.port, audiences)))
        return said

    def take(self, slot: int, frame: Hearing, now: int) -> bool:
        """A peer says what it hears. Returns whether it has become deaf to something: it may have missed frames."""
        if frame.token != self.token:
            return False
        deaf = False
        for number, hearers in self._hearers.items():
            if number in frame.audiences:
                hearers[slot] = now + LEASE
            else:
                deaf = hearers.pop(slot, None) is not None or deaf
        return deaf

    def forget(self, slot: int) -> None:
        """The peer has begun anew, or has gone: it is deaf until it says otherwise, and is offered all again."""
        self._offers.pop(slot, None)
        for hearers in self._hearers.values():
            hearers.pop(slot, None)


@dataclass(slots=True)
class Reception:
    """What one peer publishes, as it is heard here. Sans-IO."""

    offer: Publish
    opened_at: int
    offered_at: int
    _heard_at: dict[int, int] = field(default_factory=dict)
    _said: tuple[int, ...] = ()
    _said_at: int = 0

    def heard(self, number: int, now: int) -> bool:
        """Something came under this audience. Returns whether it was offered."""
        if number not in self.offer.audiences:
            return False
        self._heard_at[number] = now
        return True

    def hearing(self, now: int) -> tuple[int, ...]:
        """The audiences that are heard now."""
        return tuple(number for number, at in sorted(self._heard_at.items()) if now - at < SILENCE)

    def to_say(self, now: int) -> Hearing | None:
        """What is to be said now, if anything; tell `said` if it could be sent."""
        hearing = self.hearing(now)
        due = hearing != self._said or (hearing and now - self._said_at >= SAY_AGAIN)
        return Hearing(self.offer.token, hearing) if due else None

    def said(self, frame: Hearing, now: int) -> None:
        """This was sent."""
        self._said, self._said_at = frame.audiences, now

    def stays(self, offer: Publish, now: int) -> bool:
        """An offer came. Whether the subscription serves it; else make a new one."""
        if (offer.token, offer.port) != (self.offer.token, self.offer.port):
            return False
        if not self.hearing(now) and now - self.opened_at >= TRY_AGAIN:
            return False  # whoever was refused once is not let in by waiting
        self.offered_at = now
        return True

    def is_over(self, now: int) -> bool:
        """Nothing has been heard or offered for long."""
        return now - max([self.offered_at, *self._heard_at.values()]) >= GIVE_UP


def deaf(targets: Sequence[int], hearers: Mapping[int, int]) -> list[int]:
    """Those of `targets` that must be sent to one by one."""
    return [slot for slot in targets if slot not in hearers]
