"""Local updates of the configuration, checked: by a running station for a command, by the command at a stopped one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.membership.view import View
from roamcast.mss_station import config_text, schema
from roamcast.mss_station.cluster_book import check_members
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import SETTINGS, check_pairs, setting
from roamcast.mss_station.schema import HostCard
from roamcast.mss_station.topic_schema import GROUPS, TOPICS
from roamcast.mss_station.topic_updates import TopicUpdates
from roamcast.transport.curve import is_key
from roamcast.transport.limits import UINT32_MAX
from roamcast.transport.toml_files import NAME, NAME_WANTED

Put = Callable[[str, bytes | None], Version]
"""Writes an entry, None deletes; raises LanRefused, then nothing has changed."""


class Updates:
    """What an operator may change.

    Every method raises SchemaError or LanRefused with nothing changed.

    Args:
        entries: what is held, by key.
        past_numbers: topic numbers in the history.
    """

    def __init__(
        self,
        directory: LanDirectory,
        entries: Callable[[], Mapping[str, Entry]],
        put: Put,
        past_numbers: Callable[[], Iterable[int]],
    ) -> None:
        self.topics = TopicUpdates(directory, entries, put, past_numbers)
        self._directory = directory
        self._entries = entries
        self._put = put

    def set(self, key: str, text: str) -> Version:
        """`config set`."""
        if key.startswith((TOPICS, GROUPS)):
            return self.topics.set(key, text)
        value = config_text.read_value(key, text, self._value(key))
        if key.startswith(schema.SETTINGS):
            name = key.removeprefix(schema.SETTINGS)
            read = schema.read_setting(key, value)
            check_pairs(self._settings() | {name: read}, name)
            if name == "clusters":
                check_members(str(read), self._directory.record)
        elif key.startswith(schema.HOSTS):
            check_card(self._directory, schema.read_host(key, value))
        return self._put(key, value)

    def delete(self, key: str) -> Version:
        """`config delete`: a setting goes back to its default."""
        if key.startswith((TOPICS, GROUPS)):
            return self.topics.delete(key)
        if not key.startswith(schema.SETTINGS):
            raise SchemaError(f"{key!r} cannot be deleted; only settings, topics, rights and groups can")
        name = key.removeprefix(schema.SETTINGS)
        if self._value(key) is None:
            setting(name)
            raise SchemaError(f"{key} is not set: nothing to delete")
        check_pairs({other: value for other, value in self._settings().items() if other != name}, name)
        return self._put(key, None)

    def revoke(self, name: str) -> Version | None:
        """`hosts revoke`. None: it was revoked before."""
        if name in [card.name for card in self._directory.revoked()]:
            return None
        card = self._directory.named(name)
        if card is None:
            raise SchemaError(f"there is no host {name!r}; `mss-station hosts list` shows all")
        return self._put(schema.revocation_key(name, card.key), schema.revocation_value())

    def new_host(self, slot: int, name: str, key: str, numbers: Iterable[int]) -> HostCard:
        """The card of a host that is about to be enrolled here: its number is the next of this station.

        Args:
            slot: own slot.
            numbers: host numbers that are or were in use.
        """
        check_host(name, key)
        cards = [*self._directory.hosts(), *self._directory.revoked()]
        taken = [number for number in (*(card.number for card in cards), *numbers) if number >> 32 == slot]
        counter = 1 + max((number & UINT32_MAX for number in taken), default=0)
        card = HostCard(name, slot << 32 | counter, key, slot)
        check_card(self._directory, card)
        if self._value(schema.host_key(name)) is not None:
            raise SchemaError(
                f"the entry {schema.host_key(name)} is there already, and at fault; see `mss-station status`"
            )
        return card

    def publish(self, card: HostCard) -> Version:
        """Tell the group of a host. Its custody record must be durable in the same transaction, or before."""
        return self._put(schema.host_key(card.name), schema.host_value(card))

    def _value(self, key: str) -> bytes | None:
        entry = self._entries().get(key)
        return None if entry is None else entry.value

    def _settings(self) -> dict[str, int | str]:
        values = {name: self._directory.value(name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None}


def check_host(name: str, key: str | None) -> None:
    """Raise SchemaError if a host cannot have this name or this public key; None: its key is not made yet."""
    if not NAME.fullmatch(name):
        raise SchemaError(f"{name!r} is not acceptable as a name: it must be {NAME_WANTED}")
    if key is not None and not is_key(key):
        raise SchemaError("the public key must be a key of 40 signs (Z85)")


def check_serving(view: View) -> None:
    """Raise Error if a station with this view of the group may not take hosts into its custody."""
    if view.retiring or not view.serving:
        why = "it is being retired" if view.retiring else "not every station counts it yet"
        raise Error(f"no host can be enrolled at this station: {why}; enrol it at another one")


def check_card(directory: LanDirectory, card: HostCard) -> None:
    """Raise SchemaError if the number or key of `card` is that of another host, or its name one that was revoked."""
    if card.name in [other.name for other in directory.revoked()]:
        raise SchemaError(f"host {card.name!r} was revoked; enrol it again under a new name")
    for other in [*directory.hosts(), *directory.revoked()]:
        same = other.number == card.number
        if other.name == card.name and not same:
            raise SchemaError(f"host {card.name!r} is enrolled already")
        if other.name != card.name and (same or other.key == card.key):
            raise SchemaError(f"the number or key of {card.name!r} is that of {other.name!r}")
