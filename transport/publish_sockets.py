"""PUB and SUB between stations: one PUB socket for all peers, one SUB socket to each of them (station-link.md).

A frame on them begins with a prefix, by which libzmq filters at the publisher: token (8 bytes) and number of the
audience (4 bytes), both big-endian. Behind it stands a frame as on all links between stations, or nothing: a beat.
CURVE proves the publisher's key to the subscriber, ZAP that of the subscriber to the publisher.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import zmq

from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import CannotBind
from roamcast.transport.limits import PEER_FRAME_BYTES_MAX
from roamcast.transport.sockets import HANDSHAKE_MS, KEEPALIVE
from roamcast.transport.station_sockets import BACKLOG, PEER_QUEUE_FRAMES, connect_socket

PUBLISH: Final = "publish"
"""ZAP domain."""

_PREFIX: Final = struct.Struct(">QI")
PREFIX_BYTES: Final = _PREFIX.size
INBOUND_BYTES_MAX: Final = 1 << 10
"""Subscriptions have a few bytes, the handshake of CURVE some hundreds."""


def prefix(token: int, number: int) -> bytes:
    """What every frame of this audience begins with."""
    return _PREFIX.pack(token, number)


def read_prefix(data: bytes) -> tuple[int, int] | None:
    """(token, number of the audience) of what came; None: it is too short."""
    return _PREFIX.unpack_from(data) if len(data) >= PREFIX_BYTES else None


def at_port(endpoint: str, port: int | None) -> str:
    """The endpoint tcp://HOST:PORT with another port; None: any that is free, to be bound."""
    return f"{endpoint.rpartition(':')[0]}:{'*' if port is None else port}"


def bind_publisher(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys
) -> tuple[zmq.Socket[bytes], int]:
    """A PUB socket, and the port at which it is. A subscriber whose queue is full misses frames. Raises CannotBind."""
    socket = context.socket(zmq.PUB)
    socket.curve_server = True
    socket.curve_secretkey = keys.secret.encode()
    socket.zap_domain = PUBLISH.encode()
    for option, value in (
        (zmq.ZAP_ENFORCE_DOMAIN, 1),
        (zmq.LINGER, 0),
        (zmq.SNDHWM, PEER_QUEUE_FRAMES),
        (zmq.MAXMSGSIZE, INBOUND_BYTES_MAX),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
        (zmq.BACKLOG, BACKLOG),
        *KEEPALIVE,
    ):
        socket.setsockopt(option, value)
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise CannotBind(f"{endpoint} for {PUBLISH}: {error.strerror}") from error
    return socket, int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


def connect_subscriber(
    context: zmq.Context[zmq.Socket[bytes]],
    endpoint: str,
    keys: CurveKeys,
    peer_key: str,
    token: int,
    numbers: Iterable[int],
) -> zmq.Socket[bytes]:
    """A SUB socket to one peer, for these audiences. It reconnects by itself, unless the peer has refused the key."""
    socket = context.socket(zmq.SUB)
    for number in numbers:
        socket.setsockopt(zmq.SUBSCRIBE, prefix(token, number))
    connect_socket(socket, endpoint, keys, peer_key, PEER_QUEUE_FRAMES, PEER_FRAME_BYTES_MAX + PREFIX_BYTES)
    return socket
