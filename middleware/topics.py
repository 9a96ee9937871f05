"""Topics as the configuration has them: names, numbers, and who may send and receive on each.

The configuration is not in the causal order: every station obeys its own copy of it (one-order.md 4.4). So a right is
looked at once, where a request enters, and whatever a right that is gone had allowed is taken back by `Subscriptions`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from roamcast.middleware.rows import PRESENCE

PRESENCE_PREFIX = "$presence/"
"""Begins the name of the topic that tells whether a host is attached; the host's name follows."""

Hosts = Container[int] | None
"""Host numbers; None: every member."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic."""

    number: int
    """Below PRESENCE, not 0; given once, never to another topic."""
    name: str
    send: Hosts = None
    receive: Hosts = None


class Topics:
    """All topics at one moment. Immutable.

    Args:
        topics: those of the configuration.
        presence: hosts may ask for the presence of hosts.
        before: the names of its topics are remembered, for topics that are no more.
        former: names of topics, by number, that are or were before anything that `before` knows.
    """

    def __init__(
        self,
        topics: Iterable[Topic] = (),
        *,
        presence: bool = False,
        before: Topics | None = None,
        former: Mapping[int, str] | None = None,
    ) -> None:
        self.presence = presence
        self._by_name = {topic.name: topic for topic in topics}
        self._by_number = {topic.number: topic for topic in self._by_name.values()}
        names: dict[int, str] = {} if before is None else before._names
        self._names: dict[int, str] = {**(former or {}), **names} | {
            topic.number: topic.name for topic in self._by_name.values()
        }

    def __len__(self) -> int:
        return len(self._by_number)

    def number(self, name: str, hosts: Mapping[str, int]) -> int:
        """Number of the topic of this name; 0: there is none. `hosts`: host numbers by name."""
        if name.startswith(PRESENCE_PREFIX):
            host = hosts.get(name.removeprefix(PRESENCE_PREFIX), 0)
            return host and PRESENCE | host
        topic = self._by_name.get(name)
        return 0 if topic is None else topic.number

    def name(self, number: int) -> str:
        """Name of the topic, also of one that is no more; '#' and its number if nobody remembers."""
        return self._names.get(number, f"#{number}")

    def exists(self, number: int) -> bool:
        """Whether there is such a topic now."""
        return self.presence if number >= PRESENCE else number in self._by_number

    def was_removed(self, number: int) -> bool:
        """Whether there was such a topic, and is no more."""
        return number in self._names and number not in self._by_number

    def changed(self, before: Topics) -> set[int] | None:
        """Numbers of the topics, and of former ones, that are not as they were; None: presence is not either."""
        if self.presence != before.presence:
            return None
        was, now = before._by_number, self._by_number
        different = {number for number, topic in now.items() if (old := was.get(number)) is not topic and old != topic}
        return different | (was.keys() - now.keys())

    def may_send(self, number: int, host: int) -> bool:
        """Whether the host may send on the topic. Nobody says what the presence of a host is but stations."""
        topic = self._by_number.get(number)
        return topic is not None and (topic.send is None or host in topic.send)

    def may_receive(self, number: int, host: int) -> bool:
        """Whether the host may be given what is sent on the topic."""
        if number >= PRESENCE:
            return self.presence
        topic = self._by_number.get(number)
        return topic is not None and (topic.receive is None or host in topic.receive)
