"""Stations in one process: real cores, codec and SQLite stores, with every commit synced; no sockets, no delivery log.

What one input costs is seen here without the noise of sixteen processes on two cores. Each station's CPU is that of
its own ticks: decoding, core, commit, encoding. Hosts cost nothing: they are objects that acknowledge what they are
sent. Frames between stations are the bytes of the station link; time is virtual.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from roamcast.middleware.custody.extras import Subs
from roamcast.middleware.effects import Broadcast, CloseChannel, Deliver, Effect, Persist, SendHost, SendPeer
from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    Data,
    Hello,
    Refused,
    TopicData,
    Uack,
    UpFrame,
    Welcome,
)
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.settings import MS, SECOND, Settings
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import DataBatch, PeerFrame
from roamcast.middleware.topics import Topics
from roamcast.middleware.writes import PutRecord, Write
from roamcast.mss_station.store import StationIdentity, Store
from roamcast.transport.host_codec import encode_down, encode_up
from roamcast.transport.serving_codec import decode_up, encode_item, encode_msg
from roamcast.transport.station_codec import decode_peer, encode_peer

WALL = 1_800_000_000 * SECOND
TURN = 10 * MS
"""Virtual time of one tick of all stations."""

PING_S = 240


class CoreStation:
    """One station: its core, its store, what it has used and sent."""

    def __init__(self, world: CoreWorld, slot: int) -> None:
        self._world = world
        self.slot = slot
        home = world.home / f"core{slot}"
        home.mkdir()
        identity = StationIdentity(f"s{slot}", slot, slot)
        Store.create(home, identity)
        self.store = Store.open(home, identity)
        self.core = StationCore(
            slot=slot, founders=world.slots, settings=world.settings, image=self.store.load(), encode_item=encode_item
        )
        self.inbox: list[tuple[int, bytes]] = []
        self.inputs: list[tuple[int, int, bytes]] = []
        """(channel, host number, frame)."""
        self.cpu_s = 0.0
        self.sent: Counter[str] = Counter()
        """Bytes to peers, by kind of frame; `rows`: how many rows were in them, to all peers together."""
        self.received: Counter[str] = Counter()
        """Frames from peers, by kind."""
        self.downs: list[tuple[int, bytes]] = []
        """Frames to hosts of the last tick: the last position (-1: not a MSG), bytes."""

    def tick(self, *calls: Callable[[StationCore], Any]) -> None:
        """One tick: what has come, `calls`, the commit, what is sent."""
        inbox, self.inbox = self.inbox, []
        inputs, self.inputs = self.inputs, []
        began = time.thread_time()
        core = self.core
        core.begin(self._world.now, WALL + self._world.now)
        for slot, data in inbox:
            frame = cast(PeerFrame, decode_peer(data))
            self.received[type(frame).__name__] += 1
            core.receive_peer(slot, frame)
        for channel, number, data in inputs:
            core.receive_host(channel, number, decode_up(data))
        for call in calls:
            call(core)
        core.expire()
        effects = core.flush()
        writes: list[Write] = [write for effect in effects if type(effect) is Persist for write in effect.writes]
        if writes:
            self.store.commit(writes)
        out = [self._encoded(effect) for effect in effects if type(effect) in SENT]
        self.cpu_s += time.thread_time() - began
        self.downs = []
        for effect, data in out:
            self._send(effect, data)

    def _encoded(self, effect: Any) -> tuple[Effect, bytes]:
        match effect:
            case Deliver(_, prev, last, entries):
                return effect, encode_msg(prev, last, [(position, self._item(held)) for position, held in entries])
            case SendHost(_, down):
                return effect, encode_down(down)
            case SendPeer(_, frame) | Broadcast(frame):
                return effect, encode_peer(frame)
            case _:
                return effect, b""

    def _item(self, holder: Row | SpoolItem) -> bytes:
        item = holder.item
        return (self.store.load_item(holder.slot, holder.n) or b"") if item is None else item

    def _send(self, effect: Effect, data: bytes) -> None:
        match effect:
            case Deliver(channels, prev, last, entries):
                self.downs.append((last, data))
                for channel in channels:
                    self._world.channels[channel].take(prev, last, len(entries))
            case SendHost(channel, frame):
                self.downs.append((-1, data))
                self._world.channels[channel].told(frame)
            case SendPeer(slot, frame):
                self._post([slot], frame, data)
            case Broadcast(frame, to):
                self._post([slot for slot in to or self._world.slots if slot != self.slot], frame, data)

    def _post(self, slots: Sequence[int], frame: PeerFrame, data: bytes) -> None:
        self.sent[type(frame).__name__] += len(data) * len(slots)
        if isinstance(frame, DataBatch):
            self.sent["rows"] += len(frame.rows) * len(slots)
        for slot in slots:
            self._world.stations[slot].inbox.append((self.slot, data))


SENT = (Deliver, SendHost, SendPeer, Broadcast, CloseChannel)


class CoreHost:
    """A host: where it stands, and that it acknowledges."""

    def __init__(self, world: CoreWorld, name: str, number: int) -> None:
        self._world = world
        self.name, self.number = name, number
        self.incarnation = 1 << 63 | number
        self.slot = self.last = number >> 32
        self.e = self.le = self.c = self.acked = self.own = 0
        self.channel = 0
        self.open = False
        self.given = 0
        self.stored = 0

    def attach(self, slot: int) -> None:
        """HELLO on a fresh connection."""
        self.e += 1
        self.open = False
        self.channel = self._world.connect(self)
        self.slot = slot
        hello = Hello(
            PROTOCOL_VERSION, self.name, self.incarnation, False, self.e, self.last, self.le, self.c, self.own + 1,
            PING_S,
        )  # fmt: skip
        self.say(hello)

    def told(self, frame: object) -> None:
        """A frame for this host alone."""
        if isinstance(frame, Welcome):
            self.open = True
            self.last, self.le, self.c = self.slot, frame.e, frame.at
            self.acknowledge()
        elif isinstance(frame, Uack):
            self.stored = frame.lastseq
        elif isinstance(frame, Refused):
            raise RuntimeError(f"{self.name} was refused: {frame}")

    def take(self, prev: int, last: int, entries: int) -> None:
        """A MSG."""
        if prev != self.c:
            raise RuntimeError(f"{self.name} has {self.c} in hand, a frame follows {prev}")
        self.c = last
        self.given += entries

    def acknowledge(self) -> None:
        """Everything in hand."""
        self.acked = self.c
        self.say(Ack(self.le, self.c))

    def send(self, body: bytes, to: str | None = None) -> None:
        """A message to all, or to one host."""
        self.own += 1
        self.say(Data(self.le, self.own, self.c, to, body))

    def publish(self, kind: Kind, topic: str, body: bytes = b"") -> None:
        """The same on a topic; SUB, UNSUB."""
        self.own += 1
        self.say(TopicData(self.le, self.own, self.c, kind, topic, body))

    def say(self, frame: UpFrame) -> None:
        """A frame up, to come in the station's next tick."""
        self._world.stations[self.slot].inputs.append((self.channel, self.number, encode_up(frame)))


class CoreWorld:
    """Stations 1 to `stations`, linked all to all."""

    def __init__(self, home: Path, stations: int, **settings: int) -> None:
        home.mkdir()
        self.home = home
        self.settings = Settings(**settings)
        self.slots = tuple(range(1, stations + 1))
        self.now = 1_000 * SECOND
        self.channels: dict[Any, CoreHost] = {}
        self.hosts: list[CoreHost] = []
        self.stations = {slot: CoreStation(self, slot) for slot in self.slots}
        for station in self.stations.values():
            station.tick(StationCore.set_linked)

    def connect(self, host: CoreHost) -> int:
        """A new connection of a host."""
        self.channels[len(self.channels) + 1] = host
        return len(self.channels)

    def enrol(self, names: Sequence[str], home: int, subs: Subs | None = None) -> list[CoreHost]:
        """Hosts of one station, as if they had been subscribed like this for long."""
        fresh = [CoreHost(self, name, home << 32 | len(self.hosts) + i) for i, name in enumerate(names, 1)]
        self.hosts += fresh

        def enrol(core: StationCore) -> None:
            for host in fresh:
                core.enrol(host.number, host.name)
                (record,) = core.ledger.of_host(host.number)
                record.set_subs(subs or {})
                core.ledger.persist(PutRecord(record.image()))

        def learn(core: StationCore) -> None:
            for host in fresh:
                core.learn_host(host.number, host.name)

        for slot, station in self.stations.items():
            station.tick(enrol if slot == home else learn)
        return fresh

    def set_topics(self, topics: Topics) -> None:
        """The configuration says so, everywhere."""
        for station in self.stations.values():
            station.tick(lambda core: core.set_topics(topics))

    def turn(self) -> None:
        """A tick of each station."""
        self.now += TURN
        for station in self.stations.values():
            station.tick()

    def settle(self, turns: int = 6) -> None:
        """Turns until what was begun is everywhere; hosts acknowledge."""
        for _ in range(turns):
            self.turn()
        for host in self.hosts:
            if host.open and host.acked != host.c:
                host.acknowledge()
        self.turn()

    def attach(self, hosts: Sequence[CoreHost], at: Callable[[int], int]) -> None:
        """Hosts attach, the i-th of them at station `at(i)`. Raises RuntimeError when one is not welcomed."""
        for i, host in enumerate(hosts):
            host.attach(at(i))
        self.settle()
        if missing := [host.name for host in hosts if not host.open]:
            raise RuntimeError(f"not welcomed: {missing[:5]}")

    def cut(self, hosts: Sequence[CoreHost]) -> None:
        """Their connections end, and the stations notice."""
        for slot, station in self.stations.items():
            lost = [host for host in hosts if host.slot == slot]
            station.tick(*(partial(StationCore.channel_lost, channel=host.channel) for host in lost))
            for host in lost:
                host.open = False

    def collect(self) -> None:
        """Time passes until all stations have collected twice."""
        for _ in range(2):
            self.now += self.settings.collect_interval
            self.settle()

    def reset(self) -> None:
        """Counts begin from here."""
        for station in self.stations.values():
            station.cpu_s = 0.0
            station.sent.clear()
            station.received.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the stores."""
        for station in self.stations.values():
            station.store.close()
