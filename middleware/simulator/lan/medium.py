"""What carries packets between the nodes of a LAN in virtual time: paper 004, definition 7, played by an adversary.

Use: `Medium(world, rng, MediumModel(timeout=Tw), power, deliver)`, then `send`. Packets are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from roamcast.middleware.simulator.lan.schedule import Power
from roamcast.middleware.simulator.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class MediumModel:
    """How the medium behaves; shares from 0 to 1."""

    timeout: int
    """Tw, microseconds: no send takes longer."""
    slow: bool = False
    """Every send takes Tw."""
    unsure: float = 0.1
    """Of the packets that arrived: the sender is told that they failed."""
    orphans: float = 0.5
    """Of the packets whose sender died on the way: they arrive all the same."""


class Medium:
    """Sends that end within Tw.

    A send between two nodes that run until it ends arrives, after 1 .. Tw. To a node that is down it fails after
    Tw; to one that comes up meanwhile it may do either. It may be said to have failed though it arrived. Packets may
    overtake each other, and may come when their sender is dead.
    """

    def __init__(
        self, world: World, rng: Random, model: MediumModel, power: Power, deliver: Callable[[int, int, Any], bool]
    ) -> None:
        """`deliver(target, source, packet)` hands a packet to a running node; False: it was not taken (so it fails)."""
        self.model = model
        self.sends = 0
        self._world = world
        self._rng = rng
        self._power = power
        self._deliver = deliver
        self._side: frozenset[int] = frozenset()

    def split(self, side: frozenset[int]) -> None:
        """Cut the nodes of `side` off from all others; an empty `side` heals."""
        self._side = side

    def send(self, source: int, target: int, packet: Any, done: Callable[[bool], None]) -> None:
        """Send; `done(arrived)` is called within Tw, unless `source` has stopped by then (or stopped and restarted)."""
        self.sends += 1
        life = self._power.lives[source]
        end = self._world.now + self.model.timeout

        def report(arrived: bool) -> None:
            if self._power.is_on(source) and self._power.lives[source] == life:
                done(arrived)

        def arrive() -> None:
            alive = self._power.is_on(source) and self._power.lives[source] == life
            orphan = not alive and self._rng.random() >= self.model.orphans
            cut = (source in self._side) != (target in self._side)
            if not (orphan or cut) and self._power.is_on(target) and self._deliver(target, source, packet):
                if self._rng.random() < self.model.unsure:
                    self._world.at(end, report, False)
                else:
                    report(True)
            elif not orphan and self._world.now < end and self._rng.random() < 0.5:
                self._world.at(self._rng.randint(self._world.now + 1, end), arrive)
            else:
                self._world.at(end, report, False)

        self._world.after(self._latency(), arrive)

    def _latency(self) -> int:
        timeout = self.model.timeout
        if self.model.slow:
            return timeout
        return self._rng.choice((timeout, self._rng.randint(1, timeout), self._rng.randint(1, max(1, timeout // 10))))
