"""The local socket DIR/control by which commands speak to a running station: one JSON object per line, each way.

A request is {"command": NAME, ...}; an answer is {"ok": true, ...} or {"ok": false, "error": TEXT}. The socket's mode
is 0600: who may open it may do everything. Nothing here blocks: a client that does not read is hung up.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import zmq

from roamcast.middleware.errors import Error

SOCKET_NAME: Final = "control"
REQUEST_BYTES_MAX: Final = 512 << 10
"""Above that of the largest station mail, as base64."""
ANSWER_BYTES_MAX: Final = 64 << 20
CLIENTS_MAX: Final = 16
CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 30.0
PATH_BYTES_MAX: Final = 100
"""A longer path does not fit into the address of a local socket (108 bytes on Linux, 104 elsewhere)."""

Json = dict[str, Any]


class ControlError(Error):
    """The local socket cannot be made or used."""


class NotRunning(ControlError):
    """No station listens in this directory."""


def _address(directory: Path) -> tuple[str, int | None]:
    """(address, descriptor to close): by way of /proc where the path itself is too long."""
    path = directory / SOCKET_NAME
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        return str(path), None
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{folder}/{SOCKET_NAME}", folder


class Client:
    """One connected command."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.pending = b""
        self.on_end: Callable[[], None] = lambda: None
        """Called once, when it is hung up."""

    def answer(self, answer: Json) -> None:
        """Queue `answer`; the loop sends it."""
        self.pending += json.dumps(answer).encode() + b"\n"


class ControlServer:
    """The station's side. The caller holds the directory's lock, so a socket file that is there is a dead one's."""

    def __init__(self, directory: Path, poller: zmq.Poller) -> None:
        self._path = directory / SOCKET_NAME
        self._poller = poller
        self._clients: dict[int, Client] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)
            address, folder = _address(directory)
            mask = os.umask(0o177)
            try:
                self._listener.bind(address)
            finally:
                os.umask(mask)
                if folder is not None:
                    os.close(folder)
        except OSError as error:
            self._listener.close()
            raise ControlError(f"{self._path}: cannot listen here ({error.strerror})") from error
        self._listener.listen(CLIENTS_MAX)
        self._listener.setblocking(False)
        poller.register(self._listener.fileno(), zmq.POLLIN)

    def serve(self, ready: dict[int, int], handle: Callable[[Client, Json], None]) -> None:
        """Take what the poller found `ready` (descriptor -> events); `handle` gets each request."""
        if self._listener.fileno() in ready:
            self._accept()
        for descriptor in [descriptor for descriptor in self._clients if descriptor in ready]:
            client = self._clients[descriptor]
            if ready[descriptor] & zmq.POLLIN:
                self._read(client, handle)
        self.send()

    def send(self) -> None:
        """Send what was answered, as far as the clients read it."""
        for client in [client for client in self._clients.values() if client.pending]:
            self._write(client)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or out of descriptors: the command sees a time-out
            return
        if len(self._clients) >= CLIENTS_MAX:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection.fileno()] = Client(connection)
        self._poller.register(connection.fileno(), zmq.POLLIN)

    def _read(self, client: Client, handle: Callable[[Client, Json], None]) -> None:
        try:
            data = client.connection.recv(REQUEST_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        if not data or len(client.received) > REQUEST_BYTES_MAX:
            self._hang_up(client)
            return
        *lines, client.received = client.received.split(b"\n")
        for line in lines:
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                request = None
            if isinstance(request, dict):
                handle(client, request)
            else:
                client.answer({"ok": False, "error": "one JSON object per line is expected"})

    def _write(self, client: Client) -> None:
        try:
            sent = client.connection.send(client.pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._hang_up(client)
            return
        client.pending = client.pending[sent:]
        if len(client.pending) > ANSWER_BYTES_MAX:
            self._hang_up(client)
            return
        events = zmq.POLLIN | zmq.POLLOUT if client.pending else zmq.POLLIN
        self._poller.register(client.connection.fileno(), events)

    def _hang_up(self, client: Client) -> None:
        descriptor = client.connection.fileno()
        if self._clients.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)
            client.connection.close()
            client.on_end()

    def close(self) -> None:
        """Hang up all clients and remove the socket."""
        for client in list(self._clients.values()):
            self._hang_up(client)
        self._poller.unregister(self._listener.fileno())
        self._listener.close()
        self._path.unlink(missing_ok=True)


class Conversation:
    """Requests to the station that runs on `directory`, one after the other, on one connection.

    Raises:
        NotRunning: no station listens there.
        ControlError: this user may not ask.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._received = b""
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect()
        except BaseException:
            self._connection.close()
            raise

    def _connect(self) -> None:
        directory = self._directory
        self._connection.settimeout(CONNECT_TIMEOUT_S)
        try:
            address, folder = _address(directory)
            try:
                self._connection.connect(address)
            finally:
                if folder is not None:
                    os.close(folder)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning(f"no station runs on {directory}") from None
        except OSError as error:
            raise ControlError(f"{directory / SOCKET_NAME}: {error.strerror or error}") from error

    def say(self, request: Json) -> None:
        """Send a request. Raises ControlError."""
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise ControlError(f"the station on {self._directory} does not answer ({error})") from error

    def hear(self, timeout_s: float | None = None) -> Json | None:
        """The next answer; None: there is none within this time. Raises ControlError: there will be none."""
        end = time.monotonic() + (ANSWER_TIMEOUT_S if timeout_s is None else timeout_s)
        while b"\n" not in self._received:
            self._connection.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self._connection.recv(1 << 20)
            except TimeoutError:
                return None
            except OSError as error:
                raise ControlError(f"the station on {self._directory} does not answer ({error})") from error
            if not data or len(self._received) > ANSWER_BYTES_MAX:
                raise ControlError(f"the station on {self._directory} hung up")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        answer: Json = json.loads(line)
        return answer

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def ask(directory: Path, request: Json) -> Json:
    """Send `request` to the station that runs on `directory` and return its answer.

    Raises:
        NotRunning: no station listens there.
        ControlError: it does not answer, or this user may not ask.
    """
    with closing(Conversation(directory)) as conversation:
        conversation.say(request)
        answer = conversation.hear()
    if answer is None:
        raise ControlError(f"the station on {directory} does not answer (timed out)")
    return answer
