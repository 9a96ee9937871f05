"""Live stations in memory; a test decides what each clock reads when a message is sent, comes, or a timer fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.delta_causal.messages import Deliver, Drop, LiveEffect, LiveMessage
from roamcast.middleware.delta_causal.settings import LiveSettings
from roamcast.middleware.delta_causal.station import LiveStation
from roamcast.middleware.effects import Reject

DELTA, SKEW = 100, 20
START = 1_000
"""Reading at which all stations are past their quarantine."""


class Group:
    """Stations 0, 1, 2, ... Each message is known by its body."""

    def __init__(self, stations: int, mutants: frozenset[str] = frozenset(), **settings: Any) -> None:
        self.slots = range(stations)
        self.mutants = mutants
        self.settings = LiveSettings(**{"delta": DELTA, "skew": SKEW, "entries_max": None, **settings})
        self.up = {slot: self.fresh(slot, START - self.settings.quiet - 1) for slot in self.slots}
        self.got: dict[int, list[str]] = {slot: [] for slot in self.slots}

    def fresh(self, slot: int, now: int) -> LiveStation:
        """A station at the begin of a life."""
        return LiveStation(slot, [other for other in self.slots if other != slot], self.settings, now, self.mutants)

    def restart(self, slot: int, now: int) -> None:
        self.up[slot] = self.fresh(slot, now)

    def send(self, src: int, body: str, to: int | list[int] | None, now: int) -> LiveMessage:
        return self.up[src].send([to] if isinstance(to, int) else to, body.encode(), now)

    def come(self, slot: int, message: LiveMessage, now: int) -> list[str]:
        """`message` comes to `slot`: bodies delivered, and why something was dropped or refused."""
        return self.say(slot, self.up[slot].receive(message.src, message, now))

    def timer(self, slot: int, now: int) -> list[str]:
        return self.say(slot, self.up[slot].expire(now))

    def say(self, slot: int, effects: list[LiveEffect]) -> list[str]:
        words = []
        for effect in effects:
            match effect:
                case Deliver(message):
                    words.append(message.body.decode())
                    self.got[slot].append(words[-1])
                case Drop(_, _, why):
                    words.append(f"-{why.value}")
                case Reject(_, code, _):
                    words.append(code)
        return words


@pytest.fixture
def group() -> Callable[..., Group]:
    return Group
