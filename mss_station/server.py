"""The station's one thread: poll, drain, feed the core, one transaction, send.

A tick is opened by the first input and closed when `spacing` has passed since the last one, or when it is full: then
all that it persists goes into one transaction, and only then is anything sent. If the transaction fails the core is
thrown away and made again from the store; the inputs of that tick are lost unacknowledged and come again (guard.py).

Sources: overview section 5; hot-path.md rules 1-2.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import zmq

from roamcast.middleware.effects import Effect, Persist
from roamcast.middleware.errors import Error
from roamcast.middleware.host_frames import NoSession, UpFrame, Wait
from roamcast.middleware.links import REMEDY
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import Claims, DataBatch, PeerFrame
from roamcast.middleware.writes import DurableState, Write
from roamcast.mss_station.control import Client, ControlServer, Json
from roamcast.mss_station.disk_share import log_limit
from roamcast.mss_station.errors import StoreNotCommitted
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.item_budget import ItemBudget
from roamcast.mss_station.outputs import Outputs
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.store import Store

INPUTS_MAX: Final = 512
PEER_INPUTS_MAX: Final = 200
DRAIN_CHUNK: Final = 64
DRAIN_US_MAX: Final = 5_000
SPACING_PER_HOST: Final = 20
SPACING_MAX: Final = 20_000
IDLE_US: Final = SECOND
WAITING_MAX: Final = 65_536


class StoreWentBack(Error):
    """A peer knows more of this station than its own store: the process must end."""


class Clock:
    """The only reader of the clocks: monotonic and UTC, both in microseconds."""

    def now(self) -> int:
        """Monotonic microseconds."""
        return time.monotonic_ns() // 1_000

    def wall(self) -> int:
        """UTC microseconds."""
        return time.time_ns() // 1_000


class Server:
    """The loop of one station process.

    Args:
        path: the station's directory; its disk bounds the log.
        image: what the store holds.
        make_core: a core from what the store holds; called again after a failed commit.
        greet: inputs of the first tick of each core (names, revocations).
        spacing_per_host: microseconds between ticks for each attached host.
    """

    def __init__(
        self,
        *,
        path: Path,
        settings: Settings,
        slot: int,
        clock: Clock,
        image: DurableState,
        store: Store,
        guard: StoreGuard,
        make_core: Callable[[DurableState], StationCore],
        greet: Callable[[StationCore], None],
        spacing_per_host: int = SPACING_PER_HOST,
    ) -> None:
        self.settings = settings
        self._path = path
        self._slot = slot
        self.clock = clock
        self._store = store
        self.guard = guard
        self._make_core = make_core
        self._greet = greet
        self._spacing_per_host = spacing_per_host
        self.core = make_core(image)
        self._greeted = False
        self._linked = False
        self._budget = ItemBudget()
        self._core_due: int | None = 0
        """The core's next deadline, as it was when the last tick closed: only a tick changes it."""
        self._tick_open = False
        self._inputs = 0
        self._next_tick = 0
        self._house_at = 0
        self._then: list[Callable[[bool], None]] = []
        self._waiting: dict[bytes, int] = {}
        self._stopping = False
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self.poller = zmq.Poller()
        self.poller.register(self._wake_read.fileno(), zmq.POLLIN)

    def connect(
        self,
        hosts: HostPort,
        peers: PeerPort,
        outputs: Outputs,
        control: ControlServer,
        handle: Callable[[Client, Json], None],
        house: Callable[[], None],
        sockets: Mapping[zmq.Socket[bytes], Callable[[], object]],
    ) -> None:
        """The rest of the station.

        Args:
            handle: takes a command's request.
            house: work once a second.
            sockets: what to do when a socket has something to read, in the order of its turn.
        """
        self.hosts, self.peers, self._outputs = hosts, peers, outputs
        self._control, self._handle, self._house = control, handle, house
        self._sockets = dict(sockets)
        for polled in self._sockets:
            self.poller.register(polled, zmq.POLLIN)

    # ---- the loop ----

    def run(self) -> None:
        """Work until `stop`.

        Raises:
            StoreWentBack, StoreUnusable, InvariantError: the process must end.
        """
        while not self._stopping:
            ready = dict(self.poller.poll(self._timeout_ms()))
            self._read(ready)
            now = self.clock.now()
            if now >= self._house_at:
                self._house_at = now + IDLE_US
                self._keep_house(now)
            self._advance(self.clock.now())
        if self._tick_open:
            self._close_tick(self.clock.now())

    def stop(self) -> None:
        """Finish the tick and return from `run`; may be called by a signal handler or another thread."""
        self._stopping = True
        try:
            self._wake_write.send(b"x")
        except OSError:  # a wake-up is on its way already, or the loop has ended
            return

    def close(self) -> None:
        """Give the wake-up descriptors back."""
        self._wake_read.close()
        self._wake_write.close()

    def _timeout_ms(self) -> int:
        """Until the next thing is due. The poller counts in milliseconds: below one, sleep and poll without waiting."""
        now = self.clock.now()
        left = (self._next_tick if self._tick_open else self._next_due(now)) - now
        if left >= 1_000:
            return left // 1_000
        if left > 0:
            time.sleep(left / SECOND)
        return 0

    def _next_due(self, now: int) -> int:
        if self.guard.state == "closed":
            return self._house_at
        due = [self._house_at, self._core_due, self.peers.links.next_deadline()]
        if self.hosts.failed or not self._greeted:
            due.append(now)
        return min(at for at in due if at is not None)

    def _read(self, ready: dict[Any, int]) -> None:
        if self._wake_read.fileno() in ready:
            self._wake_read.recv(64)
        for polled, read in self._sockets.items():
            if polled in ready:
                read()
        if self.peers.stop_text is not None:
            raise StoreWentBack(self.peers.stop_text)
        self._control.serve(ready, self._handle)

    def watch_dealer(self, slot: int) -> None:
        """See what became of the connection to a peer."""
        self.peers.watch_dealer(slot, self.clock.now())

    def drain_dealer(self, slot: int) -> None:
        """Take a peer's answers."""
        self.peers.drain_dealer(slot, self.clock.now(), self.clock.wall())

    def drain_peers(self) -> None:
        """Take what has come from stations."""
        self._inputs += self.peers.drain(PEER_INPUTS_MAX, self.clock.now(), self.clock.wall(), self._feed_peer)

    def drain_hosts(self) -> None:
        """Take what has come from hosts, for at most 5 ms."""
        now = self.clock.now()
        feed = self._feed_waiting if self.guard.state == "closed" else self._feed_host
        for _ in range(INPUTS_MAX // DRAIN_CHUNK):
            taken = self.hosts.drain(DRAIN_CHUNK, now, feed)
            self._inputs += taken
            if taken < DRAIN_CHUNK or self._inputs >= INPUTS_MAX or self.clock.now() >= now + DRAIN_US_MAX:
                return

    def _feed_host(self, channel: bytes, number: int, frame: UpFrame) -> None:
        self.open_tick()
        self.core.receive_host(channel, number, frame)

    def _feed_peer(self, slot: int, frame: PeerFrame) -> None:
        if self.guard.state == "closed" or (self.guard.state == "reserve" and type(frame) is DataBatch):
            return  # not acknowledged: it comes again
        self.open_tick()
        self.core.receive_peer(slot, frame)

    def _feed_waiting(self, channel: bytes, number: int, frame: UpFrame) -> None:
        """Nothing can be committed: the host is told so, and called again when it can (`_reopen`)."""
        now = self.clock.now()
        if channel not in self._waiting and len(self._waiting) >= WAITING_MAX:
            return
        if now - self._waiting.get(channel, -self.settings.wait_interval) >= self.settings.wait_interval:
            self._waiting[channel] = now
            self.hosts.send(channel, Wait(self.guard.reason or "", self._slot, self.guard.since))

    # ---- ticks ----

    def open_tick(self) -> None:
        """Inputs may be fed to the core now; they are committed and answered when the tick is closed."""
        if self._tick_open:
            return
        self._tick_open = True
        core = self.core
        core.begin(self.clock.now(), self.clock.wall())
        if not self._greeted:
            self._greeted = True
            self._greet(core)
            core.set_uplinks(self.guard.reason)
            if self._linked:
                core.set_linked()
        failed = self.hosts.failed
        for channel, failure in failed.items():
            if failure.gone:
                core.channel_lost(channel)
            else:
                core.channel_full(channel, failure.prev)
        failed.clear()

    def then(self, action: Callable[[bool], None]) -> None:
        """Call `action` when the open tick is closed, with whether it was committed; at once if none is open."""
        if self._tick_open:
            self._then.append(action)
        else:
            action(True)

    def configure(self, settings: Settings) -> None:
        """Other settings hold from now on."""
        self.settings = settings
        self.hosts.configure(settings)
        self._configure_core()

    def _configure_core(self) -> None:
        try:
            limit = log_limit(self._path, self.core.ledger.table.bytes_total, self.settings.retain_bytes)
        except OSError:
            limit = self.settings.retain_bytes
        self.core.configure(replace(self.settings, retain_bytes=limit))

    def _advance(self, now: int) -> None:
        self.peers.expire(now, self.clock.wall())
        if self.guard.state == "closed":
            self._repeat_waits(now)
            return
        self._greet_peers()
        if not self._linked and self.peers.links.may_number(now):
            self._linked = True
            self.open_tick()
            self.core.set_linked()
        if not self._tick_open:
            due = self._core_due is not None and self._core_due <= now
            if self.hosts.failed or not self._greeted or due:
                self.open_tick()
        if self._tick_open and (self._inputs >= INPUTS_MAX or now >= self._next_tick):
            self._close_tick(now)

    def _greet_peers(self) -> None:
        """A peer that has just been linked missed what was said before: as if it had asked, it is told all claims."""
        linked, self.peers.newly_linked = self.peers.newly_linked, []
        for slot in linked:
            self.open_tick()
            self.core.receive_peer(slot, Claims(False, (), (), (), 0, 0, want=(self._slot,)))

    def _close_tick(self, now: int) -> None:
        self.core.expire()
        effects = self.core.flush()
        self._tick_open = False
        self._inputs = 0
        self._next_tick = now + min(len(self.core.ledger.channels) * self._spacing_per_host, SPACING_MAX)
        writes = [write for effect in effects if type(effect) is Persist for write in effect.writes]
        committed = not writes or self.guard.commit(writes, now)
        then, self._then = self._then, []
        if committed:
            self._perform(effects, writes, now)
        for action in then:
            action(committed)
        if not committed:
            self._start_again()
        self._core_due = self.core.next_deadline()

    def _perform(self, effects: Sequence[Effect], writes: Sequence[Write], now: int) -> None:
        try:
            self._outputs.perform(effects, bool(writes))
        except StoreNotCommitted as error:  # an item could not be read back: what was not sent is asked for again
            self.guard.unreadable(error, now)
            self._start_again()
            return
        self._budget.committed(writes)
        if self._outputs.store_went_back:
            raise StoreWentBack(REMEDY)

    def _start_again(self) -> None:
        """The tick was rolled back: a new core from what is durable. Hosts attach again, peers repeat."""
        for channel in self.core.ledger.channels:
            self.hosts.send(cast(bytes, channel), NoSession())
        self.core = self._make_core(self._store.load())
        self._greeted = False
        self._budget = ItemBudget()

    def _keep_house(self, now: int) -> None:
        if self.guard.probe(now):
            self.open_tick()
            self.core.set_uplinks(self.guard.reason)
            for channel in self._waiting:
                self.hosts.send(channel, NoSession())
            self._waiting.clear()
        self._configure_core()
        self._house()

    def _repeat_waits(self, now: int) -> None:
        """A host with a WAIT under 15 s old has no time-out: say it again in time."""
        due = now - self.settings.wait_interval
        for channel in [channel for channel, said in self._waiting.items() if said <= due]:
            if channel in self.hosts.failed:
                del self._waiting[channel]
                continue
            self._waiting[channel] = now
            self.hosts.send(channel, Wait(self.guard.reason or "", self._slot, self.guard.since))
