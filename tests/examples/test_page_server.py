"""The server of the page against what other programs and other web sites may send it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from positions import page_server
from positions.page_server import CLIENTS_MAX, WATCHERS_MAX, PageServer

TIMEOUT_S = 10.0


class Served(PageServer):
    """A server without a group behind it; what it was asked to do is in `done`."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        super().__init__(0, {"size": [10, 6]}, lambda taped, fed: {"taped": taped + 1, "fed": fed}, self._act)

    def _act(self, action: str, number: int) -> str:
        self.done.append((action, number))
        return "there is no such station" if number > 3 else ""

    def connect(self) -> socket.socket:
        return socket.create_connection(self.server_address[:2], TIMEOUT_S)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), told)
        return connection.getresponse()


@pytest.fixture
def server() -> Iterator[Served]:
    made = Served()
    running = threading.Thread(target=made.run)
    running.start()
    yield made
    made.over.set()
    made.shutdown()
    made.end()
    running.join(TIMEOUT_S)


def test_the_page_has_the_token_and_fetches_nothing_from_elsewhere(server: Served) -> None:
    answer = server.ask("GET", "/")
    text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and server.token in text and "%NONCE%" not in text
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "https:" not in text and "//cdn" not in text


def test_frames_come_one_after_the_other(server: Served) -> None:
    lines = iter(server.ask("GET", "/events"))
    told = [json.loads(line[6:]) for line in (next(lines) for _ in range(9)) if line.startswith(b"data: ")]
    assert told == [{"size": [10, 6]}, {"taped": 1, "fed": 0}, {"taped": 2, "fed": 0}]


@pytest.mark.parametrize("path", ["/page.html", "/../streets.py", "/?", "/events/", "/%2e%2e/", "/pull"])
def test_there_is_no_other_page(server: Served, path: str) -> None:
    assert server.ask("GET", path).status == 404


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_there_is_no_other_method(server: Served, method: str) -> None:
    assert server.ask(method, "/").status == 501


@pytest.mark.parametrize("path", ["/", "/events", "/pull"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "0.0.0.0"])
def test_a_foreign_name_is_refused(server: Served, path: str, host: str) -> None:
    method = "POST" if path == "/pull" else "GET"
    assert server.ask(method, path, {"mast": 1}, Host=host, X_Token=server.token).status == 403
    assert not server.done


def test_two_names_are_refused(server: Served) -> None:
    with server.connect() as link:
        link.sendall(f"GET / HTTP/1.1\r\nHost: {server.address}\r\nHost: evil.example\r\n\r\n".encode())
        assert link.recv(100).startswith(b"HTTP/1.0 403")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_may_act(server: Served, name: str) -> None:
    here = f"{name}:{server.server_address[1]}"
    answer = server.ask("POST", "/pull", {"mast": 2}, Host=here, Origin=f"http://{here}", X_Token=server.token)
    assert answer.status == 200 and server.done == [("pull", 2)]


@pytest.mark.parametrize("headers", [{}, {"X_Token": ""}, {"X_Token": "x" * 32}, {"X_Token": "\xfc"}])
def test_without_the_token_nothing_is_done(server: Served, headers: dict[str, str]) -> None:
    assert server.ask("POST", "/pull", {"mast": 1}, **headers).status == 403
    assert not server.done


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_another_site_may_not_act_although_it_had_the_token(server: Served, origin: str) -> None:
    assert server.ask("POST", "/pull", {"mast": 1}, Origin=origin, X_Token=server.token).status == 403
    assert not server.done


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b'{"mast": "1"}', b'{"mast": true}', b'{"mast": 1.0}', b"\xff", b"[" * 250, b" " * 300],
)
def test_a_body_that_makes_no_sense_is_refused(server: Served, body: bytes) -> None:
    assert server.ask("POST", "/pull", body, X_Token=server.token).status == 400
    assert not server.done


@pytest.mark.parametrize("length", ["", "-1", "1e3", "999999999999999999999", "²", "+5"])
def test_a_length_that_makes_no_sense_is_refused(server: Served, length: str) -> None:
    with server.connect() as link:
        head = f"POST /pull HTTP/1.1\r\nHost: {server.address}\r\nX-Token: {server.token}\r\n"
        link.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert link.recv(100).startswith(b"HTTP/1.0 400")
    assert not server.done


def test_what_cannot_be_done_is_told(server: Served) -> None:
    answer = server.ask("POST", "/start", {"mast": 9}, X_Token=server.token)
    assert (answer.status, answer.read()) == (409, b"there is no such station\n")
    assert server.ask("POST", "/shutdown", {"mast": 1}, X_Token=server.token).status == 400


def test_not_all_the_world_can_watch(server: Served) -> None:
    watching = [server.ask("GET", "/events") for _ in range(WATCHERS_MAX)]
    assert {answer.status for answer in watching} == {200}
    assert server.ask("GET", "/events").status == 503
    assert server.ask("GET", "/").status == 200


def test_connections_are_bounded_and_silent_ones_end(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server._Handler, "timeout", 0.5)
    silent = [server.connect() for _ in range(CLIENTS_MAX + 1)]
    assert [link.recv(1) for link in silent] == [b""] * len(silent)  # the last one at once, the others in a while
    for link in silent:
        link.close()
    assert server.ask("GET", "/").status == 200
