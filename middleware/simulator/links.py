"""Links as an adversary: host connections (FIFO, cut without goodbye) and the wired net (loss, repeats, reordering)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from roamcast.middleware.host_frames import DownFrame, UpFrame
from roamcast.middleware.rows import Row
from roamcast.middleware.simulator.world import Trace, World
from roamcast.middleware.station_frames import AdoptPart, DataBatch, PeerFrame, Snapshot, SpoolPart
from roamcast.middleware.writes import DurableState


@dataclass(slots=True)
class LinkModel:
    """Knobs of all links; times in microseconds, shares from 0 to 1."""

    radio_delay: tuple[int, int] = (500, 5_000)
    radio_loss: float = 0.0
    """A single frame of a living connection vanishes."""
    radio_late: int = 50_000
    """Frames of a cut connection that still arrive do so at most this much later."""
    queue_max: int = 1_000
    """Frames down that a connection holds; more are refused (high-water mark)."""
    silent_cut: float = 0.3
    """A side is never told of a cut."""
    notice_max: int = 20_000
    wired_delay: tuple[int, int] = (300, 3_000)
    wired_loss: float = 0.0
    wired_repeat: float = 0.0
    wired_slow: float = 0.0
    """A frame is ten times as slow as the slowest: overtaken by many."""


class HostSide(Protocol):
    """What a connection needs of a host."""

    name: str
    number: int
    frozen_until: int

    def covered(self, slot: int) -> bool:
        """Does the radio reach that station?"""

    def linked(self, connection: Connection) -> None:
        """The handshake is done."""

    def cut(self, connection: Connection, reason: str) -> None:
        """The connection is known to be gone."""

    def hear(self, connection: Connection, frame: DownFrame) -> None:
        """A frame has arrived."""


class StationSide(Protocol):
    """What a connection needs of a station."""

    slot: int
    life: int
    up: bool

    def admits(self, number: int) -> bool:
        """Is the host's key known here?"""

    def hear_host(self, connection: Connection, frame: UpFrame) -> None:
        """A frame of a host has arrived."""

    def hear_peer(self, slot: int, frame: PeerFrame) -> None:
        """A frame of a station has arrived."""


class Connection:
    """One TCP connection of a host. Its number is the channel's name; frames are counted to cut a suffix."""

    __slots__ = (
        "cut", "down_at", "down_here", "down_limit", "down_sent", "dropped", "host", "life", "number",
        "refuses_from", "station", "up_at", "up_here", "up_late", "up_limit", "up_sent",
    )  # fmt: skip

    def __init__(self, number: int, host: HostSide, station: StationSide, now: int) -> None:
        self.number = number
        self.host = host
        self.station = station
        self.life = station.life
        self.cut = False
        self.up_sent = self.up_here = self.down_sent = self.down_here = 0
        self.up_limit: int | None = None
        self.down_limit: int | None = None
        self.up_at = self.down_at = now
        self.up_late = 0
        self.refuses_from: int | None = None
        """From this time a send of the station fails: it has noticed the cut."""
        self.dropped = False
        """On the station's drop list."""

    def __repr__(self) -> str:
        return f"c{self.number}"


class RadioNet:
    """All host connections. FIFO; a cut loses a suffix in each direction; either side may notice first, or never."""

    def __init__(self, world: World, trace: Trace, model: LinkModel, rng: Random) -> None:
        self.cuts = 0
        self.model = model
        self._world = world
        self._trace = trace
        self._rng = rng
        self._made = 0
        self.tap: Callable[[UpFrame | DownFrame], None] | None = None
        """Sees every frame as it is sent."""

    def connect(self, host: HostSide, station: StationSide) -> Connection:
        """A fresh socket; the handshake ends in `linked`, in `cut`, or in silence."""
        self._made += 1
        connection = Connection(self._made, host, station, self._world.now)
        delay = 2 * self._rng.randint(*self.model.radio_delay)
        connection.up_at = self._world.now + delay
        self._world.after(delay, self._shake, connection)
        return connection

    def _shake(self, connection: Connection) -> None:
        host, station = connection.host, connection.station
        if connection.cut:
            return
        there = station.up and station.life == connection.life and host.covered(station.slot)
        if not (there and station.admits(host.number)):
            self.break_(connection)
            connection.up_limit = 0  # nothing passes before the handshake
            return
        host.linked(connection)

    def send_up(self, connection: Connection, frame: UpFrame) -> None:
        """Send one frame of the host."""
        if self.tap is not None:
            self.tap(frame)
        connection.up_sent += 1
        connection.up_at = max(connection.up_at, self._world.now + self._rng.randint(*self.model.radio_delay))
        self._world.at(connection.up_at, self._arrive_up, connection, connection.up_sent, frame)

    def _arrive_up(self, connection: Connection, index: int, frame: UpFrame) -> None:
        if connection.up_limit is not None and index > connection.up_limit:
            return
        if connection.up_late and connection.cut:
            self._world.at(connection.up_late + index, self._late_up, connection, frame)
            return
        self._late_up(connection, frame)
        connection.up_here = index

    def _late_up(self, connection: Connection, frame: UpFrame) -> None:
        station = connection.station
        if not station.up or station.life != connection.life or connection.dropped:
            return
        if self._rng.random() < self.model.radio_loss:
            self._trace.note("vanish", connection.host.name, station.slot, type(frame).__name__)
            return
        station.hear_host(connection, frame)

    def send_down(self, connection: Connection, frame: DownFrame) -> str:
        """'sent' (which promises nothing), 'full', or 'lost' (the station knows that the connection is gone)."""
        now = self._world.now
        if connection.refuses_from is not None and now >= connection.refuses_from:
            return "lost"
        if connection.down_sent - connection.down_here >= self.model.queue_max:
            return "full"
        if self.tap is not None:
            self.tap(frame)
        connection.down_sent += 1
        connection.down_at = max(connection.down_at, now + self._rng.randint(*self.model.radio_delay))
        self._world.at(connection.down_at, self._arrive_down, connection, connection.down_sent, frame)
        return "sent"

    def _arrive_down(self, connection: Connection, index: int, frame: DownFrame) -> None:
        if connection.down_limit is not None and index > connection.down_limit:
            return
        if connection.host.frozen_until > self._world.now:
            self._world.at(connection.host.frozen_until, self._arrive_down, connection, index, frame)
            return
        if index != connection.down_here + 1:  # an older frame waits for the end of the freeze in this very moment
            self._world.after(1, self._arrive_down, connection, index, frame)
            return
        connection.down_here = index
        if self._rng.random() < self.model.radio_loss:
            self._trace.note("vanish", connection.host.name, connection.station.slot, type(frame).__name__)
            return
        connection.host.hear(connection, frame)

    def close(self, connection: Connection) -> None:
        """The host closes its socket: nothing more arrives there; some of what it sent may still arrive, late."""
        connection.down_limit = 0
        self._cut(connection)
        if self._rng.random() >= self.model.silent_cut:
            connection.refuses_from = self._world.now + self._rng.randint(0, self.model.notice_max)

    def break_(self, connection: Connection) -> None:
        """The link is gone without goodbye."""
        if connection.cut:
            return
        self.cuts += 1
        self._cut(connection)
        connection.down_limit = connection.down_here + self._rng.randint(0, connection.down_sent - connection.down_here)
        if self._rng.random() >= self.model.silent_cut:
            connection.refuses_from = self._world.now + self._rng.randint(0, self.model.notice_max)
        if self._rng.random() >= self.model.silent_cut:
            self._world.after(self._rng.randint(0, self.model.notice_max), connection.host.cut, connection, "link lost")

    def _cut(self, connection: Connection) -> None:
        if connection.cut:
            return
        connection.cut = True
        connection.up_limit = connection.up_here + self._rng.randint(0, connection.up_sent - connection.up_here)
        if self._rng.random() < 0.5:
            connection.up_late = self._world.now + self._rng.randint(0, self.model.radio_late)


class WiredNet:
    """Frames between stations: lost, repeated, delayed and reordered at will; cut between two stations for a time."""

    def __init__(self, world: World, model: LinkModel, rng: Random, stations: Mapping[int, StationSide]) -> None:
        self.model = model
        self.stations = stations
        self.counts: dict[str, int] = {}
        self.tap: Callable[[int, PeerFrame], None] | None = None
        """Sees every frame as it is sent: (slot of the sender, frame)."""
        self._world = world
        self._rng = rng
        self._cut_until: dict[tuple[int, int], int] = {}

    def partition(self, one: int, other: int, until: int) -> None:
        """Nothing passes between the two stations until that time."""
        self._cut_until[min(one, other), max(one, other)] = until

    def heal(self) -> None:
        """Every station reaches every other again."""
        self._cut_until.clear()

    def answers(self, source: int, target: int) -> bool:
        """Would `target` answer a LINK of `source` now?"""
        return self.stations[target].up and not self._parted(source, target)

    def _parted(self, source: int, target: int) -> bool:
        return self._cut_until.get((source, target) if source < target else (target, source), 0) > self._world.now

    def send(self, source: int, target: int, frame: PeerFrame) -> None:
        """Send one frame: it arrives never, once or twice, at any time within the model."""
        rng, model = self._rng, self.model
        name = type(frame).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.tap is not None:
            self.tap(source, frame)
        if self._cut_until and self._parted(source, target):
            return
        copies = 2 if model.wired_repeat and rng.random() < model.wired_repeat else 1
        for number in range(copies):
            if model.wired_loss and rng.random() < model.wired_loss:
                continue
            delay = rng.randint(*model.wired_delay)
            if model.wired_slow and rng.random() < model.wired_slow:
                delay += 10 * model.wired_delay[1]
            copy = on_the_wire(frame, _nothing_left_out) if number else frame
            self._world.after(delay, self._arrive, source, target, copy)

    def _arrive(self, source: int, target: int, frame: PeerFrame) -> None:
        station = self.stations.get(target)
        if station is not None and station.up:
            station.hear_peer(source, frame)


def has_lapsed(frame: PeerFrame, state: DurableState) -> bool:
    """Whether what the frame speaks of went later in the same tick: nobody needs it, or it is asked for again."""
    match frame:
        case SpoolPart(entries=entries):
            held = list(entries)
        case Snapshot(values=values):
            held = [kept for _, kept in values]
        case _:
            return False
    idents = [(one.slot, one.n) for one in held if one.item is None]
    return any(ident not in state.items and ident not in state.rows for ident in idents)


def on_the_wire(frame: PeerFrame, load: Callable[[int, int], bytes]) -> PeerFrame:
    """The frame as other processes see it: no object shared that may change, no item left out (`load` finds it)."""
    match frame:
        case DataBatch(rows=rows):
            return replace(frame, rows=tuple(copy_row(row, load) for row in rows))
        case SpoolPart(mh, e, i, k, entries) if any(entry.item is None for entry in entries):
            filled = [entry if entry.item else replace(entry, item=load(entry.slot, entry.n)) for entry in entries]
            return SpoolPart(mh, e, i, k, tuple(filled))
        case AdoptPart(entries=entries):
            there = [(p, one if one.item else replace(one, item=load(one.slot, one.n))) for p, one in entries]
            return replace(frame, entries=tuple(there))
        case Snapshot(rows=placed, values=values):
            kept = tuple(
                (v, replace(one, item=load(one.slot, one.n)) if one.item is None else one) for v, one in values
            )
            return replace(frame, rows=tuple((at, copy_row(row, load)) for at, row in placed), values=kept)
        case _:
            return frame


def _nothing_left_out(slot: int, n: int) -> bytes:
    raise KeyError(slot, n)


def copy_row(row: Row, load: Callable[[int, int], bytes]) -> Row:
    """A row as it arrives: without position, and without the clock if its steps say that."""
    item = row.item if row.item is not None or row.lean else load(row.slot, row.n)
    hlc = 0 if row.steps is not None and row.steps.clock else row.hlc
    return Row(
        row.slot, row.n, row.stamp, hlc, row.kind, row.host, row.incarnation, row.number,
        row.taken, row.addressee, item, row.size, None, row.lean, row.steps,
    )  # fmt: skip
