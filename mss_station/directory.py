"""Stations, hosts, topics, settings: what the replicated configuration says, as the station asks it.

Every station comes to the same answers, in whatever order the entries arrive: they depend on the entries alone. Where
two claim what only one may have (two hosts a number or a key, two stations a slot or a key) the one whose name comes
first in the alphabet has it, and the other one is told as a fault. An entry whose value cannot be read counts as not
there, one that says who may do something as saying nobody; it is kept, relayed, and told once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.lan_update.records import Entry
from roamcast.middleware.settings import Settings
from roamcast.middleware.topics import Topics
from roamcast.mss_station import schema, topic_schema
from roamcast.mss_station.changes import (
    Change,
    LayoutChanged,
    MembersChanged,
    OwnChanged,
    SettingsChanged,
    StationsChanged,
    TopicsChanged,
)
from roamcast.mss_station.cluster_book import ClusterBook
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import PAIRS, SETTINGS, Plain, contradictions, core_settings
from roamcast.mss_station.host_cards import Fault, HostCards, HostChange, HostKnown, HostRevoked, HostShut
from roamcast.mss_station.schema import HostCard, StationRecord
from roamcast.mss_station.topic_book import TopicBook
from roamcast.transport.station_files import StationCard

T = TypeVar("T")


__all__ = [
    "Change", "Directory", "Fault", "HostCard", "HostKnown", "HostRevoked", "HostShut", "LanDirectory",
    "LayoutChanged", "MembersChanged", "OwnChanged", "SettingsChanged", "StationsChanged", "TopicsChanged",
]  # fmt: skip


class Directory(Protocol):
    """What a station asks about its group. Keys are CURVE public keys in Z85."""

    def stations(self) -> list[StationCard]:
        """All active stations but this one, by slot."""

    def station(self, key: str) -> StationCard | None:
        """The active peer that has this key, its newest or an older one."""

    def peer(self, id: str) -> StationCard | None:
        """The active peer of this id."""

    def former(self, key: str) -> StationRecord | None:
        """The station with this key that was retired or is lost."""

    def members(self) -> list[StationRecord]:
        """All stations that there are or were, by slot."""

    def hosts(self) -> list[HostCard]:
        """All hosts that are not revoked, by number."""

    def host(self, key: str) -> HostCard | None:
        """The host with this key; None: unknown or revoked."""

    def named(self, name: str) -> HostCard | None:
        """The host of this name; None: unknown or revoked."""

    def revoked(self) -> list[HostCard]:
        """All known hosts that are revoked, by number."""

    def settings(self) -> Settings:
        """The settings of the cores that hold now."""

    def topics(self) -> Topics:
        """The topics and the rights on them that hold now."""

    def layout(self) -> Layout:
        """How the stations are split into clusters now."""


class LanDirectory:
    """The directory that the LAN update layer feeds, one entry after the other.

    Args:
        own: the station that asks; it is not its own peer.
        entries: what its store holds.
        former: names of topics, by number, that its store knows to be or have been.
    """

    def __init__(self, own: StationCard, entries: Mapping[str, Entry], former: Mapping[int, str] | None = None) -> None:
        self._own = own
        self._seen: dict[str, bytes] = {}
        self._records: dict[str, StationRecord] = {}
        self._peers: tuple[StationCard, ...] = ()
        self._peers_by_key: dict[str, StationCard] = {}
        self._former_by_key: dict[str, StationRecord] = {}
        self._shadowed: dict[str, str] = {}
        """By station id: why its record does not hold."""
        self._cards = HostCards()
        self.book = TopicBook(self._cards)
        """Topics, rights and groups as they were written."""
        self._topics = Topics(former=former)
        self._topics_due = False
        self.clusters = ClusterBook(self._slot_of)
        self._values: dict[str, Plain] = {}
        self._settings = core_settings({})
        self._faults: dict[str, str] = {}
        self._own_by = own.id
        """Who has written the record of this station."""
        self.reload(entries)

    # ---- in ----

    def reload(self, entries: Mapping[str, Entry]) -> list[Change]:
        """The configuration is `entries` and nothing else."""
        changes: list[Change] = []
        for key in [key for key in self._seen if key not in entries]:
            changes += self.drop(key)
        for entry in entries.values():
            changes += self.apply(entry)
        return changes

    def apply(self, entry: Entry) -> list[Change]:
        """The entry of its key is now this one."""
        key, value = entry.key, entry.value
        if value is None:
            return self.drop(key)
        if self._seen.get(key) == value:
            return []
        self._seen[key] = value
        if key == schema.station_key(self._own.id):
            self._own_by = entry.version.node
        return self._take(key, value)

    def drop(self, key: str) -> list[Change]:
        """There is no entry of this key any more, or it is deleted."""
        return [] if self._seen.pop(key, None) is None else self._take(key, None)

    def _take(self, key: str, value: bytes | None) -> list[Change]:
        takers = {
            schema.STATIONS: self._take_station,
            schema.HOSTS: self._take_host,
            schema.REVOKED: self._take_revocation,
            schema.SETTINGS: self._take_setting,
            topic_schema.TOPICS: self._take_topic,
            topic_schema.GROUPS: self._take_group,
        }
        take = takers.get(key[: key.find("/") + 1])
        return [] if take is None else take(key, value)

    def _read(
        self,
        key: str,
        value: bytes | None,
        read: Callable[[str, bytes], T],
        changes: list[Change],
        otherwise: str = "the entry is ignored",
    ) -> T | None:
        """What `read` makes of the value; a fault that is new joins the changes."""
        try:
            result, text = None if value is None else read(key, value), None
        except SchemaError as error:
            result, text = None, f"{error}; {otherwise}"
        self._tell(key, text, changes)
        return result

    def _tell(self, key: str, text: str | None, changes: list[Change]) -> None:
        before = self._faults.pop(key, None)
        if text is not None:
            self._faults[key] = text
            if text != before:
                changes.append(Fault(text))

    # ---- hosts ----

    def _take_host(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        card = self._read(key, value, schema.read_host, changes)
        return changes + self._with_topics(self._cards.put(key.removeprefix(schema.HOSTS), card))

    def _take_revocation(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        named = self._read(key, b"", lambda key, _: schema.revocation(key), changes)
        return changes if named is None else changes + self._with_topics(self._cards.revoke(*named, value is not None))

    def _with_topics(self, changes: Iterable[HostChange]) -> list[Change]:
        """These changes of hosts, and what they change of topics."""
        names = {change.card.name for change in changes if not isinstance(change, Fault)}
        listed = [name for name in names if self.book.host_changed(name)]
        return [*changes, *(self._topics_changed() if listed else ())]

    def hosts(self) -> list[HostCard]:
        """All hosts that are not revoked, by number."""
        return sorted(self._cards.live.values(), key=lambda card: card.number)

    def host(self, key: str) -> HostCard | None:
        """The host with this key; None: unknown or revoked."""
        return self._cards.by_key.get(key)

    def named(self, name: str) -> HostCard | None:
        """The host of this name; None: unknown or revoked."""
        return self._cards.live.get(name)

    def revoked(self) -> list[HostCard]:
        """All known hosts that are revoked, by number."""
        return sorted(self._cards.out.values(), key=lambda card: card.number)

    # ---- stations ----

    def _take_station(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        record = self._read(key, value, schema.read_station, changes)
        known = self._records.pop(key.removeprefix(schema.STATIONS), None)
        if record is not None:
            self._records[record.id] = record
        if record != known:
            changes.append(MembersChanged())
        before, self._peers = self._peers, self._hold_slots(changes)
        if record is not None and record.id == self._own.id:
            changes.append(OwnChanged(record, self._own_by))
        if before != self._peers:
            changes.append(StationsChanged(before, self._peers))
        if MembersChanged() in changes and self.clusters.stations_changed():
            changes.append(LayoutChanged())
        return changes

    def _hold_slots(self, changes: list[Change]) -> tuple[StationCard, ...]:
        """The active peers, and who is found by which key. The first id that claims a slot or a key has it."""
        holders: dict[int | str, str] = {}
        shadowed: dict[str, str] = {}
        peers: list[StationCard] = []
        self._peers_by_key, self._former_by_key = {}, {}
        own = self._own
        claims: dict[str, set[int | str]] = {one.id: {one.slot, *one.keys} for one in self._records.values()}
        claims[own.id] = claims.get(own.id, set()) | {own.slot, own.key}
        for id in sorted(claims):
            rivals = {holders[claim] for claim in claims[id] if claim in holders}
            for claim in claims[id]:
                holders.setdefault(claim, id)
            if rivals:
                names = ", ".join(sorted(rivals))
                shadowed[id] = f"{schema.station_key(id)} claims the slot or a key of {names}, which keeps it"
            if id == own.id or rivals:
                continue
            record = self._records[id]
            if record.state not in schema.ENDED:
                peers.append(self._card(record))
                self._peers_by_key |= dict.fromkeys(record.keys, peers[-1])
            else:
                self._former_by_key |= dict.fromkeys(record.keys, record)
        changes += [Fault(text) for id, text in shadowed.items() if self._shadowed.get(id) != text]
        self._shadowed = shadowed
        return tuple(sorted(peers, key=lambda card: card.slot))

    def _card(self, record: StationRecord) -> StationCard:
        return StationCard(
            record.id,
            record.slot,
            self._own.group,
            record.generation,
            record.hosts,
            record.stations,
            record.keys[0],
            record.signing[0],
        )

    def stations(self) -> list[StationCard]:
        """All active stations but this one, by slot."""
        return list(self._peers)

    def station(self, key: str) -> StationCard | None:
        """The active peer that has this key, its newest or an older one."""
        return self._peers_by_key.get(key)

    def peer(self, id: str) -> StationCard | None:
        """The active peer of this id."""
        return next((card for card in self._peers if card.id == id), None)

    def former(self, key: str) -> StationRecord | None:
        """The station with this key that was retired or is lost."""
        return self._former_by_key.get(key)

    def ended(self) -> list[StationRecord]:
        """All stations that were retired or are lost, by slot, without this one."""
        former = {record.id: record for record in self._former_by_key.values()}
        return sorted(former.values(), key=lambda record: record.slot)

    def members(self) -> list[StationRecord]:
        """All stations that there are or were, by slot; this one is among them once its record is there."""
        return sorted(self._records.values(), key=lambda record: (record.slot, record.id))

    def record(self, id: str) -> StationRecord | None:
        """What the group knows of the station `id`."""
        return self._records.get(id)

    def peer_keys(self) -> frozenset[str]:
        """CURVE public keys of all active peers, newest and older ones."""
        return frozenset(self._peers_by_key)

    def keys(self, id: str) -> tuple[str, ...]:
        """CURVE public keys of the station `id`, newest first; none of one that is not known."""
        record = self._records.get(id)
        return () if record is None else record.keys

    def own_record(self) -> StationRecord | None:
        """What the group knows of this station."""
        return self._records.get(self._own.id)

    def own_value(self) -> tuple[bytes | None, StationRecord | None]:
        """The same, with the value as it stands."""
        return self._seen.get(schema.station_key(self._own.id)), self.own_record()

    # ---- settings ----

    def _take_setting(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        name = key.removeprefix(schema.SETTINGS)
        before = self._values.pop(name, None)
        if name in SETTINGS and (read := self._read(key, value, schema.read_setting, changes)) is not None:
            self._values[name] = read
        wrong = contradictions(self._values)
        for low, high in PAIRS:
            text = f"settings/{low} is above settings/{high}: both are at their defaults until one is set again"
            self._tell(f"{low} {high}", text if (low, high) in wrong else None, changes)
        if before != self._values.get(name):
            self._settings = core_settings(self._values)
            changes.append(SettingsChanged(self._settings, name))
            changes += self._topics_changed() if name == "presence" else ()
            if name == "clusters":
                self.clusters.write(str(self._values.get(name, "")))
                changes.append(LayoutChanged())
        return changes

    def settings(self) -> Settings:
        """The settings of the cores that hold now."""
        return self._settings

    def value(self, name: str) -> Plain | None:
        """What the group has set `name` to; None: nothing, the default holds."""
        return self._values.get(name)

    def _slot_of(self, id: str) -> int | None:
        if id == self._own.id:
            return self._own.slot
        return self._records[id].slot if id in self._records and id not in self._shadowed else None

    def layout(self) -> Layout:
        """How the stations are split into clusters now."""
        return self.clusters.layout

    # ---- topics ----

    def _take_topic(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        name, slash, right = key.removeprefix(topic_schema.TOPICS).partition("/")
        if not slash:
            self.book.put_topic(name, self._read(key, value, topic_schema.read_topic, changes))
        elif right in topic_schema.RIGHTS:
            self._take_list(key, value, changes)
        else:
            return changes
        return changes + self._topics_changed()

    def _take_group(self, key: str, value: bytes | None) -> list[Change]:
        changes: list[Change] = []
        self._take_list(key, value, changes)
        return changes + self._topics_changed()

    def _take_list(self, key: str, value: bytes | None, changes: list[Change]) -> None:
        who = self._read(key, value, topic_schema.read_who, changes, "nobody stands in it until it is put right")
        self.book.put_list(key, () if who is None and value is not None else who)

    def _topics_changed(self) -> list[Change]:
        self._topics_due = True
        return [TopicsChanged()]

    def topics(self) -> Topics:
        """The topics and the rights on them that hold now."""
        if self._topics_due:
            self._topics_due = False
            self._topics = Topics(self.book.topics(), presence=self.value("presence") == "on", before=self._topics)
        return self._topics

    # ---- faults ----

    @property
    def faults(self) -> list[str]:
        """What is wrong with the configuration now, a sentence for each entry."""
        return sorted(
            [*self._faults.values(), *self._shadowed.values(), *self._cards.shadowed.values(), *self.early_faults()]
        )

    def early_faults(self) -> list[str]:
        """Those of them that may be gone when more entries have arrived."""
        return [*self.book.faults(), *self.clusters.faults]
