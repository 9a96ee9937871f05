"""The viewer: one more host, whose events are what the page shows, in the order in which it was given them.

It also judges: every position and every arrival tells which arrivals its sender had been given before. In one causal
order the viewer was given these before, too, whatever station died meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from positions.group import TOPIC
from positions.streets import LOOKOUT
from positions.vehicle import Air, Roaming, Vehicle, read

from roamcast.mh_agent import Agent, Discontinuity, Error, Live, Message

POLL_S: Final = 0.1
TAPE: Final = 600
FEED: Final = 60


@dataclass(slots=True)
class Seen:
    """What the viewer knows of a vehicle."""

    x: float = 0.0
    y: float = 0.0
    at: str | None = None
    sent: float | None = None
    """When the newest position was sent (this machine's monotonic clock; hosts elsewhere would have none in common)."""
    number: int = 0
    arrivals: int = 0


class Board(threading.Thread):
    """The viewer's thread. `frame` is for any thread."""

    def __init__(self, file: Path, air: Air, vehicles: Sequence[Vehicle]) -> None:
        super().__init__(name=file.stem, daemon=True)
        self.ready = threading.Event()
        self.failure: Exception | None = None
        self._file, self._roaming, self._vehicles = file, Roaming(air), vehicles
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._seen = {vehicle.name: Seen() for vehicle in vehicles}
        self._status: dict[str, Any] = {"state": "off", "station": None, "waiting": None}
        self._expired = 0
        self._given = {"live": 0, "durable": 0, "gone": 0, "checked": 0, "broken": 0}
        self._gaps: set[str] = set()
        """Vehicles of which arrivals may have been missed, as the agent has said."""
        self._tape: deque[tuple[str, bool]] = deque(maxlen=TAPE)
        self._taped = 0
        self._feed: deque[dict[str, Any]] = deque(maxlen=FEED)
        self._fed = 0

    def run(self) -> None:
        """Take events until `close`."""
        try:
            with Agent(self._file, on_status=self._note) as agent:
                agent.subscribe(TOPIC)
                while not self._over.is_set():
                    self._roaming.step(agent, *LOOKOUT)
                    event = agent.receive(timeout=POLL_S)
                    if event is not None:
                        with self._mutex:
                            self._take(event)
                    self._expired = agent.status["live"]["expired"]
        except Error as error:
            self.failure = error

    def close(self) -> None:
        """End it."""
        self._over.set()

    def tell(self, text: str) -> None:
        """Put a line of the operator into the feed."""
        with self._mutex:
            self._write("", text)

    def _note(self, status: dict[str, Any]) -> None:
        self._status = status

    # ---- what is given ----

    def _take(self, event: object) -> None:
        if isinstance(event, Discontinuity):
            self._gaps = set(self._seen)
            self._write("", "the viewer was away too long, or a station is lost: something may be missing here")
        if not isinstance(event, Live | Message) or event.sender not in self._seen:
            return
        told = read(event.body)
        if not told:
            return
        seen = self._seen[event.sender]
        if isinstance(event, Live):
            self._judge(told["heard"])
            self._given["live"] += 1
            if seen.sent is not None:
                self._given["gone"] += max(told["number"] - seen.number - 1, 0)
            seen.x, seen.y, seen.at, seen.sent, seen.number = (
                told["x"], told["y"], told["at"], told["sent"], told["number"],
            )  # fmt: skip
            if all(one.sent is not None for one in self._seen.values()):
                self.ready.set()
        else:
            self._judge({**told["heard"], event.sender: told["arrivals"] - 1})
            seen.arrivals = told["arrivals"]
            self._gaps.discard(event.sender)
            self._given["durable"] += 1
            self._write(event.sender, f"arrived at depot {told['depot']}", told)
        self._taped += 1
        self._tape.append((event.sender, isinstance(event, Message)))

    def _judge(self, heard: dict[str, int]) -> None:
        """Whoever sent this had been given so many arrivals of each; then so was the viewer, unless it missed some."""
        broken = False
        for name, count in heard.items():
            seen = self._seen.get(name)
            if seen is None or count <= seen.arrivals:
                continue
            broken |= name not in self._gaps
            seen.arrivals = count
        self._given["checked"] += 1
        self._given["broken"] += broken

    def _write(self, who: str, text: str, told: dict[str, Any] | None = None) -> None:
        """A line for the feed: of a vehicle, with what its message told, or of nobody."""
        self._fed += 1
        line = {"no": self._fed, "time": time.strftime("%H:%M:%S"), "who": who, "text": text}
        if told is not None:
            late_s = round(time.monotonic() - told["sent"], 2)
            line |= {"at": told["at"], "depot": told["depot"], "late": late_s}
        self._feed.append(line)

    # ---- what is shown ----

    def frame(self, taped: int, fed: int) -> dict[str, Any]:
        """How things are now. `taped`, `fed`: how much of the tape and the feed the reader has already."""
        now = time.monotonic()
        with self._mutex:
            hosts = [self._host(vehicle, now) for vehicle in self._vehicles]
            news = min(self._taped - taped, len(self._tape))
            return {
                "hosts": hosts,
                "viewer": _place(self._status),
                "tape": list(self._tape)[len(self._tape) - news :],
                "taped": self._taped,
                "feed": [line for line in self._feed if line["no"] > fed],
                "fed": self._fed,
                "counts": {
                    **self._given,
                    "expired": self._expired,
                    "dropped": sum(vehicle.dropped for vehicle in self._vehicles),
                    "kept": sum(vehicle.outbox for vehicle in self._vehicles),
                    "moves": sum(vehicle.moves for vehicle in self._vehicles),
                },
            }

    def _host(self, vehicle: Vehicle, now: float) -> dict[str, Any]:
        seen = self._seen[vehicle.name]
        told = {"name": vehicle.name, "x": seen.x, "y": seen.y, "arrivals": seen.arrivals}
        age_ms = None if seen.sent is None else round((now - seen.sent) * 1_000)
        return {**told, "age": age_ms, "seen_at": seen.at, **_place(vehicle.status)}


def _place(status: dict[str, Any]) -> dict[str, Any]:
    """Where a host is, as its agent says it of itself."""
    waiting = status["waiting"]
    state = "waits" if waiting else status["state"]
    return {"state": state, "station": status["station"], "waits_for": waiting["station"] if waiting else None}
