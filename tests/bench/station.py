"""One station process under measure: ``python -m bench.station DIR [--alone]`` is `mss-station run` with a meter.

`split` puts timers around the parts of the main thread (see split.py); without it nothing is added to the station.
"""

from __future__ import annotations

import cProfile
import logging
import sys
import time
from typing import Any

from bench.child import Json, percentile, serve_beside, usage
from bench.lan_meter import LanMeter
from bench.split import DECODE_PEER, PeerFrames, Split

from roamcast.mss_station import Station, peer_port, publish_port


class Meter:
    """Answers what a station used, counted and spent where."""

    def __init__(self, station: Station) -> None:
        self._tally = station._tally
        self._station = station
        self._split = Split()
        self._frames = PeerFrames()
        self._received = PeerFrames(DECODE_PEER, peer_port, publish_port)
        self._commits = 0
        self._profile: cProfile.Profile | None = None

    def usage(self) -> Json:
        """CPU, and the station's own counters."""
        return {**usage(), "counters": dict(self._tally.counters)}

    def live(self) -> Json:
        """What became of live messages so far: what the status says of them."""
        named = {name: count for name, count in self._tally.counters.items() if name.startswith("live_")}
        running = self._station._running
        return {**(running.core.live.counts if running else {}), **named}

    def commits(self) -> Json:
        """Durations of the commits since the last call (at most the last 1,024), milliseconds."""
        count = self._tally.counters.get("commits", 0)
        kept = list(self._tally._commits)[-(count - self._commits) :] if count > self._commits else []
        self._commits = count
        taken = [1_000 * seconds for seconds in kept]
        return {"count": len(taken), "p50_ms": percentile(taken, 0.5), "p99_ms": percentile(taken, 0.99)}

    def split(self, on: bool) -> Json:
        """Begin or end to time the parts of the main thread; the end tells CPU seconds and calls of each."""
        return self._split.begin() if on else self._split.end()

    def profile(self, file: str | None = None) -> Json:
        """Begin to profile the main thread's CPU by function (it costs a multiple); with a file: end, write it."""
        if file is None:
            self._profile = cProfile.Profile(time.thread_time)
            self._profile.enable()
        elif self._profile is not None:
            self._profile.disable()
            self._profile.dump_stats(file)
        return {}

    def peer_frames(self) -> Json:
        """Count and bytes of frames to peers by kind since the last call; the first call begins to count."""
        return self._frames.take()

    def received_frames(self) -> Json:
        """The same of those that come from peers."""
        return self._received.take()


def main(arguments: list[str]) -> None:
    """Run the station until stdin ends."""
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    with Station(arguments[0], alone="--alone" in arguments) as station:
        meter = Meter(station)
        handlers: dict[str, Any] = {
            "hello": dict,
            "usage": meter.usage,
            "commits": meter.commits,
            "live": meter.live,
            "split": meter.split,
            "profile": meter.profile,
            "peer_frames": meter.peer_frames,
            "received_frames": meter.received_frames,
            "lan": LanMeter(station._tally).take,
        }
        serve_beside(handlers, station.stop)
        station.run()


if __name__ == "__main__":
    main(sys.argv[1:])
