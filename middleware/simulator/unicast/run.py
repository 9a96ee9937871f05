"""Stations that send each other mail over links that lose, double and reorder it: one seed's faults, then rest.

While faults last every step is judged. Then everything is made whole: nobody crashes, links lose nothing, all
applications read. All that is owed must be delivered soon, all records that can go are of no harm, and nothing is
sent any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roamcast.middleware.causal_unicast.effects import MailLost
from roamcast.middleware.causal_unicast.records import InboxItem, Mail, MailFrame, MailWrite
from roamcast.middleware.causal_unicast.rules import Rules
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.disk import disk_faults
from roamcast.middleware.simulator.result import Result
from roamcast.middleware.simulator.run import play
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.unicast.accidents import Accidents
from roamcast.middleware.simulator.unicast.judge import MailJudge
from roamcast.middleware.simulator.unicast.node import DEPTH_MAX, LAZY, READ, MailNode, disk_of
from roamcast.middleware.simulator.unicast.options import UnicastOptions, draw_unicast
from roamcast.middleware.simulator.unicast.patterns import targets
from roamcast.middleware.simulator.world import Trace, World

EVENTS_MAX = 300_000
"""More events than this in one run are a storm."""
REST_MAX = 600 * SECOND
"""After this long without faults nothing may be owed."""
QUIET = 30 * SECOND


class UnicastRun:
    """The stations of one seed."""

    def __init__(
        self, seed: int, options: UnicastOptions, mutants: frozenset[str] = frozenset(), rules: Rules | None = None
    ) -> None:
        self.options = options
        self.world = World()
        self.trace = Trace(self.world, lambda event: None)
        self.judge = MailJudge()
        self.nodes: dict[int, MailNode] = {}
        self.frames = 0
        self._under_way = 0
        self._seed = seed
        self._mutants = mutants
        self._rules = rules or Rules()
        self._net = stream(seed, "net")
        self._calm = False
        self._traffic = stream(seed, "traffic")
        for slot in range(1, options.stations + 1):
            self.make(slot)
        for node in self.nodes.values():
            node.peers = self.nodes.keys() - {node.slot}
        self.accidents = Accidents(self, seed)

    def make(self, slot: int) -> MailNode:
        """A station with an empty disk, not started."""
        faults = disk_faults(sorted(self._mutants), "station")
        disk = disk_of(stream(self._seed, f"disk {slot}"), faults)
        rng = stream(self._seed, f"station {slot}")
        node = MailNode(self.world, self, slot, self.options.settings(), disk, rng, self._rules, self._mutants)
        node.crash_per_effect = self.options.crash_per_effect
        node.reading = LAZY if rng.random() < self.options.lazy else READ
        self.nodes[slot] = node
        return node

    def living(self) -> list[MailNode]:
        """All that have not ended, up or down."""
        return [node for node in self.nodes.values() if not node.gone]

    # ---- what surrounds a station ----

    def transmit(self, source: int, target: int, frame: MailFrame) -> None:
        """A frame for the network: lost, once or twice, after any time."""
        options, rng = self.options, self._net
        self.frames += 1
        parts = (frame.number, len(frame.records)) if isinstance(frame, Mail) else frame.numbers
        self.trace.note("send", source, target, *parts)
        if not self._calm and rng.random() < options.loss:
            return
        for _ in range(1 + (not self._calm and rng.random() < options.repeat)):
            most = 10 * options.delay if rng.random() < options.slow else options.delay
            self._under_way += 1
            self.world.after(rng.randint(options.delay // 10, most), self._arrive, source, target, frame)

    def _arrive(self, source: int, target: int, frame: MailFrame) -> None:
        self._under_way -= 1
        if source not in self.judge.closed and target not in self.judge.closed:
            self.nodes[target].act(MailStation.receive, source, frame)

    def committed(self, node: MailNode, writes: tuple[MailWrite, ...]) -> None:
        """Writes have become durable."""
        self.trace.note("commit", node.slot, *(type(write).__name__ for write in writes))
        self.judge.committed(node.slot, writes, node.disk.state)

    def told(self, node: MailNode, lost: MailLost) -> None:
        """The application hears of mail that is lost."""
        self.judge.told_lost.update((node.slot, number) for number in lost.numbers)

    def crash(self, node: MailNode) -> None:
        """Between two of its effects; it starts again soon."""
        self.accidents.crash(node, self._net.randint(1, 500 * MS))

    # ---- traffic ----

    def _occasion(self) -> None:
        """Somebody sends, if it is up."""
        options, rng = self.options, self._traffic
        slots = [node.slot for node in self.living()]
        sender = rng.choice(slots)
        to = [sender] if rng.random() < options.own else targets(options.pattern, sender, slots, rng)
        for target in to:
            self._send(self.nodes[sender], target, 0)

    def read(self, node: MailNode, item: InboxItem) -> None:
        """The application has read a mail: perhaps it answers, or tells somebody else."""
        if item.position <= self.judge.read.get(node.slot, 0):
            raise Violation("read again", [f"station {node.slot} was given {item.position} after it had let go of it"])
        depth = item.body[0]
        self.trace.note("read", node.slot, item.position, item.src, item.number)
        if depth < DEPTH_MAX and self._traffic.random() < self.options.reply and not self._calm:
            slots = [other.slot for other in self.living()]
            onward = targets(self.options.pattern, node.slot, slots, self._traffic)[:1]
            to = item.src if self._traffic.random() < 0.5 or not onward else onward[0]
            self._send(node, to, depth + 1)

    def _send(self, node: MailNode, to: int, depth: int) -> None:
        body = bytes([depth]) + bytes(self._traffic.randint(0, self.options.padding))
        node.act(MailStation.send, to, body)

    # ---- the run ----

    def run(self) -> None:
        """All of it. Raises Violation."""
        options = self.options
        for node in self.nodes.values():
            node.start()
        rng = stream(self._seed, "occasions")
        for _ in range(options.messages):
            self.world.at(rng.randint(0, options.duration), self._occasion)
        self.accidents.begin()
        self._advance(options.duration)
        self._calm = True
        self.accidents.heal()
        for node in self.nodes.values():
            node.crash_per_effect = 0.0
            node.reading = READ
        self._rest()

    def _rest(self) -> None:
        end = self.world.now + REST_MAX
        while left := self._unsettled():
            if self.world.now >= end:
                raise Violation("owed", [f"after {REST_MAX // SECOND} s without faults:", *left])
            self._advance(self.world.now + SECOND)
        before = self.frames
        self._advance(self.world.now + QUIET)
        if self.frames != before:
            raise Violation("quiet", [f"{self.frames - before} frames at rest"])
        for node in self.living():
            if untold := self.judge.untold(node.slot):
                raise Violation("untold", untold)

    def _unsettled(self) -> list[str]:
        if left := self.judge.undelivered():
            return left
        for node in self.living():
            core, image = node.core, node.disk.state
            if core is None:
                return [f"station {node.slot} is down"]
            if image.held or image.inbox or any(image.outgoing.values()) or core.next_deadline() is not None:
                return [f"station {node.slot}: {core.status()}"]
        return self.accidents.left() or [f"{self._under_way} frames are under way"] * bool(self._under_way)

    def _advance(self, time: int) -> None:
        if not self.world.run_until(time, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now} us"])

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""
        codes: dict[str, int] = {}
        for node in self.nodes.values():
            for code, count in node.codes.items():
                codes[code] = codes.get(code, 0) + count
        return {
            "mails": self.judge.sent,
            "deliveries": self.judge.deliveries,
            "waits": self.judge.waits,
            "compared": self.judge.compared,
            "frames": self.frames,
            "crashes": sum(node.crashes for node in self.nodes.values()),
            "refused": codes.get("mailbox-full", 0) + codes.get("inbox-full", 0),
            "joined": len(self.nodes) - self.options.stations,
            "lost": len(self.judge.closed),
            "told_lost": len(self.judge.told_lost),
            "went_back": self.accidents.found,
            "events": self.world.events_run,
        }


def run_unicast(
    seed: int,
    mutants: frozenset[str] = frozenset(),
    overrides: Mapping[str, Any] | None = None,
    rules: Rules | None = None,
) -> Result:
    """Run one seed and judge it. `mutants`: rules switched off on purpose, `rules`: others than those used; for tests.

    Raises ValueError for an unknown option.
    """
    return play("cmd", seed, UnicastRun(seed, draw_unicast(seed, overrides), mutants, rules))
