"""Wakes a thread that polls sockets: from another thread, or from a signal handler."""

from __future__ import annotations

import socket
from contextlib import suppress


class WakeUp:
    """`descriptor` becomes readable by `ring`, until `clear`."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self.descriptor = self._read.fileno()

    def ring(self) -> None:
        """At any time, also once it is closed."""
        with suppress(OSError):  # a wake-up is on its way already, or nobody polls any more
            self._write.send(b"x")

    def clear(self) -> None:
        """The polling thread is awake."""
        self._read.recv(1_024)

    def close(self) -> None:
        """Give the descriptors back."""
        self._read.close()
        self._write.close()
