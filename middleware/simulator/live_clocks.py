"""Clocks of stations that are set wrong, and set right again, while live messages are under way."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.live_traffic import LiveStationNode

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation

COMPARED = 100 * MS
"""Between two comparisons of clocks, which are exact; stations that run scaled down do so often."""
OFF_MAX = 300 * MS
"""A clock is wrong for so long at most."""


class LiveClocks:
    """All clocks of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._wrong: set[LiveStationNode] = set()

    def begin(self, until: int) -> None:
        """Stations compare their clocks up to then."""
        self._compare(until)

    def _compare(self, until: int) -> None:
        nodes = self._sim.stations
        for slot, node in nodes.items():
            for peer, other in nodes.items():
                if peer != slot and node.up and other.up:
                    node.put("peer_clock", peer, other.ahead_of(node))
        if self._sim.world.now < until:
            self._sim.world.after(COMPARED, self._compare, until)

    def step(self, rng: Random) -> None:
        """Somebody sets a clock wrong, and soon right again."""
        node = rng.choice(list(self._sim.stations.values()))
        if node not in self._wrong:
            least = 2 * self._sim.options.live_skew + MS
            by = rng.choice((-1, 1)) * rng.choice((least, 10 * least, SECOND, 3_600 * SECOND))
            self._wrong.add(node)
            node.step(by)
            self._sim.world.after(rng.randint(0, OFF_MAX), self._set_right, node, by)

    def _set_right(self, node: LiveStationNode, by: int) -> None:
        self._wrong.discard(node)
        node.step(-by)
