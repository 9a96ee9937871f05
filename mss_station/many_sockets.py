"""Many sockets that cost the station's poller no more than one.

libzmq's poller looks at every socket each time, half a microsecond each; the system's own (epoll, kqueue) looks at
those where something has happened. What it sees of a ZeroMQ socket is an edge: a socket that was not read until nothing
was left shows nothing more, and is kept in mind here.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable

import zmq

from roamcast.mss_station.wake_up import WakeUp

Drain = Callable[[], bool]
"""Reads a socket. Returns whether nothing was left; if not, it is called again, after others had their turn."""


class ManySockets:
    """Poll `descriptor`, and call `read` when it has something to read."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._more = WakeUp()
        self._behind: dict[int, Drain] = {}
        self._selector.register(self._more.descriptor, selectors.EVENT_READ)
        self.descriptor: int = self._selector.fileno()

    def add(self, socket: zmq.Socket[bytes], drain: Drain) -> None:
        """Read this socket too."""
        self._selector.register(_descriptor(socket), selectors.EVENT_READ, drain)

    def remove(self, socket: zmq.Socket[bytes]) -> None:
        """The socket is about to be closed. Not to be called by what reads one."""
        descriptor = _descriptor(socket)
        self._selector.unregister(descriptor)
        self._behind.pop(descriptor, None)

    def read(self) -> None:
        """Read all in which something has happened."""
        drains, self._behind = self._behind, {}
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._more.clear()
            else:
                drains[key.fd] = key.data
        for descriptor, drain in drains.items():
            if not drain():
                self._behind[descriptor] = drain
        if self._behind:
            self._more.ring()

    def close(self) -> None:
        """All sockets have been removed."""
        self._more.close()
        self._selector.close()


def _descriptor(socket: zmq.Socket[bytes]) -> int:
    return int(socket.getsockopt(zmq.FD))
