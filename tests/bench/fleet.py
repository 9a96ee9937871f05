"""A load generator: many light hosts in one process. ``python -m bench.fleet FILE.json`` (kind, hosts)."""

from __future__ import annotations

import itertools
import json
import selectors
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import zmq
from bench.child import Json, serve
from bench.light_host import HEAD_BYTES, PING_S, STAMP, BareHost, Counts, LightHost, Parsed, StationHost

from roamcast.transport.sockets import new_context
from roamcast.transport.station_sockets import raise_limits

CONNECT_AT_ONCE = 64
ATTACH_S_MAX = 100.0
SETTLE_S_MAX = 20.0
COUNT_MAX = 1_000_000


class FleetFailed(Exception):
    """The hosts could not attach, or did not get all messages."""


class Fleet:
    """All hosts of one kind, and the loop that reads their sockets."""

    def __init__(self, kind: str, places: Sequence[dict[str, Any]]) -> None:
        self._kind = kind
        self._places = places
        self._context = new_context()
        raise_limits(self._context)
        self._selector = selectors.DefaultSelector()
        self._frames: OrderedDict[bytes, Parsed] = OrderedDict()
        self._ack_at: OrderedDict[StationHost, float] = OrderedDict()
        self.counts = Counts()
        self.hosts: list[LightHost] = []
        self._pings: Iterator[StationHost] = iter(())
        self._ping_at = 0.0

    def attach(self) -> Json:
        """Connect all hosts, some at a time, and wait until each is welcomed."""
        began = time.monotonic()
        for start in range(0, len(self._places), CONNECT_AT_ONCE):
            batch = [self._make(place) for place in self._places[start : start + CONNECT_AT_ONCE]]
            while not all(host.open for host in batch):
                if time.monotonic() > began + ATTACH_S_MAX:
                    missing = sum(not host.open for host in batch)
                    raise FleetFailed(f"{missing} of {len(batch)} hosts not welcomed; {self.counts.other[:3]}")
                for host in batch:
                    if not host.greeted:
                        host.greet()
                    self._drain(host)
                time.sleep(0.002)
            self.hosts += batch
        self._pings = itertools.cycle([host for host in self.hosts if isinstance(host, StationHost)])
        self._ping_at = time.monotonic() + PING_S
        self.counts.acks = 0
        return {"hosts": len(self.hosts), "seconds": time.monotonic() - began}

    def _make(self, place: dict[str, Any]) -> LightHost:
        host: LightHost
        if self._kind == "bare":
            host = BareHost(self._context, place, self.counts)
        else:
            host = StationHost(self._context, place, self.counts, self._frames, self._ack_at)
        self._selector.register(host.socket.fileno(), selectors.EVENT_READ, host)
        return host

    def _drain(self, host: LightHost) -> None:
        """Take all that has come. Always to the end: the descriptor of a socket tells of changes only."""
        recv, take = host.socket.recv, host.take
        while True:
            try:
                data = recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            take(data)

    def _turn(self, until: float) -> None:
        """Read what has come, at most until a time; acknowledge and ping as an agent would."""
        now = time.monotonic()
        due = min(until, next(iter(self._ack_at.values()), until))
        for key, _ in self._selector.select(max(0.0, due - now)):
            self._drain(key.data)
        self._say_due()

    def _say_due(self) -> None:
        if self._kind == "bare":
            return
        now = time.monotonic()
        spoken: list[LightHost] = []
        while self._ack_at:
            first, due = next(iter(self._ack_at.items()))
            if due > now:
                break
            first.acknowledge()
            spoken.append(first)
        while self._ping_at <= now:
            pinging = next(self._pings)
            pinging.ping()
            spoken.append(pinging)
            self._ping_at = max(self._ping_at + PING_S / len(self.hosts), now - 0.1)
        for host in spoken:
            self._drain(host)

    def round(
        self,
        seconds: float,
        body_bytes: int,
        rate: float,
        on_the_way: float,
        publishers: Sequence[int] = (0,),
        sample: int = 0,
        count: int = COUNT_MAX,
        audiences: Sequence[tuple[str, int]] = (),
        mail: bool = False,
    ) -> Json:
        """Publish for a while, then wait until every host has everything.

        Args:
            rate: messages a second in all; 0: as fast as `on_the_way` allows.
            on_the_way: messages that may be on their way at once, a delivery to one host being 1 / hosts of one.
            publishers: which hosts publish, in turn.
            sample: every so manieth host notes latencies (0: none).
            count: messages at most.
            audiences: (topic, how many hosts are subscribed to it), to be sent on in turn; none: broadcasts.
            mail: each message to one host instead, in turn.
        """
        self.counts = counts = Counts()
        for i, host in enumerate(self.hosts):
            host.counts = counts
            host.latencies = counts.latencies_us.setdefault(host.label, []) if sample and i % sample == 0 else None
        turn = itertools.cycle([self.hosts[i] for i in publishers])
        padding = b"." * (body_bytes - STAMP.size)
        everyone = len(self.hosts)
        to = itertools.cycle(self._audiences(audiences, mail))
        room = round(on_the_way * (fmean(size for _, size in audiences) if audiences else 1 if mail else everyone))
        began = time.monotonic()
        end, next_at, published, expected = began + seconds, began, 0, 0
        while (now := time.monotonic()) < end and published < count:
            while published < count and expected - counts.deliveries < room and next_at <= now:
                host = next(turn)
                address, size = next(to)
                host.publish(STAMP.pack(time.monotonic_ns()) + padding, **address)
                expected += size
                self._drain(host)
                published += 1
                next_at = max(next_at + 1 / rate, now - 0.5 / rate) if rate else now
            self._turn(min(end, next_at) if next_at > now else min(end, now + 0.05))
        took = time.monotonic() - began
        self._settle(expected)
        return {
            "seconds": took,
            "messages": published,
            "deliveries": counts.deliveries,
            "frames": counts.frames,
            "bytes": counts.bytes,
            "header_bytes": counts.header_bytes,
            "acks": counts.acks,
            "latencies_us": counts.latencies_us,
        }

    def _audiences(self, topics: Sequence[tuple[str, int]], mail: bool) -> list[tuple[dict[str, str], int]]:
        """What `publish` is to be told of each message, in turn, and how many hosts are given it."""
        for host in self.hosts:
            if isinstance(host, StationHost):
                host.head_bytes = None if topics or mail else HEAD_BYTES
        if mail:
            return [({"to": host.name}, 1) for host in self.hosts if isinstance(host, StationHost)]
        return [({"topic": topic}, size) for topic, size in topics] or [({}, len(self.hosts))]

    def idle(self, seconds: float) -> Json:
        """Nobody sends; all do what they do anyway."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._turn(end)
        return {}

    def _settle(self, expected: int) -> None:
        counts = self.counts
        end = time.monotonic() + SETTLE_S_MAX
        while counts.deliveries < expected and time.monotonic() < end:
            self._turn(min(end, time.monotonic() + 0.05))
        if counts.deliveries != expected or counts.lost or counts.other:
            raise FleetFailed(
                f"{counts.deliveries} deliveries of {expected}, {counts.lost} frames lost, answers {counts.other[:3]}"
            )

    def close(self) -> None:
        """Close all sockets."""
        self._selector.close()
        self._context.destroy(linger=0)


def main(arguments: list[str]) -> None:
    """Serve until stdin ends."""
    given = json.loads(Path(arguments[0]).read_text())
    fleet = Fleet(given["kind"], given["hosts"])
    serve({"hello": dict, "attach": fleet.attach, "round": fleet.round, "idle": fleet.idle})
    fleet.close()


if __name__ == "__main__":
    main(sys.argv[1:])
