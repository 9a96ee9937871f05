"""Elements of composite clusters that hand each other frames, all at once or as a test lets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.clusters.element import Element
from roamcast.middleware.clusters.frames import Effect, Ended, Frame, Refused, ToAll, ToOne
from roamcast.middleware.clusters.gateway import Gateway
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.clusters.judge import Entry

Passes = Callable[[int, int, int, Frame], bool]
"""(cluster, sender, target, frame): whether the frame comes through."""


class Group:
    """Stations 1, 2, ... and gateways 11, 12, ...; `clusters` says who is in each."""

    def __init__(
        self, clusters: list[list[int]], standby_of: dict[int, int] | None = None, mutant: str = "", **settings: Any
    ) -> None:
        self.now = 0
        self.settings = ClusterSettings(**settings)
        self.stations: dict[int, Element] = {}
        self.gateways: dict[int, Gateway] = {}
        self.clusters = dict(enumerate(clusters))
        self.ended: list[tuple[int, int]] = []
        self.refused: list[str] = []
        self.passes: Passes = lambda cluster, sender, target, frame: True
        self.mutants = frozenset({mutant} - {""})
        self._frames: list[tuple[int, int, int, Frame]] = []
        for element in sorted({element for members in clusters for element in members}):
            rosters = [self._roster(cluster, element) for cluster, members in enumerate(clusters) if element in members]
            if element > 10:
                active = (standby_of or {}).get(element)
                self.gateways[element] = Gateway(rosters, self.settings, active, self.mutants)
            else:
                table = StreamTable(rosters[0].members)
                self.stations[element] = Element(rosters[0], self.settings, table, self.mutants)

    def _roster(self, cluster: int, own: int) -> Roster:
        members = self.clusters[cluster]
        return Roster(cluster, own, {i for i in members if i < 10}, {i for i in members if i > 10})

    def part(self, element: int, cluster: int) -> Element:
        """The element in that cluster."""
        return self.gateways[element].subs[cluster] if element in self.gateways else self.stations[element]

    def has(self, element: int, cluster: int = 0) -> dict[int, int]:
        """What an element has of each station."""
        return self.part(element, cluster).table.origins

    def enter(self, station: int, count: int = 1) -> None:
        """Rows of a station, sent as far as it may."""
        core = self.stations[station]
        for _ in range(count):
            n = core.table.streams[station].stored + 1
            core.accept_own(Entry(station, n, f"{station}/{n}"), self.now)
        self.do(station, core.pump(self.now))

    def close(self, at: int, element: int) -> None:
        """The operator tells `at` that `element` has ended."""
        if at in self.gateways:
            self.do(at, self.gateways[at].close(element, self.now))
        else:
            self.stations[at].close(element, self.now)

    def do(self, element: int, effects: list[Effect]) -> None:
        """Frames wait for `deliver`."""
        for effect in effects:
            match effect:
                case ToAll(cluster, frame):
                    self._frames += [(cluster, element, i, frame) for i in self.clusters[cluster] if i != element]
                case ToOne(cluster, target, frame):
                    self._frames.append((cluster, element, target, frame))
                case Ended(cluster):
                    self.ended.append((element, cluster))
                case Refused(_, _, why):
                    self.refused.append(why)

    def deliver(self) -> None:
        """All that is under way, and what follows at once."""
        while self._frames:
            cluster, sender, target, frame = self._frames.pop(0)
            if not self.passes(cluster, sender, target, frame):
                continue
            if target in self.gateways:
                self.do(target, self.gateways[target].receive(cluster, sender, frame, self.now))
            else:
                core = self.stations[target]
                self.do(target, core.receive(sender, frame, self.now) + core.pump(self.now))

    def tick(self, count: int = 1, without: tuple[int, ...] = ()) -> None:
        """Ticks of all that run, each with all its frames delivered."""
        for _ in range(count):
            self.now += 20 * MS
            for element, gateway in self.gateways.items():
                if element not in without:
                    self.do(element, gateway.tick(self.now))
            for element, core in self.stations.items():
                if element not in without:
                    self.do(element, core.pump(self.now) + core.tick(self.now))
            self.deliver()


@pytest.fixture
def group() -> type[Group]:
    return Group
