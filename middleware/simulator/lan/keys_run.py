"""The many-key LAN update layer in a simulated LAN: one seed's schedule with its accidents, then rest.

A run plays a schedule of halting nodes with updates and accidents in it, then everything is made whole: all nodes
run, clocks are right, nobody crashes. By then theorem 1 must have held for every update; after it the stores must
become equal and the LAN quiet, and, if tombstones are purged, none may be left in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import Entry, LanImage, LanPacket, LanWrite, Version
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.disk import Disk, disk_faults
from roamcast.middleware.simulator.lan.keys_faults import Adversary, with_night
from roamcast.middleware.simulator.lan.keys_judge import KeysJudge, line_of
from roamcast.middleware.simulator.lan.keys_node import (
    WALL,
    KeysNode,
    apply_writes,
    copy_image,
    membership,
    membership_key,
    sign_as,
)
from roamcast.middleware.simulator.lan.keys_options import KeysOptions, draw_keys
from roamcast.middleware.simulator.lan.medium import Medium, MediumModel
from roamcast.middleware.simulator.lan.schedule import Power, Schedule, draw_schedule
from roamcast.middleware.simulator.result import Result
from roamcast.middleware.simulator.run import play
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import Trace, World

EVENTS_MAX = 300_000
"""More events than this in one run are a storm."""
ROUNDS_MAX = 60
"""Intervals of exchange until all must be equal."""
QUIET_ROUNDS = 5


class KeysRun:
    """The LAN of one seed."""

    def __init__(
        self,
        seed: int,
        options: KeysOptions,
        mutants: frozenset[str] = frozenset(),
        schedule: Schedule | None = None,
    ) -> None:
        self.options = options
        self.world = World()
        self.trace = Trace(self.world, lambda event: None)
        self.judge = KeysJudge()
        self.schedule = schedule or draw_schedule(
            options.kind, seed, nodes=options.population, window=options.window, timeout=options.timeout,
            days=options.days, crashes=options.crashes,
        )  # fmt: skip
        self.settings = options.settings(self.schedule.end // options.days)
        self.evening = stream(seed, "evening").randint(options.timeout, self.schedule.end)
        if options.night:
            length = self.settings.stale_after + 2 * options.timeout
            self.schedule = with_night(self.schedule, self.evening, length)
        self.power = Power(self.world, stream(seed, "power"), self.schedule, options.timeout, self._start, self._stop)
        model = MediumModel(timeout=options.timeout, slow=options.slow, unsure=options.unsure)
        self.medium = Medium(self.world, stream(seed, "medium"), model, self.power, self._deliver)
        self.nodes = [self._make_node(seed, number, mutants) for number in range(options.population)]
        self.adversary = Adversary(self, seed)
        self.in_flight = [0] * options.population
        """Packets of each node's present life."""

    def _make_node(self, seed: int, number: int, mutants: frozenset[str]) -> KeysNode:
        faults = disk_faults(sorted(mutants), "station")
        disk = Disk(LanImage(), apply_writes, copy_image, stream(seed, f"disk {number}"), faults)
        rng = stream(seed, f"node {number}")
        node = KeysNode(self.world, self, number, self.settings, disk, rng, mutants)
        node.crash_per_effect = self.options.crash_per_effect
        return node

    # ---- what surrounds a node ----

    def _start(self, number: int) -> None:
        self.trace.note("start", number)
        self.nodes[number].start()

    def _stop(self, number: int) -> None:
        self.trace.note("stop", number)
        self.nodes[number].stop()
        self.in_flight[number] = 0

    def crash(self, node: KeysNode) -> None:
        """Between two of its effects."""
        self.power.crash(node.number)

    def send(self, node: KeysNode, peer: str, packet: LanPacket) -> None:
        """A packet for the medium."""
        target = int(peer[1:])
        self.judge.sent(node, target, packet)
        parts = (len(packet.sums), len(packet.described), len(packet.want), len(packet.entries))
        self.trace.note("send", node.number, target, packet.number, packet.stale, *parts)
        self.in_flight[node.number] += 1
        self.medium.send(node.number, target, packet, partial(self._done, node, peer, packet.number))

    def _done(self, node: KeysNode, peer: str, number: int, arrived: bool) -> None:
        self.in_flight[node.number] -= 1
        node.act(LanNode.acked if arrived else LanNode.failed, peer, number)

    def _deliver(self, target: int, source: int, packet: LanPacket) -> bool:
        node, key = self.nodes[target], membership_key(f"n{source}")
        before = dict(self.judge.has(target))
        knew = key in before and not (before[key].value or b"").startswith(b"active")
        taken = node.take(f"n{source}", packet)
        self.judge.taken(source, target, before, knew)
        return taken

    def committed(self, node: KeysNode, writes: tuple[LanWrite, ...]) -> None:
        """Writes have become durable."""
        self.trace.note("commit", node.number, *map(line_of, writes))
        self.judge.committed(self.world.now, node.number, node.name, writes)

    # ---- the run ----

    def run(self) -> None:
        """All of it. Raises Violation."""
        options = self.options
        self.set_up()
        self.adversary.begin()
        self.advance(self.schedule.end)
        if options.is_theorem:
            self.judge.check_theorem_1(self.power.runs(), options.window, self.world.now)
        self.adversary.heal()
        self.power.all_on()
        self._rest()
        if options.purges:
            duration = self.settings.purge_after + 3 * self.settings.exchange_interval
            self.adversary.begin_late(duration)
            self.advance(self.world.now + 2 * duration)
            self._rest()
            self.advance(self.world.now + duration)
            self._check_purged()

    def set_up(self) -> None:
        """All but the joiners have the membership entries of all but the joiners."""
        founders = self.nodes[: self.options.nodes]
        entries = {}
        for node in founders:
            entry = Entry(membership_key(node.name), Version(WALL, 0, node.name, 0), membership(node.name))
            signature = sign_as(node.name)(entry)
            entries[entry.key] = Entry(entry.key, entry.version, entry.value, signature=signature)
        for node in founders:
            node.disk.reset(LanImage(dict(entries), WALL))
            self.adversary.enter(node)

    def advance(self, time: int) -> None:
        """Run until `time`. Raises Violation: too much happens."""
        if not self.world.run_until(time, EVENTS_MAX):
            raise Violation("storm", [f"more than {EVENTS_MAX} events by {self.world.now} us"])

    def _rest(self) -> None:
        """Soon all are equal and have authority; from then on nothing is sent."""
        interval = self.settings.exchange_interval
        for _ in range(ROUNDS_MAX):
            self.advance(self.world.now + interval)
            left = self._unsettled()
            if not left:
                break
        else:
            raise Violation("K4", [f"after {ROUNDS_MAX} intervals of exchange:", *left])
        self.judge.check_newest(self._may_be_lost())
        before = self.medium.sends
        self.advance(self.world.now + QUIET_ROUNDS * interval)
        if self.medium.sends != before:
            raise Violation("K4", [f"{self.medium.sends - before} packets at rest"])
        left = self._unsettled()
        if left:
            raise Violation("K4", ["rest does not last:", *left])

    def _unsettled(self) -> list[str]:
        for number, name in self.judge.members.items():
            core = self.nodes[number].core
            if core is None:
                return [f"{name} is down"]
            status = core.status()
            if status["stale"] or status["former"] or status["removed"] or status["lapsed"]:
                return [f"{name}: {status}"]
            if sorted(core.peers()) != sorted(other for other in self.judge.members.values() if other != name):
                return [f"the members that {name} knows: {core.peers()}"]
        if any(self.in_flight):
            return [f"packets are under way: {self.in_flight}"]
        return self.judge.unequal()

    def _check_purged(self) -> None:
        left = self.judge.tombstones()
        if left or self._unsettled():
            raise Violation("K4", ["tombstones are left", *left, *self._unsettled()])

    def _may_be_lost(self) -> list[tuple[str, Version]]:
        """Updates of nodes whose disk went back, or that were removed: nobody else need have had them."""
        authors = {*self.adversary.restored, self.adversary.removed}
        return [name for name, update in self.judge.updates.items() if update.node in authors]

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""
        notices = [event for node in self.nodes for event in node.notices]
        return {
            "updates": len(self.judge.updates),
            "checks": self.judge.checks,
            "packets": self.medium.sends,
            "commits": self.judge.commits,
            "purged": sum(self.judge.purged.values()),
            "refused": self.adversary.refused,
            "restored": len(self.adversary.restored),
            "stale": notices.count("lan-stale"),
            "set_aside": notices.count("lan-set-aside"),
            "removed": notices.count("lan-removed"),
            "clock_off": notices.count("lan-clock-off"),
            "lives": sum(self.power.lives),
            "events": self.world.events_run,
        }


def run_keys(seed: int, mutants: frozenset[str] = frozenset(), overrides: Mapping[str, Any] | None = None) -> Result:
    """Run one seed and judge it. `mutants`: rules switched off on purpose, for tests.

    Raises ValueError for an unknown option.
    """
    return play("lan", seed, KeysRun(seed, draw_keys(seed, overrides), mutants))
