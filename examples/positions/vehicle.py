"""A vehicle: a host that drives, tells its position live ten times a second, and its arrivals for good.

This is the part to copy, and all that it takes: a position is worth something for a moment, so it is sent with a
deadline, kept nowhere and never repeated; an arrival is kept until everybody has it. Both are in one causal order, and
each tells what its sender had been given before: so who receives them can see whether that is true (board.py).
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from positions.group import TOPIC
from positions.streets import Drive

from roamcast.mh_agent import Agent, Error, Message, OutboxFull

DEADLINE_S: Final = 0.4
STAY: Final = 0.92
"""A host leaves its cell when another mast is nearer than this part of the distance to its own."""

Air = Callable[[], list[tuple[str, int, int]]]


class Roaming:
    """Has an agent attach at the nearest mast of those that are on the air."""

    def __init__(self, air: Air) -> None:
        self.moves = 0
        self._air = air
        self._cell = ""

    def step(self, agent: Agent, x: float, y: float) -> None:
        """The host is here now."""
        far = {id: math.dist((x, y), (mast_x, mast_y)) for id, mast_x, mast_y in self._air()}
        nearest = min(far, key=far.__getitem__, default="")
        if not nearest or nearest == self._cell or far[nearest] > STAY * far.get(self._cell, math.inf):
            return
        if nearest in agent.status["stations"]:  # a newcomer is known as soon as the agent was told of it
            agent.move(nearest)
            self.moves += bool(self._cell)
            self._cell = nearest


class Vehicle(threading.Thread):
    """One host with its drive. `begin` is the time (monotonic) at which all drives begin."""

    def __init__(self, file: Path, drive: Drive, air: Air, begin: float, rate: float) -> None:
        super().__init__(name=file.stem, daemon=True)
        self.status: dict[str, Any] = {"state": "off", "station": None, "waiting": None}
        """What the agent has said last of itself."""
        self.dropped = self.outbox = 0
        self.failure: Exception | None = None
        self._file, self._drive, self._begin, self._period = file, drive, begin, 1 / rate
        self._over = threading.Event()
        self._numbers = 0
        self._arrivals = 0
        self._heard: dict[str, int] = {}
        """By vehicle: how many of its arrivals this one was given (of its own: has sent)."""
        self._roaming = Roaming(air)

    def run(self) -> None:
        """Drive until `close`."""
        try:
            with Agent(self._file, on_status=self._note) as agent:
                due = time.monotonic()
                while not self._over.is_set():
                    self._listen(agent, due)
                    due = max(due + self._period, time.monotonic() - self._period)
                    self._step(agent)
        except Error as error:
            self.failure = error

    @property
    def moves(self) -> int:
        """How often it has gone to another station."""
        return self._roaming.moves

    def close(self) -> None:
        """End it."""
        self._over.set()

    def _note(self, status: dict[str, Any]) -> None:
        self.status = status

    def _listen(self, agent: Agent, until: float) -> None:
        """Take what comes until it is time to speak."""
        while (left := until - time.monotonic()) > 0:
            event = agent.receive(timeout=left)
            if isinstance(event, Message) and not event.own and (told := read(event.body)):
                self._heard[event.sender] = told["arrivals"]

    def _step(self, agent: Agent) -> None:
        place = self._drive.at(time.monotonic() - self._begin)
        self._roaming.step(agent, place.x, place.y)
        if place.arrivals > self._arrivals:
            with contextlib.suppress(OutboxFull):  # a station is down for very long: it is told once there is room
                agent.broadcast(self._body(arrivals=place.arrivals, depot=place.depot))
                self._arrivals = self._heard[self.name] = place.arrivals
        body = self._body(x=round(place.x, 1), y=round(place.y, 1), number=self._numbers + 1)
        if agent.broadcast(body, TOPIC, deadline=DEADLINE_S).state == "sent":
            self._numbers += 1
        else:
            self.dropped += 1
        self.outbox = agent.status["outbox"]

    def _body(self, **fields: Any) -> bytes:
        told = {**fields, "heard": self._heard, "at": self.status["station"], "sent": time.monotonic()}
        return json.dumps(told, separators=(",", ":")).encode()


def read(body: bytes) -> dict[str, Any]:
    """What a body tells; empty if it is none of ours."""
    try:
        told = json.loads(body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) and "heard" in told else {}
