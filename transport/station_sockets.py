"""The sockets of a station: a ROUTER for hosts, one for stations, two DEALERs to each peer (overview section 3).

ROUTER_HANDOVER stays 0: no connection takes the routing id of one that stands. The ZAP domain is enforced: a ROUTER for
which nobody answers ZAP lets nobody in.
"""

from __future__ import annotations

import ctypes
import itertools
import resource
import secrets
from typing import Final

import zmq

from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import CannotBind
from roamcast.transport.limits import CURVE_OVERHEAD_BYTES, PEER_FRAME_BYTES_MAX, UP_FRAME_BYTES_MAX
from roamcast.transport.sockets import HANDSHAKE_MS, KEEPALIVE, LinkMonitor, Monitor, set_client

HOSTS: Final = "hosts"
STATIONS: Final = "stations"
"""ZAP domains."""

HANDSHAKES_MAX: Final = 512
REASONS: Final[dict[int, str]] = {
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "wrong station key, or no CURVE",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshake not finished",
    zmq.EVENT_ACCEPT_FAILED: "out of files",
}
FILES_MAX: Final = 65_536
HOST_QUEUE_FRAMES: Final = 64
"""Each way, per host: with a window of entries on top (hot-path.md rule 10); a flooding host holds 16 MiB at most."""

PEER_QUEUE_FRAMES: Final = 256
LIVE_QUEUE_FRAMES: Final = 64
"""To each peer; what is behind more than that would be late."""
BACKLOG: Final = 1_024
"""All hosts of a station may come back at once."""

RECONNECT_MS: Final = 100
RECONNECT_MAX_MS: Final = 2_000
PEER_KEEPALIVE: Final = (
    (zmq.TCP_KEEPALIVE_IDLE, 10),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 2),
)
"""A peer that is gone is noticed after 20 s. No heartbeats of ZMTP: see middleware/links.py."""


def seed_ids() -> None:
    """Let the routing ids that libzmq counts up start anywhere. Call it before the first socket of the process.

    libzmq draws the start from the C library's rand() and never seeds it, so that every station would start with the
    same one. A client that brings the id which is due next ends the process by an assertion of libzmq (see `zap`).
    """
    ctypes.CDLL(None).srand(ctypes.c_uint(secrets.randbits(32)))


def raise_limits(context: zmq.Context[zmq.Socket[bytes]]) -> int:
    """Take as many files and sockets as the system gives. Call it before the first socket.

    Returns:
        The number of files, connections among them, that this process may have open: refuse hosts before it is reached.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= files:
        files = soft if soft != resource.RLIM_INFINITY else FILES_MAX
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    context.set(zmq.MAX_SOCKETS, min(files, context.get(zmq.SOCKET_LIMIT)))
    return files


def _bind_router(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys, domain: str, frame_bytes: int, queue: int
) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.ROUTER)
    socket.curve_server = True
    socket.curve_secretkey = keys.secret.encode()
    socket.zap_domain = domain.encode()
    for option, value in (
        (zmq.ZAP_ENFORCE_DOMAIN, 1),
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.ROUTER_HANDOVER, 0),
        (zmq.LINGER, 0),
        (zmq.SNDHWM, queue),
        (zmq.RCVHWM, queue),
        (zmq.MAXMSGSIZE, frame_bytes + CURVE_OVERHEAD_BYTES),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
        (zmq.BACKLOG, BACKLOG),
        *KEEPALIVE,
    ):
        socket.setsockopt(option, value)
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise CannotBind(f"{endpoint} for {domain}: {error.strerror}") from error
    return socket


def bind_hosts(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys) -> zmq.Socket[bytes]:
    """The ROUTER to which hosts connect. Raises CannotBind."""
    return _bind_router(context, endpoint, keys, HOSTS, UP_FRAME_BYTES_MAX, HOST_QUEUE_FRAMES)


def bind_stations(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys) -> zmq.Socket[bytes]:
    """The ROUTER to which peers connect. Raises CannotBind."""
    return _bind_router(context, endpoint, keys, STATIONS, PEER_FRAME_BYTES_MAX, PEER_QUEUE_FRAMES)


class HandshakeMonitor(Monitor):
    """Counts the handshakes that failed at a bound socket, before or without ZAP."""

    def __init__(self, watched: zmq.Socket[bytes]) -> None:
        super().__init__(watched, sum(REASONS))
        self.failed: dict[str, int] = {}
        """By reason, since the start."""

    def count(self) -> int:
        """Take what has happened since the last call; returns how many connections failed."""
        taken = 0
        for event, _ in itertools.islice(self.events(), HANDSHAKES_MAX):
            taken += 1
            self.failed[REASONS[event]] = self.failed.get(REASONS[event], 0) + 1
        return taken


def connect_peer(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys, peer_key: str
) -> tuple[zmq.Socket[bytes], LinkMonitor]:
    """A DEALER to a peer. It reconnects by itself, once the system or `Links` has found it dead."""
    socket = context.socket(zmq.DEALER)
    monitor = LinkMonitor(socket)
    connect_socket(socket, endpoint, keys, peer_key, PEER_QUEUE_FRAMES)
    return socket, monitor


def connect_live(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys, peer_key: str
) -> zmq.Socket[bytes]:
    """The same for live messages alone; nobody watches it."""
    socket = context.socket(zmq.DEALER)
    connect_socket(socket, endpoint, keys, peer_key, LIVE_QUEUE_FRAMES)
    return socket


def connect_socket(
    socket: zmq.Socket[bytes],
    endpoint: str,
    keys: CurveKeys,
    peer_key: str,
    queue: int,
    frame_bytes: int = PEER_FRAME_BYTES_MAX,
) -> None:
    """Connect a socket to a peer for as long as it is open: it comes back by itself."""
    set_client(socket, keys, peer_key)
    for option, value in (
        (zmq.SNDHWM, queue),
        (zmq.RCVHWM, PEER_QUEUE_FRAMES),
        (zmq.MAXMSGSIZE, frame_bytes + CURVE_OVERHEAD_BYTES),
        (zmq.RECONNECT_IVL, RECONNECT_MS),
        (zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS),
        *PEER_KEEPALIVE,
    ):
        socket.setsockopt(option, value)
    socket.connect(endpoint)
