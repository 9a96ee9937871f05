"""The relay's faults, seen from a plain TCP client and server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from demo.relay import Gate, Relay


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay() as relay:
        yield relay


@pytest.fixture
def gate(relay: Relay) -> Iterator[Gate]:
    """A gate in front of an echo server."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(peer,), daemon=True).start()

    def echo(peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    yield relay.gate(f"tcp://127.0.0.1:{server.getsockname()[1]}")
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def connect(gate: Gate) -> socket.socket:
    """A client of `gate`; every read gives up after two seconds."""
    client = socket.create_connection(("127.0.0.1", int(gate.endpoint.rpartition(":")[2])), timeout=2)
    return client


def ask(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    answer = b""
    while len(answer) < len(data):
        answer += client.recv(65536)
    return answer


def test_forwards_both_ways(gate: Gate) -> None:
    with connect(gate) as client:
        data = bytes(range(256)) * 4000
        thread = threading.Thread(target=client.sendall, args=(data,))
        thread.start()
        answer = b""
        while len(answer) < len(data):
            answer += client.recv(65536)
        thread.join()
        assert answer == data
    assert gate.accepted == 1


def test_cut_resets_present_connections_and_takes_new_ones(gate: Gate) -> None:
    with connect(gate) as client:
        assert ask(client, b"a") == b"a"
        assert gate.cut() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(gate) as client:
        assert ask(client, b"b") == b"b"
    assert gate.cuts == 1


@pytest.mark.parametrize(("up", "down"), [(True, True), (True, False), (False, True)])
def test_black_hole_says_nothing_and_heals(gate: Gate, up: bool, down: bool) -> None:
    with connect(gate) as client:
        assert ask(client, b"a") == b"a"
        gate.swallow(up=up, down=down)
        client.sendall(b"b")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert gate.connections == 1
        gate.heal()
        client.settimeout(2)
        assert client.recv(1) == b"b"


def test_black_hole_takes_new_connections_and_is_silent(gate: Gate) -> None:
    gate.swallow()
    with connect(gate) as client:
        client.sendall(b"a")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert gate.cut() == 1


def test_slow_delays_and_limits(gate: Gate) -> None:
    with connect(gate) as client:
        gate.slow(delay_s=0.1)
        begun = time.monotonic()
        assert ask(client, b"a") == b"a"
        assert time.monotonic() - begun >= 0.2
        gate.slow(bytes_per_s=100_000)
        begun = time.monotonic()
        ask(client, bytes(20_000))
        ask(client, b"a")
        assert time.monotonic() - begun >= 0.2
        gate.heal()
        begun = time.monotonic()
        ask(client, bytes(20_000))
        assert time.monotonic() - begun < 0.2


def test_refuse_closes_the_port_until_healed(gate: Gate) -> None:
    with connect(gate) as client:
        assert ask(client, b"a") == b"a"
        gate.refuse()
        assert ask(client, b"a") == b"a"
        with pytest.raises(ConnectionRefusedError):
            connect(gate)
        gate.heal()
        with connect(gate) as other:
            assert ask(other, b"b") == b"b"


def test_end_of_one_side_ends_the_other(gate: Gate) -> None:
    with connect(gate) as client:
        assert ask(client, b"a") == b"a"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_target_that_does_not_listen(relay: Relay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gate = relay.gate(f"tcp://127.0.0.1:{port}")
    with pytest.raises(ConnectionResetError):  # by the connect already, or by the first read
        with connect(gate) as client:
            client.recv(1)
