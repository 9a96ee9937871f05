"""One element of composite clusters in virtual time: a station or a gateway, its queue of frames, and its lives."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Protocol

from roamcast.middleware.clusters.element import Element
from roamcast.middleware.clusters.frames import Effect, Ended, Frame, Refused, ToAll, ToOne
from roamcast.middleware.clusters.gateway import Gateway
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.clusters.judge import ClusterJudge, Entry
from roamcast.middleware.simulator.world import Alarm, World


class Surroundings(Protocol):
    """What an element has around it."""

    judge: ClusterJudge

    def broadcast(self, cluster: int, sender: int, frame: Frame) -> None:
        """A frame for all other elements of a cluster."""

    def send(self, cluster: int, sender: int, target: int, frame: Frame) -> None:
        """A frame for one element."""


class Node:
    """What stations and gateways have in common."""

    def __init__(self, world: World, around: Surroundings, element: int, rng: Random, late: int) -> None:
        self.element = element
        self.is_up = True
        self.has_ended = False
        self.service = 0
        """Time that it takes to hear a frame."""
        self.queue = 0
        self.overruns = 0
        self._world = world
        self._around = around
        self._rng = rng
        self._late = late
        self._waiting = 0
        self._busy_until = 0
        self._life = 0
        self._alarm = Alarm(world, self._tick)

    @property
    def hears(self) -> bool:
        """Whether it runs."""
        return self.is_up and not self.has_ended

    def arrive(self, cluster: int, sender: int, frame: Frame) -> None:
        """A frame comes to the element's queue, which may be full."""
        if not self.service:
            self._hear(cluster, sender, frame, self._life)
            return
        if self._waiting >= self.queue:
            self.overruns += 1
            return
        self._waiting += 1
        self._busy_until = max(self._busy_until, self._world.now) + self.service
        self._world.at(self._busy_until, self._take, cluster, sender, frame, self._life)

    def _take(self, cluster: int, sender: int, frame: Frame, life: int) -> None:
        self._waiting -= 1
        self._hear(cluster, sender, frame, life)

    def _hear(self, cluster: int, sender: int, frame: Frame, life: int) -> None:
        if self.hears and life == self._life:
            self._after(self._receive(cluster, sender, frame))

    def _tick(self) -> None:
        if self.hears:
            self._after(self._expire())

    def stop(self) -> None:
        """It stops; what is durable stays."""
        self.is_up = False
        self._life += 1
        self._alarm.clear()

    def _after(self, effects: Iterable[Effect]) -> None:
        """What follows from a step: first what was accepted, then what was learned, then what is sent."""
        for element in self.parts():
            place = self.element, element.roster.cluster
            taken, element.taken = element.taken, []
            for _, _, item in taken:
                if isinstance(item, Entry):
                    self._around.judge.takes(place, item)
        for element in self.parts():
            place = self.element, element.roster.cluster
            for (level, station), number in sorted(element.levels.take_moved().items()):
                self._around.judge.tells(place, level, station, number)
        for effect in effects:
            match effect:
                case ToAll(cluster, frame):
                    self._around.broadcast(cluster, self.element, frame)
                case ToOne(cluster, target, frame):
                    self._around.send(cluster, self.element, target, frame)
                case Ended():
                    self.has_ended = True
                    return
                case Refused(cluster, sender, why) if "not of this cluster" not in why:
                    raise Violation("refused", [f"{self.element} refuses {sender} in {cluster}: {why}"])
        self._alarm.set(self._due() + self._rng.randint(0, self._late))

    def parts(self) -> list[Element]:
        """Its elements, one in each of its clusters."""
        raise NotImplementedError

    def close(self, other: int) -> None:
        """The operator says that another element has ended."""
        raise NotImplementedError

    def _receive(self, cluster: int, sender: int, frame: Frame) -> list[Effect]:
        raise NotImplementedError

    def _expire(self) -> list[Effect]:
        raise NotImplementedError

    def _due(self) -> int:
        raise NotImplementedError


class StationNode(Node):
    """A station over all its lives; roster and table are its disk."""

    def __init__(
        self, world: World, around: Surroundings, rng: Random, roster: Roster, table: StreamTable,
        settings: ClusterSettings, mutants: frozenset[str],
    ) -> None:  # fmt: skip
        super().__init__(world, around, roster.own, rng, settings.claims_tick // 3)
        self.roster = roster
        self.table = table
        self._settings = settings
        self._mutants = mutants
        self.restarts = -1
        self.start()

    def start(self) -> None:
        """A life begins."""
        self.restarts += 1
        self.is_up = True
        self.core = Element(self.roster, self._settings, self.table, self._mutants)
        self._alarm.set(self._world.now)

    def parts(self) -> list[Element]:
        """Its one element."""
        return [self.core]

    def enter(self, entry: Entry) -> None:
        """A row of its own."""
        self.core.accept_own(entry, self._world.now)
        self._after(self.core.pump(self._world.now))

    def sponsor(self, newcomer: int) -> tuple[Roster, StreamTable]:
        """Let a newcomer in: it begins with what is here."""
        roster, base, origins = self.roster, self.table.base(), tuple(self.table.origins.items())
        self.core.add(newcomer, False, base, self._world.now)
        copy = Roster(
            roster.cluster, newcomer, set(roster.stations), set(roster.gateways), set(roster.closed), dict(roster.added)
        )
        self._after([])
        return copy, StreamTable(copy.members, base, origins)

    def close(self, other: int) -> None:
        """The operator says that another element has ended."""
        self.core.close(other, self._world.now)
        self._after([])

    def _receive(self, cluster: int, sender: int, frame: Frame) -> list[Effect]:
        effects = self.core.receive(sender, frame, self._world.now)
        return effects + self.core.pump(self._world.now)

    def _expire(self) -> list[Effect]:
        return self.core.pump(self._world.now) + self.core.tick(self._world.now)

    def _due(self) -> int:
        return self.core.next_deadline()


class GatewayNode(Node):
    """A gateway, or a standby. It has one life."""

    def __init__(
        self, world: World, around: Surroundings, rng: Random, rosters: list[Roster], active: int | None,
        settings: ClusterSettings, mutants: frozenset[str],
    ) -> None:  # fmt: skip
        super().__init__(world, around, rosters[0].own, rng, settings.claims_tick // 3)
        self.core = Gateway(rosters, settings, active, mutants)
        self._alarm.set(self._world.now)

    def parts(self) -> list[Element]:
        """Its sub-gateways."""
        return list(self.core.subs.values())

    def close(self, other: int) -> None:
        """The operator says that another element has ended."""
        self._after(self.core.close(other, self._world.now))

    def _receive(self, cluster: int, sender: int, frame: Frame) -> list[Effect]:
        return self.core.receive(cluster, sender, frame, self._world.now)

    def _expire(self) -> list[Effect]:
        return self.core.tick(self._world.now)

    def _due(self) -> int:
        return self.core.next_deadline()
