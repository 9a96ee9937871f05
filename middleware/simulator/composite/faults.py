"""What goes wrong with clusters: active gateways crash, and the layout changes while everything runs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.simulator.composite.drawing import draw_layout

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation


class ClusterFaults:
    """Of one run. `later` runs an action unless the faults have ended by then."""

    def __init__(self, simulation: Simulation, later: Callable[..., None]) -> None:
        self._sim = simulation
        self._later = later

    def crash_gateway(self, rng: Random) -> None:
        """An active gateway is gone for a while."""
        layout: Layout = self._sim.layout
        able = [slot for slot in self._sim.slots if layout.is_gateway(slot) and slot not in layout.standbys]
        if able:
            station = self._sim.stations[rng.choice(able)]
            station.crash()
            self._later(rng.randint(0, self._sim.options.duration), station.start_again, station.life)

    def relayout(self, rng: Random) -> None:
        """The configuration has other clusters, or none; each station hears of it after a while."""
        self._sim.relayout(FLAT if rng.random() < 0.15 else draw_layout(rng, self._sim.slots), rng)
