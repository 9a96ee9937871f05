"""Context, and the agent's socket: one session is one TCP connection, and a fresh socket for the next.

What becomes of a connection is told by the socket's monitor; `LinkMonitor` turns its events into reasons that a person
can act on (field case BL-35). Every option is set before connect, where libzmq reads it.
"""

from __future__ import annotations

import errno
import itertools
import struct
import time
from collections.abc import Iterator
from typing import Final

import zmq

from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import LibraryTooOld
from roamcast.transport.limits import CURVE_OVERHEAD_BYTES, DOWN_FRAME_BYTES_MAX

LIBZMQ_LEAST: Final = (4, 3, 2)
"""Below it: remote holes in CURVE and ZMTP (CVE-2019-6250, CVE-2019-13132)."""

HANDSHAKE_MS: Final = 5_000
PATIENCE_S: Final = 1.9
"""An agent gives up a handshake after this: just before its attempt is over, so that it can say why."""
CONNECT_MS: Final = 5_000
HOST_QUEUE_FRAMES: Final = 128
"""So many frames of an agent wait in libzmq; what is live is dropped then, and all else waits behind them."""

UP: Final = "up"
UNREACHABLE: Final = "unreachable"
NO_HANDSHAKE: Final = "no handshake: something is there, but it does not answer"
BROKEN_OFF: Final = "closed before the handshake was done"
WRONG_KEY: Final = "authentication failed: wrong station key configured here, or the link broke during the handshake"
UNKNOWN_KEY: Final = "unknown key: the key of this side was withdrawn, or is not known at that station yet"
NOT_NOW: Final = "not now: too many connections with this key, or the station cannot check keys"
CLOSED: Final = "connection lost"

KEEPALIVE: Final = ((zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 240), (zmq.TCP_KEEPALIVE_INTVL, 20))
_SERIAL: Final = itertools.count()
_EVENTS: Final = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


def new_context(version: tuple[int, int, int] | None = None) -> zmq.Context[zmq.Socket[bytes]]:
    """A context of its own. Raises LibraryTooOld."""
    found = version or zmq.zmq_version_info()
    if found < LIBZMQ_LEAST or not zmq.has("curve"):
        least, linked = (".".join(map(str, numbers)) for numbers in (LIBZMQ_LEAST, found))
        raise LibraryTooOld(f"libzmq {linked} is linked; at least {least} with CURVE is needed: upgrade pyzmq")
    return zmq.Context()


def set_client(socket: zmq.Socket[bytes], keys: CurveKeys, server_key: str) -> None:
    """Options of every socket that connects: CURVE towards `server_key`, no queue for a peer that is not there."""
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    socket.curve_serverkey = server_key.encode()
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.IMMEDIATE, 1),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
        (zmq.CONNECT_TIMEOUT, CONNECT_MS),
        *KEEPALIVE,
    ):
        socket.setsockopt(option, value)


def connect_host(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys, station_key: str
) -> tuple[zmq.Socket[bytes], LinkMonitor]:
    """A DEALER on its way to a station, for one session: it never reconnects. Close the monitor first.

    Raises zmq.ZMQError: no such address or key can be; nothing is left open then.
    """
    socket = context.socket(zmq.DEALER)
    monitor = LinkMonitor(socket, PATIENCE_S)
    try:
        set_client(socket, keys, station_key)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.SNDHWM, HOST_QUEUE_FRAMES)
        socket.setsockopt(zmq.MAXMSGSIZE, DOWN_FRAME_BYTES_MAX + CURVE_OVERHEAD_BYTES)
        socket.connect(endpoint)
    except zmq.ZMQError:
        monitor.close()
        socket.close()
        raise
    return socket, monitor


class Monitor:
    """Events of a socket. Poll `socket` and read it: after a thousand events not taken, libzmq's thread waits."""

    def __init__(self, watched: zmq.Socket[bytes], events: int) -> None:
        self._watched = watched
        self.socket: zmq.Socket[bytes] = watched.get_monitor_socket(events, f"inproc://monitor-{next(_SERIAL)}")

    def events(self) -> Iterator[tuple[int, int]]:
        """(event, value) since the last call, in order."""
        while True:
            try:
                head, _ = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield struct.unpack("=HI", head)

    def close(self) -> None:
        """Stop watching; only then close the watched socket. In any other order libzmq's thread can hang for ever."""
        if not self.socket.closed:
            self._watched.disable_monitor()
            self.socket.close()


class LinkMonitor(Monitor):
    """What becomes of the connection of a socket that connects. Make it before connect."""

    def __init__(self, watched: zmq.Socket[bytes], patience_s: float = float("inf")) -> None:
        super().__init__(watched, _EVENTS)
        self._last = 0
        self._by = time.monotonic() + patience_s
        self.reason = UNREACHABLE
        """Why it does not work, as far as known: what to say if one waits no longer."""

    def changes(self) -> list[str]:
        """What has happened since the last call, in order: `UP`, or the reason why the connection ended."""
        changes: list[str] = []
        for event, value in self.events():
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.reason = CLOSED
                changes.append(UP)
            elif event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED):
                changes.append(BROKEN_OFF if self._last == zmq.EVENT_CONNECTED else self.reason)
                self.reason = UNREACHABLE
            else:
                self.reason = _meaning(event, value)
            self._last = event
        if self.reason != CLOSED and time.monotonic() > self._by:
            changes.append(self.reason)
        return changes


def _meaning(event: int, value: int) -> str:
    if event == zmq.EVENT_CONNECTED:
        return NO_HANDSHAKE
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return UNKNOWN_KEY if value == 400 else NOT_NOW
    if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and value in (errno.EAGAIN, errno.ETIMEDOUT):
        return NO_HANDSHAKE
    return WRONG_KEY
