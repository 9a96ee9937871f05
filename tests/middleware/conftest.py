"""Whole stations on a wire and hosts on links, all in memory: for directed tests of custody and of stations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Msg, UpFrame
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.simulator.disk import copy_state
from roamcast.middleware.simulator.items import decode_item, encode_item
from roamcast.middleware.simulator.links import on_the_wire
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import PeerFrame
from roamcast.middleware.writes import DurableState, RecordImage

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from fake_host import Host  # noqa: E402

WALL = 1_800_000_000 * SECOND

Flight = tuple[int, int, PeerFrame]  # sender, receiver, frame


class Net:
    """Stations with what they have stored; frames between them arrive in order unless `lose` or `hold` takes them."""

    def __init__(self, *slots: int, mutants: Sequence[str] = (), linked: bool = True, **settings: int) -> None:
        self.slots = slots or (1, 2)
        self.settings = Settings(**settings)
        self.mutants = frozenset(mutants)
        self.now = 1_000 * SECOND
        self.skews = dict.fromkeys(self.slots, 0)
        """How far each station's wall clock is off."""
        self.disks = {slot: DurableState() for slot in self.slots}
        self.cores: dict[int, StationCore] = {}
        self.hosts: dict[str, Host] = {}
        self.connections = 0
        self.links: dict[int, tuple[int, Host]] = {}
        """Channel -> (slot, host)."""
        self.closed: dict[int, str] = {}  # channel -> why it was hung up
        self.choked: dict[int, int] = {}
        """Channel that takes no more -> position before the first frame that it refused (-1 << 60: none yet)."""
        self.wire: list[Flight] = []
        self.held: list[Flight] = []
        self.sent: list[Flight] = []
        """Every frame between stations that was sent, lost or not; cleared by tests at will."""
        self.faults: list[fx.Reject | fx.Notice] = []
        self.doom: dict[int, int] = {}
        """Station -> effects that it still performs before it dies."""
        self.lose: Callable[[int, int, PeerFrame], bool] = lambda source, target, frame: False
        self.hold: Callable[[int, int, PeerFrame], bool] = self.lose
        for slot in self.slots:
            self.start(slot, linked)

    # ---- stations ----

    def start(self, slot: int, linked: bool = True) -> None:
        """A start on what is stored."""
        self.cores[slot] = StationCore(
            slot=slot, founders=self.slots, settings=self.settings, image=copy_state(self.disks[slot]),
            encode_item=encode_item, mutants=self.mutants,
        )  # fmt: skip
        calls = [lambda core, h=host: core.learn_host(h.number, h.name) for host in self.hosts.values()]
        if linked:
            calls.append(StationCore.set_linked)
        self.tick(slot, *calls)

    def crash(self, slot: int) -> None:
        """The process is gone, and its connections with it."""
        self.cores.pop(slot, None)
        for channel in [channel for channel, link in self.links.items() if link[0] == slot]:
            del self.links[channel]

    def restart(self, slot: int) -> None:
        self.crash(slot)
        self.start(slot)

    def enrol(self, name: str, home: int = 1) -> Host:
        """A host, enrolled at `home` and known everywhere; its row arrives."""
        number = home << 32 | len(self.hosts) + 1
        host = self.hosts[name] = Host(self, name, number, 1_000 * number)
        for slot in self.slots:
            enrol = slot == home
            self.tick(slot, lambda core, e=enrol: core.enrol(number, name) if e else core.learn_host(number, name))
        self.deliver()
        return host

    def records(self, slot: int, host: Host) -> list[RecordImage]:
        """The stored custody records of the host at a station."""
        records = [record for record in self.disks[slot].records.values() if record.mh[0] == host.number]
        return sorted(records, key=lambda record: record.arr)

    def spooled(self, slot: int, host: Host) -> list[bytes]:
        """Bodies in the host's stored spools at a station."""
        disk = self.disks[slot]
        keys = [record.key for record in self.records(slot, host)]
        return [
            decode_item(disk.items[k, n].item or b"").body for key in keys for _, k, n, *_ in disk.spools.get(key, [])
        ]

    # ---- ticks ----

    def tick(self, slot: int, *calls: Callable[[StationCore], Any]) -> list[fx.Effect]:
        """One tick: the inputs, what is due, the effects in their order."""
        core = self.cores[slot]
        core.begin(self.now, WALL + self.now + self.skews[slot])
        for call in calls:
            call(core)
        core.expire()
        effects = core.flush()
        for effect in effects:
            if slot in self.doom:
                self.doom[slot] -= 1
                if self.doom[slot] < 0:
                    del self.doom[slot]
                    self.crash(slot)
                    break
            self._perform(slot, effect)
        return effects

    def _perform(self, slot: int, effect: fx.Effect) -> None:
        match effect:
            case fx.Persist(writes):
                self.disks[slot].apply(writes)
            case fx.Deliver(channels, prev, last, entries):
                items = [
                    (position, decode_item(holder.item or self._load(slot, holder.slot, holder.n)))
                    for position, holder in entries
                ]
                for channel in channels:
                    if channel in self.choked:
                        if self.choked[channel] == -1 << 60:
                            self.choked[channel] = prev
                    elif channel in self.links:
                        self.links[channel][1].hear(channel, Msg(prev, last, tuple(items)))
            case fx.SendLive(channels, frame):
                for channel in channels:
                    if channel in self.links and channel not in self.choked:
                        self.links[channel][1].hear(channel, frame)
            case fx.SendHost(channel, frame):
                if channel in self.links:
                    self.links[channel][1].hear(channel, frame)
            case fx.CloseChannel(channel, reason):
                self.closed[channel] = reason
            case fx.SendPeer(target, frame):
                self._post(slot, target, frame)
            case fx.Broadcast(frame, to):
                for target in self.slots if to is None else to:
                    if target != slot:
                        self._post(slot, target, frame)
            case fx.Reject() | fx.Notice():
                self.faults.append(effect)

    def _load(self, station: int, slot: int, n: int) -> bytes:
        disk = self.disks[station]
        row = disk.rows.get((slot, n))
        return (row.item if row is not None and not row.lean else disk.items[slot, n].item) or b""

    def _post(self, source: int, target: int, frame: PeerFrame) -> None:
        assert source != target
        flight = (source, target, on_the_wire(frame, lambda k, n: self._load(source, k, n)))
        self.sent.append(flight)
        if self.hold(*flight):
            self.held.append(flight)
        elif not self.lose(*flight):
            self.wire.append(flight)

    @property
    def rows(self) -> int:
        """Rows that the stations still hold, all together."""
        return sum(len(disk.rows) for disk in self.disks.values())

    def rejected(self) -> list[str]:
        """Codes of the frames refused so far, and the events of notices."""
        return [fault.code if isinstance(fault, fx.Reject) else fault.event for fault in self.faults]

    # ---- frames and time ----

    def deliver(self) -> None:
        """Everything on the wire arrives, in order, and what that causes."""
        while self.wire:
            self.hand(*self.wire.pop(0))

    def hand(self, source: int, target: int, frame: PeerFrame) -> None:
        """One frame arrives, if the station is up."""
        if target in self.cores:
            self.tick(target, lambda core: core.receive_peer(source, frame))

    def release(self) -> None:
        """What was held arrives now."""
        self.hold = lambda source, target, frame: False
        self.wire, self.held = self.held + self.wire, []
        self.deliver()

    def run(self, duration: int) -> None:
        """Time passes; timers run when they are due."""
        end = self.now + duration
        self.deliver()
        while True:
            due = [core.next_deadline() for core in self.cores.values()]
            known = [time for time in due if time is not None]
            if not known or max(min(known), self.now + 1) > end:
                break
            self.now = max(min(known), self.now + 1)
            for slot in [slot for slot in self.slots if slot in self.cores]:
                deadline = self.cores[slot].next_deadline()
                if deadline is not None and deadline <= self.now:
                    self.tick(slot)
            self.deliver()
        self.now = end

    def frames(self, *kinds: type) -> list[Any]:
        """Frames between stations of these kinds, in the order in which they were sent."""
        return [frame for _, _, frame in self.sent if isinstance(frame, kinds)]

    # ---- links of hosts ----

    def connect(self, host: Host, slot: int) -> int:
        self.connections += 1
        self.links[self.connections] = (slot, host)
        return self.connections

    def up(self, channel: int, frame: UpFrame) -> None:
        """A frame of a host; nothing passes on a link that is gone or was hung up."""
        if channel in self.links and channel not in self.closed:
            slot, host = self.links[channel]
            if slot in self.cores:
                self.tick(slot, lambda core: core.receive_host(channel, host.number, frame))

    def lost(self, channel: int) -> None:
        """The station notices that a link is gone."""
        slot, _ = self.links.pop(channel)
        self.tick(slot, lambda core: core.channel_lost(channel))

    def choke(self, host: Host) -> None:
        """From now on the host's link takes no MSG."""
        self.choked[host.channel] = -1 << 60

    def report_full(self, host: Host) -> None:
        """The driver reports what the link refused; it takes frames again."""
        slot, channel, prev = self.links[host.channel][0], host.channel, self.choked.pop(host.channel)
        self.tick(slot, lambda core: core.channel_full(channel, prev))


@pytest.fixture
def make_net() -> type[Net]:
    return Net


@pytest.fixture
def duo(make_net: type[Net]) -> Callable[..., tuple[Net, Host, Host]]:
    """Two stations, hosts a and w attached at the first; settings by keyword. Their enrolment has been collected."""

    def build(**settings: int) -> tuple[Net, Host, Host]:
        net = make_net(1, 2, **settings)
        hosts = net.enrol("a"), net.enrol("w")
        for host in hosts:
            host.arrive(1)
        net.run(12 * SECOND)
        return net, *hosts

    return build
