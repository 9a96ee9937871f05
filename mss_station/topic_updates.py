"""Local updates of topics, rights and groups, checked: by a running station for a command, or at a stopped one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.mss_station import config_text
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.store import read_past
from roamcast.mss_station.topic_schema import (
    EVERYBODY,
    GROUP_SIGN,
    GROUPS,
    RIGHTS,
    TOPICS,
    TopicCard,
    check_group,
    check_topic,
    check_who,
    group_key,
    names_in,
    read_topic,
    read_who,
    right_key,
    split_topic,
    topic_key,
    topic_value,
    value_in,
    who_value,
)
from roamcast.transport.limits import UINT32_MAX

TOPICS_MAX: Final = 10_000
"""Of a group: every change of one, or of who stands for a name in a list, costs every station a look at all of them."""

Written = dict[str, Version]
"""Key -> version of its new entry; nothing where all was so before."""


def past_topics(path: Path) -> dict[int, str]:
    """Names of topics, by number, in the history of the configuration of the station in `path`. Raises StoreError."""
    found = {}
    for line in read_past(path, TOPICS):
        try:
            number = read_topic(line.entry.key, line.entry.value or b"").number
        except SchemaError:
            continue
        found[number] = line.entry.key.removeprefix(TOPICS)
    return found


class TopicUpdates:
    """What an operator may change of topics and groups.

    Every method raises SchemaError or LanRefused with nothing changed: why a node takes no updates does not depend on
    the entry, so of a change of several entries the first one is refused, or none.

    Args:
        entries: what is held, by key.
        put: writes an entry, None deletes.
        past: topic numbers that are in the history; asked for once.
    """

    def __init__(
        self,
        directory: LanDirectory,
        entries: Callable[[], Mapping[str, Entry]],
        put: Callable[[str, bytes | None], Version],
        past: Callable[[], Iterable[int]],
    ) -> None:
        self._book = directory.book
        self._entries = entries
        self._put = put
        self._past = past
        self._numbers: set[int] | None = None
        self.commands: dict[str, Callable[[Mapping[str, Any]], Written]] = {
            "topics add": lambda asked: self.add(asked["name"], asked["send"], asked["receive"]),
            "topics grant": lambda asked: self.grant(asked["name"], asked["right"], asked["who"], asked["only"]),
            "topics revoke": lambda asked: self.revoke(asked["name"], asked["right"], asked["who"]),
            "topics remove": lambda asked: self.remove(asked["name"]),
            "groups set": lambda asked: self.set_group(asked["name"], asked["hosts"]),
            "groups add": lambda asked: self.add_to_group(asked["name"], asked["hosts"]),
            "groups drop": lambda asked: self.drop_from_group(asked["name"], asked["hosts"]),
            "groups delete": lambda asked: self.delete_group(asked["name"]),
        }

    def perform(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a command asks for; the answer for it."""
        return {"versions": {key: list(version) for key, version in self.commands[asked["command"]](asked).items()}}

    # ---- topics ----

    def add(self, name: str, send: Iterable[str] | None, receive: Iterable[str] | None) -> Written:
        """A new topic, with these lists; None: everybody has the right."""
        check_topic(name)
        if self._value(topic_key(name)) is not None:
            raise SchemaError(f"there is a topic {name!r} already; `mss-station topics list` shows all")
        if len(self._book.names()) >= TOPICS_MAX:
            raise SchemaError(f"there are {TOPICS_MAX} topics, which is the limit: remove some, or use one for more")
        given = dict(zip(RIGHTS, (send, receive), strict=True))
        lists = {right: check_who(right_key(name, right), who) for right, who in given.items() if who is not None}
        card = TopicCard(name, self._draw(), tuple(lists))
        written = {topic_key(name): self._put(topic_key(name), topic_value(card))}
        for right in RIGHTS:
            key = right_key(name, right)
            if right in lists:
                written[key] = self._put(key, who_value(lists[right]))
            elif self._value(key) is not None:  # left by one that was removed at another station meanwhile
                written[key] = self._put(key, None)
        return written

    def _draw(self) -> int:
        """A number that no topic has, or had."""
        if self._numbers is None:
            self._numbers = set(self._past())
        while True:
            number = secrets.randbelow(UINT32_MAX) + 1
            if number not in self._numbers and number not in self._book.numbers:
                self._numbers.add(number)
                return number

    def grant(self, name: str, right: str, who: Iterable[str], only: bool) -> Written:
        """These may, too; only: these and nobody else."""
        card, held = self._card(name), self._who(name, right)
        asked = check_who(right_key(name, right), who)
        if held is None and asked == (EVERYBODY,):
            return {}
        if only or asked == (EVERYBODY,):
            return self._put_list(card, right, asked)
        if held is None:
            raise SchemaError(
                f"every host may {right} on {name!r} as it is; with --only nobody may but {', '.join(asked)}"
            )
        return self._put_list(card, right, {*held, *asked})

    def revoke(self, name: str, right: str, who: Iterable[str]) -> Written:
        """These may not, any more."""
        card, held = self._card(name), self._who(name, right)
        asked = check_who(right_key(name, right), who)
        if asked == (EVERYBODY,):
            return self._put_list(card, right, ())
        if held is None:
            raise SchemaError(
                f"every host may {right} on {name!r}, so that nobody can be left out of it: first say who may, with "
                f"`mss-station topics grant DIR {name} {right} --only WHO...`"
            )
        for one in asked:
            if one not in held and (group := self._group_with(one, held)) is not None:
                raise SchemaError(
                    f"{one} may {right} on {name!r} as one of {GROUP_SIGN}{group}: take it out of that group, with "
                    f"`mss-station groups drop DIR {group} {one}`, or the right from the whole group"
                )
        return self._put_list(card, right, {*held} - {*asked})

    def _group_with(self, host: str, who: Iterable[str]) -> str | None:
        groups = self._book.groups()
        names = [name.removeprefix(GROUP_SIGN) for name in who if name.startswith(GROUP_SIGN)]
        return next((name for name in names if host in groups.get(name, ())), None)

    def remove(self, name: str) -> Written:
        """The topic and its lists go."""
        check_topic(name)
        keys = [topic_key(name), *(right_key(name, right) for right in RIGHTS)]
        there = [key for key in keys if self._value(key) is not None]
        if not there:
            raise _no_topic(name)
        return {key: self._put(key, None) for key in there}

    def _put_list(self, card: TopicCard, right: str, who: Iterable[str]) -> Written:
        """The list, and in the topic's own entry that there is one."""
        key = right_key(card.name, right)
        value, written = who_value(check_who(key, who)), {}
        if right not in card.lists:
            told = TopicCard(card.name, card.number, (*card.lists, right))
            own = topic_key(card.name)
            written[own] = self._put(own, topic_value(told, self._value(own)))
        if value != self._value(key):
            written[key] = self._put(key, value)
        return written

    # ---- groups ----

    def set_group(self, name: str, hosts: Iterable[str]) -> Written:
        """The group has these hosts and no others."""
        check_group(name)
        key = group_key(name)
        value = who_value(check_who(key, hosts))
        return {} if value == self._value(key) else {key: self._put(key, value)}

    def add_to_group(self, name: str, hosts: Iterable[str]) -> Written:
        """The group has these hosts, too."""
        check_group(name)
        held = self._value(group_key(name))
        return self.set_group(name, [*(() if held is None else read_who(group_key(name), held)), *hosts])

    def drop_from_group(self, name: str, hosts: Iterable[str]) -> Written:
        """The group has these hosts no more."""
        held, gone = self._group(name), check_who(group_key(name), hosts)
        return self.set_group(name, [host for host in held if host not in gone])

    def delete_group(self, name: str) -> Written:
        """There is no group of this name any more; where it stands in a list it stands for nobody."""
        self._group(name)
        return {group_key(name): self._put(group_key(name), None)}

    # ---- any entry, by its key ----

    def set(self, key: str, text: str) -> Version:
        """`config set` of a topic, right or group."""
        if key.startswith(GROUPS):
            check_group(key.removeprefix(GROUPS))
            return self._put(key, who_value(check_who(key, _names(key, text))))
        name, right = split_topic(key)
        card = self._card(name)
        if not right:
            return self._put(key, config_text.read_topic_map(key, text, self._value(key)))
        written = self._put_list(card, right, _names(key, text))
        return written.get(key) or self._put(key, self._value(key))

    def delete(self, key: str) -> Version:
        """`config delete` of a topic, right or group."""
        if self._value(key) is None:
            raise SchemaError(f"there is no entry {key!r}: nothing to delete")
        if key.startswith(TOPICS):
            name, right = split_topic(key)
            if right:
                self._forget_list(name, right)
            elif any(self._value(right_key(name, each)) is not None for each in RIGHTS):
                raise SchemaError(f"{key} has lists of rights: `mss-station topics remove DIR {name}` deletes all")
        return self._put(key, None)

    def _forget_list(self, name: str, right: str) -> None:
        own = topic_key(name)
        before = self._value(own)
        if before is not None and right in (card := read_topic(own, before)).lists:
            left = tuple(each for each in card.lists if each != right)
            self._put(own, topic_value(TopicCard(name, card.number, left), before))

    # ---- what is held ----

    def _value(self, key: str) -> bytes | None:
        return value_in(self._entries().get(key))

    def _card(self, name: str) -> TopicCard:
        check_topic(name)
        value = self._value(topic_key(name))
        if value is None:
            raise _no_topic(name)
        return read_topic(topic_key(name), value)

    def _who(self, name: str, right: str) -> tuple[str, ...] | None:
        """Who has the right; None: everybody."""
        if right not in RIGHTS:
            raise SchemaError(f"the right must be {' or '.join(RIGHTS)}, not {right!r}")
        value = self._value(right_key(name, right))
        if value is None:
            return () if right in self._card(name).lists else None
        who = read_who(right_key(name, right), value)
        return None if EVERYBODY in who else who

    def _group(self, name: str) -> tuple[str, ...]:
        check_group(name)
        value = self._value(group_key(name))
        if value is None:
            raise SchemaError(f"there is no group {name!r}; `mss-station groups list` shows all")
        return read_who(group_key(name), value)


def _no_topic(name: str) -> SchemaError:
    return SchemaError(f"there is no topic {name!r}; `mss-station topics add` makes one")


def _names(key: str, text: str) -> list[str]:
    """Names as a person writes them: with commas between them, or as a JSON list."""
    if not text.lstrip().startswith("["):
        return names_in(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{key}: this is no JSON list ({error})") from None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise SchemaError(f"{key}: the list must hold names only")
    return [str(name) for name in found]
