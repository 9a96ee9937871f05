"""A TCP relay whose links can be hurt: cut without goodbye, swallowed, slowed, refused.

`Relay` is a thread with an event loop; each `Gate` is one listening port in front of one target. Give every pair of
processes its own gate and each link can be hurt alone:

    relay = Relay()
    gate = relay.gate("tcp://127.0.0.1:7001")     # peers connect to gate.endpoint
    gate.cut()                                    # all present connections end at once with a reset
    gate.swallow()                                # a black hole: nothing is forwarded, no FIN, no RST
    gate.slow(delay_s=0.05, bytes_per_s=20_000)
    gate.refuse()                                 # new connections are refused
    gate.heal()                                   # all of that ends; what a black hole held back goes on, as TCP would

All methods may be called from any thread and return when they have taken effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK_BYTES = 65_536
UP, DOWN = "up", "down"
"""Directions: from the client to the target, and back."""

PORTS = range(20_000, 32_000)
"""Below those from which systems choose the ports of outgoing connections: one that is free now stays free."""

KEPT_MAX = 200

_kept: deque[int] = deque()
"""UDP sockets on the ports that were handed out last: whoever looks for a free one, in whatever process, sees them."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that nobody was given lately."""
    while True:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as mark:
            mark.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
            _kept.append(mark.detach())
            if len(_kept) > KEPT_MAX:
                os.close(_kept.popleft())
            return port


class Relay:
    """The thread; a context manager. Closing it resets every connection."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        self.gates: list[Gate] = []

    def gate(self, target: str) -> Gate:
        """Open a gate on a free port of 127.0.0.1 in front of `target`, a ``tcp://host:port`` endpoint."""
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        gate = Gate(self, host, int(port))
        self.call(gate.listen())
        self.gates.append(gate)
        return gate

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the relay's thread and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        """Reset all connections, close all ports, end the thread."""
        if self._loop.is_closed():
            return
        self.call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _shut(self) -> None:
        for gate in self.gates:
            await gate.shut()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if rest:
            await asyncio.wait(rest, timeout=5)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Gate:
    """One port in front of one target. `accepted` and `cuts` count connections taken and connections reset by `cut`."""

    def __init__(self, relay: Relay, host: str, port: int) -> None:
        self._relay = relay
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._port = free_port()
        self._links: dict[_Link, None] = {}
        self._open = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._let(True, True)
        self._delay_s = 0.0
        self._bytes_per_s = 0
        self.accepted = 0
        self.cuts = 0

    @property
    def endpoint(self) -> str:
        """Where the peers connect to."""
        return f"tcp://127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """Connections that are up now (in a black hole too)."""
        return len(self._links)

    def cut(self) -> int:
        """Reset all present connections, both sides, without goodbye. Returns how many; new ones are taken."""
        before = self.cuts
        self._relay.call(self._soon(self._reset))
        return self.cuts - before

    def swallow(self, up: bool = True, down: bool = True) -> None:
        """Forward nothing more in these directions, on present and new connections, and tell nobody."""
        self._relay.call(self._soon(lambda: self._let(not up, not down)))

    def slow(self, delay_s: float = 0.0, bytes_per_s: int = 0) -> None:
        """Hold back every chunk for `delay_s` each way; let through at most `bytes_per_s` each way (0: no limit)."""
        self._delay_s, self._bytes_per_s = delay_s, bytes_per_s

    def refuse(self) -> None:
        """Close the port: new connections are refused; present ones stay."""
        self._relay.call(self._shut_port())

    def heal(self) -> None:
        """Undo `swallow`, `slow` and `refuse`."""
        self.slow()
        self._relay.call(self._soon(lambda: self._let(True, True)))
        self._relay.call(self.listen())

    async def listen(self) -> None:
        """Open the port, the same one as before if there was one. In the relay's thread only."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=CHUNK_BYTES)

    async def shut(self) -> None:
        """Close the port and reset everything. In the relay's thread only."""
        await self._shut_port()
        self._reset()

    async def _shut_port(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _soon(self, work: Callable[[], None]) -> None:
        work()

    def _let(self, up: bool, down: bool) -> None:
        for event, opened in ((self._open[UP], up), (self._open[DOWN], down)):
            event.set() if opened else event.clear()

    def _reset(self) -> None:
        for link in list(self._links):
            link.reset()
            self.cuts += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(self, reader, writer)
        self._links[link] = None
        try:
            await link.run(self._target)
        finally:
            del self._links[link]

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        """Forward one direction of a connection until it ends. In the relay's thread only."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        passing = asyncio.ensure_future(self._pass(queue, writer, direction))
        try:
            while True:
                await self._open[direction].wait()
                chunk = await reader.read(CHUNK_BYTES)
                await queue.put((time.monotonic() + self._delay_s, chunk))
                if not chunk:
                    await passing
                    return
        finally:
            passing.cancel()

    async def _pass(
        self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, direction: str
    ) -> None:
        while True:
            due, chunk = await queue.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._open[direction].wait()
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()
            if self._bytes_per_s:
                await asyncio.sleep(len(chunk) / self._bytes_per_s)


class _Link:
    """One connection through a gate."""

    def __init__(self, gate: Gate, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._gate = gate
        self._client = (reader, writer)
        self._writers = [writer]
        self._tasks: list[asyncio.Future[None]] = []

    async def run(self, target: tuple[str, int]) -> None:
        """Connect to the target and forward both ways; when one side ends, so does the other."""
        try:
            reader, writer = await asyncio.open_connection(*target, limit=CHUNK_BYTES)
            self._writers.append(writer)
            self._tasks = [
                asyncio.ensure_future(self._gate.pump(self._client[0], writer, UP)),
                asyncio.ensure_future(self._gate.pump(reader, self._client[1], DOWN)),
            ]
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in self._writers:
                each.close()
        except OSError:
            self.reset()  # nobody listens there: the client sees a reset
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """End both sides at once: a reset, not a FIN."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
