"""Runs of the simulator as delivery logs: whole ones, and ones stretched over days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import audit_events

from roamcast.analytics.evidence import Segment
from roamcast.middleware.simulator.run import Simulation, play
from roamcast.middleware.simulator.scenario import draw

DAY = 86_400_000_000
FIRST_DAY = 1_800_057_600_000_000
"""us; begin of 2027-01-16, UTC"""


def run(scenario: str, seed: int, mutants: frozenset[str] = frozenset(), **overrides: Any) -> tuple[Simulation, str]:
    """Play one seed. Returns the simulation and the promise that its own judge found broken, if any."""
    simulation = Simulation(seed, draw(scenario, seed, overrides), mutants)
    return simulation, play(scenario, seed, simulation).rule


def logs(simulation: Simulation, size: int = 100, first: Sequence[audit_events.Row] = ()) -> list[Segment]:
    """Every station's log, `size` events to a segment. first: rows at the beginning of each."""
    made: list[Segment] = []
    for slot, node in simulation.stations.items():
        rows = [*first, *((wall, event.event, event.values) for wall, event in node.log)]
        made += audit_events.segments(rows, size, slot=slot, id=f"s{slot}")
    return made


def stretched(simulation: Simulation, days: int) -> list[Segment]:
    """The same with its time stretched over `days` days from FIRST_DAY on, one segment per station and day."""
    walls = [wall for node in simulation.stations.values() for wall, _ in node.log]
    begin, length = min(walls), max(walls) - min(walls) + 1
    factor = days * DAY // length

    def later(time: int) -> int:
        return FIRST_DAY + (time - begin) * factor

    made: list[Segment] = []
    for slot, node in simulation.stations.items():
        by_day: dict[int, list[audit_events.Row]] = defaultdict(list)
        for wall, event in node.log:
            values = list(event.values)
            if event.event == "order":
                values[7] = later(values[7])
            by_day[(later(wall) - FIRST_DAY) // DAY].append((later(wall), event.event, tuple(values)))
        prev = b""
        for day in range(days):
            header = {"slot": slot, "id": f"s{slot}", "seq": day + 1, "prev": prev, "opened": FIRST_DAY + day * DAY}
            segment = audit_events.segment(by_day[day], header)
            segment.closed = FIRST_DAY + (day + 1) * DAY
            prev = segment.end
            made.append(segment)
    return made
