"""Stations, relays and fleets: directories with many hosts enrolled at once, and the processes on them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.child import Child, Json
from demo.cluster import GROUP, READY_S_MAX, Cluster, CommandFailed, Station

from roamcast.middleware.custody.extras import Subs
from roamcast.middleware.effects import Persist
from roamcast.middleware.lan_update.effects import LanPersist
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.writes import PutRecord
from roamcast.mss_station.asking import look
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.control import ask
from roamcast.mss_station.group_settings import Plain
from roamcast.mss_station.lan_port import make_node
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.opening import make_core, open_store
from roamcast.mss_station.schema import HostCard, host_key, host_value
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.topic_schema import TopicCard, topic_key, topic_value
from roamcast.transport.credential import Credential, StationAddress
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.limits import UINT32_MAX
from roamcast.transport.station_files import read_signing_key, read_station, write_credential


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a host is to attach: the i-th place of the group, at station number `station` (from 0)."""

    name: str
    station: int


def seats(hosts: int, stations: int, prefix: str = "h") -> list[Seat]:
    """`hosts` hosts, dealt out to the stations in turn."""
    return [Seat(f"{prefix}{i:04d}", i % stations) for i in range(hosts)]


class StationGroup:
    """Stations as processes under measure. Hosts are enrolled at the first one before they start.

    So are topics, and who is subscribed: subscriptions are written into the records of the hosts, as if each had been
    made long ago. A million of them would else cost the benchmark an hour.
    """

    def __init__(self, home: Path, stations: int, light: Sequence[Seat], agents: Sequence[str] = (), *,
                 durability: str = "power", subscribed: Mapping[str, Sequence[str]] | None = None) -> None:  # fmt: skip
        """Make the directories, start the stations. subscribed: by topic, the hosts that are subscribed to it."""
        home.mkdir()
        self.home = home
        self._cluster = Cluster(home, stations)
        self._light = light
        self._keys = {name: generate() for name in [*(seat.name for seat in light), *agents]}
        for station in self._cluster.stations:
            with (station.directory / "station.toml").open("a") as file:
                file.write(f'durability = "{durability}"\n')
        self._enrol(subscribed or {})
        self.credentials = [self._write_credential(name) for name in agents]
        alone = ["--alone"] if stations == 1 else []
        self.stations = [
            Child(station.id, home, "station", station.directory, *alone) for station in self._cluster.stations
        ]

    def _enrol(self, subscribed: Mapping[str, Sequence[str]]) -> None:
        """What `hosts enrol` does at a stopped station, for all hosts in one write; the others know them at once."""
        first, *others = self._cluster.stations
        cards = [
            HostCard(name, first.slot << 32 | i, keys.public, first.slot)
            for i, (name, keys) in enumerate(self._keys.items(), 1)
        ]
        config, clock = read_station(first.directory), Clock()
        signer = Signer(read_signing_key(first.directory), config.card.group)
        with DirectoryLock(first.directory), open_store(first.directory, config) as opened:
            core = make_core(opened.directory, first.slot, opened.image)
            node = make_node(config.card, opened.image.lan, signer)
            for each in (core, node):
                each.begin(clock.now(), clock.wall())
            core.set_linked()
            for card in cards:
                node.put(host_key(card.name), host_value(card))
                core.enrol(card.number, card.name)
            for host, subs in self._add_topics(node, subscribed, first.slot).items():
                (record,) = core.ledger.of_host(core.ledger.numbers[host])
                record.set_subs(subs)
                core.ledger.persist(PutRecord(record.image()))
            told = [write for effect in node.flush() if isinstance(effect, LanPersist) for write in effect.writes]
            rows = [write for effect in core.flush() if isinstance(effect, Persist) for write in effect.writes]
            opened.store.commit([*rows, *told])
        for station in others:
            config = read_station(station.directory)
            with DirectoryLock(station.directory), open_store(station.directory, config) as opened:
                opened.store.commit(told)

    @staticmethod
    def _add_topics(node: LanNode, subscribed: Mapping[str, Sequence[str]], slot: int) -> dict[str, Subs]:
        """Put topics into the configuration; returns by host what it is subscribed to."""
        drawn = random.Random("topics").sample(range(1, UINT32_MAX), len(subscribed))
        subs: dict[str, Subs] = {}
        for number, (topic, hosts) in zip(drawn, subscribed.items(), strict=True):
            node.put(topic_key(topic), topic_value(TopicCard(topic, number)))
            for host in hosts:
                subs.setdefault(host, {})[number] = (slot, 1)
        return subs

    def _write_credential(self, name: str) -> str:
        addresses = tuple(
            StationAddress(station.id, station.slot, station.hosts, read_station(station.directory).keys.public)
            for station in self._cluster.stations
        )
        path = self.home / f"{name}.toml"
        write_credential(path, Credential(GROUP, name, self._keys[name], self._cluster.stations[0].slot, addresses))
        return str(path)

    @property
    def station_ids(self) -> list[str]:
        """Ids of the stations."""
        return [station.id for station in self._cluster.stations]

    @property
    def directory(self) -> Path:
        """That of the first station."""
        return self._cluster.stations[0].directory

    def fleet(self, module: str = "fleet", only: str = "") -> Child:
        """The light hosts, not attached yet. only: those whose names begin so. module: what they are run by."""
        cards = [read_station(station.directory).card for station in self._cluster.stations]
        rng = random.Random(self.home.name)
        places = [
            {
                **_place(seat, cards[seat.station].hosts, cards[seat.station].key, self._keys[seat.name]),
                "slot": cards[0].slot,
                "incarnation": rng.getrandbits(64) | 1 << 63,
            }
            for seat in self._light
            if seat.name.startswith(only)
        ]
        return _fleet(self.home, "station", places, module, only)

    def wait_linked(self) -> None:
        """Wait until every station has a link to every other one. Raises CommandFailed when they do not in time."""
        self._wait_all(_is_linked)

    def config_set(self, key: str, text: str) -> None:
        """What `config set` does at the first station, without a process for it; it is durable there."""
        ask(self._cluster.stations[0].directory, {"command": "config set", "key": key, "text": text})

    def wait_setting(self, name: str, value: Plain) -> None:
        """Wait until this setting holds at every station. Raises CommandFailed when it does not in time."""
        self._wait_all(lambda station: look(station.directory)[2].value(name) == value)

    def _wait_all(self, is_done: Callable[[Station], bool]) -> None:
        end = time.monotonic() + READY_S_MAX
        for station in self._cluster.stations:
            while not is_done(station):
                if time.monotonic() > end:
                    raise CommandFailed(f"{station.id} does not come together with the others: {station.status()}")
                time.sleep(0.05)

    def usage(self) -> list[Json]:
        """What each station used so far."""
        return [station.ask("usage") for station in self.stations]

    def close(self) -> None:
        """End the stations."""
        for station in self.stations:
            station.close()


class RelayGroup:
    """Bare relays, each connected to each other, with the same interface as `StationGroup`."""

    def __init__(self, home: Path, relays: int, light: Sequence[Seat], *, plain: bool = False,
                 module: str = "bare") -> None:  # fmt: skip
        """Start the relays. module: which of the benchmark they are."""
        home.mkdir()
        self.home = home
        self._light = light
        options = ["--plain"] if plain else []
        self.stations = [Child(f"relay{i}", home, module, *options) for i in range(1, relays + 1)]
        for relay in self.stations:
            for peer in self.stations:
                if peer is not relay:
                    relay.ask("connect", endpoint=peer.hello["stations"], key=peer.hello["key"])

    def fleet(self, module: str = "fleet") -> Child:
        """The hosts, not attached yet. module: what they are run by."""
        hellos = [relay.hello for relay in self.stations]
        places = [
            _place(seat, hellos[seat.station]["hosts"], hellos[seat.station]["key"], generate()) for seat in self._light
        ]
        return _fleet(self.home, "bare", places, module)

    def usage(self) -> list[Json]:
        """What each relay used so far."""
        return [relay.ask("usage") for relay in self.stations]

    def close(self) -> None:
        """End the relays."""
        for relay in self.stations:
            relay.close()


def _is_linked(station: Station) -> bool:
    status = station.status()
    return status is not None and all(link["linked"] for link in status["links"])


def _place(seat: Seat, endpoint: str, key: str | None, keys: CurveKeys) -> dict[str, Any]:
    pair = {"public": keys.public, "secret": keys.secret}
    return {"name": seat.name, "endpoint": endpoint, "key": key, "label": str(seat.station + 1), **pair}


def _fleet(home: Path, kind: str, places: list[dict[str, Any]], module: str, only: str = "") -> Child:
    file = home / f"fleet{only}.json"
    file.write_text(json.dumps({"kind": kind, "hosts": places}))
    return Child(file.stem, home, module, file)
