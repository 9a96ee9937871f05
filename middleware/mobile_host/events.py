"""What an application is given, in its own words; `effects.Delivered` and the notices are the core's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from roamcast.middleware.mobile_host import effects
from roamcast.middleware.mobile_host.effects import Delivered, LiveDelivered, Notice
from roamcast.middleware.rows import PRESENCE_KINDS, Kind, MessageId
from roamcast.middleware.topics import PRESENCE_PREFIX

_STATES = {Kind.SUB: "subscribed", Kind.UNSUB: "unsubscribed", Kind.NOSUB: "refused"}


@dataclass(slots=True)
class _Given:
    _acknowledge: Callable[[int], None] = field(repr=False, compare=False)
    _token: int = field(repr=False, compare=False)

    def ack(self) -> None:
        """The application has this and everything given before it: none of it comes again."""
        self._acknowledge(self._token)


@dataclass(slots=True)
class Message(_Given):
    """A broadcast, a `mail` for this host alone, or a message on a `topic`; `own`: sent by this host itself.

    `id` is (slot of the station where it entered, its number there), the same at every host. On a topic the newest
    message has the largest `stamp`: who keeps that one ends with the same value as everybody. `retained`: it is the
    last value as this host subscribed, no news. An empty body may mean that the topic has no last value any more.
    """

    sender: str
    body: bytes
    own: bool
    mail: bool
    id: MessageId
    topic: str | None = None
    retained: bool = False
    stamp: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Subscription(_Given):
    """What became of a subscription, in its place: messages on the topic come from `subscribed` on, to any other state.

    `state`: subscribed; unsubscribed; refused: `reason` says why; ended: by others (a right was taken back, the topic
    deleted; '' for all topics: a station was lost, or this host was away too long). Subscribe again if it matters.
    """

    topic: str
    state: str
    reason: str = ""


@dataclass(slots=True)
class Presence(_Given):
    """Whether a host is attached, for those who subscribe to `Presence.topic(host)`.

    `attempt`: its own count of sessions; `retained`, `stamp`: as of a Message.
    """

    host: str
    online: bool
    attempt: int
    retained: bool
    stamp: tuple[int, int]

    @staticmethod
    def topic(host: str) -> str:
        """The topic to subscribe to."""
        return PRESENCE_PREFIX + host


@dataclass(slots=True)
class Live(_Given):
    """A live message, to all, `mail` for this host alone, or on a `topic`. It needs no acknowledgement."""

    sender: str
    body: bytes
    mail: bool
    topic: str | None
    id: tuple[int, int]
    """(stamp, slot of the station where it entered), the same at every host."""


class Discontinuity(_Given):
    """Messages were missed here, since the host was away for too long."""


class StateLost(_Given):
    """The host goes on under a new incarnation, subscribed to nothing: messages may be missing or come twice here."""


Event = Message | Live | Subscription | Presence | Discontinuity | StateLost


def event_of(given: Delivered | LiveDelivered | Notice, acknowledge: Callable[[int], None]) -> Event:
    """What the core gives, as an application sees it."""
    token = given.token
    if isinstance(given, LiveDelivered):
        mail, body = given.kind is Kind.MAIL, given.body
        return Live(acknowledge, token, given.sender, body, mail, given.topic or None, given.id)
    if not isinstance(given, Delivered):
        if isinstance(given, effects.SubscriptionEnded):
            return Subscription(acknowledge, token, given.topic, "ended")
        return (Discontinuity if isinstance(given, effects.Discontinuity) else StateLost)(acknowledge, token)
    kind, sender, stamp = given.kind, given.sender, (given.hlc, given.id[0])
    if kind in _STATES:
        return Subscription(acknowledge, token, given.topic, _STATES[kind], given.body.decode(errors="replace"))
    if kind in PRESENCE_KINDS:
        return Presence(acknowledge, token, sender, kind is Kind.ONLINE, given.number, given.retained, stamp)
    mail, topic = kind is Kind.MAIL, given.topic or None
    return Message(acknowledge, token, sender, given.body, given.own, mail, given.id, topic, given.retained, stamp)
