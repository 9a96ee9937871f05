"""A station: the composition of its parts. `mss-station run DIR` is this class with signals.

with Station("DIR") as station:
    station.run()          # in this thread, until station.stop() is called from another one or a signal handler
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import zmq

from roamcast.middleware.effects import Notice
from roamcast.middleware.link_effects import Identity, Member
from roamcast.middleware.links import Links
from roamcast.middleware.writes import DurableState
from roamcast.mss_station.access import Access
from roamcast.mss_station.control import ControlServer
from roamcast.mss_station.directory import Fault, FileDirectory
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.lock import DirectoryLock, network_filesystem
from roamcast.mss_station.opening import count_start, greet, make_core, open_store
from roamcast.mss_station.outputs import Outputs
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.peers_seen import PeersSeen
from roamcast.mss_station.requests import Requests
from roamcast.mss_station.server import Clock, Server
from roamcast.mss_station.status import build
from roamcast.mss_station.tally import Tally
from roamcast.transport.sockets import new_context
from roamcast.transport.station_files import read_station
from roamcast.transport.station_sockets import (
    HOSTS,
    STATIONS,
    HandshakeMonitor,
    bind_hosts,
    bind_stations,
    connect_peer,
    raise_limits,
    seed_ids,
)
from roamcast.transport.zap import ZapResponder

_log = logging.getLogger("roamcast.station")


class Station:
    """One station process, or one station in a thread of a program: all of it lives in the thread that calls `run`.

    Args:
        path: the directory that `mss-station init` made.
        alone: give numbers although no peer has answered since the start.
        kill_point: test hook, see `kill_points`.

    Raises:
        KeyFileError: a file of the directory is not as it must be.
        StoreError: another process works on the directory.
    """

    def __init__(self, path: str | Path, *, alone: bool = False, kill_point: str = "") -> None:
        self._path = Path(path)
        self._alone = alone
        self._kill = KillPoint(kill_point)
        self._tally = Tally()
        self._stopping = False
        self._running: Server | None = None
        self.ready = threading.Event()
        """Set once hosts and stations may connect."""
        self._lock = DirectoryLock(self._path)
        try:
            self._config = read_station(self._path)
            self._directory = FileDirectory(self._path)
        except BaseException:
            self._lock.release()
            raise

    def run(self) -> None:
        """Serve until `stop`.

        Raises:
            CannotBind, ControlError: an endpoint or the control socket cannot be used.
            StoreError: the store cannot be used, or not any more.
            StoreWentBack: a peer knows more of this station than its own store.
            InvariantError: a fault of ours; the process must end.
        """
        with ExitStack() as stack:
            server = self._compose(stack)
            self._running = server
            card = self._config.card
            _log.info("running: station %s, slot %d, start %d", card.id, card.slot, self._starts)
            self.ready.set()
            if not self._stopping:
                server.run()

    def stop(self) -> None:
        """Let `run` finish its tick and return; from a signal handler or another thread, at any time."""
        self._stopping = True
        if self._running is not None:
            self._running.stop()

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
        for change in self._directory.changes():
            if isinstance(change, Fault):
                self._tally.notice(Notice("alarm", "directory_fault", {"text": change.text}))
        self._store = stack.enter_context(open_store(self._path, self._config))
        image = self._store.load()
        self._starts = count_start(self._store, image)
        server = self._make_server(image)
        stack.callback(server.close)
        self._connect(stack, server)
        return server

    def _make_server(self, image: DurableState) -> Server:
        clock = Clock()
        slot = self._config.card.slot
        return Server(
            path=self._path,
            settings=self._directory.settings(),
            slot=slot,
            clock=clock,
            image=image,
            store=self._store,
            guard=StoreGuard(self._store, self._starts, self._tally, self._kill, clock.wall),
            make_core=lambda image: make_core(self._directory, slot, image),
            greet=lambda core: greet(self._directory, core),
            spacing_per_host=self._config.spacing_us,
        )

    def _connect(self, stack: ExitStack, server: Server) -> None:
        card, keys, tally = self._config.card, self._config.keys, self._tally
        control = ControlServer(self._path, server.poller)
        stack.callback(control.close)
        seed_ids()
        context = new_context()
        stack.callback(context.destroy, 0)
        files_max = raise_limits(context)
        access = Access(self._directory, files_max, tally, server.clock.now)
        zap = ZapResponder(context, access.allow, access.report)
        stack.callback(zap.close)
        hosts_socket = stack.enter_context(bind_hosts(context, self._config.bind_hosts, keys))
        stations_socket = stack.enter_context(bind_stations(context, self._config.bind_stations, keys))
        handshakes = [(HOSTS, HandshakeMonitor(hosts_socket)), (STATIONS, HandshakeMonitor(stations_socket))]
        peers_known = self._directory.stations()
        connections = {peer.slot: connect_peer(context, peer.stations, keys, peer.key) for peer in peers_known}
        monitors = [monitor for _, monitor in (*connections.values(), *handshakes)]
        for watching in monitors:
            stack.callback(watching.close)
        seen = PeersSeen(self._path)
        links = Links(
            Identity(card.group, card.id, card.slot, card.generation, secrets.randbits(64), self._starts),
            [Member(peer.slot, peer.id, peer.generation) for peer in peers_known],
            seen.seen,
            lambda slot: server.core.ledger.fifo.known[slot],
            self._alone,
        )
        hosts = HostPort(hosts_socket, server.settings, tally, access.number_of, access.ban)
        peers = PeerPort(
            stations_socket,
            connections,
            links,
            tally,
            access.slot_of,
            seen.remember,
        )
        outputs = Outputs(hosts, peers, tally, self._kill, self._store.load_item)
        status = partial(build, card, self._starts, server, self._store, tally, zap, handshakes)
        requests = Requests(self._path, card.slot, self._directory, server, access, tally, status)
        sockets: dict[zmq.Socket[bytes], Callable[[], object]] = {zap.socket: zap.answer}
        sockets |= {monitor.socket: partial(server.watch_dealer, slot) for slot, (_, monitor) in connections.items()}
        sockets |= {socket: partial(server.drain_dealer, slot) for slot, (socket, _) in connections.items()}
        sockets |= {watched.socket: watched.count for _, watched in handshakes}
        sockets |= {stations_socket: server.drain_peers, hosts_socket: server.drain_hosts}
        server.connect(hosts, peers, outputs, control, requests.handle, requests.look, sockets)
