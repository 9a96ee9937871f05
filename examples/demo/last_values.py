"""Last values: all who are subscribed at the end, and keep the retained message with the largest stamp, have the same.

Two more things hold of what a host is given on a topic: the same message has the same stamp everywhere, and one that
happened before another has the smaller one; and in the session in which a host was given a last value, it is not given
afterwards what happened before that value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from demo.history import Event
from demo.verdict import Case, Message

Stamp = tuple[int, ...]


class LastValues:
    """Walks the hosts one after the other, then compares them. `attached`: as in History."""

    def __init__(self, case: Case, attached: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        self._case = case
        self._attached = {host: sorted(t for t, _ in sessions) for host, sessions in attached.items()}
        self._stamps: dict[str, Stamp] = {}
        self._held: dict[str, dict[str, tuple[Stamp, str]]] = {}
        """By topic: what each host that is subscribed at the end holds as the newest."""
        self._newest: dict[str, tuple[Stamp, str]] = {}

    def walk(self, host: str, events: Sequence[Event], subscribed: Iterable[str]) -> None:
        """Look at all that one host was given on topics; `subscribed`: at the end, to these."""
        newest: dict[str, tuple[Stamp, str]] = {}
        values: dict[str, list[tuple[Message, int]]] = {}
        for event in events:
            message = self._case.messages.get(event.uid)
            if event.kind not in ("given", "value") or message is None or not message.topic or not message.clock:
                continue
            self._compare_stamp(host, event)
            if message.retain:
                newest[message.topic] = max(newest.get(message.topic, ((), "")), (event.stamp, message.uid))
            if event.kind == "value":
                values.setdefault(message.topic, []).append((message, event.t))
            else:
                self._compare_values(host, event, message, values.get(message.topic, ()))
        for topic, one in newest.items():
            self._newest[topic] = max(self._newest.get(topic, ((), "")), one)
        for topic in subscribed:
            self._held.setdefault(topic, {})[host] = newest.get(topic, ((), "nothing"))

    def compare(self) -> None:
        """Complain of hosts that end with less than the newest, and of stamps against the order."""
        for topic, held in self._held.items():
            for host, (stamp, uid) in held.items():
                newest = self._newest.get(topic)
                if newest is not None and newest != (stamp, uid):
                    self._complain(f"{host} ends with {uid} as the last value of {topic}, others with {newest[1]}")
        for messages in self._case.on_topic.values():
            self._compare_order([message for message in messages if message.uid in self._stamps])

    def _compare_stamp(self, host: str, event: Event) -> None:
        if self._stamps.setdefault(event.uid, event.stamp) != event.stamp:
            self._complain(f"{host} was given {event.uid} with stamp {event.stamp}, others {self._stamps[event.uid]}")

    def _compare_order(self, messages: list[Message]) -> None:
        past = [0] * len(self._case.hosts)
        for message in sorted(messages, key=lambda message: self._stamps[message.uid]):
            if past[message.sender] >= message.index:
                self._complain(f"{message.uid} has a larger stamp than a message on its topic that happened after it")
            past = [max(a, b) for a, b in zip(past, message.clock, strict=True)]

    def _compare_values(self, host: str, event: Event, message: Message, values: Iterable[tuple[Message, int]]) -> None:
        attached = self._attached.get(host, [])
        for value, t in values:
            one_session = bisect_right(attached, t) == bisect_right(attached, event.t)
            if one_session and value.clock[message.sender] >= message.index:
                self._case.verdict.out_of_order += 1
                self._case.verdict.witness(
                    f"{host} was given {message.uid} on {message.topic} after the last value {value.uid}, "
                    "which is that message or happened after it"
                )
                return

    def _complain(self, text: str) -> None:
        self._case.verdict.diverged += 1
        self._case.verdict.witness(text)
