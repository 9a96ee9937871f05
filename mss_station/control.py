"""The local socket DIR/control by which commands speak to a running station: one JSON object per line, each way.

A request is {"command": NAME, ...}; an answer is {"ok": true, ...} or {"ok": false, "error": TEXT}. The socket's mode
is 0600: who may open it may do everything. Nothing here blocks. A client is read on only when its requests are
answered and it has taken the answers, so what is kept for it is bounded; one that does nothing is hung up.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import zmq

from roamcast.middleware.errors import Error

SOCKET_NAME: Final = "control"
REQUEST_BYTES_MAX: Final = 512 << 10
"""Above that of the largest station mail, as base64."""
ANSWER_BYTES_MAX: Final = 64 << 20
PENDING_BYTES_MAX: Final = 1 << 20
"""The next request of a client is taken when no more than this waits for it."""
CLIENTS_MAX: Final = 16
BACKLOG: Final = 128
IDLE_S: Final = 30.0
"""A client that says nothing for so long, or does not read what it was told, is hung up."""
CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 30.0
PATH_BYTES_MAX: Final = 100
"""A longer path does not fit into the address of a local socket (108 bytes on Linux, 104 elsewhere)."""

Json = dict[str, Any]


class ControlError(Error):
    """The local socket cannot be made or used."""


class NotRunning(ControlError):
    """No station listens in this directory."""


class Crowded(Error):
    """Too many commands are connected to the station: it has not heard what is asked."""


def _address(directory: Path) -> tuple[str, int | None]:
    """(address, descriptor to close): by way of /proc where the path itself is too long."""
    path = directory / SOCKET_NAME
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        return str(path), None
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{folder}/{SOCKET_NAME}", folder


class Client:
    """One connected command."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float]) -> None:
        self.connection = connection
        self._clock = clock
        self.received = b""
        self.pending = b""
        self.is_asking = False
        """Its request was taken and is not answered yet."""
        self.stays = False
        """It may be silent for as long as it likes."""
        self.active_at = clock()
        """When something was last asked, answered or taken."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once, when it is hung up."""

    def answer(self, answer: Json) -> None:
        """Queue `answer` to the request; the loop sends it."""
        self.pending += json.dumps(answer).encode() + b"\n"
        self.is_asking = False
        self.active_at = self._clock()

    @property
    def has_request(self) -> bool:
        """Whether the next request is there."""
        return b"\n" in self.received

    @property
    def is_idle(self) -> bool:
        """Whether it is for the client to go on."""
        return bool(self.pending) or not (self.is_asking or self.stays)


class ControlServer:
    """The station's side. The caller holds the directory's lock, so a socket file that is there is a dead one's."""

    def __init__(self, directory: Path, poller: zmq.Poller, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = directory / SOCKET_NAME
        self._poller = poller
        self._clock = clock
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
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        poller.register(self._listener.fileno(), zmq.POLLIN)

    def serve(self, ready: dict[int, int], handle: Callable[[Client, Json], None]) -> None:
        """Take what the poller found `ready` (descriptor -> events); `handle` gets each request."""
        if self._listener.fileno() in ready:
            self._accept()
        for client in [client for descriptor, client in self._clients.items() if descriptor in ready]:
            if not self._read(client, ready[client.connection.fileno()]):
                self._hang_up(client)
                continue
            if client.has_request and not client.is_asking and len(client.pending) <= PENDING_BYTES_MAX:
                self._take(client, handle)
            self._write(client)
        self.send()

    def send(self) -> None:
        """Send what was answered, as far as the clients read it; hang up those that do not go on."""
        for client in [client for client in self._clients.values() if client.pending]:
            self._write(client)
        latest = self._clock() - IDLE_S
        for client in [one for one in self._clients.values() if one.active_at < latest and one.is_idle]:
            self._hang_up(client)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or out of descriptors: the command sees a time-out
            return
        connection.setblocking(False)
        if len(self._clients) >= CLIENTS_MAX:
            text = f"{CLIENTS_MAX} commands are connected to this station, and no more are served; end some of them"
            with connection, suppress(OSError):
                connection.send(json.dumps({"ok": False, "crowded": True, "error": text}).encode() + b"\n")
            return
        self._clients[connection.fileno()] = Client(connection, self._clock)
        self._poller.register(connection.fileno(), zmq.POLLIN)

    def _read(self, client: Client, events: int) -> bool:
        """Whether the client is still there and says what can be understood."""
        if client.pending or client.has_request:
            return events != zmq.POLLERR
        try:
            data = client.connection.recv(REQUEST_BYTES_MAX - len(client.received))
        except BlockingIOError:
            return True
        except OSError:
            return False
        client.received += data
        return bool(data) and (client.has_request or len(client.received) < REQUEST_BYTES_MAX)

    def _take(self, client: Client, handle: Callable[[Client, Json], None]) -> None:
        line, _, client.received = client.received.partition(b"\n")
        client.is_asking = True
        client.active_at = self._clock()
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if isinstance(request, dict):
            handle(client, request)
        else:
            client.answer({"ok": False, "error": "one JSON object per line is expected"})

    def _write(self, client: Client) -> None:
        """Send what the client takes; then wait for what is next: room for output, a request, or its end."""
        if client.pending:
            try:
                sent = client.connection.send(client.pending)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._hang_up(client)
                return
            if sent:
                client.pending = client.pending[sent:]
                client.active_at = self._clock()
            if len(client.pending) > ANSWER_BYTES_MAX:
                self._hang_up(client)
                return
        if client.pending or (client.has_request and not client.is_asking):
            events = zmq.POLLOUT
        else:
            events = zmq.POLLERR if client.has_request else zmq.POLLIN
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
        Crowded: too many commands wait for it.
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
        except BlockingIOError:
            raise Crowded(f"too many commands wait for the station on {directory}; end some, or try again") from None
        except OSError as error:
            raise ControlError(f"{directory / SOCKET_NAME}: {error.strerror or error}") from error

    def say(self, request: Json) -> None:
        """Send a request. Raises ControlError."""
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # it has hung up, and may have said why
        except OSError as error:
            raise ControlError(f"the station on {self._directory} does not answer ({error})") from error

    def hear(self, timeout_s: float | None = None) -> Json | None:
        """The next answer; None: there is none within this time. Raises ControlError: there will be none; Crowded."""
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
        if answer.get("crowded"):
            raise Crowded(answer["error"])
        return answer

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def ask(directory: Path, request: Json) -> Json:
    """Send `request` to the station that runs on `directory` and return its answer.

    Raises:
        NotRunning: no station listens there.
        Crowded: it serves too many other commands.
        ControlError: it does not answer, or this user may not ask.
    """
    with closing(Conversation(directory)) as conversation:
        conversation.say(request)
        answer = conversation.hear()
    if answer is None:
        raise ControlError(f"the station on {directory} does not answer (timed out)")
    return answer
