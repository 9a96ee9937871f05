"""A ROUTER or DEALER as the ports use it, without a network: messages wait, sends meet full or gone channels."""

from __future__ import annotations

import errno
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


class Part:
    """A received message part with the properties of its connection."""

    def __init__(self, data: bytes, user: str | None, more: bool, identity: str = "") -> None:
        self.bytes, self.more = data, more
        self._properties = {"User-Id": user, "Identity": identity}

    def get(self, name: str) -> str:
        value = self._properties[name]
        if value is None:
            raise zmq.ZMQError(errno.EINVAL)
        return value


class Router:
    """Whole messages wait to be received; `full` and `gone` channels take nothing."""

    def __init__(self) -> None:
        self.waiting: deque[Part] = deque()
        self.sent: list[tuple[bytes, bytes]] = []
        self.full: set[bytes] = set()
        self.gone: set[bytes] = set()
        self._to = b""

    def arrive(self, channel: bytes, user: str | None, *parts: bytes, identity: str = "") -> None:
        """identity: the routing id that ZAP gave the connection."""
        everything = (channel, *parts)
        for i, data in enumerate(everything):
            self.waiting.append(Part(data, user, i + 1 < len(everything), identity))

    def recv(self, flags: int = 0, copy: bool = True) -> Any:
        if not self.waiting:
            raise zmq.Again
        part = self.waiting.popleft()
        return part.bytes if copy else part

    def send(self, data: Any, flags: int = 0, copy: bool = True) -> None:
        if not flags & zmq.SNDMORE:
            self.sent.append((self._to, bytes(data)))
        elif data in self.gone:
            raise zmq.ZMQError(errno.EHOSTUNREACH)
        elif data in self.full:
            raise zmq.Again
        else:
            self._to = data


class Dealer:
    """Messages of the one peer wait to be received; it takes nothing while `full`."""

    def __init__(self) -> None:
        self.waiting: deque[Part] = deque()
        self.sent: list[bytes] = []
        self.full = False
        self.closed = False

    def arrive(self, *parts: bytes) -> None:
        self.waiting.extend(Part(data, None, i + 1 < len(parts)) for i, data in enumerate(parts))

    def recv(self, flags: int = 0, copy: bool = True) -> Part:
        if not self.waiting:
            raise zmq.Again
        return self.waiting.popleft()

    def send(self, data: bytes, flags: int = 0) -> None:
        if self.full:
            raise zmq.Again
        self.sent.append(data)

    def close(self, linger: int) -> None:
        self.closed = True


class Monitor:
    """What became of a DEALER's connection, as a test says it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.closed = False
        self.socket = object()

    def changes(self) -> list[str]:
        told, self.told = self.told, []
        return told

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def router() -> Router:
    return Router()


@pytest.fixture
def make_connection() -> Callable[[], tuple[Dealer, Monitor]]:
    return lambda: (Dealer(), Monitor())
