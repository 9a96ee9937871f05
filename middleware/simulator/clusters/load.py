"""Steady traffic in composite clusters without faults: what elements receive and compute, and when rows are known.

The elements are the cores themselves, with exact timers; nothing is judged here. One hop takes 1 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random

from roamcast.middleware.clusters.element import Element
from roamcast.middleware.clusters.frames import Data, Effect, Frame, ToAll, ToOne
from roamcast.middleware.clusters.gateway import Gateway
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.clusters.judge import Entry
from roamcast.middleware.simulator.clusters.layouts import Layout
from roamcast.middleware.simulator.world import Alarm, World

HOP = MS
TICK = 4 * HOP
GAP = 20 * HOP
"""Between two rows of a station, on average."""
SETTINGS = ClusterSettings(
    claims_tick=TICK, nack_timeout=3 * TICK, poll_timeout=12 * TICK, heartbeat=3_600 * SECOND, down_after=7_200 * SECOND
)


@dataclass(slots=True)
class Measured:
    """Sums of some runs."""

    rows: int = 0
    data: int = 0
    """Frames sent to all, with rows; without."""
    claims: int = 0
    received: list[int] = field(default_factory=lambda: [0, 0])
    """By all stations; by all gateways."""
    cells: list[int] = field(default_factory=lambda: [0, 0])
    elements: list[int] = field(default_factory=lambda: [0, 0])
    """Stations, and gateways, times rows."""
    delays: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 3: 0})
    """By level: hops until all stations were there, in microseconds, of all rows."""

    def mean(self, what: list[int], kind: int) -> float | None:
        """For one element and one row; None: there is none of the kind."""
        return what[kind] / self.elements[kind] if self.elements[kind] else None

    def hops(self, level: int) -> float:
        """Until the last station was there."""
        return self.delays[level] / self.rows / HOP


class LoadModel:
    """One run."""

    def __init__(self, layout: Layout, rng: Random, measured: Measured) -> None:
        self._world = World()
        self._measured = measured
        self._layout = layout
        self._rng = rng
        self._missing = 0
        """Pairs of a row and a station that does not know it to be stable."""
        self._made: dict[tuple[int, int], int] = {}
        self._last: dict[tuple[int, int, int], int] = {}
        """(level, station, number) -> when the last station was there."""
        self._reached: dict[tuple[int, int, int], int] = {}
        """(element, level, station) -> how far."""
        self._members = {c: layout.stations_of(c) + layout.gateways_of(c) for c in range(layout.clusters)}
        self._stations = {
            i: Element(self._roster(c, i), SETTINGS, StreamTable(self._members[c])) for i, c in layout.stations.items()
        }
        self._gateways = {
            i: Gateway([self._roster(c, i) for c in joined], SETTINGS) for i, joined in layout.gateways.items()
        }
        self._alarms = {i: Alarm(self._world, partial(self._tick, i)) for i in (*self._stations, *self._gateways)}

    def _roster(self, cluster: int, own: int) -> Roster:
        return Roster(cluster, own, set(self._layout.stations_of(cluster)), set(self._layout.gateways_of(cluster)))

    def run(self, rows: int) -> None:
        """So many rows of each station, until all is known everywhere. Claims before the first row are not counted."""
        world, rng, quiet = self._world, self._rng, 50 * TICK
        for alarm in self._alarms.values():
            alarm.set(rng.randrange(TICK))
        world.run_until(quiet, 1 << 40)
        measured, before = self._measured, self._cells()
        for station in self._stations:
            time = quiet
            for _ in range(rows):
                time += 1 + int(rng.expovariate(1 / GAP))
                world.at(time, self._enter, station)
        total = rows * len(self._stations)
        self._missing = total * len(self._stations)
        while self._missing:
            world.run_until(world.now + TICK, 1 << 40)
        after = self._cells()
        for kind, elements in enumerate((len(self._stations), len(self._gateways))):
            measured.cells[kind] += after[kind] - before[kind]
            measured.elements[kind] += total * elements
        measured.rows += total
        for (level, station, n), time in self._last.items():
            measured.delays[level] += time - self._made[station, n]

    def _cells(self) -> tuple[int, int]:
        parts = [sub for gateway in self._gateways.values() for sub in gateway.subs.values()]
        stations, gateways = (
            sum(part.accepted.cells + part.stable_claims.cells for part in some)
            for some in (self._stations.values(), parts)
        )
        return stations, gateways

    def _enter(self, station: int) -> None:
        core, now = self._stations[station], self._world.now
        n = core.table.streams[station].stored + 1
        self._made[station, n] = now
        core.accept_own(Entry(station, n, ""), now)
        self._perform(station, core.pump(now))

    def _hear(self, cluster: int, sender: int, target: int, frame: Frame) -> None:
        now = self._world.now
        self._measured.received[target in self._gateways] += bool(self._made)
        if target in self._gateways:
            self._perform(target, self._gateways[target].receive(cluster, sender, frame, now))
        else:
            core = self._stations[target]
            self._perform(target, core.receive(sender, frame, now) + core.pump(now))

    def _tick(self, element: int) -> None:
        now = self._world.now
        if element in self._gateways:
            self._perform(element, self._gateways[element].tick(now))
        else:
            core = self._stations[element]
            self._perform(element, core.pump(now) + core.tick(now))

    def _perform(self, element: int, effects: list[Effect]) -> None:
        world = self._world
        for effect in effects:
            if isinstance(effect, ToAll):
                if self._made:
                    self._measured.data += isinstance(effect.frame, Data)
                    self._measured.claims += not isinstance(effect.frame, Data)
                for target in self._members[effect.cluster]:
                    if target != element:
                        world.after(HOP, self._hear, effect.cluster, element, target, effect.frame)
            elif isinstance(effect, ToOne):
                world.after(HOP, self._hear, effect.cluster, element, effect.element, effect.frame)
        if element in self._gateways:
            self._gateways[element].take_taken()
            due = self._gateways[element].next_deadline()
        else:
            self._note(self._stations[element])
            due = self._stations[element].next_deadline()
        self._alarms[element].set(due)

    def _note(self, core: Element) -> None:
        """Who was there last is what counts."""
        taken, core.taken = core.taken, []
        for _, _, item in taken:
            self._arrive(1, item.slot, item.n)
        for (level, station), n in core.levels.take_moved().items():
            before = self._reached.get((core.own, level, station), 0)
            self._reached[core.own, level, station] = n
            for number in range(before + 1, n + 1):
                self._arrive(level, station, number)

    def _arrive(self, level: int, station: int, n: int) -> None:
        self._last[level, station, n] = self._world.now
        self._missing -= level == 3
