"""The baseline: a bare pyzmq relay. What comes from a host goes to every host, here and behind the peers.

``python -m bench.bare [--plain]``: ROUTERs with CURVE (or none), poll, drain, two sends per peer with one shared frame:
the cheapest form there is. No order, no store, no acknowledgement, no check of keys; a full queue drops silently.
"""

from __future__ import annotations

import sys
from typing import Any

import zmq
from bench.child import Json, serve_beside, usage

from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.sockets import new_context, set_client
from roamcast.transport.station_sockets import BACKLOG, raise_limits

HELLO = b"\x00"
DRAIN_MAX = 512
SNDMORE_NOBLOCK = zmq.SNDMORE | zmq.NOBLOCK


class Relay:
    """One relay process: a ROUTER for hosts, a ROUTER for peers, a DEALER to each peer."""

    def __init__(self, plain: bool) -> None:
        self.keys: CurveKeys | None = None if plain else generate()
        self._context = new_context()
        raise_limits(self._context)
        self._hosts, self.hosts_endpoint = self._bind()
        self._stations, self.stations_endpoint = self._bind()
        self._channels: list[bytes] = []
        self._dealers: list[zmq.Socket[bytes]] = []
        self._running = True

    def _bind(self) -> tuple[zmq.Socket[bytes], str]:
        socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.BACKLOG, BACKLOG)
        if self.keys is not None:
            socket.curve_server = True
            socket.curve_secretkey = self.keys.secret.encode()
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        return socket, f"tcp://127.0.0.1:{port}"

    def hello(self) -> Json:
        """Where to connect, and the key."""
        key = None if self.keys is None else self.keys.public
        return {"hosts": self.hosts_endpoint, "stations": self.stations_endpoint, "key": key}

    def connect(self, endpoint: str, key: str) -> Json:
        """Connect to a peer; what comes from hosts goes there too."""
        dealer = self._context.socket(zmq.DEALER)
        set_client(dealer, generate(), key)
        dealer.connect(endpoint)
        self._dealers.append(dealer)
        return {}

    def run(self) -> None:
        """Relay until `stop`."""
        poller = zmq.Poller()
        poller.register(self._hosts, zmq.POLLIN)
        poller.register(self._stations, zmq.POLLIN)
        while self._running:
            ready = dict(poller.poll(1_000))
            if self._hosts in ready:
                self._drain(self._hosts, self._dealers)
            if self._stations in ready:
                self._drain(self._stations, [])

    def _drain(self, source: zmq.Socket[bytes], dealers: list[zmq.Socket[bytes]]) -> None:
        recv, send = source.recv, self._hosts.send
        for _ in range(DRAIN_MAX):
            try:
                channel = recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            body = recv()
            if body == HELLO:
                self._channels.append(channel)
                send(channel, zmq.SNDMORE)
                send(HELLO)
                continue
            for dealer in dealers:
                dealer.send(body, zmq.NOBLOCK)
            shared = zmq.Frame(body)
            for channel in self._channels:
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
    relay = Relay("--plain" in arguments)
    handlers: dict[str, Any] = {"hello": relay.hello, "connect": relay.connect, "usage": usage}
    serve_beside(handlers, relay.stop)
    relay.run()
    relay.close()


if __name__ == "__main__":
    main(sys.argv[1:])
