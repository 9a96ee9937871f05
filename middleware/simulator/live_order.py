"""Live messages among all others: what the judge demands of one order, by applications' events alone.

Happened-before runs over live messages and all others together, rebuilt from program order: each message has the set of
all in its past, as bits of a number. Of two messages, one of them live, the earlier one is never given after the later
one; something live is given once, to its audience, in time. Last values are no part of the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.world import Event


@dataclass(slots=True)
class Message:
    """Live or not."""

    label: str
    host: str
    bit: int
    past: int
    live: bool
    to: str | None = None
    """Of a live one: host or topic."""
    is_topic: bool = False
    deadline: int = 0
    taken: int | None = None
    """When a station took it."""


@dataclass(slots=True)
class Life:
    """One identity of a host."""

    seen: int = 0
    """All that was sent or given, and its past."""
    passed: int = 0
    """The past of what was given."""
    passed_by_live: int = 0
    """The past of what was given live."""
    given: int = 0
    subs: set[str] = field(default_factory=set)
    by: dict[str, int] = field(default_factory=dict)
    """Live message that came -> until when it may be given."""


class LiveOrder:
    """Hears all that the judge hears. Raises Violation."""

    def __init__(self, skew: int) -> None:
        self._skew = skew
        """Clocks of two stations differ by this at most, stamps ahead of clocks included."""
        self.sent = self.taken = self.given = 0
        self._messages: dict[str, Message] = {}
        self._by_bit: list[Message] = []
        self._lives: dict[str, Life] = {}
        self._rules: dict[str, Callable[..., None]] = {
            "member": self._begin,
            "identity": self._identity,
            "sent": self._sent,
            "given": self._given,
            "changed": self._changed,
            "value": self._value,
            "ended": self._ended,
            "live sent": self._live_sent,
            "live taken": self._taken,
            "live handed": self._handed,
            "live came": self._came,
            "live given": self._live_given,
        }

    def listener(self, judge: Callable[[Event], None]) -> Callable[[Event], None]:
        """Of the trace: `judge` hears what is not live."""

        def listen(event: Event) -> None:
            if not event[1].startswith("live "):
                judge(event)
            rule = self._rules.get(event[1])
            if rule is not None:
                rule(event[0], *event[2:])

        return listen

    # ---- who ----

    def _begin(self, time: int, host: str) -> None:
        self._lives[host] = Life()

    def _identity(self, time: int, host: str, why: str, *carried: str) -> None:
        life = self._lives[host] = Life()
        for label in carried:
            self._enter(life, self._messages[label])

    # ---- not live ----

    def _enter(self, life: Life, message: Message) -> None:
        message.past = life.seen
        life.seen |= message.bit

    def _new(self, label: str, host: str, live: bool) -> Message:
        message = Message(label, host, 1 << len(self._by_bit), 0, live)
        self._by_bit.append(message)
        self._messages[label] = message
        self._enter(self._lives[host], message)
        return message

    def _sent(self, time: int, host: str, label: str, *more: object) -> None:
        message = self._new(label, host, False)
        message.to = str(more[2]) if len(more) > 2 and more[2] is not None else None

    def _given(self, time: int, host: str, label: str, *more: object) -> None:
        life, message = self._lives[host], self._messages[label]
        if life.passed_by_live & message.bit and not life.given & message.bit:
            self._inverted(host, message)
        self._take(life, message)

    def _take(self, life: Life, message: Message) -> None:
        life.seen |= message.bit | message.past
        life.passed |= message.past
        life.given |= message.bit

    def _changed(self, time: int, host: str, label: str, state: str) -> None:
        self._given(time, host, label)
        topic = self._messages[label].to or ""
        if state == "subscribed":
            self._lives[host].subs.add(topic)
        else:
            self._lives[host].subs.discard(topic)

    def _value(self, time: int, host: str, label: str, *more: object) -> None:
        life, message = self._lives[host], self._messages[label]
        life.seen |= message.bit | message.past

    def _ended(self, time: int, host: str, topic: str) -> None:
        subs = self._lives[host].subs
        subs.difference_update([topic] if topic else list(subs))

    # ---- live ----

    def _live_sent(self, time: int, host: str, label: str, to: str | None, is_topic: bool, deadline: int) -> None:
        message = self._new(label, host, True)
        message.to, message.is_topic, message.deadline = to, is_topic, deadline
        self.sent += 1

    def _taken(self, time: int, slot: int, label: str) -> None:
        message = self._messages[label]
        if message.taken is not None:
            raise Violation("live twice", [f"station {slot} takes {label} again"])
        message.taken = time
        self.taken += 1

    def _handed(self, time: int, slot: int, label: str) -> None:
        message = self._messages[label]
        taken = message.taken
        if taken is None or time > taken + message.deadline + self._skew:
            raise Violation("live late", [f"station {slot} hands {label}, taken at {taken}, down at {time} us"])

    def _came(self, time: int, host: str, label: str, by: int) -> None:
        self._lives[host].by[label] = by

    def _live_given(self, time: int, host: str, label: str) -> None:
        life, message = self._lives[host], self._messages[label]
        if life.given & message.bit:
            raise Violation("live twice", [f"{host} was given {label} again at {time} us"])
        if message.host == host or (message.to not in (None, host) and not message.is_topic):
            raise Violation("live not meant", [f"{label} of {message.host} to {message.to} was given to {host}"])
        if message.is_topic and message.to not in life.subs:
            raise Violation("live not meant", [f"{host} is not subscribed to {message.to}, and was given {label}"])
        if time > life.by[label]:
            raise Violation("live late", [f"{host} was given {label} at {time}, not by {life.by[label]} us"])
        if life.passed & message.bit:
            self._inverted(host, message)
        self._take(life, message)
        life.passed_by_live |= message.past
        self.given += 1

    def _inverted(self, host: str, message: Message) -> None:
        life = self._lives[host]
        after = [one.label for one in self._by_bit if life.given & one.bit and one.past & message.bit]
        what = "live " if message.live else ""
        raise Violation(
            "live order", [f"{host} was given {what}{message.label} after {after}, which happened after it"]
        )
