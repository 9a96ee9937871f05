"""The topics of the group with the rights on them, as host numbers: kept so that one change costs what it touches.

A group of thousands of topics comes entry by entry, and every host that comes or goes may stand in many lists. So what
changes is noted, and worked out when the topics are asked for, once for all changes of a tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roamcast.middleware.topics import Hosts, Topic
from roamcast.mss_station.host_cards import HostCards
from roamcast.mss_station.topic_schema import (
    EVERYBODY,
    GROUP_SIGN,
    GROUPS,
    RECEIVE,
    RIGHTS,
    SEND,
    TOPICS,
    TopicCard,
    group_key,
    right_key,
    topic_key,
    topic_of,
)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Hosts of a list and of the groups in it. They are not put together: thousands of lists may share a group."""

    parts: tuple[frozenset[int], ...]

    def __contains__(self, host: object) -> bool:
        return any(host in part for part in self.parts)


NOBODY: Hosts = frozenset()


class TopicBook:
    """Topics, lists and groups.

    Of topics with one number (two stations drew it at once) the one whose name comes first in the alphabet holds.

    Args:
        hosts: who is known by which name; whoever changes it says so by `host_changed`.
    """

    def __init__(self, hosts: HostCards) -> None:
        self._hosts = hosts
        self._cards: dict[str, TopicCard] = {}
        self._claims: dict[int, set[str]] = {}
        """Topic number -> names of the topics that claim it."""
        self._lists: dict[str, tuple[str, ...]] = {}
        """Who stands in it, by key."""
        self._named: dict[str, set[str]] = {}
        """Host, or '@' and group -> keys of the lists in which it stands."""
        self._members: dict[str, frozenset[int]] = {}
        """Host numbers of a list without those of its groups, by key."""
        self._changed_lists: set[str] = set()
        self._changed_topics: set[str] = set()
        self._made: dict[str, Topic] = {}
        self.numbers: set[int] = set()
        """All topic numbers that were ever seen here."""

    # ---- in ----

    def put_topic(self, name: str, card: TopicCard | None) -> None:
        """The topic of this name is now this one; None: there is none."""
        before = self._cards.pop(name, None)
        if before is not None:
            rivals = self._claims[before.number]
            rivals.discard(name)
            self._changed_topics |= rivals
            if not rivals:
                del self._claims[before.number]
        if card is not None:
            self._cards[name] = card
            self.numbers.add(card.number)
            self._claims.setdefault(card.number, set()).add(name)
            self._changed_topics |= self._claims[card.number]
        self._changed_topics.add(name)

    def put_list(self, key: str, who: tuple[str, ...] | None) -> None:
        """This list, of a right or a group, holds these names; None: there is none."""
        for name in self._lists.pop(key, ()):
            self._named[name].discard(key)
            if not self._named[name]:
                del self._named[name]
        if who is not None:
            self._lists[key] = who
            for name in who:
                self._named.setdefault(name, set()).add(key)
        self._touch(key)

    def host_changed(self, name: str) -> bool:
        """The host of this name is another one, or came, or went; returns whether a list may mean others now."""
        keys = self._named.get(name, ())
        for key in keys:
            self._touch(key)
        return bool(keys)

    def _touch(self, key: str) -> None:
        self._changed_lists.add(key)
        if key.startswith(TOPICS):
            self._changed_topics.add(topic_of(key))
        else:
            naming = self._named.get(GROUP_SIGN + key.removeprefix(GROUPS), ())
            self._changed_topics |= {topic_of(other) for other in naming}

    # ---- out ----

    def topics(self) -> list[Topic]:
        """All topics that hold, with who may do what on them by number."""
        self._settle()
        return list(self._made.values())

    def names(self) -> list[str]:
        """Of all topics, those at fault too."""
        return sorted(self._cards)

    def card(self, name: str) -> TopicCard | None:
        """The entry of a topic, whether it holds or not."""
        return self._cards.get(name)

    def who(self, name: str, right: str) -> tuple[str, ...] | None:
        """Who has this right on the topic; None: everybody."""
        who = self._lists.get(right_key(name, right))
        card = self._cards.get(name)
        if who is None and (card is None or right in card.lists):
            return ()
        return None if who is None or EVERYBODY in who else who

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The hosts of every group, by its name."""
        found = {key.removeprefix(GROUPS): who for key, who in self._lists.items() if key.startswith(GROUPS)}
        return dict(sorted(found.items()))

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """By key of a list: names in it for which there is no host, not even a revoked one, and no group."""
        found = {key: tuple(name for name in who if self._is_lacking(name)) for key, who in sorted(self._lists.items())}
        return {key: names for key, names in found.items() if names}

    def _is_lacking(self, name: str) -> bool:
        if name[:1] == GROUP_SIGN:
            return group_key(name[1:]) not in self._lists
        return name != EVERYBODY and name not in self._hosts.live and name not in self._hosts.out

    def faults(self) -> Iterator[str]:
        """What is wrong with topics, lists and groups, a sentence for each. Looks at all of them."""
        self._settle()
        for key, names in self.lacking().items():
            yield f"{key} names {', '.join(names)}: there is nobody of that name yet"
        for key in self._lists:
            if key.startswith(TOPICS) and topic_of(key) not in self._cards:
                yield f"{key} is there without its topic"
        for name in self._cards.keys() - self._made.keys():
            rival = min(self._claims[self._cards[name].number])
            yield f"{topic_key(name)} has the number of {topic_key(rival)}, which keeps it: remove the topic and add it"

    # ---- working it out ----

    def _settle(self) -> None:
        for key in self._changed_lists:
            self._resolve(key)
        self._changed_lists.clear()
        for name in self._changed_topics:
            card = self._cards.get(name)
            if card is None or min(self._claims[card.number]) != name:
                self._made.pop(name, None)
            else:
                allowed = {right: self._allowed(name, right) for right in RIGHTS}
                self._made[name] = Topic(card.number, name, allowed[SEND], allowed[RECEIVE])
        self._changed_topics.clear()

    def _resolve(self, key: str) -> None:
        self._members.pop(key, None)
        if (who := self._lists.get(key)) is not None:
            live = self._hosts.live
            self._members[key] = frozenset(live[name].number for name in who if name in live)

    def _allowed(self, topic: str, right: str) -> Hosts:
        who = self.who(topic, right)
        if who is None:
            return None
        groups = [group_key(name[1:]) for name in who if name[:1] == GROUP_SIGN]
        sets = [self._members.get(key, frozenset()) for key in (right_key(topic, right), *groups)]
        parts = tuple(part for part in sets if part)
        return AnyOf(parts) if len(parts) > 1 else parts[0] if parts else NOBODY
