"""The station's one thread: poll, drain, feed the core, one transaction, send.

A tick is opened by the first input and closed when `spacing` has passed since the last one, or when it is full: then
all that it persists goes into one transaction, and only then is anything sent. What the configuration has become in the
tick reaches the core before it closes. If the transaction fails the core and the node of the LAN update layer are
thrown away and made again from the store; the inputs of that tick are lost unacknowledged and come again (guard.py).

Sources: overview section 5; hot-path.md rules 1-2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import zmq

from roamcast.middleware.causal_unicast.frames import MailBatch, MailLinkFrame
from roamcast.middleware.effects import Effect, Persist
from roamcast.middleware.errors import Error
from roamcast.middleware.host_frames import NoSession, UpFrame
from roamcast.middleware.lan_update.records import LanAck, LanPacket
from roamcast.middleware.links import REMEDY
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.station_frames import Claims, DataBatch, PeerFrame
from roamcast.middleware.writes import DurableState, Write
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.control import Client, ControlServer, Json
from roamcast.mss_station.directory import Change
from roamcast.mss_station.disk_share import log_limit
from roamcast.mss_station.errors import StationRetired, StoreNotCommitted, StoreWentBack
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.item_budget import ItemBudget
from roamcast.mss_station.lan_port import LanPort
from roamcast.mss_station.log.writer import DeliveryLog
from roamcast.mss_station.mail_part import MailPart, MailQueue
from roamcast.mss_station.outputs import Outputs
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.store import Store
from roamcast.mss_station.waiting_hosts import WaitingHosts
from roamcast.mss_station.wake_up import WakeUp

INPUTS_MAX: Final = 512
PEER_INPUTS_MAX: Final = 200
DRAIN_CHUNK: Final = 64
DRAIN_US_MAX: Final = 5_000
SPACING_PER_HOST: Final = 20
SPACING_MAX: Final = 20_000
IDLE_US: Final = SECOND


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
        log: DeliveryLog,
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
        self.log = log
        self._make_core = make_core
        self._greet = greet
        self._spacing_per_host = spacing_per_host
        self.core = make_core(image)
        self._greeted = False
        self.is_linked = False
        """Peers have answered since the start: numbers may be given."""
        self._budget = ItemBudget()
        self._core_due: int | None = 0
        """The core's next deadline, as it was when the last tick closed: only a tick changes it."""
        self._tick_open = False
        self._inputs = self._next_tick = self._house_at = self._read_at = 0
        self._then: list[Callable[[bool], None]] = []
        self._stopping = False
        self._end: Error | None = None
        self._renewing = False
        self._log_shut: str | None = None
        self._sockets: dict[zmq.Socket[bytes] | int, Callable[[], object]] = {}
        self.wake_up = WakeUp()
        self.poller = zmq.Poller()
        self.poller.register(self.wake_up.descriptor, zmq.POLLIN)

    def connect(
        self,
        hosts: HostPort,
        peers: PeerPort,
        lan: LanPort,
        mail: MailPart,
        desk: MailQueue,
        outputs: Outputs,
        control: ControlServer,
        handle: Callable[[Client, Json], None],
        retired: Callable[[str], StationRetired],
        follow: Callable[[list[Change], bool], None],
        house: Callable[[], None],
    ) -> None:
        """The rest of the station.

        Args:
            handle: takes a command's request.
            retired: makes the error that ends this process, of what a peer says of the end of its membership.
            follow: takes what the directory has learned; the flag says whether the core is to be told.
            house: work once a second.
        """
        self.hosts, self.peers, self.lan, self.mail, self._desk = hosts, peers, lan, mail, desk
        self._outputs, self._retired = outputs, retired
        self._waiting = WaitingHosts(hosts, self.guard, self._slot)
        self._control, self._handle, self._follow, self._house = control, handle, follow, house

    def watch(self, polled: zmq.Socket[bytes] | int, read: Callable[[], object]) -> None:
        """Call `read` when the socket has something to read; sockets have their turn in the order of this call."""
        self._sockets[polled] = read
        self.poller.register(polled, zmq.POLLIN)

    def unwatch(self, polled: zmq.Socket[bytes]) -> None:
        """The socket is about to be closed. Not to be called by what reads one."""
        del self._sockets[polled]
        self.poller.unregister(polled)

    # ---- the loop ----

    def run(self) -> None:
        """Work until `stop`.

        Raises:
            StoreWentBack, StationRetired, StoreUnusable, InvariantError: the process must end.
        """
        while not self._stopping:
            ready = dict(self.poller.poll(self._timeout_ms()))
            self._read(ready)
            now = self.clock.now()
            if now >= self._house_at:
                self._house_at = now + IDLE_US
                self._keep_house(now)
            self._advance(self.clock.now())
            self._control.send()  # what a command was waiting for may be durable now
            self.log.look()
            if self._end is not None:
                raise self._end
        if self._tick_open:
            self._close_tick(self.clock.now())

    def stop(self) -> None:
        """Finish the tick and return from `run`; may be called by a signal handler or another thread."""
        self._stopping = True
        self.wake_up.ring()

    def end(self, error: Error) -> None:
        """The process must end for this reason, once the present tick is over."""
        self._end = error

    def renew(self) -> None:
        """Once the present tick is over: a core anew from the store, which has become that of a member."""
        self._renewing = True

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
        links, log, desk = self.peers.links.next_deadline(), self.log.next_deadline(), self._desk.waits_until()
        due = [self._house_at, self._core_due, links, log, desk, self.hosts.next_report(now)]
        if not self._greeted:
            due.append(now)
        return min(at for at in due if at is not None)

    def _read(self, ready: dict[Any, int]) -> None:
        if self.wake_up.descriptor in ready:
            self.wake_up.clear()
        for polled, read in self._sockets.items():
            if polled in ready:
                read()
        if self.peers.stop_text is not None:
            raise StoreWentBack(self.peers.stop_text)
        if self.peers.retired_text is not None:
            raise self._retired(self.peers.retired_text)
        self._control.serve(ready, self._handle)

    def watch_dealer(self, slot: int) -> None:
        """See what became of the connection to a peer."""
        self.peers.watch_dealer(slot, self.clock.now())

    def drain_dealer(self, slot: int) -> None:
        """Take a peer's answers."""
        self.peers.drain_dealer(slot, self.clock.now(), self.clock.wall(), self.feed_peer)

    def drain_peers(self) -> None:
        """Take what has come from stations."""
        self.peers.drain(PEER_INPUTS_MAX, self.clock.now(), self.clock.wall(), self.feed_peer)

    def drain_hosts(self) -> None:
        """Take what has come from hosts, for at most 5 ms."""
        now = self.clock.now()
        feed = self._feed_waiting if self.guard.state == "closed" else self._feed_host
        for _ in range(INPUTS_MAX // DRAIN_CHUNK):
            taken = self.hosts.drain(DRAIN_CHUNK, now, feed)
            self._inputs += taken
            full = self._inputs >= INPUTS_MAX or self.hosts.is_flooded
            if taken < DRAIN_CHUNK or full or self.clock.now() >= now + DRAIN_US_MAX:
                return

    def _feed_host(self, channel: bytes, number: int, frame: UpFrame) -> None:
        self.open_tick()
        self.core.receive_host(channel, number, frame)

    def feed_peer(self, slot: int, frame: PeerFrame | MailLinkFrame) -> None:
        """Take what a linked peer says."""
        if self.guard.state == "closed" or (self.guard.state == "reserve" and isinstance(frame, DataBatch | MailBatch)):
            return  # not acknowledged: it comes again
        self.open_tick()
        self._inputs += 1
        if isinstance(frame, LanPacket | LanAck):
            self.lan.receive(slot, frame)
        elif isinstance(frame, MailLinkFrame):
            self.mail.receive(slot, frame)
        else:
            self.core.receive_peer(slot, frame)

    def _feed_waiting(self, channel: bytes, number: int, frame: UpFrame) -> None:
        self._waiting.spoke(channel, self.clock.now(), self.settings.wait_interval)

    # ---- ticks ----

    def open_tick(self) -> None:
        """Inputs may be fed to the core now; they are committed and answered when the tick is closed."""
        if self._tick_open:
            return
        self._tick_open = True
        core = self.core
        self._read_at = now = self.clock.now()
        wall = self.clock.wall()
        core.begin(now, wall)
        self.lan.begin(now, wall)
        self.mail.begin(now)
        if not self._greeted:
            self._greeted = True
            self._greet(core)
            core.set_uplinks(self._shut())
            if self.is_linked:
                core.set_linked()
        self.hosts.report(core, now)

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
        self.mail.configure()
        self._configure_core()

    def _configure_core(self) -> None:
        limit = log_limit(self._path, self.core.ledger.table.bytes_total, self.settings.retain_bytes)
        self.core.configure(replace(self.settings, retain_bytes=limit))

    def _advance(self, now: int) -> None:
        self.peers.expire(now, self.clock.wall())
        if self.guard.state == "closed":
            self.hosts.take_live(now, self._feed_waiting)
            self._waiting.repeat(now, self.settings.wait_interval)
            self._desk.serve(now)
            return
        self._greet_peers()
        if not self.is_linked and self.peers.links.may_number(now):
            self.is_linked = True
            self.open_tick()
            self.core.set_linked()
        self._desk.serve(now)
        due = (self._core_due, self.hosts.next_report(now), None if self._greeted else now)
        if not self._tick_open and any(at is not None and at <= now for at in due):
            self.open_tick()
        if self._tick_open:
            self.hosts.take_live(self._read_at, self._feed_host)
            if self._inputs >= INPUTS_MAX or now >= self._next_tick:
                self._close_tick(now)

    def _greet_peers(self) -> None:
        """A peer that has just been linked missed what was said before: as if it had asked, it is told all claims."""
        linked, self.peers.newly_linked = self.peers.newly_linked, []
        for slot in linked:
            self.open_tick()
            self.lan.heard(slot, self.peers.links.ahead(slot))
            self.mail.link_up(slot)
            self.core.receive_peer(slot, Claims(False, (), (), (), 0, 0, want=(self._slot,)))

    def _close_tick(self, now: int) -> None:
        self.mail.tell_obstacles()
        self.core.expire()
        lan_writes, changes = self.lan.flush()
        self._follow(changes, True)
        effects = self.core.flush()
        mail_writes, logged = self.mail.flush()
        effects += logged
        self._tick_open = False
        self._inputs = 0
        self._next_tick = now + min(len(self.core.ledger.channels) * self._spacing_per_host, SPACING_MAX)
        writes: list[Write] = [write for effect in effects if type(effect) is Persist for write in effect.writes]
        writes += lan_writes
        commits = bool(writes or mail_writes)
        tail = self.log.take(effects, commits)
        committed = not commits or self.guard.commit([*writes, *mail_writes, *tail], now)
        self.log.closed(committed, commits)
        then, self._then = self._then, []
        if committed:
            self.lan.committed()
            self.mail.committed()
            self._perform(effects, writes, now)
        for action in then:
            action(committed)
        if not committed:
            self._start_again()
        elif self._renewing:
            self._make_again(self._store.load())
        dues = self.core.next_deadline(), self.lan.next_deadline(), self.mail.next_deadline()
        self._core_due = min((due for due in dues if due is not None), default=None)

    def _perform(self, effects: Sequence[Effect], writes: Sequence[Write], now: int) -> None:
        try:
            self._outputs.perform(effects, bool(writes), self._read_at)
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
        image = self._store.load()
        unlearned = self.lan.start_again(image.lan)
        self._make_again(image)
        self._follow(unlearned, False)

    def _make_again(self, image: DurableState) -> None:
        """A new core; what was begun since the tick was closed was meant for the one before."""
        self.core = self._make_core(image)
        self.mail.start_again()
        self._greeted = self._renewing = self._tick_open = False
        self._budget = ItemBudget()
        void, self._then = self._then, []
        for action in void:
            action(False)

    def _shut(self) -> str | None:
        """Why hosts' messages are not taken; None: they are."""
        return self.guard.reason or self.log.shut

    def _keep_house(self, now: int) -> None:
        if self.guard.probe(now) or self._log_shut != self.log.shut:
            self._log_shut = self.log.shut
            self.open_tick()
            self.core.set_uplinks(self._shut())
            self._waiting.call()
        self._configure_core()
        self._house()
