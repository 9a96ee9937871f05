"""Composite clusters over links that lose, double and delay, with elements that stop, end and join: one seed, judged.

After the faults everybody who lives runs, links stay as bad as they are, and all rows have to become known stable
everywhere; then there has to be silence but for heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roamcast.middleware.clusters.frames import Claims, Frame, Nack
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.clusters.judge import ClusterJudge
from roamcast.middleware.simulator.clusters.node import GatewayNode, Node, StationNode
from roamcast.middleware.simulator.clusters.options import ClusterOptions, draw_clusters
from roamcast.middleware.simulator.result import Result
from roamcast.middleware.simulator.run import play
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import Trace, World

EVENTS_MAX = 1_500_000
"""More events than this in one run are a storm."""
PATIENCE = 300 * SECOND
"""By then all that lives has to be done."""
FIRST_NEWCOMER = 501


class ClusterRun:
    """The elements of one seed."""

    def __init__(self, seed: int, options: ClusterOptions, mutants: frozenset[str] = frozenset()) -> None:
        self.options = options
        self.world = World()
        self.trace = Trace(self.world, lambda event: None)
        self.judge = ClusterJudge()
        self.layout = options.layout(seed)
        self.loss = options.loss
        self.frames: dict[str, int] = {}
        self.told: dict[tuple[int, int], int] = {}
        """Frames to all, by (element, cluster)."""
        self._seed = seed
        self._net = stream(seed, "net")
        self._settings = options.settings()
        self._mutants = mutants
        self.nodes: dict[int, Node] = {}
        self.stations: dict[int, StationNode] = {}
        self.members: dict[int, list[int]] = {}
        self._closed: list[int] = []
        for cluster in range(self.layout.clusters):
            self.members[cluster] = self.layout.stations_of(cluster) + self.layout.gateways_of(cluster)
        for station, cluster in self.layout.stations.items():
            self._station(self._roster(cluster, station), StreamTable(self.members[cluster]))
            self.judge.joins(station, cluster, True)
        for gateway, clusters in self.layout.gateways.items():
            rosters = [self._roster(cluster, gateway) for cluster in clusters]
            active = self.layout.standby_of.get(gateway)
            rng = stream(seed, f"element {gateway}")
            node = GatewayNode(self.world, self, rng, rosters, active, self._settings, mutants)
            self._admit(node)
            for cluster in clusters:
                self.judge.joins(gateway, cluster, False)

    def _roster(self, cluster: int, own: int) -> Roster:
        stations, gateways = self.layout.stations_of(cluster), self.layout.gateways_of(cluster)
        return Roster(cluster, own, set(stations), set(gateways))

    def _station(self, roster: Roster, table: StreamTable) -> None:
        rng = stream(self._seed, f"element {roster.own}")
        node = StationNode(self.world, self, rng, roster, table, self._settings, self._mutants)
        self.stations[roster.own] = node
        self._admit(node)

    def _admit(self, node: Node) -> None:
        node.service, node.queue = self.options.service, self.options.queue
        self.nodes[node.element] = node

    # ---- what surrounds an element ----

    def broadcast(self, cluster: int, sender: int, frame: Frame) -> None:
        """To each other element of the cluster."""
        self.told[sender, cluster] = self.told.get((sender, cluster), 0) + 1
        self._note(cluster, sender, 0, frame)
        for element in self.members[cluster]:
            if element != sender:
                self._transmit(cluster, sender, element, frame)

    def send(self, cluster: int, sender: int, target: int, frame: Frame) -> None:
        """To one element."""
        self._note(cluster, sender, target, frame)
        self._transmit(cluster, sender, target, frame)

    def _note(self, cluster: int, sender: int, target: int, frame: Frame) -> None:
        name = type(frame).__name__
        self.frames[name] = self.frames.get(name, 0) + 1
        if isinstance(frame, Claims):
            self.trace.note(name, cluster, sender, target, frame.sent, frame.stored, frame.stable, frame.closed)
        else:
            last = frame.last if isinstance(frame, Nack) else frame.first + len(frame.items) - 1
            self.trace.note(name, cluster, sender, target, frame.stream, frame.first, last)

    def _transmit(self, cluster: int, sender: int, target: int, frame: Frame) -> None:
        options, rng = self.options, self._net
        for _ in range(1 + (rng.random() < options.repeat)):
            if rng.random() < self.loss:
                continue
            most = 10 * options.delay if rng.random() < options.slow else options.delay
            self.world.after(rng.randint(500, most), self.nodes[target].arrive, cluster, sender, frame)

    # ---- what happens ----

    def _enter(self, station: int) -> None:
        node = self.stations[station]
        if node.hears:
            entry = self.judge.enter(station)
            self.trace.note("enter", station, entry.n)
            node.enter(entry)

    def _restart(self, station: int, up_after: int) -> None:
        node = self.stations[station]
        if not node.hears or station in self._closed:
            return
        self.trace.note("stop", station)
        node.stop()
        self.world.after(up_after, self._start, station)

    def _start(self, station: int) -> None:
        node = self.stations[station]
        if not node.is_up and station not in self._closed:
            self.trace.note("start", station)
            self.judge.starts((station, node.roster.cluster))
            node.start()

    def _remove(self, element: int, suspected_after: int) -> None:
        """A crash, or a wrong suspicion."""
        if not self.options.suspicion:
            self.trace.note("crash", element)
            self.nodes[element].stop()
        self.world.after(suspected_after, self._suspect, element)

    def _suspect(self, element: int) -> None:
        self.trace.note("suspected", element)
        self.judge.ends(element)
        self._closed.append(element)
        rng = stream(self._seed, f"suspect {element}")
        near = sorted({i for cluster in self._clusters_of(element) for i in self.members[cluster]} - {element})
        up = [i for i in near if self.nodes[i].hears]
        for other in rng.sample(up, rng.randint(1, len(up))) if up else ():
            self.nodes[other].close(element)

    def _clusters_of(self, element: int) -> list[int]:
        return [cluster for cluster, members in self.members.items() if element in members]

    def _add(self, newcomer: int, cluster: int) -> None:
        up = [self.stations[i] for i in self.members[cluster] if i in self.stations and self.stations[i].hears]
        if not up:
            return
        sponsor = up[0]
        self.trace.note("add", newcomer, cluster, sponsor.element)
        self.judge.joins(newcomer, cluster, True, (sponsor.element, cluster))
        roster, table = sponsor.sponsor(newcomer)
        self.members[cluster].append(newcomer)
        self._station(roster, table)
        for _ in range(3):
            self.world.after(self._net.randint(0, self.options.duration), self._enter, newcomer)

    def _plan(self) -> None:
        options, rng, world = self.options, stream(self._seed, "accidents"), self.world
        stations = sorted(self.layout.stations)

        def some_time() -> int:
            return rng.randint(0, options.duration)

        for _ in range(options.rows):
            world.at(some_time(), self._enter, rng.choice(stations))
        for _ in range(options.restarts):
            world.at(some_time(), self._restart, rng.choice(stations), rng.randint(MS, 300 * MS))
        if options.stopped:
            world.at(options.duration // 4, self._restart, rng.choice(stations), 10 * SECOND)
        victims = rng.sample(stations, min(options.removals, len(stations) - 2)) if len(stations) > 2 else []
        active = [gateway for gateway in self.layout.gateways if gateway not in self.layout.standby_of]
        victims += rng.sample(active, min(options.takeovers, len(active)))
        for victim in victims:
            world.at(some_time(), self._remove, victim, rng.choice((0, 50 * MS, 500 * MS)))
        for number in range(options.additions):
            world.at(some_time(), self._add, FIRST_NEWCOMER + number, rng.randrange(self.layout.clusters))

    # ---- the run ----

    def run(self) -> None:
        """All of it. Raises Violation."""
        self._plan()
        self._until(self.options.duration + 600 * MS)
        for element in self._closed:  # the operator tells everybody
            for node in self.nodes.values():
                if node.hears and node.element != element:
                    node.close(element)
        self._until(self.options.duration + 12 * SECOND if self.options.stopped else self.world.now)
        end = self.world.now + PATIENCE
        while not self.judge.is_done() and self.world.now < end:
            self._until(self.world.now + 500 * MS)
        self.judge.finish()
        self._silence()

    def _until(self, time: int) -> None:
        if not self.world.run_until(time, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now}"])

    def _silence(self) -> None:
        """Rule 5: nothing is kept, and nothing goes out but one frame for each heartbeat."""
        self.loss = 0.0
        beat = self._settings.heartbeat
        self._until(self.world.now + 4 * beat + 30 * self.options.delay)
        before, told = dict(self.frames), dict(self.told)
        self._until(self.world.now + 3 * beat)
        for name in ("Data", "Nack"):
            if self.frames.get(name, 0) != before.get(name, 0):
                raise Violation("5 silence", [f"{name} goes out though all is done"])
        for place, count in self.told.items():
            if self.nodes[place[0]].hears and count - told.get(place, 0) > 4:
                raise Violation("5 silence", [f"{place} says {count - told.get(place, 0)} times that nothing is new"])
        for node in self.nodes.values():
            for part in node.parts():
                if node.hears and node.element not in self._closed and not part.is_drained():
                    raise Violation("5 drained", [f"{node.element} in {part.roster.cluster} keeps something"])

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""
        return {
            "rows": sum(map(len, self.judge.entered.values())),
            "accepted": self.judge.accepted,
            **{f"level {level}": count for level, count in self.judge.told.items()},
            **{name: self.frames.get(name, 0) for name in ("Data", "Claims", "Nack")},
            "removed": len(self._closed),
            "restarts": sum(node.restarts for node in self.stations.values()),
            "overruns": sum(node.overruns for node in self.nodes.values()),
            "events": self.world.events_run,
        }


def run_clusters(
    seed: int, mutants: frozenset[str] = frozenset(), overrides: Mapping[str, Any] | None = None
) -> Result:
    """Run one seed and judge it. `mutants`: rules switched off on purpose, for tests.

    Raises ValueError for an unknown option.
    """
    return play("clusters", seed, ClusterRun(seed, draw_clusters(seed, overrides), mutants))
