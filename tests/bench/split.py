"""Where the main thread of a station spends its CPU: timers around its parts, each without the parts inside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from bench.child import Json

from roamcast.middleware.station.core import StationCore
from roamcast.mss_station import host_port, outputs, peer_port
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.server import Server

RECEIVE, SEND, CODEC, CORE, STORE, PEERS, LOOP = (
    "receive from hosts",
    "send to hosts",
    "codec",
    "core",
    "store",
    "peers",
    "loop",
)
POLL = "poll"
"""What no timer covers: the poller, and the clock."""

ENCODE_PEER, DECODE_PEER = "encode_peer", "decode_peer"

PARTS: list[tuple[Any, str, str]] = [
    (Server, "_read", LOOP),
    (Server, "_advance", LOOP),
    (Server, "_timeout_ms", LOOP),
    (HostPort, "drain", RECEIVE),
    (HostPort, "deliver", SEND),
    (host_port, "decode_up", CODEC),
    (outputs, "encode_msg", CODEC),
    (outputs, "encode_down", CODEC),
    (outputs, ENCODE_PEER, CODEC),
    (peer_port, DECODE_PEER, CODEC),
    (StationCore, "begin", CORE),
    (StationCore, "receive_host", CORE),
    (StationCore, "receive_peer", CORE),
    (StationCore, "expire", CORE),
    (StationCore, "flush", CORE),
    (StationCore, "next_deadline", CORE),
    (StoreGuard, "commit", STORE),
    (PeerPort, "drain", PEERS),
    (PeerPort, "send", PEERS),
    (PeerPort, "expire", PEERS),
]
"""(owner, name, part) of everything timed. All are looked up at each call, so they can be replaced while it runs."""


class Split:
    """CPU seconds of the calling thread by part, exclusive: an inner part's time is not its caller's."""

    def __init__(self, parts: Sequence[tuple[Any, str, str]] = PARTS) -> None:
        self._parts = parts
        self._spent: dict[str, list[float]] = {}
        self._inner = [0.0]
        self._replaced: list[tuple[Any, str, Any]] = []
        self._begun = 0.0

    def begin(self) -> Json:
        """Put the timers in."""
        self._spent = {part: [0.0, 0] for _, _, part in self._parts}
        for owner, name, part in self._parts:
            original = getattr(owner, name)
            self._replaced.append((owner, name, original))
            setattr(owner, name, self._timed(original, self._spent[part]))
        self._begun = time.thread_time()
        return {}

    def end(self) -> Json:
        """Take them out. Returns {part: [seconds, calls]}; `poll` is the rest of the thread."""
        total = time.thread_time() - self._begun
        for owner, name, original in self._replaced:
            setattr(owner, name, original)
        self._replaced.clear()
        rest = total - sum(seconds for seconds, _ in self._spent.values())
        return {"parts": {**self._spent, POLL: [rest, 0]}, "main_s": total}

    def _timed(self, original: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
        inner, clock = self._inner, time.thread_time

        def timed(*arguments: Any, **named: Any) -> Any:
            inner.append(0.0)
            began = clock()
            try:
                return original(*arguments, **named)
            finally:
                took = clock() - began
                spent[0] += took - inner.pop()
                spent[1] += 1
                inner[-1] += took

        return timed


class PeerFrames:
    """Count and bytes of the frames that a station encodes for its peers, or decodes of theirs, by kind."""

    def __init__(self, name: str = ENCODE_PEER, *modules: ModuleType) -> None:
        """name, modules (outputs): the function that encodes or decodes them, as it is looked up there at each call."""
        self._name, self._modules = name, modules or (outputs,)
        self._counted: dict[str, list[int]] = {}
        self._counting = False

    def _count(self, module: ModuleType) -> None:
        original = getattr(module, self._name)

        def counted(given: Any) -> Any:
            made = original(given)
            frame, data = (made, given) if isinstance(given, bytes) else (given, made)
            entry = self._counted.setdefault(type(frame).__name__, [0, 0])
            entry[0] += 1
            entry[1] += len(data)
            return made

        setattr(module, self._name, counted)

    def take(self) -> Json:
        """{kind: [frames, bytes]} since the last call; the first one begins to count."""
        if not self._counting:
            self._counting = True
            for module in self._modules:
                self._count(module)
        told, self._counted = self._counted, {}
        return dict(told)
