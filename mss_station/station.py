"""A station: the composition of its parts. `mss-station run DIR` is this class with signals.

with Station("DIR") as station:
    station.run()          # in this thread, until station.stop() is called from another one or a signal handler
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import zmq

from roamcast.middleware.custody.log_events import begin_log
from roamcast.middleware.effects import Notice
from roamcast.middleware.link_effects import Identity
from roamcast.middleware.links import Links
from roamcast.middleware.station.core import StationCore
from roamcast.middleware.writes import DurableState
from roamcast.mss_station import went_back
from roamcast.mss_station.access import Access
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.cluster_port import ClusterPort
from roamcast.mss_station.control import ControlServer
from roamcast.mss_station.errors import StoreError, StoreWentBack
from roamcast.mss_station.follower import Follower
from roamcast.mss_station.group_port import GroupPort
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.invitations import Invitations
from roamcast.mss_station.key_probes import KeyProbes
from roamcast.mss_station.key_rotation import KeyRotation
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.lan_port import LanPort
from roamcast.mss_station.live_port import LivePort
from roamcast.mss_station.lock import DirectoryLock, network_filesystem
from roamcast.mss_station.log.heads import OwnHead, read_heads
from roamcast.mss_station.log.uploader import Uploader
from roamcast.mss_station.mail_desk import MailDesk
from roamcast.mss_station.mail_door import MailDoor, MailLoss, StationMessage
from roamcast.mss_station.mail_service import MailService
from roamcast.mss_station.opening import Opened, count_start, greet, group_value, make_core, make_log, open_store
from roamcast.mss_station.outputs import Outputs
from roamcast.mss_station.own_record import OwnRecord, check_membership
from roamcast.mss_station.peer_connections import PeerConnections
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.peers_seen import PeersSeen
from roamcast.mss_station.publish_port import PublishPort, PublishSockets
from roamcast.mss_station.requests import Requests
from roamcast.mss_station.rotation import read_host_keys, recover, rotate_hosts
from roamcast.mss_station.server import Server
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.sponsor import Sponsor
from roamcast.mss_station.status import build
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.topic_updates import past_topics
from roamcast.transport.rekeying import rekey_router
from roamcast.transport.sockets import new_context
from roamcast.transport.station_files import read_signing_key, read_station
from roamcast.transport.station_sockets import (
    HOSTS,
    STATIONS,
    HandshakeMonitor,
    bind_hosts,
    bind_stations,
    connect_live,
    connect_peer,
    raise_limits,
    seed_ids,
)
from roamcast.transport.zap import ZapResponder

T = TypeVar("T")
_log = logging.getLogger("roamcast.station")


@dataclass(frozen=True, slots=True)
class _Sockets:
    """What others connect to, and who lets them in."""

    context: zmq.Context[zmq.Socket[bytes]]
    zap: ZapResponder
    hosts: zmq.Socket[bytes]
    stations: zmq.Socket[bytes]
    handshakes: tuple[tuple[str, HandshakeMonitor], ...]


def _each(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


class Station:
    """One station process, or one station in a thread of a program: all of it lives in the thread that calls `run`.

    Args:
        path: the directory that `mss-station init` made.
        alone: give numbers although no peer has answered since the start.
        kill_point: test hook, see `kill_points`.
        log_level: the group's setting `log-level` decides what is logged, if there is one.

    Raises:
        KeyFileError: a file of the directory is not as it must be.
        StoreError: another process works on the directory.
    """

    def __init__(self, path: str | Path, *, alone: bool = False, kill_point: str = "", log_level: bool = False) -> None:
        self._path = Path(path)
        self._alone = alone
        self._log_level = log_level
        self._kill = KillPoint(kill_point)
        self._tally = Tally()
        self._clock = Clock()
        self._stopping = False
        self._running: Server | None = None
        self._door = MailDoor()
        self.ready = threading.Event()
        """Set once hosts and stations may connect."""
        self._lock = DirectoryLock(self._path)
        try:
            recover(self._path)
            self._config = read_station(self._path)
            self._host_keys = read_host_keys(self._path)
            self._signer = Signer(read_signing_key(self._path), self._config.card.group)
        except BaseException:
            self._lock.release()
            raise

    def run(self) -> None:
        """Serve until `stop`.

        Raises:
            CannotBind, ControlError: an endpoint or the control socket cannot be used.
            StoreError: the store cannot be used, or not any more.
            StoreWentBack: a peer knows more of this station than its own store; or did so at an earlier start.
            StationRetired: the group has ended this station's membership.
            InvariantError: a fault of ours; the process must end.
        """
        went_back.check(self._path)
        with ExitStack() as stack:
            stack.callback(lambda: self._door.close("this station has ended"))
            server = self._compose(stack)
            self._running = server
            self._door.open(server.wake_up.ring)
            card = self._config.card
            _log.info("running: station %s, slot %d, start %d", card.id, card.slot, self._starts)
            self.ready.set()
            if self._stopping:
                return
            try:
                server.run()
            except StoreWentBack as error:
                went_back.note(self._path, str(error))
                raise

    def stop(self) -> None:
        """Let `run` finish its tick and return; from a signal handler or another thread, at any time."""
        self._stopping = True
        if self._running is not None:
            self._running.stop()

    def send(self, station: str, body: bytes, timeout: float | None = None) -> int:
        """Mail to the program at another station of the group, or to that at this one. For other threads than `run`'s.

        It is durable here when this returns; the number counts what this station has sent, to anybody. It is given
        there once, after all mail that it may follow; while that station is down it waits here.

        Args:
            station: its id.
            timeout: seconds to wait until numbers may be given after a start (a peer has answered); None: for ever.

        Raises:
            MailRefused: it is not taken; `code`: unknown-station, retired, too-large, mailbox-full, inbox-full, store,
                not-now, or another one.
            StationStopped: the station does not run; MailUnknown, one of these: it has ended in the midst of it.
        """
        return self._door.send(station, body, timeout)

    def receive(self, timeout: float | None = None) -> StationMessage | MailLoss | None:
        """The next mail to this station, or the news that own mail was lost; None: there is none within `timeout`.

        Taking the next acknowledges the one before, and so does its `ack`; what is not acknowledged comes again after
        a start. One thread reads; from the first call on no `mss-station messages` does.

        Raises:
            MailReaderBusy: a command reads.
            StationStopped: the station does not run.
        """
        return self._door.receive(timeout)

    def close(self) -> None:
        """Give the directory back. Call it after `run` has returned."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- composition ----

    def _compose(self, stack: ExitStack) -> Server:
        if (kind := network_filesystem(self._path)) is not None:
            _log.warning("network_filesystem: %s is on %s; its locks are not safe there", self._path, kind)
        opened = stack.enter_context(open_store(self._path, self._config))
        self._store, self._directory = opened.store, opened.directory
        check_membership(self._config.card, self._directory.own_record(), opened.image.view)
        minor = frozenset(self._directory.early_faults())
        for text in self._directory.faults:
            level = "warning" if text in minor else "alarm"
            self._tally.notice(Notice(level, "configuration_fault", {"text": text}))
        self._invitations = Invitations(opened.image.invitations)
        self._starts = count_start(opened, self._config.card.slot)
        self._log = make_log(self._path, self._config.card, self._signer, opened, self._clock, self._tally)
        stack.callback(self._end_log)
        server = self._make_server(opened.image)
        self._log.name_of = lambda number: server.core.ledger.names.get(number)
        self._log.keep = lambda: int(group_value(self._directory, "logs-keep"))
        stack.callback(server.wake_up.close)
        self._upload = self._make_uploader(stack)
        self._connect(stack, server, opened)
        return server

    def _make_uploader(self, stack: ExitStack) -> Uploader | None:
        if self._config.log_upload is None:
            return None
        log = self._log
        uploader = Uploader(
            self._path, self._config.log_upload, lambda: log.head and log.head[0], self._clock, self._tally
        )
        log.is_safe = uploader.has
        stack.callback(uploader.stop)
        uploader.start()
        return uploader

    def _end_log(self) -> None:
        """The log is closed, and the store holds how far it has come."""
        if writes := self._log.close():
            with suppress(StoreError):
                self._store.commit(writes)

    def _make_server(self, image: DurableState) -> Server:
        return Server(
            path=self._path,
            settings=self._directory.settings(),
            slot=self._config.card.slot,
            clock=self._clock,
            image=image,
            store=self._store,
            guard=StoreGuard(self._store, self._starts, self._tally, self._kill, self._clock.wall),
            log=self._log,
            make_core=self._make_core,
            greet=self._greet,
            spacing_per_host=int(group_value(self._directory, "spacing-us"))
            if self._config.spacing_us is None
            else self._config.spacing_us,
        )

    def _make_core(self, image: DurableState) -> StationCore:
        self._invitations.start_again(image.invitations)
        core = make_core(self._directory, self._config.card.slot, image)
        if self._log.is_new and core.newcomer is None:
            begin_log(core.ledger)
        return core

    def _greet(self, core: StationCore) -> None:
        greet(self._directory, core)
        self._group.greet()

    def _bind(self, stack: ExitStack, clock: Clock) -> tuple[_Sockets, Access]:
        seed_ids()
        context = new_context()
        stack.callback(context.destroy, 0)
        files_max = raise_limits(context)
        access = Access(
            self._directory,
            files_max,
            self._tally,
            clock.now,
            lambda key: self._invitations.admits(key, clock.wall()),
        )
        zap = ZapResponder(context, access.allow, access.report)
        stack.callback(zap.close)
        hosts = stack.enter_context(bind_hosts(context, self._config.bind_hosts, self._host_keys))
        stations = stack.enter_context(bind_stations(context, self._config.bind_stations, self._config.keys))
        handshakes = ((HOSTS, HandshakeMonitor(hosts)), (STATIONS, HandshakeMonitor(stations)))
        for _, watching in handshakes:
            stack.callback(watching.close)
        return _Sockets(context, zap, hosts, stations, handshakes), access

    def _connect(self, stack: ExitStack, server: Server, opened: Opened) -> None:
        card, tally, directory = self._config.card, self._tally, self._directory
        control = stack.enter_context(closing(ControlServer(self._path, server.poller)))
        sockets, access = self._bind(stack, server.clock)
        seen = PeersSeen(self._path)
        mail = MailService(card, directory, server, self._store, self._door, tally)
        desk = MailDesk(mail, server, self._door)
        links = self._make_links(server, seen, mail)
        live = LivePort(links, tally, server.clock)
        making, own = PublishSockets(sockets.context, lambda: self._config), card.slot
        most_alone = partial(group_value, directory, "publish-peers")
        published = PublishPort(links, tally, server, making, own, lambda: int(most_alone()), directory.peer_keys)
        hosts = HostPort(sockets.hosts, server.settings, tally, access.number_of, access.ban, live.share)
        sponsor = Sponsor(card, directory, server, self._invitations)
        known = access.slot_of, access.retired, seen.remember
        peers = PeerPort(sockets.stations, links, tally, *known, sponsor.join, live, published)
        calls = self._call(connect_peer, sockets.context), self._call(connect_live, sockets.context)
        connections = PeerConnections(server, peers, *calls, self._config.routes, seen.seen, directory.keys)
        stack.callback(connections.close)
        lan = LanPort(card, opened.image.lan, self._signer, directory, tally, peers.send_lan)
        self._log.heads = lambda: read_heads(lan.entries)
        own_head = OwnHead(card, self._log, server.open_tick, lan.put, tally)
        own_record = OwnRecord(self._path, card, directory.own_value, server.open_tick, lan.put, tally)
        self._group = GroupPort(card, directory, server, sponsor.slot_given, tally)
        live.compared = self._group.compare_clock
        follower = Follower(card, directory, server, connections, self._group, own_record, tally, self._log_level)
        outputs = Outputs(hosts, peers, tally, self._kill, self._store.load_item, self._group.perform)
        status = partial(build, card, self._starts, server, self._store, tally, sockets.zap, sockets.handshakes)
        clusters = ClusterPort(directory, server, tally)
        rotation = KeyRotation(
            self._path,
            directory,
            lambda keys: KeyProbes(sockets.context, keys),
            connections.addresses,
            own_record.announce,
            lambda: self._take_over(sockets.stations, connections, own_record, sponsor),
            tally,
        )
        stack.callback(rotation.close)
        requests = Requests(
            card.slot,
            directory,
            server,
            sponsor,
            rotation,
            lambda: self._rotate_hosts(sockets.hosts, own_record),
            lambda: past_topics(self._path),
            lambda: {
                **status(),
                "group": self._group.status(),
                "clusters": clusters.status(),
                **sponsor.status(),
                "mail": mail.status(),
                "log": {**self._log.status(), "upload": self._upload and self._upload.status()},
                "rotation_waits_for": rotation.waits_for(),
            },
            desk.commands,
        )
        published.feed = server.feed_peer
        parts = [live.look, published.look, follower.look, clusters.look, own_head.publish, sponsor.look, mail.look]
        parts.append(lambda: rotation.look(server.clock.now()))
        house = partial(_each, parts if self._upload is None else [*parts, self._upload.look])
        parts_of_ticks = hosts, peers, lan, mail, desk, outputs
        server.connect(*parts_of_ticks, control, requests.handle, self._group.ended, follower.follow, house)
        server.watch(sockets.zap.socket, sockets.zap.answer)
        connections.follow(directory.stations())
        for _, watched in sockets.handshakes:
            server.watch(watched.socket, watched.count)
        server.watch(sockets.stations, server.drain_peers)
        server.watch(sockets.hosts, server.drain_hosts)

    def _call(self, connect: Callable[..., T], context: zmq.Context[Any]) -> Callable[[str, str], T]:
        """With the keys that this station has when it calls."""
        return lambda endpoint, key: connect(context, endpoint, self._config.keys, key)

    def _take_over(
        self, router: zmq.Socket[bytes], connections: PeerConnections, own_record: OwnRecord, sponsor: Sponsor
    ) -> None:
        """Use the keys for the links and for signatures that are in the directory now."""
        self._log.cut()
        self._config = read_station(self._path)
        self._signer.renew(read_signing_key(self._path))
        own_record.card = sponsor.own = self._config.card
        rekey_router(router, self._config.keys)
        connections.reconnect()
        _log.info("keys_rotated: stations know %s by its new keys", self._config.card.id)

    def _rotate_hosts(self, router: zmq.Socket[bytes], own_record: OwnRecord) -> None:
        rekey_router(router, rotate_hosts(self._path))
        own_record.announce()

    def _make_links(self, server: Server, seen: PeersSeen, mail: MailService) -> Links:
        def highest(slot: int) -> int:
            known = server.core.ledger.fifo.known
            return known[slot] if slot < len(known) else 0

        card = self._config.card
        me = Identity(card.group, card.id, card.slot, card.generation, secrets.randbits(64), self._starts)
        return Links(me, [], seen.seen, highest, self._alone, mail)
