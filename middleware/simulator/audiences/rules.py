"""What the judge demands of topics: intervals of subscription, last values, no word after a subscription has ended.

A host is owed what was sent on a topic iff it certainly comes behind its SUB: what causally follows the call of
subscribe(), or anything that the host was given behind the SUB; until the end of the subscription.
Source: one-order.md 4.1, 4.3, 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roamcast.middleware.simulator.accounts import Life, Sent
    from roamcast.middleware.simulator.audiences.rights import Rights
    from roamcast.middleware.simulator.checkers import Judge

Stamp = tuple[int, int]
SENT_KINDS = ("send", "retain")


@dataclass(slots=True)
class Interval:
    """A subscription as an application sees it."""

    sub: Sent
    firsts: dict[int, int] = field(default_factory=dict)
    """Identity -> its first message that was given behind the SUB."""
    sure: bool = True
    """No right was touched that could have ended it."""
    value: str = ""
    """Label of the last value that came with it."""


@dataclass(slots=True)
class Seen:
    """What one identity knows of topics."""

    subs: dict[str, Interval] = field(default_factory=dict)
    changes: list[tuple[str, str, Interval | None]] = field(default_factory=list)
    """(label, topic, what holds from there): to see what is left of them after a kill."""
    newest: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    """Topic -> (largest stamp, label) of retained messages and values."""
    retained: dict[str, list[Sent]] = field(default_factory=dict)
    ended_upto: int = 0
    """SUBs up to this one of its own messages mean nothing."""
    before_ends: list[tuple[dict[str, Interval], list[tuple[str, str, Interval | None]], int]] = field(
        default_factory=list
    )
    """`subs`, `changes` and `ended_upto` as they were before each end."""
    loose: set[str] = field(default_factory=set)
    """Since a kill: the replay may begin before an end of a subscription that was acknowledged late."""


class TopicRules:
    """The rules of topics, for a judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._seen: dict[int, Seen] = {}
        self.rights: Rights | None = None
        self.values = 0

    def of(self, life: Life) -> Seen:
        """What an identity knows."""
        return self._seen.setdefault(life.number, Seen())

    def _broken(self, rule: str, *witness: str) -> None:
        self._judge.fail(rule, list(witness))

    # ---- what a host may be given ----

    def owed(self, message: Sent, life: Life) -> bool:
        """Whether a message on a topic, or a change of a subscription, certainly has to come to this identity."""
        if message.kind not in SENT_KINDS:
            same = message.sender == life.number
            ended = message.index <= self.of(life).ended_upto
            return same and (message.kind == "unsub" or (self._stays(message) and not ended))
        interval = self.of(life).subs.get(message.topic or "")
        entered = message.given_to_any or (message.known is True and not message.refused)
        if interval is None or not interval.sure or not entered:
            return False
        past, sub = message.past, interval.sub
        if past.get(sub.sender, 0) >= sub.index and sub.sender == life.number:
            return True
        return any(past.get(sender, 0) >= index for sender, index in interval.firsts.items())

    def _stays(self, sub: Sent) -> bool:
        """Whether nobody can have ended this SUB since it was sent."""
        if self.rights is None or sub.topic is None:
            return True
        _, since = self.rights.certain(sub.host, sub.topic, "receive")
        return sub.time >= since

    def given(self, life: Life, message: Sent, stamp: Stamp) -> None:
        """A message was given: on a topic only between a SUB and its end."""
        seen = self.of(life)
        if message.kind in SENT_KINDS and message.topic:
            interval = seen.subs.get(message.topic)
            if interval is None and message.topic in seen.loose:
                return
            if interval is None:
                what = f"{life.host} was given {message.label} on {message.topic}"
                self._broken("not subscribed", what, "it is not subscribed there")
                return
            if interval.value == message.label:
                self._broken("value again", f"{message.label} was {life.host}'s last value with its subscription")
            if message.kind == "retain":
                self._know(seen, message, stamp)
        for interval in seen.subs.values():
            interval.firsts.setdefault(message.sender, message.index)

    def _know(self, seen: Seen, message: Sent, stamp: Stamp) -> None:
        topic = message.topic or ""
        seen.retained.setdefault(topic, []).append(message)
        seen.newest[topic] = max(seen.newest.get(topic, ((0, 0), "")), (stamp, message.label))

    def changed(self, life: Life, message: Sent, state: str) -> None:
        """A SUB ('subscribed'), UNSUB ('unsubscribed') or refusal ('refused') came in its place."""
        seen, topic = self.of(life), message.topic or ""
        seen.subs.pop(topic, None)
        seen.loose.discard(topic)
        interval = None
        if state == "subscribed":
            interval = seen.subs[topic] = Interval(message, sure=self._stays(message))
        seen.changes.append((message.label, topic, interval))

    def refused(self, message: Sent) -> bool:
        """Whether a refusal of a message on a topic may be right."""
        what = "send" if message.kind in SENT_KINDS else "receive"
        return message.known is not True or not self._untouched(message, what)

    def _untouched(self, message: Sent, what: str) -> bool:
        if self.rights is None or message.topic is None:
            return True
        return message.time >= self.rights.certain(message.host, message.topic, what)[1]

    def value(self, life: Life, message: Sent, stamp: Stamp) -> None:
        """A last value came with a SUB."""
        seen, topic = self.of(life), message.topic or ""
        self.values += 1
        if message.kind != "retain":
            self._broken("no value", f"{message.label} was sent without retain; {life.host} was given it as last value")
        interval = seen.subs.get(topic)
        if interval is None:
            self._broken("not subscribed", f"{life.host} was given the last value {message.label} of {topic}")
            return
        for known in seen.retained.get(topic, ()):
            older = known.past.get(message.sender, 0) >= message.index and known is not message
            if older and known.label in life.given and not self._judge.is_gone(known):
                newer = f"{known.label} follows it, and {life.host} had been given that"
                self._broken("value of the past", f"{message.label} came as last value of {topic}", newer)
        interval.value = message.label
        self._know(seen, message, stamp)

    def ended(self, life: Life, topic: str, excused: bool) -> None:
        """A host was told that its subscription, or (topic '') all of them, have ended."""
        seen = self.of(life)
        seen.before_ends.append((dict(seen.subs), list(seen.changes), seen.ended_upto))
        if not topic:
            if not excused:
                self._broken("ended without cause", f"{life.host} was told that all its subscriptions have ended")
            seen.subs.clear()
            seen.changes.clear()
            seen.ended_upto = life.past.get(life.number, 0)
            return
        if self.rights is not None and (life.host, topic) not in self.rights.ever_denied:
            self._broken("ended without cause", f"{life.host} was told that its subscription to {topic} has ended")
        seen.subs.pop(topic, None)
        seen.changes = [change for change in seen.changes if change[1] != topic]

    def not_ended(self, life: Life) -> None:
        """The process died before it had told the last end."""
        seen = self.of(life)
        seen.subs, seen.changes, seen.ended_upto = seen.before_ends.pop()

    def touched(self, host: str, topic: str) -> None:
        """A right was given or taken: what the host is owed on the topic is not certain any more."""
        for life in self._judge.lives:
            interval = self.of(life).subs.get(topic)
            if life.host == host and interval is not None:
                interval.sure = False

    def gap(self, life: Life) -> None:
        """Messages were given up: so may subscriptions have been."""
        for interval in self.of(life).subs.values():
            interval.sure = False

    def born(self, life: Life) -> None:
        """The process started anew: changes that were not acknowledged come again."""
        seen = self.of(life)
        seen.loose = {topic for _, topic, _ in seen.changes}
        seen.changes = [change for change in seen.changes if life.given.get(change[0])]
        subs: dict[str, Interval] = {}
        for _, topic, interval in seen.changes:
            subs.pop(topic, None)
            if interval is not None:
                subs[topic] = interval
        seen.subs = subs

    # ---- the end ----

    def differing(self, life: Life, values: dict[str, tuple[Stamp, bool]]) -> str | None:
        """A topic whose newest value this host does not know, in words. values: topic -> (stamp, cleared)."""
        seen = self.of(life)
        for topic, interval in seen.subs.items():
            if not interval.sure or topic not in values:
                continue
            stamp, cleared = values[topic]
            known = seen.newest.get(topic, ((0, 0), "none"))
            message = self._judge.by_label.get(known[1])
            if message is not None and self._judge.is_gone(message):
                continue  # with a lost station
            if known[0] != stamp and not (cleared and known[0] < stamp):
                return f"{life.host} has {known[1]} {known[0]} as newest of {topic}; stations have {stamp}"
        return None
