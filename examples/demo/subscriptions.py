"""What one host was subscribed to, and what it is owed on topics for that.

Between two changes in a host's log that say `subscribed` and something else, it is owed every message on the topic that

- certainly follows the subscription: it happened after the call of subscribe(), that is, after something that this
  host sent behind the call, or after something that it was given behind the change; the latter if the change was
  acknowledged in the session in which it was given: else another station may repeat both in another order;
- certainly precedes the end: it happened before something that the host was given before the end. If the right was
  taken back: that it was given before the operator began with that; what came later may have been held back.

Of the other messages on the topic it may have any. Outside it may have none. A kill leaves it open whether a change
that was not acknowledged counts: then both are allowed, and less is owed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from demo.history import Event
from demo.verdict import Case, Message


@dataclass(slots=True)
class Interval:
    """From a `subscribed` to the next change."""

    topic: str
    since: int
    first: dict[int, int]
    """By sender: index of its first message from which on everything that follows is behind the subscription."""
    fresh: bool = True
    """Its beginning is not acknowledged yet."""
    firm: bool = False
    """It was acknowledged in the session in which it was given."""
    revoked: bool = False
    past: list[int] | None = None
    """Clock of what had happened before what was given until the end; None: it has no end."""


@dataclass(slots=True)
class State:
    """Whether the host is subscribed to one topic, as far as its log can tell."""

    may_be: set[bool] = field(default_factory=lambda: {False})
    surely: set[bool] = field(default_factory=lambda: {False})
    """The same if the last change is not acknowledged and does not count."""
    interval: Interval | None = None


class Subscriptions:
    """Walks one host's events.

    Args:
        case: all messages, with their clocks.
        host: whose events they are.
        counted: the messages of which a delivery to it counts.
        revoked: by topic, when an operator began to take the right to receive.
        attached: when its sessions were open, and their epochs; if there are none, all was one session.
    """

    def __init__(
        self,
        case: Case,
        host: str,
        counted: Container[str],
        revoked: Mapping[str, Sequence[int]],
        attached: Sequence[tuple[int, int]],
    ) -> None:
        self._case = case
        self._host = host
        self._number = case.hosts.index(host)
        self._counted = counted
        self._revoked = revoked
        self._attached = attached
        self._states: dict[str, State] = {}
        self._over: list[Interval] = []
        self._past = [0] * len(case.hosts)
        self._own = 0
        """Messages sent so far."""
        self._asked: dict[str, int] = {}
        """By topic: how many had been sent at the last call of subscribe()."""

    def walk(self, events: Sequence[Event]) -> None:
        """Follow the changes and what is given; complain of what is given while not subscribed."""
        last = {event.uid: i for i, event in enumerate(events) if event.kind == "given"}
        for i, event in enumerate(events):
            match event.kind:
                case "start" | "end":
                    self._end_life()
                case "call" | "sent" if event.uid in self._case.messages:
                    self._own = max(self._own, self._case.messages[event.uid].index)
                case "asking" if event.state == "in":
                    self._asked[event.topic] = self._own
                case "change":
                    self._change(event)
                case "changed":
                    self._acknowledge(event)
                case "lost":
                    self._begin_anew()
                case "given" | "value" if event.uid in self._case.messages:
                    counts = event.kind == "given" and last[event.uid] == i and event.uid in self._counted
                    self._give(event, self._case.messages[event.uid], counts)
        for interval in self._open():
            self._cut(interval, events[-1].t)
            if interval.revoked:
                self._case.verdict.untold += 1
                self._case.verdict.witness(f"{self._host} was never told that it is not subscribed to {interval.topic}")

    def owed(self) -> Iterator[Message]:
        """All messages on topics that the host certainly is owed."""
        for interval in (*self._over, *self._open()):
            for message in self._case.on_topic.get(interval.topic, ()):
                before_end = interval.past is None or interval.past[message.sender] >= message.index
                if message.clock and message.follows(interval.first) and before_end:
                    yield message

    @property
    def at_the_end(self) -> list[str]:
        """Topics to which the host certainly is subscribed when its log ends."""
        return [interval.topic for interval in self._open() if not (interval.revoked or interval.fresh)]

    def _open(self) -> list[Interval]:
        return [state.interval for state in self._states.values() if state.interval is not None]

    def _change(self, event: Event) -> None:
        now = event.state == "subscribed"
        for topic in [event.topic] if event.topic else [*self._states]:
            state = self._states.setdefault(topic, State())
            state.may_be = {now}
            if state.interval is not None and (not now or state.interval.revoked):
                self._close(state.interval, event.t)
                state.interval = None
            if now and state.interval is None:
                asked = self._asked.get(topic, self._own)
                state.interval = Interval(topic, event.t, {self._number: asked + 1})

    def _acknowledge(self, event: Event) -> None:
        for state in [self._states[event.topic]] if event.topic else self._states.values():
            state.surely = set(state.may_be)
            interval = state.interval
            if interval is not None and interval.fresh:
                interval.fresh = False
                before = [epoch for t, epoch in self._attached if t < interval.since]
                interval.firm = not self._attached or event.epoch in before

    def _end_life(self) -> None:
        """What was not acknowledged comes again, or not."""
        for state in self._states.values():
            state.may_be |= state.surely
            state.surely = set(state.may_be)
            if state.interval is not None and state.interval.fresh:
                state.interval = None

    def _begin_anew(self) -> None:
        """A new incarnation is subscribed to nothing, but may be given again what the one before was."""
        for state in self._states.values():
            state.may_be = {True, False}
            if state.interval is not None:
                self._close(state.interval, 0)
                state.interval = None

    def _give(self, event: Event, message: Message, counts: bool) -> None:
        for interval in self._open():
            self._cut(interval, event.t)
        if event.topic and True not in self._states.get(event.topic, State()).may_be:
            verdict = self._case.verdict
            verdict.not_owed += 1
            verdict.witness(f"{self._host} was given {message.uid} on {event.topic} while it was not subscribed")
        if counts and message.clock:
            self._past = [max(a, b) for a, b in zip(self._past, message.clock, strict=True)]
            for interval in self._open():
                if interval.firm:
                    interval.first.setdefault(message.sender, message.index)

    def _cut(self, interval: Interval, now: int) -> None:
        """What is given from the moment on at which the right was taken back tells nothing of what is owed."""
        if not interval.revoked and any(interval.since < t <= now for t in self._revoked.get(interval.topic, ())):
            interval.revoked = True
            interval.past = list(self._past)

    def _close(self, interval: Interval, now: int) -> None:
        self._cut(interval, now)
        if interval.past is None:
            interval.past = list(self._past)
        self._over.append(interval)
