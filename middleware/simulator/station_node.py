"""Drives one StationCore: ticks, the disk, the links; crashes at any point between two effects."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from roamcast.middleware.custody.log_events import begin_log
from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.effects import (
    Broadcast,
    Channel,
    CloseChannel,
    Deliver,
    Effect,
    GroupEffect,
    Halt,
    HandedOver,
    Notice,
    Persist,
    Reject,
    Renew,
    SendHost,
    SendPeer,
    SlotGiven,
)
from roamcast.middleware.errors import ensure
from roamcast.middleware.host_frames import Msg, UpFrame
from roamcast.middleware.settings import Settings
from roamcast.middleware.simulator.audiences.leaving import check_rights
from roamcast.middleware.simulator.disk import Disk, stored_item
from roamcast.middleware.simulator.items import brief, decode_item, encode_item
from roamcast.middleware.simulator.links import Connection, RadioNet, WiredNet, has_lapsed, on_the_wire
from roamcast.middleware.simulator.station_faults import Crash, DiskFull, Halted, StationFaults
from roamcast.middleware.simulator.world import Trace, World
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import PeerFrame
from roamcast.middleware.topics import Topics
from roamcast.middleware.writes import DurableState, PutStart

WALL_ZERO = 1_800_000_000_000_000
"""UTC microseconds at virtual time 0."""


def _nobody(node: StationNode, effect: GroupEffect | Notice) -> None:
    """Nobody operates this station."""


class StationNode:
    """One station process on its disk."""

    def __init__(
        self, world: World, trace: Trace, radio: RadioNet, wired: WiredNet, slot: int, founders: tuple[int, ...],
        settings: Settings, disk: Disk[DurableState], faults: StationFaults, rng: Random, skew: int,
        mutants: frozenset[str],
    ) -> None:  # fmt: skip
        self.slot = slot
        self.founders = founders
        self.life = 0
        self.up = False
        self.ended = False
        """It never starts again."""
        self.told: Callable[[StationNode, GroupEffect | Notice], None] = _nobody
        self.crashes = 0
        self.disk = disk
        self.faults = faults
        self.settings = settings
        self.frozen_until = 0
        self.crash_in: int | None = None
        """Armed: die before the effect that many from here."""
        self.rejects: dict[str, int] = {}
        self.log: list[tuple[int, Logged]] = []
        """(wall clock, event): what its delivery log holds durably."""
        self._unlogged: list[tuple[int, Logged]] = []
        self.known: dict[int, str] = {}
        """The directory's hosts: number -> name."""
        self.core: StationCore | None = None
        self._world = world
        self._trace = trace
        self._radio = radio
        self._wired = wired
        self._rng = rng
        self._skew = skew
        self._mutants = mutants
        self._zero = 0
        self._linked = False
        self._inbox: list[tuple[str, tuple[Any, ...]]] = []
        self._tick_at: int | None = None
        self._channels: dict[Channel, Connection] = {}
        self._full: dict[Channel, None] = {}
        """Channels that took no more in this tick: no later MSG goes to them."""
        self._renewing = False
        self._enrolling: dict[int, tuple[str, Callable[[], None]]] = {}
        self._orders: list[tuple[str, tuple[Any, ...]]] = []
        """What the configuration says: told again after each start."""
        self._topics = (0, Topics())

    # ---- life ----

    def start(self) -> None:
        """A start of the process on what its disk holds."""
        if self.ended:
            return
        self.life += 1
        self.up = True
        self._renewing = False
        self._zero = self._world.now - self._rng.randint(0, 1_000_000_000)
        self._linked = False
        self._channels.clear()
        self._inbox.clear()
        self._tick_at = None
        self.disk.write((PutStart(self.disk.state.starts + 1),))
        self.disk.sync()
        self._trace.note("start", self.slot, self.life)
        self._build()
        self._seek_links(self.life)

    def _build(self) -> None:
        self.core = StationCore(
            slot=self.slot, founders=self.founders, settings=self.settings, image=self.disk.load(),
            encode_item=encode_item, mutants=self._mutants,
        )  # fmt: skip
        self.put("set_topics", self._topics[1])
        for number, name in self.known.items():
            self.put("learn_host", number, name)
        for number, (name, _) in self._enrolling.items():
            self.put("enrol", number, name)
        for method, arguments in self._orders:
            self.put(method, *arguments)
        self._unlogged = []
        if not self.log and self.core.newcomer is None:
            begin_log(self.core.ledger)
        self._linked = self._linked or not self.core.ledger.fifo.peers
        if self._linked:
            self.put("set_linked")

    def order(self, method: str, *arguments: Any) -> None:
        """The configuration says so from now on."""
        self._orders.append((method, arguments))
        if self.up:
            self.put(method, *arguments)

    def serves(self) -> bool:
        """Whether it takes hosts, as far as its disk says."""
        view = self.disk.state.view
        return not self.ended and (view is None or (view.serving and not view.retiring))

    def burn(self) -> None:
        """The machine and its disk are gone; only the judge still looks at what was on it."""
        self.disk.sync()
        self.crash()
        self.ended = True

    def _seek_links(self, life: int) -> None:
        """LINK until one peer has answered."""
        if life != self.life or not self.up or self._linked:
            return
        if self.core is not None and not self.core.ledger.fifo.peers:
            self._linked = True
            self.put("set_linked")
            return
        for peer in self._wired.stations:
            if peer != self.slot and self._wired.answers(self.slot, peer):
                self._linked = True
                self.put("set_linked")
                return
        self._world.after(20_000, self._seek_links, life)

    def crash(self) -> None:
        """SIGKILL. Whatever was not synced may be lost; so are all connections."""
        if not self.up:
            return
        self.up = False
        self.crashes += 1
        self.crash_in = None
        self.core = None
        self._trace.note("crash", self.slot, self.life)
        for connection in self._channels.values():
            self._radio.break_(connection)
        self.disk.crash()

    def fall(self) -> None:
        """Crash, and start again after a while."""
        self.crash()
        self._world.after(self._rng.randint(*self.faults.down_time), self._restart, self.life)

    def thaw(self) -> None:
        """The process runs again (SIGCONT)."""
        self.frozen_until = 0
        self._wake(self._world.now)

    # ---- input ----

    def admits(self, number: int) -> bool:
        """Is that host's key known here?"""
        return number in self.known

    def hear_host(self, connection: Connection, frame: UpFrame) -> None:
        """A frame of a host; the number is that of its key."""
        self._channels[connection.number] = connection
        self._trace.note("up", connection.host.name, self.slot, connection.number, brief(frame))
        self.put("receive_host", connection.number, connection.host.number, frame)

    def hear_peer(self, slot: int, frame: PeerFrame) -> None:
        """A frame of a peer station."""
        self.put("receive_peer", slot, frame)

    def learn(self, number: int, name: str) -> None:
        """The directory has a new host."""
        self.known[number] = name
        if self.up:
            self.put("learn_host", number, name)

    def enrol(self, number: int, name: str, done: Callable[[], None]) -> None:
        """Enrol here; `done` once it is durable (a crash before that: the operator repeats it)."""
        self._enrolling[number] = (name, done)
        self.known[number] = name
        if self.up:
            self.put("enrol", number, name)

    def put(self, method: str, *arguments: Any) -> None:
        """Queue one input of the core; a tick follows."""
        self._inbox.append((method, arguments))
        self._wake(self._world.now if self.faults.one_by_one else self._world.now + self.faults.tick_spacing)

    # ---- ticks ----

    def _wake(self, time: int) -> None:
        time = max(time, self.frozen_until)
        if self._tick_at is None or time < self._tick_at:
            self._tick_at = time
            self._world.at(time, self._tick, self.life, time)

    def _tick(self, life: int, time: int) -> None:
        if life != self.life or time != self._tick_at or not self.up:
            return
        self._tick_at = None
        if self.frozen_until > self._world.now:
            self._wake(self.frozen_until)
            return
        inbox, self._inbox = self._inbox, []
        try:
            if self.faults.one_by_one and len(inbox) > 1:
                for entry in inbox:
                    if not self._renewing:  # what else has come is for the former core: it comes again
                        self._run([entry])
            else:
                self._run(inbox)
        except Crash:
            self.fall()
            return
        except Halted:
            self.disk.sync()
            self.crash()
            self.ended = True
            return
        except DiskFull:
            self._trace.note("disk full", self.slot)
            self.disk.sync()  # what was committed before
            self._build()
        if self._renewing:
            self._renewing = False
            self.disk.sync()
            self._inbox.clear()
            self._build()
        self._after_tick()

    def obey(self, version: int, topics: Topics) -> None:
        """The configuration's topics are these, if nothing newer has come."""
        if version > self._topics[0]:
            self._topics = version, topics
            self.put("set_topics", topics)

    def _restart(self, life: int) -> None:
        if life == self.life and not self.up:
            self.start()

    def _run(self, inbox: list[tuple[str, tuple[Any, ...]]]) -> None:
        core = self.core
        assert core is not None
        core.begin(self._world.now - self._zero, WALL_ZERO + self._world.now + self._skew)
        for method, arguments in inbox:
            getattr(core, method)(*arguments)
        core.expire()
        effects = core.flush()
        self._full.clear()
        if self.faults.one_by_one:
            for effect in effects:
                if type(effect) is not Logged:
                    self._gate()
                self._perform(effect)
            return
        for event in (effect for effect in effects if type(effect) is Logged):
            self._perform(event)
        effects = [effect for effect in effects if type(effect) is not Logged]
        if effects:
            writes = [write for effect in effects if type(effect) is Persist for write in effect.writes]
            self._gate()
            if writes:
                self._store(writes)
            for effect in effects:
                if type(effect) is not Persist:
                    self._gate()
                    self._perform(effect)

    def _after_tick(self) -> None:
        core = self.core
        if core is None:
            return
        if self._enrolling:
            self.disk.sync()
            enrolled = {key[0]: None for key in self.disk.state.records}
            for number in [number for number in self._enrolling if number in enrolled]:
                _, done = self._enrolling.pop(number)
                done()
        deadline = core.next_deadline()
        if deadline is not None:
            self._wake(max(deadline + self._zero, self._world.now + 1))

    def _gate(self) -> None:
        """Die here?"""
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash
        if self.faults.crash_per_effect and self._rng.random() < self.faults.crash_per_effect:
            raise Crash

    # ---- effects ----

    def _store(self, writes: list[Any]) -> None:
        if self.faults.full_per_write and self._rng.random() < self.faults.full_per_write:
            raise DiskFull
        events, self._unlogged = self._unlogged, []
        self.disk.write(writes, lambda: self.log.extend(events))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Persist(writes):
                self._store(list(writes))
            case Logged():
                self._unlogged.append((WALL_ZERO + self._world.now + self._skew, effect))
            case Deliver(channels, prev, last, entries):
                self.disk.sync()
                held = [(position, one.item or self._load(one.slot, one.n)) for position, one in entries]
                frame = Msg(prev, last, tuple((position, decode_item(item)) for position, item in held))
                check_rights(self.core, [self._channels[channel].host for channel in channels], frame)
                for channel in channels:
                    if channel not in self._full:
                        self._send_host(channel, frame)
            case SendHost(channel, frame):
                self.disk.sync()
                self._send_host(channel, frame)
            case SendPeer(slot, frame):
                self.disk.sync()
                ensure(slot != self.slot, "a frame to myself")
                self._send_peer(slot, frame)
            case Broadcast(frame, to):
                self.disk.sync()
                assert self.core is not None
                for peer in self.core.ledger.fifo.peers if to is None else to:
                    self._wired.send(self.slot, peer, on_the_wire(frame, self._load))
            case CloseChannel(channel):
                self._channels[channel].dropped = True
            case Reject(_, code, text):
                self.rejects[code] = self.rejects.get(code, 0) + 1
                self._trace.note("reject", self.slot, code, text)
            case SlotGiven() | HandedOver() | Notice(_, "body-lost"):
                self.told(self, effect)
            case Notice(level, event):
                self._trace.note("notice", self.slot, level, event)
            case Halt(text):
                self._trace.note("halt", self.slot, text)
                self.told(self, effect)
                raise Halted
            case Renew():
                self._trace.note("snapshot complete", self.slot)
                self._renewing = True

    def _send_peer(self, slot: int, frame: PeerFrame) -> None:
        if not has_lapsed(frame, self.disk.state):
            self._wired.send(self.slot, slot, on_the_wire(frame, self._load))

    def _send_host(self, channel: Any, frame: Any) -> None:
        connection = self._channels[channel]
        result = self._radio.send_down(connection, frame)
        self._trace.note("down", self.slot, connection.host.name, channel, brief(frame), result)
        if result == "full" and channel not in self._full:
            self._full[channel] = None
            self.put("channel_full", channel, *((frame.prev,) if isinstance(frame, Msg) else ()))
        elif result == "lost":
            self.put("channel_lost", channel)

    def _load(self, slot: int, n: int) -> bytes:
        return stored_item(self.disk, slot, n)
