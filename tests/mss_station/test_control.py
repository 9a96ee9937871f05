"""The local socket between commands and a running station."""

from __future__ import annotations

import contextlib
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from roamcast.mss_station.control import (
    CLIENTS_MAX,
    REQUEST_BYTES_MAX,
    Client,
    ControlError,
    ControlServer,
    NotRunning,
    ask,
)


class Loop:
    """A thread that polls as the station does and answers with what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.poller = zmq.Poller()
        self.server = ControlServer(directory, self.poller)
        self._stop, self._stopped = socket.socketpair()
        self.poller.register(self._stopped.fileno(), zmq.POLLIN)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while self._stopped.fileno() not in (ready := dict(self.poller.poll())):
            self.server.serve(ready, self.handle)

    def handle(self, client: Client, request: dict[str, Any]) -> None:
        client.answer({"ok": True, "asked": request, "large": "x" * request.get("size", 0)})

    def close(self) -> None:
        self._stop.send(b"x")
        self.thread.join()
        self.server.close()
        self._stop.close()
        self._stopped.close()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(tmp_path)
    yield loop
    loop.close()


def test_a_request_is_answered(loop: Loop, tmp_path: Path) -> None:
    assert ask(tmp_path, {"command": "status"})["asked"] == {"command": "status"}


def test_a_large_answer_arrives_whole(loop: Loop, tmp_path: Path) -> None:
    assert len(ask(tmp_path, {"size": 5_000_000})["large"]) == 5_000_000


def test_only_the_owner_may_open_the_socket(loop: Loop, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "control").stat().st_mode) == 0o600


def raw(directory: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(directory / "control"))
        try:
            connection.sendall(data)
            return connection.recv(1_000)
        except OSError:
            return b""


def test_what_is_no_request_is_refused_and_others_are_served(loop: Loop, tmp_path: Path) -> None:
    assert b'"ok": false' in raw(tmp_path, b"nonsense\n")
    assert b'"ok": false' in raw(tmp_path, b"[1]\n")
    assert raw(tmp_path, b"x" * (2 * REQUEST_BYTES_MAX)) == b""
    assert ask(tmp_path, {"command": "status"})["ok"]


def served_again(directory: Path) -> bool:
    """Ask until the station has noticed that a client went."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(ControlError):
            return bool(ask(directory, {})["ok"])
    return False


def test_a_surplus_of_clients_is_hung_up(loop: Loop, tmp_path: Path) -> None:
    clients = [socket.socket(socket.AF_UNIX) for _ in range(CLIENTS_MAX)]
    for client in clients:
        client.connect(str(tmp_path / "control"))
        client.sendall(b"{}\n")
        client.recv(1_000)
    with pytest.raises(ControlError):
        ask(tmp_path, {})
    clients.pop().close()
    assert served_again(tmp_path)
    for client in clients:
        client.close()


def test_without_a_station_the_command_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        ask(tmp_path, {})


def test_the_socket_of_a_killed_station_is_no_obstacle(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "control"))
    left.close()
    with pytest.raises(NotRunning):
        ask(tmp_path, {})
    loop = Loop(tmp_path)
    assert ask(tmp_path, {})["ok"]
    loop.close()
    assert not (tmp_path / "control").exists()


def test_a_long_path_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    loop = Loop(deep)
    assert ask(deep, {})["ok"]
    loop.close()
