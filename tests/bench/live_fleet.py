"""A load generator of live messages: many light hosts in one process. ``python -m bench.live_fleet FILE.json``.

All that a fleet does, and live messages beside. Nothing that is missing ends a round: it is counted.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.child import Json, serve
from bench.fleet import SETTLE_S_MAX, Fleet
from bench.light_host import STAMP, Counts, LightHost
from bench.live_host import Given, LiveBareHost, LiveStationHost, Reading

from roamcast.middleware.host_frames import LiveMsg

QUIET_S = 0.6
"""Longer than any live message waits: when nothing has come for so long, nothing comes any more."""

BURST_MAX = 32
BEHIND_S_MAX = 0.1
"""What the process is behind with its sending by more than this it does not send."""


class LiveFleet(Fleet):
    """Hosts that send what is live or durable, and note both."""

    def __init__(self, kind: str, places: Sequence[dict[str, Any]]) -> None:
        super().__init__(kind, places)
        self._reading = Reading()
        self._live = Given(self._reading)
        self._known: OrderedDict[bytes, LiveMsg] = OrderedDict()
        self._missing = 0

    def _make(self, place: dict[str, Any]) -> LightHost:
        host: LightHost
        if self._kind == "bare":
            host = LiveBareHost(self._context, place, self.counts, self._live)
        else:
            shared = self._frames, self._ack_at, self._live, self._known
            host = LiveStationHost(self._context, place, self.counts, *shared)
        self._selector.register(host.socket.fileno(), selectors.EVENT_READ, host)
        return host

    def _turn(self, until: float) -> None:
        now = time.monotonic()
        due = min(until, next(iter(self._ack_at.values()), until))
        self._reading.waits()
        events = self._selector.select(max(0.0, due - now))
        self._reading.woken()
        for key, _ in events:
            self._drain(key.data)
        self._say_due()

    def _begin(self, deadline_us: int, notes: bool) -> None:
        for field in ("given", "unfit", "aged"):
            setattr(self._live, field, 0)
        self._live.refused.clear()
        self._live.ages_us = {True: [], False: []}
        self._live.past_us, self._live.late_us = [], []
        self._live.deadline_us, self._live.notes = deadline_us, notes

    def live(
        self,
        seconds: float,
        rate: float,
        body_bytes: int,
        deadline_us: int,
        publishers: Sequence[int] | None = None,
        notes: bool = True,
        durable_rate: float = 0.0,
    ) -> Json:
        """Send `rate` live messages a second for a while, whatever becomes of them, and read on until nothing comes.

        Args:
            publishers: which hosts send, in turn; None: all.
            notes: whether times are noted; else what comes is only counted, which costs less.
            durable_rate: durable messages a second that the first of them sends on the same connection.
        """
        self._begin(deadline_us, notes)
        hosts = self.hosts if publishers is None else [self.hosts[i] for i in publishers]
        turn, first = itertools.cycle(hosts), hosts[0]
        padding = b"." * (body_bytes - STAMP.size)
        sent = untaken = durable = 0
        began = now = time.monotonic()
        end, next_at, durable_at = began + seconds, began if rate else began + seconds, began
        while now < end:
            for _ in range(BURST_MAX):
                if next_at > now:
                    break
                host = next(turn)
                sent += 1
                untaken += not host.publish_live(body_bytes, deadline_us)  # type: ignore[attr-defined]
                self._drain(host)
                next_at += 1 / rate
            next_at = max(next_at, now - BEHIND_S_MAX)
            if durable_rate and durable_at <= now:
                first.publish(STAMP.pack(time.monotonic_ns()) + padding)
                durable += 1
                durable_at += 1 / durable_rate
            if durable_rate:
                first.push()  # type: ignore[attr-defined]
                self._drain(first)
            self._turn(min(end, next_at, durable_at if durable_rate else end))
            now = time.monotonic()
        took = time.monotonic() - began
        self._read_on()
        return {"seconds": took, "sent": sent, "untaken": untaken, "durable": durable, **self._live.told()}

    def _read_on(self) -> None:
        began = time.monotonic()
        quiet_since, seen = began, -1
        while (now := time.monotonic()) < min(quiet_since + QUIET_S, began + SETTLE_S_MAX):
            for host in self.hosts:
                host.push()  # type: ignore[attr-defined]
            self._turn(now + 0.02)
            came = self._live.given + self._live.unfit + self._live.aged + self.counts.deliveries
            if came != seen:
                quiet_since, seen = time.monotonic(), came

    def listen(self, seconds: float, body_bytes: int) -> Json:
        """Note durable messages that others send."""
        self._begin(0, False)
        self.counts = counts = Counts()
        for host in self.hosts:
            host.counts = counts
            host.latencies = counts.latencies_us.setdefault(host.label, [])
        self.idle(seconds)
        self._read_on()
        return {"deliveries": counts.deliveries, "latencies_us": counts.latencies_us, "frames_lost": counts.lost}

    def beside(self, **load: Any) -> Json:
        """A round of durable messages, as ever, while others send what is live; what is missing is told."""
        self._begin(0, False)
        told = self.round(**load)
        return {**told, "missing": self._missing, "frames_lost": self.counts.lost, "live_given": self._live.given}

    def _settle(self, expected: int) -> None:
        end = time.monotonic() + SETTLE_S_MAX
        while self.counts.deliveries < expected and time.monotonic() < end:
            self._turn(min(end, time.monotonic() + 0.05))
        self._missing = expected - self.counts.deliveries


def yield_to_others() -> Json:
    """Hosts that flood are on machines of their own elsewhere: stations and who measures go first here."""
    return {"nice": os.nice(19)}


def main(arguments: list[str]) -> None:
    """Serve until stdin ends."""
    given = json.loads(Path(arguments[0]).read_text())
    fleet = LiveFleet(given["kind"], given["hosts"])
    handlers = {"attach": fleet.attach, "live": fleet.live, "listen": fleet.listen, "beside": fleet.beside}
    serve({"hello": dict, "yield": yield_to_others, **handlers})
    fleet.close()


if __name__ == "__main__":
    main(sys.argv[1:])
