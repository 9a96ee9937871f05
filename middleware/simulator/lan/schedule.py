"""When the nodes of a LAN run: drawn timelines, and by when an update must be everywhere (paper 004, theorem 1).

Use: `draw_schedule` makes a plan from a seed; `Power` plays it in a World, crashes nodes on top of it and keeps
what really happened; `earliest_paths` says of that (`Power.runs`) by when each node must have an update.
Nodes are numbered 0 .. N - 1. All times are virtual, in microseconds. Nothing here knows what the nodes do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import World

KINDS = ("chain", "random", "always")

Run = tuple[int, int]
"""A node runs from the first time on, and no longer at the second."""
Runs = tuple[Run, ...]
"""One node's runs, in order, apart."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of one seed: `runs[node]`; after `end` nothing is planned."""

    kind: str
    runs: tuple[Runs, ...]
    end: int

    def is_planned(self, node: int, time: int) -> bool:
        """Whether the plan has `node` running at `time`."""
        return any(start <= time < stop for start, stop in self.runs[node])


def draw_schedule(kind: str, seed: int, *, nodes: int, window: int, timeout: int, days: int, crashes: int) -> Schedule:
    """The timelines of a seed. Raises ValueError for an unknown kind.

    `chain`: every day the nodes run one after the other, in an order of the seed; each runs together with its two
    neighbours only, for exactly `window`. Weak connection without strong connection: nodes of the day, nodes of
    the night. `random`: runs and pauses of any length, up to some windows. `always`: all nodes, all the time.
    `crashes` of the runs are cut in two, anywhere. A stopped node stays down for at least `timeout` (Tw).
    A day is the time for one pass along the chain; of the other kinds, `nodes` windows.
    """
    rng = stream(seed, "schedule")
    if kind == "chain":
        runs, end = _chain(rng, nodes, window, timeout, days)
    elif kind == "random":
        end = days * nodes * window
        runs = [_at_random(rng, window, timeout, end) for _ in range(nodes)]
    elif kind == "always":
        end = days * nodes * window
        runs = [[(0, end)] for _ in range(nodes)]
    else:
        raise ValueError(f"no schedule {kind!r}; there are {', '.join(KINDS)}")
    for _ in range(crashes):
        _cut(rng, runs[rng.randrange(nodes)], window, timeout)
    return Schedule(kind, tuple(map(tuple, runs)), end)


def _chain(rng: Random, nodes: int, window: int, timeout: int, days: int) -> tuple[list[list[Run]], int]:
    """Node after node: each starts when the last but one has stopped, `window` before the last one stops."""
    order = rng.sample(range(nodes), nodes)
    runs: list[list[Run]] = [[] for _ in range(nodes)]
    start = 0
    for _ in range(days):
        stopped = start
        for node in order:
            following = max(start, stopped) + rng.choice((0, rng.randint(0, 2 * timeout)))
            runs[node].append((start, following + window))
            start, stopped = following, following + window
        start = stopped + rng.randint(timeout, 3 * timeout)
    return runs, start


def _at_random(rng: Random, window: int, timeout: int, end: int) -> list[Run]:
    runs: list[Run] = []
    start = rng.choice((0, rng.randint(0, 2 * window)))
    while start < end:
        stop = min(end, start + rng.randint(1, rng.choice((timeout, window, 3 * window))))
        runs.append((start, stop))
        start = stop + rng.randint(timeout, rng.choice((2 * timeout, timeout + 2 * window)))
    return runs


def _cut(rng: Random, runs: list[Run], window: int, timeout: int) -> None:
    """A crash somewhere in one of `runs`; the rest of that run follows after a pause, if there is a rest."""
    at = rng.randrange(len(runs))
    start, stop = runs[at]
    if stop - start < 2:
        return
    crash = rng.randrange(start + 1, stop)
    again = crash + rng.randint(timeout, timeout + rng.choice((timeout, window)))
    runs[at : at + 1] = [(start, crash), (again, stop)] if again < stop else [(start, crash)]


class Power:
    """Plays a schedule: calls `start(node)` and `stop(node)`, and remembers when each node really ran.

    `stop` means that everything volatile of the node is gone. A node is down for at least `timeout` (Tw), whatever
    the plan says; after a crash it comes back if, and while, the plan has it running.
    """

    def __init__(
        self,
        world: World,
        rng: Random,
        schedule: Schedule,
        timeout: int,
        start: Callable[[int], None],
        stop: Callable[[int], None],
    ) -> None:
        nodes = range(len(schedule.runs))
        self.lives = [0 for _ in nodes]
        """How many times each node has started."""
        self.last_start = 0
        self._world = world
        self._rng = rng
        self._schedule = schedule
        self._timeout = timeout
        self._start = start
        self._stop = stop
        self._past: list[list[Run]] = [[] for _ in nodes]
        self._since: list[int | None] = [None for _ in nodes]
        self._healed = False
        for node in nodes:
            for first, last in schedule.runs[node]:
                world.at(first, self._switch_on, node)
                world.at(last, self._planned_stop, node)

    def is_on(self, node: int) -> bool:
        """Whether `node` runs now."""
        return self._since[node] is not None

    def crash(self, node: int) -> None:
        """`node` stops now, unplanned, and comes back some time later."""
        self._switch_off(node)
        self._world.after(self._rng.randint(self._timeout, 4 * self._timeout), self._switch_on, node)

    def all_on(self) -> None:
        """The plan is over: all nodes run, each at the latest `timeout` from now, and none stops except by `crash`."""
        self._healed = True
        for node in range(len(self._since)):
            self._switch_on(node)

    def runs(self) -> tuple[Runs, ...]:
        """When the nodes have run so far; a run that lasts ends just after now."""
        now = self._world.now
        return tuple(
            (*past, (since, now + 1)) if since is not None else tuple(past)
            for past, since in zip(self._past, self._since, strict=True)
        )

    def _switch_on(self, node: int) -> None:
        now = self._world.now
        if self.is_on(node) or not (self._healed or self._schedule.is_planned(node, now)):
            return
        rested = self._past[node][-1][1] + self._timeout if self._past[node] else 0
        if now < rested:
            self._world.at(rested, self._switch_on, node)
            return
        self._since[node] = self.last_start = now
        self.lives[node] += 1
        self._start(node)

    def _planned_stop(self, node: int) -> None:
        if self.is_on(node) and not self._healed:
            self._switch_off(node)

    def _switch_off(self, node: int) -> None:
        since, self._since[node] = self._since[node], None
        if since is None:
            raise ValueError(f"node {node} is down already")
        self._past[node].append((since, self._world.now))
        self._stop(node)


def joint_runs(one: Runs, other: Runs) -> list[Run]:
    """When both run, in order."""
    joint: list[Run] = []
    at, beside = 0, 0
    while at < len(one) and beside < len(other):
        start = max(one[at][0], other[beside][0])
        stop = min(one[at][1], other[beside][1])
        if start < stop:
            joint.append((start, stop))
        if one[at][1] < other[beside][1]:
            at += 1
        else:
            beside += 1
    return joint


def earliest_paths(runs: Sequence[Runs], sources: Mapping[int, int], window: int) -> list[int | None]:
    """By when each node must have an update that `sources` (node -> time) had durably; None: no path leads there.

    Theorem 1 of paper 004: who has it gives it to whoever then runs together with it for `window` (k Tw) on end, by
    the end of that window. The earliest of all paths counts, over any number of nodes between.
    """
    at: list[int | None] = [None] * len(runs)
    reached = sorted((time, node) for node, time in sources.items())
    while reached:
        time, node = heappop(reached)
        if at[node] is not None:
            continue
        at[node] = time
        for peer in range(len(runs)):
            for start, stop in joint_runs(runs[node], runs[peer]) if at[peer] is None else ():
                if (end := max(start, time) + window) <= stop:
                    heappush(reached, (end, peer))
                    break
    return at
