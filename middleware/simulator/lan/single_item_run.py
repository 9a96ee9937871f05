"""The single-item algorithm of paper 004 in a simulated LAN: nodes halt, recover and crash; its theorems are checked.

A run draws its options from a seed, plays a schedule with updates in it, then lets all nodes run until there is
rest. Checked: no store goes back; theorem 1 at the earliest-path time of every node, after every update; corollary 4
(queues); at rest all are equal; theorem 2, as repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roamcast.middleware.lan_update.single_item import INITIAL, Message, Send, SingleItemNode, Step, Store, Taken
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.lan.medium import Medium, MediumModel
from roamcast.middleware.simulator.lan.schedule import Power, Schedule, draw_schedule, earliest_paths
from roamcast.middleware.simulator.lan.single_item_options import SingleItemOptions, draw_single_item
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import World

EVENTS_MAX = 500_000
"""More events than this in one run are a storm."""


@dataclass(slots=True)
class SingleItemResult:
    """What came of one seed."""

    seed: int
    options: SingleItemOptions
    checks: int
    """Times that theorem 1 demanded an update of a node."""
    settled: int
    """Microseconds from the beginning of theorem 2 until rest."""
    longest: int
    """Entries in the longest queue."""
    rule: str = ""
    """The broken promise; '' = none."""
    witness: tuple[str, ...] = ()


@dataclass(slots=True)
class _Node:
    """One node over all its lives."""

    number: int
    net: list[int]
    """In the order in which it tells them."""
    skew: int
    stored: list[tuple[int, Message]]
    """What was durable, since when."""
    core: SingleItemNode | None = None

    def had(self, time: int) -> Message:
        """What was durable at `time`."""
        return next(mes for since, mes in reversed(self.stored) if since <= time)


def _age(mes: Message) -> tuple[int, int]:
    return (mes.stamp, mes.src_node)


class SingleItemRun:
    """The LAN of one seed. A directed test gives the schedule, and changes `nodes` before it calls `run`."""

    def __init__(
        self,
        seed: int,
        options: SingleItemOptions,
        mutants: frozenset[str] = frozenset(),
        schedule: Schedule | None = None,
    ) -> None:
        self.options = options
        self.world = World()
        self.checks = self.settled = self.longest = 0
        self.commits: dict[Message, int] = {}
        """When each update was first durable anywhere; what is there at the start counts as made then."""
        self._made = 0
        """When a user last asked for an update."""
        self._mutants = mutants
        self._rng = stream(seed, "crashes of nodes")
        self._crash_per_step = options.crash_per_step
        self._rest_since = 0
        rng = stream(seed, "habits of nodes")
        numbers = range(options.nodes)
        ages = rng.sample(numbers, options.nodes)
        self.nodes = [
            _Node(
                number, rng.sample(numbers, options.nodes), rng.randint(-options.skew, options.skew),
                [(0, Message(ages[number], number, "old") if options.old else INITIAL)],
            )
            for number in numbers
        ]  # fmt: skip
        self.schedule = schedule or draw_schedule(
            options.kind, seed, nodes=options.nodes, window=options.window, timeout=options.timeout,
            days=options.days, crashes=options.crashes,
        )  # fmt: skip
        self.power = Power(self.world, stream(seed, "power"), self.schedule, options.timeout, self._start, self._stop)
        model = MediumModel(timeout=options.timeout, slow=options.slow, unsure=options.unsure)
        self.medium = Medium(self.world, stream(seed, "medium"), model, self.power, self._deliver)
        rng = stream(seed, "updates")
        for count in range(options.updates):
            time = rng.randint(0, self.schedule.end * 2 // 3)
            awake = [number for number in numbers if self.schedule.is_planned(number, time)]
            if awake:
                self.world.at(time, self.request, rng.choice(awake), f"update {count}")

    # ---- nodes ----

    def _start(self, number: int) -> None:
        node = self.nodes[number]
        stored = INITIAL if "not_loaded" in self._mutants else node.stored[-1][1]
        node.core = SingleItemNode(number, node.net, stored, self._mutants)
        self._resume(node, node.core)

    def _stop(self, number: int) -> None:
        self.nodes[number].core = None
        self._rest_since = self.world.now

    def request(self, number: int, data: str) -> None:
        """A user updates the information at node `number`, if that runs."""
        node = self.nodes[number]
        if node.core is not None:
            self._made = self.world.now
            self._perform(node, node.core.request(data, self.world.now + node.skew))

    def _deliver(self, number: int, sender: int, mes: Message) -> bool:
        node = self.nodes[number]
        if node.core is not None:
            step = node.core.receive(sender, mes)
            self._look_at_queue(node, len(node.core.queue))
            self._perform(node, step)
        return True

    def _resume(self, node: _Node, core: SingleItemNode) -> None:
        if node.core is core:
            step = core.resume()
            self._perform(node, step)
            if not core.busy:
                self._rest_since = self.world.now

    def _perform(self, node: _Node, step: Step | None) -> None:
        """Do what the node asks for, if it asks for something new, and let it resume after that."""
        core = node.core
        if step is None or core is None:
            return
        if self._rng.random() < self._crash_per_step:
            self.power.crash(node.number)
            return
        match step:
            case Taken():
                self.world.after(self.options.computing, self._resume, node, core)
            case Store(mes):
                self.world.after(self.options.storing, self._stored, node, core, mes)
            case Send(mes, dst):
                self.medium.send(node.number, dst, mes, lambda arrived: self._resume(node, core))

    def _stored(self, node: _Node, core: SingleItemNode, mes: Message) -> None:
        if node.core is not core:
            return
        before = node.stored[-1][1]
        if _age(mes) <= _age(before):
            raise Violation("went back", [f"node {node.number} stored {mes} over {before} at {self.world.now} us"])
        node.stored.append((self.world.now, mes))
        self.commits.setdefault(mes, self.world.now)
        self._resume(node, core)

    def _look_at_queue(self, node: _Node, length: int) -> None:
        """Corollary 4, once no pass of an update that was made lasts any more."""
        self.longest = max(self.longest, length)
        limit = self.options.queue_bound(self.options.nodes)
        if self.world.now > self._made + (self.options.passing + 1) * self.options.timeout and length > limit:
            raise Violation("queue", [f"node {node.number} has {length} entries at {self.world.now} us, over {limit}"])

    # ---- the run and its end ----

    def run(self) -> None:
        """The schedule, then rest. Raises Violation."""
        self.commits = {node.stored[0][1]: 0 for node in self.nodes}
        self._advance(self.schedule.end)
        self._crash_per_step = 0.0
        self.power.all_on()
        options = self.options
        self._advance(self.world.now + options.timeout + options.bound + options.settling)
        self._check_theorem_1()
        self._check_rest()

    def _advance(self, time: int) -> None:
        if not self.world.run_until(time, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now} us"])

    def _check_theorem_1(self) -> None:
        """By all paths from where an update was made; then from wherever it really was, often earlier than due."""
        made = sorted(set(self.commits.values()))
        runs = self.power.runs()
        for time, following in zip(made, [*made[1:], self.world.now], strict=True):
            newest = max((mes for mes, since in self.commits.items() if since <= time), key=_age)
            had = {
                node.number: since
                for node in self.nodes
                for since, mes in node.stored
                if mes == newest and since < following
            }
            sources = {number: time for number, since in had.items() if since <= time}
            ends = earliest_paths(runs, sources, self.options.window)
            self._demand("late", newest, following, dict(enumerate(ends)))
            for number in range(len(self.nodes)):
                others = {other: max(since, time) for other, since in had.items() if other != number}
                end = earliest_paths(runs, others, self.options.window)[number]
                self._demand("not passed on", newest, following, {number: end})

    def _demand(self, rule: str, newest: Message, following: int, ends: Mapping[int, int | None]) -> None:
        """Demand `newest`, or what is newer, of nodes by a time each, if that is before `following`."""
        for number, by in ends.items():
            if by is None or by >= following:
                continue
            self.checks += rule == "late"
            if _age(self.nodes[number].had(by)) < _age(newest):
                words = f"{newest} was first stored at {self.commits[newest]} us"
                raise Violation(rule, [words, f"node {number} has {self.nodes[number].had(by)} at {by} us"])

    def _check_rest(self) -> None:
        """All are equal and rest; theorem 2."""
        stored = [node.stored[-1] for node in self.nodes]
        if len({mes for _, mes in stored}) > 1:
            raise Violation("unequal", [f"node {node.number} has {node.stored[-1][1]}" for node in self.nodes])
        if any(node.core is None or node.core.busy for node in self.nodes):
            raise Violation("no rest", [f"{self.world.now} us"])
        begin = max(self.power.last_start, *(since for since, _ in stored))
        self.settled = max(0, self._rest_since - begin)
        if self.settled > self.options.settling:
            raise Violation("no rest", [f"{self.settled} us after all were equal, over {self.options.settling}"])


def run_single_item(
    seed: int, overrides: Mapping[str, Any] | None = None, mutants: frozenset[str] = frozenset()
) -> SingleItemResult:
    """Run one seed and judge it. Raises ValueError for an unknown option."""
    options = draw_single_item(seed, overrides)
    run = SingleItemRun(seed, options, mutants)
    rule, witness = "", []
    try:
        run.run()
    except Violation as violation:
        rule, witness = violation.rule, violation.witness
    return SingleItemResult(seed, options, run.checks, run.settled, run.longest, rule, tuple(witness))
