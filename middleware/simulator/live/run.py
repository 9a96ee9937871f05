"""Stations that send each other live messages over links that lose, double and delay them: one seed, fully judged.

There is no phase of healing: what is not delivered within delta is lost by contract. At the end nothing may wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roamcast.middleware.delta_causal.messages import LiveMessage
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.live.judge import LiveJudge
from roamcast.middleware.simulator.live.node import LiveNode
from roamcast.middleware.simulator.live.options import DAY, LiveOptions, draw_live
from roamcast.middleware.simulator.result import Result
from roamcast.middleware.simulator.run import play
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import Trace, World

EVENTS_MAX = 100_000
"""More events than this in one run are a storm."""
REPLIES_MAX = 3
"""Answers for each occasion, on average."""


class LiveRun:
    """The stations of one seed."""

    def __init__(self, seed: int, options: LiveOptions, mutants: frozenset[str] = frozenset()) -> None:
        self.options = options
        self.world = World()
        self.trace = Trace(self.world, lambda event: None)
        self.judge = LiveJudge(options)
        self._seed = seed
        self._net = stream(seed, "net")
        self._traffic = stream(seed, "traffic")
        self._replies = REPLIES_MAX * options.messages
        self._start = options.settings(1, options.delta).quiet + options.spread + 1
        """All stations are past the pause of their start."""
        self.nodes: dict[int, LiveNode] = {}
        slots = range(1, options.stations + 1)
        for slot in slots:
            settings = options.settings(slot, options.delta)
            rng = stream(seed, f"station {slot}")
            node = LiveNode(self.world, self, slot, settings, options.late, rng, mutants)
            node.offset = rng.randint(0, options.spread)
            node.peers = tuple(other for other in slots if other != slot)
            self.nodes[slot] = node

    # ---- what surrounds a station ----

    def transmit(self, message: LiveMessage) -> None:
        """To each destination: lost, once or twice, after any time."""
        options, rng = self.options, self._net
        self.trace.note("send", *message.id, message.destinations, message.past.size)
        for slot in message.destinations or self.nodes[message.src].peers:
            if rng.random() < options.loss:
                continue
            for _ in range(1 + (rng.random() < options.repeat)):
                most = 2 * options.delta if rng.random() < options.tail else options.delay
                self.world.after(rng.randint(rng.choice((0, 1)), most), self._arrive, slot, message)

    def _arrive(self, slot: int, message: LiveMessage) -> None:
        self.trace.note("comes", slot, *message.id)
        self.nodes[slot].receive(message)

    def heard(self, node: LiveNode, message: LiveMessage) -> None:
        """The application was given a message: perhaps it says something."""
        self.trace.note("given", node.slot, *message.id)
        rng = self._traffic
        if self._replies and rng.random() < self.options.reply:
            self._replies -= 1
            self.world.after(rng.choice((0, 0, 1, self.options.delta // 4)), self._say, node)

    def _say(self, node: LiveNode) -> None:
        rng = self._traffic
        is_broadcast = rng.random() < self.options.broadcast
        node.send(None if is_broadcast else rng.sample(node.peers, rng.choice((1, 1, rng.randint(1, len(node.peers))))))

    # ---- accidents ----

    def _plan(self) -> None:
        options, rng, world = self.options, stream(self._seed, "accidents"), self.world
        start, end = self._start, self._start + options.duration
        slots = sorted(self.nodes)
        for _ in range(options.wander):
            world.at(rng.randint(start, end), self._set_clock, rng.choice(slots), rng.randint(0, options.spread))
        for _ in range(options.leaps):
            slot, leap = rng.choice(slots), rng.choice((-1, 1)) * rng.randint(1, 3 * options.delta)
            for time, offset in zip(sorted(rng.randint(start, end) for _ in range(2)), (leap, 0), strict=True):
                world.at(time, self._set_clock, slot, offset)
        if options.mad:
            slot = rng.choice(slots)
            for time, offset in zip(sorted(rng.randint(start, end) for _ in range(2)), (DAY, 0), strict=True):
                world.at(time, self._set_clock, slot, offset)
        for _ in range(options.restarts):
            world.at(rng.randint(start, end), self._restart, rng.choice(slots), rng.randint(0, options.spread))
        for _ in range(options.changes):
            time, delta = rng.randint(start, end), max(2, rng.choice((options.delta // 2, 2 * options.delta)))
            for slot in slots:
                at = time + rng.choice((0, rng.randint(0, 2 * options.delta)))
                world.at(at, self._change, slot, rng.choice((delta, delta, options.delta)))

    def _set_clock(self, slot: int, offset: int) -> None:
        self.trace.note("clock", slot, offset)
        self.nodes[slot].set_offset(offset)

    def _restart(self, slot: int, offset: int) -> None:
        self.trace.note("restart", slot)
        node = self.nodes[slot]
        node.offset = offset
        node.start()

    def _change(self, slot: int, delta: int) -> None:
        node = self.nodes[slot]
        if delta != node.settings.delta:
            self.trace.note("delta", slot, delta)
            node.configure(self.options.settings(slot, delta))

    # ---- the run ----

    def run(self) -> None:
        """All of it. Raises Violation."""
        for node in self.nodes.values():
            node.start()
        options = self.options
        rng = stream(self._seed, "occasions")
        slots = sorted(self.nodes)
        for _ in range(options.messages):
            time = self._start + rng.randint(0, options.duration)
            self.world.at(time, self._say, self.nodes[rng.choice(slots)])
        self._plan()
        if not self.world.run_until(1 << 50, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now}"])
        for slot, place in self.judge.places.items():
            if place.waiting or self.nodes[slot].core.waiting:
                raise Violation("J4", [f"station {slot} keeps {sorted(place.waiting)} back at the end"])

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""
        judge = self.judge
        return {
            "messages": len(judge.messages),
            "deliveries": judge.deliveries,
            "prompt": judge.prompt,
            "waits": judge.waits,
            **{why: judge.drops.get(why, 0) for why in ("late", "duplicate", "quiet", "ahead", "delta")},
            "refused": sum(sum(node.refusals.values()) for node in self.nodes.values()),
            "restarts": sum(node.restarts for node in self.nodes.values()),
            "events": self.world.events_run,
        }


def run_live(seed: int, mutants: frozenset[str] = frozenset(), overrides: Mapping[str, Any] | None = None) -> Result:
    """Run one seed and judge it. `mutants`: rules switched off on purpose, for tests.

    Raises ValueError for an unknown option.
    """
    return play("live", seed, LiveRun(seed, draw_live(seed, overrides), mutants))
