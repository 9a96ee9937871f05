"""The local socket between commands and a running station."""

from __future__ import annotations

import contextlib
import json
import select
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
    IDLE_S,
    REQUEST_BYTES_MAX,
    Client,
    ControlError,
    ControlServer,
    Crowded,
    NotRunning,
    ask,
)


class Loop:
    """A thread that polls as the station does and answers with what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.poller = zmq.Poller()
        self.server = ControlServer(directory, self.poller)
        self.asked = 0
        self._stop, self._stopped = socket.socketpair()
        self.poller.register(self._stopped.fileno(), zmq.POLLIN)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while self._stopped.fileno() not in (ready := dict(self.poller.poll())):
            self.server.serve(ready, self.handle)

    def handle(self, client: Client, request: dict[str, Any]) -> None:
        self.asked += 1
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
        with contextlib.suppress(ControlError, Crowded):
            return bool(ask(directory, {})["ok"])
    return False


def test_a_surplus_of_clients_is_hung_up(loop: Loop, tmp_path: Path) -> None:
    clients = [socket.socket(socket.AF_UNIX) for _ in range(CLIENTS_MAX)]
    for client in clients:
        client.connect(str(tmp_path / "control"))
        client.sendall(b"{}\n")
        client.recv(1_000)
    with pytest.raises(Crowded, match=f"{CLIENTS_MAX} commands are connected to this station"):
        ask(tmp_path, {})
    clients.pop().close()
    assert served_again(tmp_path)
    for client in clients:
        client.close()


def test_a_command_that_finds_no_place_in_the_queue_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as clients:
        listener.bind(str(tmp_path / "control"))
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = clients.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(tmp_path / "control"))
        with pytest.raises(Crowded, match="too many commands wait"):
            ask(tmp_path, {})


def test_a_client_that_asks_much_and_reads_nothing_is_answered_no_more_and_others_are(
    loop: Loop, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as greedy:
        greedy.connect(str(tmp_path / "control"))
        greedy.sendall(b"".join(b'{"size": 1000000, "n": %d}\n' % n for n in range(200)))
        assert all(ask(tmp_path, {})["ok"] for _ in range(20))
        assert loop.asked <= 20 + 3
        with greedy.makefile("rb") as lines:
            assert [json.loads(lines.readline())["asked"]["n"] for _ in range(200)] == list(range(200))


class Bench:
    """A server whose loop, clock and answers are the test's."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        self.asked: list[tuple[Client, str]] = []
        self.path = str(directory / "control")
        self.poller = zmq.Poller()
        self.server = ControlServer(directory, self.poller, lambda: self.now)

    def turn(self) -> None:
        """Serve until there is nothing to do."""
        while ready := dict(self.poller.poll(0)):
            self.server.serve(ready, lambda client, request: self.asked.append((client, request["name"])))

    def client(self, *names: str) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)
        client.sendall(b"".join(b'{"name": "%s"}\n' % name.encode() for name in names))
        self.turn()
        client.setblocking(False)
        return client


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.server.close()


def test_a_request_is_taken_when_the_one_before_is_answered(bench: Bench) -> None:
    with bench.client("one", "two"):
        (first,) = bench.asked
        first[0].answer({"ok": True})
        bench.server.send()
        bench.turn()
        assert [name for _, name in bench.asked] == ["one", "two"]


def test_a_client_that_goes_with_requests_left_is_noticed(bench: Bench) -> None:
    gone: list[bool] = []
    client = bench.client("one", "two")
    bench.asked[0][0].on_end = lambda: gone.append(True)
    client.close()
    bench.turn()
    assert gone == [True] and len(bench.asked) == 1


def test_who_says_nothing_or_does_not_read_is_hung_up_and_who_waits_is_not(bench: Bench) -> None:
    silent, waits, stays, deaf, answered = (
        bench.client(*names) for names in ([], ["waits"], ["stays"], ["deaf"], ["answered"])
    )
    for client, name in bench.asked:
        client.stays = name in ("stays", "deaf")
        if name != "waits":
            client.answer({"ok": True, "large": "x" * (5_000_000 if name == "deaf" else 1)})
    bench.server.send()
    for now, hung_up in ((IDLE_S, []), (IDLE_S + 1, [silent, deaf, answered])):
        bench.now = now
        bench.turn()
        bench.server.send()
        assert [one for one in (silent, waits, stays, deaf, answered) if ended(one)] == hung_up
    bench.asked[0][0].answer({"ok": True})
    bench.server.send()
    assert json.loads(waits.recv(1_000)) == {"ok": True}, "it waited for long, and is not idle now"
    for client in (silent, waits, stays, deaf, answered):
        client.close()


def ended(client: socket.socket) -> bool:
    """Whether the station has hung up; nothing is read."""
    poll = select.poll()
    poll.register(client, 0)
    return bool(poll.poll(0))


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
