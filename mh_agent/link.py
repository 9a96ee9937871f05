"""The agent's connection to a station, and the bell that wakes its thread. All but `wake` belongs to that thread."""

from __future__ import annotations

import contextlib
import socket
from collections import deque

import zmq

from roamcast.middleware.host_frames import DownFrame, LiveData, UpFrame
from roamcast.middleware.mobile_host.effects import Connect, Disconnect, SendLive, SendUp
from roamcast.transport.curve import CurveKeys
from roamcast.transport.errors import DecodeError, UnknownKind
from roamcast.transport.host_codec import decode_down, encode_up
from roamcast.transport.sockets import UP, LinkMonitor, connect_host, new_context

FRAMES_PER_READ = 512
POLITE_MS = 1_000  # a goodbye may take so long to leave


class Link:
    """One connection at a time, each on a fresh socket; frames wait here until its handshake is done."""

    def __init__(self, keys: CurveKeys) -> None:
        self._keys = keys
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._open: tuple[zmq.Socket[bytes], LinkMonitor] | None = None
        self._up = False
        self._lost: str | None = None
        self._out: deque[bytes] = deque()
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)

    def wake(self) -> None:
        """End the present, or the next, `wait`."""
        self._bell.send(b"!")

    def wait(self, milliseconds: int) -> None:
        """Wait for frames, news of the connection, or the bell."""
        poller = zmq.Poller()
        poller.register(self._ear, zmq.POLLIN)
        if self._open is not None:
            poller.register(self._open[0], zmq.POLLIN | (zmq.POLLOUT if self._up and self._out else 0))
            poller.register(self._open[1].socket, zmq.POLLIN)
        poller.poll(0 if self._lost else milliseconds)
        with contextlib.suppress(BlockingIOError):
            self._ear.recv(64)

    def connect(self, endpoint: str, key: str) -> None:
        """Begin a new connection, to the station with this CURVE key, in place of the present one."""
        self.hang_up()
        try:
            self._context = self._context or new_context()
            self._open = connect_host(self._context, endpoint, self._keys, key)
        except zmq.ZMQError as error:
            self._lost = f"no connection: {error}"

    def perform(self, todo: list[Connect | Disconnect | SendUp]) -> list[tuple[int, str]]:
        """Do this in turn. Returns the live messages that were not sent: number, and why."""
        dropped = []
        for effect in todo:
            if isinstance(effect, Connect):
                self.connect(effect.endpoint, effect.key.decode(errors="replace"))
            elif isinstance(effect, Disconnect):
                self.hang_up(effect.polite)
            elif (reason := self.send(effect.frame)) and isinstance(effect, SendLive):
                dropped.append((-effect.frame.tag, reason))
        return dropped

    def send(self, frame: UpFrame) -> str:
        """Send as soon as the connection takes it; what is live now, or not at all. Returns why it was lost, or ''."""
        is_live = isinstance(frame, LiveData)
        if self._open is None or (is_live and not self._up):
            return "not-attached"
        if not (is_live and self._out):
            self._out.append(encode_up(frame))
            self._push(self._open[0])
            if not (is_live and self._out):
                return ""
            self._out.pop()
        return "congested"

    def read(self) -> tuple[list[DownFrame], str | None]:
        """Frames that have come, and then why the connection was lost (None: it was not). Also sends what waits."""
        frames: list[DownFrame] = []
        if self._open is not None:
            dealer, monitor = self._open
            for change in monitor.changes():
                self._up = self._up or change == UP
                self._lost = self._lost or (change if change != UP else None)
            try:
                while len(frames) < FRAMES_PER_READ or self._lost:
                    data = dealer.recv(zmq.NOBLOCK)
                    with contextlib.suppress(UnknownKind):  # of a newer minor version
                        frames.append(decode_down(data))
            except zmq.Again:
                self._push(dealer)
            except DecodeError as error:
                self._lost = f"bad frame: {error.reason}"
        if (lost := self._lost) is not None:
            self.hang_up()
        return frames, lost

    def hang_up(self, polite: bool = False) -> None:
        """Close the connection, if any. `polite`: what was sent before may leave first."""
        if self._open is not None:
            self._open[1].close()
            self._open[0].close(linger=POLITE_MS if polite and self._up else 0)
        self._open, self._up, self._lost = None, False, None
        self._out.clear()

    def rest(self) -> None:
        """Close the context too: a suspended application may lose its sockets. `connect` makes another one."""
        self.hang_up()
        if self._context is not None:
            self._context.term()
            self._context = None

    def close(self) -> None:
        """Close everything."""
        self.rest()
        self._ear.close()
        self._bell.close()

    def _push(self, dealer: zmq.Socket[bytes]) -> None:
        with contextlib.suppress(zmq.Again):  # the poller tells when it takes more
            while self._up and self._out:
                dealer.send(self._out[0], zmq.NOBLOCK)
                self._out.popleft()
