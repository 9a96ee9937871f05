"""Ids of connections: chosen by the station whatever a client brings, and counted from a random start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from roamcast.transport.curve import generate
from roamcast.transport.sockets import new_context, set_client
from roamcast.transport.station_sockets import bind_hosts
from roamcast.transport.zap import ZapResponder

CLIENTS = 20
CHOSEN_LEAST = 15
"""Where the answer of ZAP comes too early the client's id holds, which takes a very busy machine (see `zap`)."""

FIRST_ID = """
import zmq
from roamcast.transport.station_sockets import seed_ids
seed_ids()
context = zmq.Context()
router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
router.bind("inproc://here")
dealer.connect("inproc://here")
dealer.send(b"")
print(router.recv().hex())
"""
Socket = zmq.Socket[bytes]


class Door:
    """A station's socket for hosts, and one key that fits."""

    def __init__(self, context: zmq.Context[Socket]) -> None:
        self._context = context
        self._keys, self._host = generate(), generate()
        self._zap = ZapResponder(context, lambda domain, key, address: "host:ann", lambda *report: None)
        self.router = bind_hosts(context, "tcp://127.0.0.1:*", self._keys)

    def client(self, routing_id: bytes) -> Socket:
        """A client that brings `routing_id`, let in."""
        link = self._context.socket(zmq.DEALER)
        set_client(link, self._host, self._keys.public)
        if routing_id:
            link.setsockopt(zmq.ROUTING_ID, routing_id)
        link.connect(self.router.getsockopt_string(zmq.LAST_ENDPOINT))
        self._turn(lambda: bool(link.poll(0, zmq.POLLOUT)))
        return link

    def hear(self) -> tuple[bytes, zmq.Frame]:
        """Channel and frame of the next message."""
        self._turn(lambda: bool(self.router.poll(0)))
        channel, part = self.router.recv_multipart(copy=False)
        return channel.bytes, part

    def _turn(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not done():
            assert time.monotonic() < end
            self._zap.socket.poll(5)
            self._zap.answer()


@pytest.fixture
def door() -> Iterator[Door]:
    context = new_context()
    yield Door(context)
    context.destroy(0)


@pytest.mark.parametrize("brought", [b"", b"mine", b"\0abcd"])
def test_the_station_chooses_the_id(door: Door, brought: bytes) -> None:
    """All bring the same one, one after the other."""
    channels: set[bytes] = set()
    for _ in range(CLIENTS):
        client = door.client(brought)
        client.send(b"x")
        channel, part = door.hear()
        client.close()
        if channel == str(part.get("Identity")).encode():
            channels.add(channel)
    assert len(channels) >= CHOSEN_LEAST and brought not in channels


def test_two_processes_count_their_own_ids_from_different_starts() -> None:
    first, second = (subprocess.check_output([sys.executable, "-c", FIRST_ID], text=True) for _ in range(2))
    assert len(first.strip()) == 10 and first != second
