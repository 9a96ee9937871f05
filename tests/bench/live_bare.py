"""The baseline of live messages: bare pyzmq PUB and SUB between relays. ``python -m bench.live_bare``.

What comes from a host goes to every other host here and, on a PUB, to the SUBs of all other relays, which hand it to
their hosts. CURVE, and the same sockets for hosts as a station has. No order, no deadline, no check of keys; a full
queue drops silently. The PUB's own queue is as short as a station's for live messages.
"""

from __future__ import annotations

import sys
from typing import Any

import zmq
from bench.bare import DRAIN_MAX, HELLO, SNDMORE_NOBLOCK
from bench.child import Json, serve_beside, usage

from roamcast.transport.curve import generate
from roamcast.transport.sockets import new_context, set_client
from roamcast.transport.station_sockets import (
    BACKLOG,
    HOST_QUEUE_FRAMES,
    LIVE_QUEUE_FRAMES,
    PEER_QUEUE_FRAMES,
    raise_limits,
)


class PubSubRelay:
    """One relay process: a ROUTER for hosts, a PUB, and a SUB to all peers."""

    def __init__(self) -> None:
        self.keys = generate()
        self._context = new_context()
        raise_limits(self._context)
        self._hosts, self.hosts_endpoint = self._bind(zmq.ROUTER, HOST_QUEUE_FRAMES, HOST_QUEUE_FRAMES)
        self._pub, self.stations_endpoint = self._bind(zmq.PUB, LIVE_QUEUE_FRAMES, 0)
        self._sub = self._context.socket(zmq.SUB)
        set_client(self._sub, generate(), self.keys.public)
        self._sub.setsockopt(zmq.RCVHWM, PEER_QUEUE_FRAMES)
        self._sub.setsockopt(zmq.SUBSCRIBE, b"")
        self._channels: list[bytes] = []
        self._running = True

    def _bind(self, kind: int, sent: int, received: int) -> tuple[zmq.Socket[bytes], str]:
        socket = self._context.socket(kind)
        socket.curve_server = True
        socket.curve_secretkey = self.keys.secret.encode()
        for option, value in (
            (zmq.LINGER, 0), (zmq.BACKLOG, BACKLOG), (zmq.SNDHWM, sent), (zmq.RCVHWM, received),
        ):  # fmt: skip
            socket.setsockopt(option, value)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        return socket, f"tcp://127.0.0.1:{port}"

    def hello(self) -> Json:
        """Where to connect, and the key."""
        return {"hosts": self.hosts_endpoint, "stations": self.stations_endpoint, "key": self.keys.public}

    def connect(self, endpoint: str, key: str) -> Json:
        """Take what the relay there publishes."""
        self._sub.curve_serverkey = key.encode()
        self._sub.connect(endpoint)
        return {}

    def run(self) -> None:
        """Relay until `stop`."""
        poller = zmq.Poller()
        poller.register(self._hosts, zmq.POLLIN)
        poller.register(self._sub, zmq.POLLIN)
        while self._running:
            ready = dict(poller.poll(1_000))
            if self._hosts in ready:
                self._drain_hosts()
            if self._sub in ready:
                self._drain_peers()

    def _drain_hosts(self) -> None:
        recv = self._hosts.recv
        for _ in range(DRAIN_MAX):
            try:
                source = recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            body = recv()
            if body == HELLO:
                self._channels.append(source)
                self._hosts.send(source, zmq.SNDMORE)
                self._hosts.send(HELLO)
                continue
            shared = zmq.Frame(body)
            self._pub.send(shared, zmq.NOBLOCK, False)
            self._hand(shared, source)

    def _drain_peers(self) -> None:
        for _ in range(DRAIN_MAX):
            try:
                shared = self._sub.recv(zmq.NOBLOCK, False)
            except zmq.Again:
                return
            self._hand(shared, b"")

    def _hand(self, shared: zmq.Frame, source: bytes) -> None:
        send = self._hosts.send
        for channel in self._channels:
            if channel != source:
                send(channel, SNDMORE_NOBLOCK)
                send(shared, 0, False)

    def stop(self) -> None:
        """Let `run` return."""
        self._running = False

    def close(self) -> None:
        """Close all sockets."""
        self._context.destroy(linger=0)


def main(arguments: list[str]) -> None:
    """Run the relay until stdin ends."""
    relay = PubSubRelay()
    handlers: dict[str, Any] = {"hello": relay.hello, "connect": relay.connect, "usage": usage}
    serve_beside(handlers, relay.stop)
    relay.run()
    relay.close()


if __name__ == "__main__":
    main(sys.argv[1:])
