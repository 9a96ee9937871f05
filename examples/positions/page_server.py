"""One page for browsers on this machine: GET of the page and its events, POST of what its buttons do, nothing else.

A page of some other site that is open in the same browser must not pull plugs. What it can send has no token (that is
in the page, which it cannot read); a name of its own that it has made mean 127.0.0.1 is not ours in Host.
"""

from __future__ import annotations

import http.server
import json
import secrets
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).with_name("page.html")
FRAME_S: Final = 0.08
CLIENTS_MAX: Final = 24
WATCHERS_MAX: Final = 8
REQUEST_S_MAX: Final = 5.0
"""Time for one read or write; also for the head of a request."""
BODY_BYTES_MAX: Final = 256

Act = Callable[[str, int], str]
"""Do an action at a mast; returns why not, or ''."""


class PageServer(http.server.ThreadingHTTPServer):
    """Listens from the start; `run` in a thread of its own. Raises OSError if the port is taken."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, port: int, first: dict[str, Any], frame: Callable[[int, int], dict[str, Any]], act: Act) -> None:
        self.first, self.frame, self.act = first, frame, act
        self.token = secrets.token_urlsafe(24)
        self.over = threading.Event()
        self.watchers = threading.BoundedSemaphore(WATCHERS_MAX)
        self._clients = threading.BoundedSemaphore(CLIENTS_MAX)
        super().__init__(("127.0.0.1", port), _Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.names = (self.address, f"localhost:{self.server_address[1]}")

    def run(self) -> None:
        """Serve until `end`."""
        self.serve_forever(poll_interval=0.1)

    def end(self) -> None:
        """End; may be called although `run` has not been."""
        self.over.set()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, if there are not too many."""
        if not self._clients.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._clients.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away or said nothing is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    timeout = REQUEST_S_MAX
    server_version, sys_version = "roamcast-positions", ""

    def do_GET(self) -> None:
        if not self._is_ours():
            return
        if self.path == "/":
            self._page()
        elif self.path == "/events":
            self._events()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "there is no such page\n")

    def do_POST(self) -> None:
        if not self._is_ours():
            return
        given = self.headers.get("X-Token", "")
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.FORBIDDEN, "the token is not that of this page: load it again\n")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 6 and int(length) <= BODY_BYTES_MAX):
            self._answer(HTTPStatus.BAD_REQUEST, "a short body is due\n")
            return
        try:
            told = json.loads(self.rfile.read(int(length)))
            number = told["mast"]
        except (ValueError, KeyError, TypeError, RecursionError):
            number = None
        if type(number) is not int or self.path not in ("/pull", "/start", "/give-up"):
            self._answer(HTTPStatus.BAD_REQUEST, "nothing that can be done here\n")
            return
        refused = self.server.act(self.path[1:], number)
        self._answer(HTTPStatus.CONFLICT if refused else HTTPStatus.OK, (refused or "done") + "\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a browser asks for much."""

    def _is_ours(self) -> bool:
        """Whether it comes from our own page, or from somebody who typed the address; else it is answered."""
        origin = self.headers.get("Origin")
        if self.headers.get_all("Host") in [[name] for name in self.server.names] and (
            origin is None or origin in [f"http://{name}" for name in self.server.names]
        ):
            return True
        self._answer(HTTPStatus.FORBIDDEN, "this is not how this page is reached\n")
        return False

    def _page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        text = PAGE.read_text("utf-8").replace("%NONCE%", nonce).replace("%TOKEN%", self.server.token)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self._answer(HTTPStatus.OK, text, "text/html; charset=utf-8", {"Content-Security-Policy": policy})

    def _events(self) -> None:
        """Frames until the client goes, each when it is due; who reads slowly is given fewer."""
        if not self.server.watchers.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many are watching\n")
            return
        try:
            self.close_connection = True
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._head(HTTPStatus.OK, "text/event-stream", {})
            self._event("town", self.server.first)
            taped = fed = 0
            while not self.server.over.wait(FRAME_S):
                frame = self.server.frame(taped, fed)
                taped, fed = frame["taped"], frame["fed"]
                self._event("frame", frame)
        except OSError:
            pass
        finally:
            self.server.watchers.release()

    def _event(self, kind: str, told: dict[str, Any]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n".encode())

    def _answer(
        self, code: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8", more: dict[str, str] | None = None
    ) -> None:
        data = text.encode()
        self.close_connection = True
        self._head(code, kind, {**(more or {}), "Content-Length": str(len(data))})
        self.wfile.write(data)

    def _head(self, code: HTTPStatus, kind: str, more: dict[str, str]) -> None:
        self.send_response(code)
        fixed = {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Connection": "close",
        }
        for name, value in {**fixed, **more}.items():
            self.send_header(name, value)
        self.end_headers()
