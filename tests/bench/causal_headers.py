"""Bytes of causal header of a message between stations, by number of stations and by who sends.

Real cores and the real codec in one process; nothing dies and nothing is lost, so nothing is stored. Numbers are as
they are after a million messages of each station. The causal header is what a row says of order: origin and number,
hybrid clock, stamp (docs/protocols/fifo-broadcast.md). It is counted in the frames of first sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random

from bench.child import Json
from bench.plan import Plan
from bench.tables import table
from cbor2 import dumps, loads

from roamcast.middleware.effects import Broadcast, SendHost, SendPeer
from roamcast.middleware.host_frames import PROTOCOL_VERSION, Data, Hello, UpFrame, Welcome
from roamcast.middleware.settings import MS, SECOND, Settings
from roamcast.middleware.simulator.links import on_the_wire
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import DataBatch, PeerFrame
from roamcast.middleware.writes import DurableState, Stream
from roamcast.transport.serving_codec import encode_item
from roamcast.transport.station_codec import decode_peer, encode_peer
from roamcast.transport.station_fields import SHORT_ROW_ELEMENTS

STATIONS = (2, 8, 20, 50, 100)
LOADS = ("all equally", "one alone", "hot pairs")
EARLIER = 1_000_000
"""Rows of each station before, all gone."""

BODY = bytes(128)
WALL = 1_800_000_000 * SECOND
TURN = 10 * MS
EQUALLY = 0.1
"""In a turn a station that sends as often as all others has a message with this probability."""

HOT_PAIRS = 2
"""Two stations that answer each other, turn by turn."""

RARELY = 0.01
"""A turn of any other station."""


def bound(stations: int) -> int:
    """Bytes that the causal header of a message may have on average."""
    return 8 + 2 * stations


class Count:
    """What DATA frames hold, each counted once, however many peers it goes to."""

    def __init__(self) -> None:
        self.messages = self.header = self.whole = 0

    def see(self, data: bytes) -> None:
        """Bytes of causal header; bytes of all but the items."""
        _, origin, rows, _ = loads(data)
        self.messages += len(rows)
        self.header += len(dumps(origin))
        self.whole += len(data)
        for row in rows:
            number, clock, stamp, item = row[0], row[1], row[-2], row[-1]
            parts = [number, stamp] if len(row) == SHORT_ROW_ELEMENTS else [number, clock, stamp]
            self.header += sum(len(dumps(part)) for part in parts)
            self.whole -= len(item)


class CoreGroup:
    """Stations 1 to `stations`, one host at each, the frames of one turn taken in the next."""

    def __init__(self, stations: int) -> None:
        self.slots = tuple(range(1, stations + 1))
        self.count = Count()
        self._now = 1_000 * SECOND
        self._inbox: dict[int, list[tuple[int, PeerFrame]]] = {slot: [] for slot in self.slots}
        self._own = dict.fromkeys(self.slots, 0)
        self._at = dict.fromkeys(self.slots, 0)
        settings = Settings(claims_tick=SECOND)  # CLAIMS are no part of it, and would take most of the time
        self._cores = {}
        for slot in self.slots:
            image = DurableState(
                streams={one: Stream(EARLIER, EARLIER, EARLIER) for one in self.slots}, last_position=EARLIER, hlc=WALL
            )
            self._cores[slot] = StationCore(
                slot=slot, founders=self.slots, settings=settings, image=image, encode_item=encode_item
            )
        self._tick({slot: self._enter(slot) for slot in self.slots})
        hello = (1 << 63, False, 1)
        self._tick(
            {
                slot: self._say(slot, Hello(PROTOCOL_VERSION, f"host{slot}", *hello, slot, 0, 0, 1, 240))
                for slot in self.slots
            }
        )

    def _enter(self, slot: int) -> Callable[[StationCore], None]:
        def enter(core: StationCore) -> None:
            core.set_linked()
            core.enrol(slot << 32 | 1, f"host{slot}")

        return enter

    def _say(self, slot: int, frame: UpFrame) -> Callable[[StationCore], None]:
        return lambda core: core.receive_host(slot, slot << 32 | 1, frame)

    def turn(self, senders: Iterator[int]) -> None:
        """The hosts of these stations send a message each."""
        calls = {}
        for slot in senders:
            self._own[slot] += 1
            calls[slot] = self._say(slot, Data(1, self._own[slot], self._at[slot], None, BODY))
        self._tick(calls)

    def _tick(self, calls: dict[int, Callable[[StationCore], None]]) -> None:
        self._now += TURN
        came, self._inbox = self._inbox, {slot: [] for slot in self.slots}
        for slot, core in self._cores.items():
            core.begin(self._now, WALL + self._now)
            for peer, frame in came[slot]:
                core.receive_peer(peer, frame)
            if slot in calls:
                calls[slot](core)
            core.expire()
            for effect in core.flush():
                match effect:
                    case Broadcast(frame):
                        self._send(slot, [peer for peer in self.slots if peer != slot], frame)
                    case SendPeer(peer, frame):
                        self._send(slot, [peer], frame)
                    case SendHost(_, Welcome(at=at)):
                        self._at[slot] = at

    def _send(self, slot: int, peers: list[int], frame: PeerFrame) -> None:
        data = encode_peer(frame)
        if isinstance(frame, DataBatch):
            self.count.see(data)
        read = decode_peer(data)
        for peer in peers:
            self._inbox[peer].append((slot, on_the_wire(read, _nothing_left_out)))

    def is_level(self) -> bool:
        """Whether everything has been delivered everywhere."""
        return len({tuple(core.ledger.table.vector("delivered")) for core in self._cores.values()}) == 1


def _nothing_left_out(slot: int, n: int) -> bytes:
    raise KeyError(slot, n)


def senders(load: str, slots: tuple[int, ...], turn: int, random: Random) -> Iterator[int]:
    """The stations that have a message in this turn."""
    for slot in slots:
        match load:
            case "all equally":
                sends = random.random() < EQUALLY
            case "one alone":
                sends = slot == 1
            case _:
                sends = turn % 2 == slot % 2 if slot <= 2 * HOT_PAIRS else random.random() < RARELY
        if sends:
            yield slot


def measure_one(stations: int, load: str, turns: int) -> Json:
    """One group under one load, `turns` long, after the first rows of all (the hosts are enrolled).

    Returns: bytes per message: `header`; `first`, that of the first rows; `whole`, of all but the item.
    """
    random = Random(load)
    group = CoreGroup(stations)
    for _ in range(2):
        group.turn(iter(()))
    first, group.count = group.count, Count()
    for turn in range(turns):
        group.turn(senders(load, group.slots, turn, random))
    for _ in range(3):
        group.turn(iter(()))
    if not group.is_level():
        raise RuntimeError(f"{stations} stations, {load}: not all is delivered everywhere")
    seen = group.count
    return {
        "stations": stations, "load": load, "bound": bound(stations), "messages": seen.messages,
        "header": seen.header / seen.messages, "first": first.header / first.messages,
        "whole": seen.whole / seen.messages,
    }  # fmt: skip


def measure(plan: Plan, sizes: tuple[int, ...] = STATIONS) -> list[Json]:
    """All sizes under all loads."""
    found = []
    for stations, load in product(sizes, LOADS):
        plan.say(f"causal headers: {stations} stations, {load}")
        found.append(measure_one(stations, load, max(20, 400 // stations)))
    return found


def is_good(found: list[Json]) -> bool:
    """Whether the average is within the bound everywhere."""
    return all(one["header"] <= one["bound"] for one in found)


def report(found: list[Json]) -> str:
    """The table."""
    rows = []
    for one in found:
        averages = (f"{one[key]:.1f}" for key in ("header", "first", "whole"))
        rows.append([f"{one['stations']} stations, {one['load']}", *averages, str(one["bound"]), str(one["messages"])])
    head = ["", "causal header", "of first rows", "all but the item", "8 + 2 x stations", "messages"]
    notes = ["Bytes per message in first sends: origin, number, hybrid clock and stamp. First rows: after a start."]
    return table("Causal header between stations", head, rows, notes)
