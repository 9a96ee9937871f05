"""Keys and values of topics in the replicated configuration. A value is one small CBOR map, as in schema.py.

    topics/<t>                    number; lists: the rights of which there is a list
    topics/<t>/send, /receive     who: names of hosts, '@' and the name of a group, or '*' for every host
    groups/<g>                    who: names of hosts

A topic's name has no '/': what stands behind a second one in a key is a right. A right without a list is everybody's,
unless the topic's own entry says that there is one: then it has not arrived yet, or is gone before the topic (the
entries of one change travel apart), and until then nobody has the right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from roamcast.middleware.lan_update.records import Entry
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.schema import read_map
from roamcast.transport.limits import LAN_VALUE_BYTES_MAX, UINT32_MAX
from roamcast.transport.map_codec import encode_map
from roamcast.transport.toml_files import NAME, NAME_WANTED

TOPICS, GROUPS = "topics/", "groups/"
SEND, RECEIVE = RIGHTS = ("send", "receive")
EVERYBODY: Final = "*"
GROUP_SIGN: Final = "@"
LIST_BYTES_MAX: Final = LAN_VALUE_BYTES_MAX - 64
"""Of all names together, each with what it adds beside its letters."""


@dataclass(frozen=True, slots=True)
class TopicCard:
    """The value of `topics/<t>`."""

    name: str
    number: int
    """Random, drawn when the topic was added; a topic of the same name that is added later has another one."""
    lists: tuple[str, ...] = ()
    """Rights that only those have who stand in a list."""


# ---- keys ----


def topic_key(name: str) -> str:
    """Key of a topic."""
    return TOPICS + name


def right_key(name: str, right: str) -> str:
    """Key of the list of those who may send, or receive, on a topic."""
    return f"{TOPICS}{name}/{right}"


def group_key(name: str) -> str:
    """Key of a group of hosts."""
    return GROUPS + name


def split_topic(key: str) -> tuple[str, str]:
    """(topic, right) of a key that begins with TOPICS; right is "" in that of the topic itself. Raises SchemaError."""
    name, slash, right = key.removeprefix(TOPICS).partition("/")
    check_topic(name)
    if slash and right not in RIGHTS:
        raise SchemaError(f"{key!r} must be {TOPICS}<topic>, {TOPICS}<topic>/{SEND} or {TOPICS}<topic>/{RECEIVE}")
    return name, right


def topic_of(key: str) -> str:
    """The topic of the key of a right on it."""
    return key.removeprefix(TOPICS).partition("/")[0]


def check_topic(name: str) -> None:
    """Raise SchemaError if a topic cannot have this name."""
    if not NAME.fullmatch(name):
        raise SchemaError(f"{name!r} is not acceptable as a topic: it must be {NAME_WANTED}")


def check_group(name: str) -> None:
    """Raise SchemaError if a group of hosts cannot have this name."""
    if not NAME.fullmatch(name):
        raise SchemaError(f"{name!r} is not acceptable as a group: it must be {NAME_WANTED}, without the '@'")


# ---- values ----


def read_topic(key: str, value: bytes) -> TopicCard:
    """The value of a topic's entry. Raises SchemaError."""
    name, values = split_topic(key)[0], read_map(key, value)
    number, lists = values.get("number"), values.get("lists", [])
    if type(number) is not int or not 1 <= number <= UINT32_MAX:
        raise SchemaError(f"{key}: number must be an integer from 1 to {UINT32_MAX}")
    if not isinstance(lists, list) or any(right not in RIGHTS for right in lists):
        raise SchemaError(f"{key}: lists must be some of {', '.join(RIGHTS)}")
    return TopicCard(name, number, tuple(right for right in RIGHTS if right in lists))


def topic_value(card: TopicCard, before: bytes | None = None) -> bytes:
    """The value of a topic's entry; fields that `before` has and a card has not are kept."""
    kept = {} if before is None else read_map(topic_key(card.name), before)
    return encode_map(kept | {"number": card.number, "lists": list(card.lists)})


def read_who(key: str, value: bytes) -> tuple[str, ...]:
    """Who stands in a list, in the order of the alphabet. Raises SchemaError."""
    if key.startswith(TOPICS):
        split_topic(key)
    else:
        check_group(key.removeprefix(GROUPS))
    who = read_map(key, value).get("who")
    if not isinstance(who, list) or not all(isinstance(name, str) for name in who):
        raise SchemaError(f"{key}: who must be a list of names")
    return check_who(key, who)


def check_who(key: str, who: Iterable[str]) -> tuple[str, ...]:
    """These names, each once and in the order of the alphabet, if they may stand in that list. Raises SchemaError."""
    names = set(who)
    for name in names:
        host = name.removeprefix(GROUP_SIGN) if key.startswith(TOPICS) else name
        if not NAME.fullmatch(host) and not (name == EVERYBODY and key.startswith(TOPICS)):
            wanted = f"a host, {GROUP_SIGN} and a group, or {EVERYBODY!r}" if key.startswith(TOPICS) else "a host"
            raise SchemaError(f"{key}: {name!r} is not the name of {wanted}")
    size = sum(len(name) + 2 for name in names)
    if size > LIST_BYTES_MAX:
        raise SchemaError(f"{key}: {len(names)} names are too many for one list ({size} of {LIST_BYTES_MAX} bytes)")
    return (EVERYBODY,) if EVERYBODY in names else tuple(sorted(names))


def who_value(who: Iterable[str]) -> bytes:
    """The value of a list."""
    return encode_map({"who": list(who)})


def names_in(text: str) -> list[str]:
    """Names that a person wrote, with commas or blanks between them."""
    return text.replace(",", " ").split()


def shown_who(who: Iterable[str] | None) -> str:
    """A list as a person writes it; None: there is none."""
    return EVERYBODY if who is None else ", ".join(who) or "nobody"


def value_in(entry: Entry | None) -> bytes | None:
    """What the entry holds; None: it is not there, or deleted."""
    return None if entry is None else entry.value
