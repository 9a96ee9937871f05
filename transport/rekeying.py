"""Other CURVE keys for sockets that are in use already.

libzmq copies a socket's keys when it binds or connects: so a socket that binds or connects again takes others, and all
its connections under the old ones end. It finishes that when the socket is next used. Nothing queued outlives it.
"""

from __future__ import annotations

import time
from typing import Final

import zmq

from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import CannotBind
from roamcast.transport.sockets import set_client

BIND_TRIES: Final = 1_000
BIND_PAUSE_S: Final = 0.001
"""libzmq's thread closes the old listener a little later than `unbind` returns."""


def rekey_router(socket: zmq.Socket[bytes], keys: CurveKeys) -> None:
    """Let a bound ROUTER serve under other keys, at the same endpoint.

    Raises:
        CannotBind: within a second its endpoint has not become free; nobody can connect any more.
    """
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    socket.unbind(endpoint)
    socket.curve_secretkey = keys.secret.encode()
    for _ in range(BIND_TRIES):
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE:
                raise CannotBind(f"{endpoint} under the new key: {error.strerror}") from error
            time.sleep(BIND_PAUSE_S)
        else:
            return
    raise CannotBind(f"{endpoint} under the new key: the address does not become free")


def rekey_dealer(socket: zmq.Socket[bytes], endpoint: str, keys: CurveKeys, peer_key: str) -> None:
    """Connect a DEALER anew: under other keys, to a peer that has another key, or because it was refused.

    A DEALER that ZAP has refused never tries again by itself.

    Args:
        endpoint: that to which it was connected.
    """
    socket.disconnect(endpoint)
    set_client(socket, keys, peer_key)
    socket.connect(endpoint)
