"""What people and accidents do to the nodes of a many-key run: updates, clocks, partitions, backups, members."""

from __future__ import annotations

from random import Random
from typing import Protocol

from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import LanImage
from roamcast.middleware.simulator.lan.keys_judge import KeysJudge
from roamcast.middleware.simulator.lan.keys_node import REMOVED, KeysNode, membership, membership_key
from roamcast.middleware.simulator.lan.keys_options import KeysOptions
from roamcast.middleware.simulator.lan.medium import Medium
from roamcast.middleware.simulator.lan.schedule import Power, Run, Schedule
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import Trace, World


class Scene(Protocol):
    """The run, as far as the adversary needs it."""

    options: KeysOptions
    world: World
    trace: Trace
    judge: KeysJudge
    power: Power
    medium: Medium
    schedule: Schedule
    evening: int
    """When the night of all begins."""
    nodes: list[KeysNode]


class Adversary:
    """Draws a run's events from its seed and puts them on the heap."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.refused = 0
        """Local updates that a node did not take."""
        self.restored: dict[int, int] = {}
        """Nodes whose disk went back, and to when."""
        self.removed: int | None = None
        self._seed = seed
        self._healed = False
        self._labels = 0
        self._backups: dict[int, tuple[int, LanImage]] = {}

    def begin(self) -> None:
        """Everything that happens within the schedule."""
        scene, options = self.scene, self.scene.options
        world, end = scene.world, scene.schedule.end
        rng = self._rng("updates")
        for _ in range(options.updates):
            world.at(rng.randint(0, end), self._update, rng)
        for node in scene.nodes if options.night else ():
            world.at(scene.evening - rng.randint(1, options.timeout), self._put_something, node, rng)
        rng = self._rng("clocks")
        for node in scene.nodes:
            node.skew = rng.choice((-1, 0, 1)) * rng.randint(0, options.skew)
        for _ in range(options.steps):
            world.at(rng.randint(0, end), self._step, rng)
        rng = self._rng("partitions")
        for _ in range(options.partitions):
            world.at(rng.randint(0, end), self._cut, rng)
        rng = self._rng("joins")
        for number in range(options.nodes, options.population):
            world.at(rng.randint(0, end // 2), self._join, number, rng)
        rng = self._rng("removals")
        for _ in range(options.removals):
            world.at(rng.randint(0, end), self._remove, rng)
        rng = self._rng("backups")
        for _ in range(options.young_backups + options.old_backups):
            made = rng.randint(0, end)
            world.at(made, self._back_up, rng.randrange(options.nodes))
            if options.young_backups:
                world.at(rng.randint(made, end), self._restore_young)

    def begin_late(self, duration: int) -> None:
        """Tombstones grow old for `duration`: some updates more, and old backups come back about then or later."""
        scene, rng = self.scene, self._rng("late")
        for _ in range(rng.randint(0, 4)):
            scene.world.after(rng.randint(0, duration), self._update, rng)
        for _ in range(scene.options.old_backups):
            soon = duration - rng.randint(0, duration // 10)
            scene.world.after(rng.choice((soon, rng.randint(duration, 2 * duration))), self._restore_old)

    def heal(self) -> None:
        """No more faults of any kind; the clocks are right."""
        self._healed = True
        self.scene.medium.split(frozenset())
        for node in self.scene.nodes:
            node.skew = 0
            node.crash_per_effect = 0.0

    def _rng(self, name: str) -> Random:
        return stream(self._seed, name)

    # ---- updates ----

    def _update(self, rng: Random) -> None:
        """At a node that runs; sometimes twice at once, here or at two nodes."""
        awake = [node for node in self.scene.nodes if node.core is not None]
        if not awake:
            return
        node = rng.choice(awake)
        key = self._key(rng)
        self.put(node, key, self._value(rng))
        if rng.random() < self.scene.options.doubles:
            self.put(rng.choice((node, rng.choice(awake))), key, self._value(rng))

    def _put_something(self, node: KeysNode, rng: Random) -> None:
        self.put(node, self._key(rng), self._value(rng))

    def _key(self, rng: Random) -> str:
        return f"k{rng.randrange(self.scene.options.keys)}"

    def _value(self, rng: Random) -> bytes | None:
        if rng.random() < self.scene.options.deletes:
            return None
        self._labels += 1
        return b"value %d" % self._labels

    def put(self, node: KeysNode, key: str, value: bytes | None) -> bool:
        """A local update. Returns whether it is durable."""
        try:
            version = node.act(LanNode.put, key, value)
        except LanRefused:
            self.refused += 1
            return False
        if version is not None:
            self.scene.trace.note("put", node.number, key, str(value))
        return (key, version) in self.scene.judge.updates

    # ---- accidents ----

    def _step(self, rng: Random) -> None:
        skew = self.scene.options.skew
        rng.choice(self.scene.nodes).skew = rng.randint(-skew, skew)

    def _cut(self, rng: Random) -> None:
        """Two parts, for a while."""
        scene = self.scene
        population = scene.options.population
        side = frozenset(rng.sample(range(population), rng.randint(1, population - 1)))
        scene.medium.split(side)
        scene.trace.note("cut", *sorted(side))
        scene.world.after(rng.randint(scene.options.timeout, 5 * scene.options.window), self._join_up)

    def _join_up(self) -> None:
        self.scene.medium.split(frozenset())

    def _back_up(self, number: int) -> None:
        self._backups.setdefault(number, (self.scene.world.now, self.scene.nodes[number].disk.load()))

    def _restore_young(self) -> None:
        """A backup younger than A; perhaps with its clock, and then the node does again what it did since."""
        scene = self.scene
        for number, (time, image) in sorted(self._backups.items()):
            age = scene.world.now - time
            if number not in self.restored and age > 0:
                self._restore(number, time, image)
                if scene.options.clock_back:
                    scene.nodes[number].skew -= age
                    self._live_again(number, time, age)
                return

    def _live_again(self, number: int, since: int, age: int) -> None:
        """Each update since the backup is made once more, at the same time by the node's clock, with another value."""
        for update in list(self.scene.judge.updates.values()):
            if update.node == number and update.time >= since and update.entry.key.startswith("k"):
                self.scene.world.at(update.time + age, self._again, number, update.entry.key)

    def _again(self, number: int, key: str) -> None:
        if not self._healed:
            self._labels += 1
            self.put(self.scene.nodes[number], key, b"value %d" % self._labels)

    def _restore_old(self) -> None:
        """A backup as old as it may be."""
        for number, (time, image) in sorted(self._backups.items()):
            if number not in self.restored:
                self._restore(number, time, image)
                return

    def _restore(self, number: int, time: int, image: LanImage) -> None:
        scene = self.scene
        scene.trace.note("restored", number, time)
        if scene.power.is_on(number):
            scene.power.crash(number)
        scene.nodes[number].disk.reset(image)
        scene.judge.replaced(scene.world.now, number, image)
        scene.judge.went_back[number] = None
        self.restored[number] = time

    # ---- members ----

    def _join(self, number: int, rng: Random) -> None:
        """A newcomer gets the membership entry of node 0, its sponsor, which may be down."""
        scene = self.scene
        sponsor, newcomer = scene.nodes[0], scene.nodes[number]
        key = membership_key(sponsor.name)
        newcomer.disk.reset(LanImage({key: sponsor.disk.load().entries[key]}))
        scene.trace.note("join", number)
        self.enter(newcomer)
        if scene.options.sponsor_writes:
            self._insist(sponsor, newcomer)
        if scene.power.is_on(number):
            newcomer.start()
        if not scene.options.sponsor_writes:
            self._insist(newcomer, newcomer)

    def enter(self, node: KeysNode) -> None:
        """The node counts as a member from now on."""
        node.born = True
        self.scene.judge.members[node.number] = node.name
        self.scene.judge.replaced(self.scene.world.now, node.number, node.disk.load())

    def _insist(self, author: KeysNode, newcomer: KeysNode) -> None:
        """`author` says that the newcomer is a member, as soon as it can."""
        key = membership_key(newcomer.name)
        if key not in self.scene.judge.has(author.number) and not self.put(author, key, membership(newcomer.name)):
            self.scene.world.after(self.scene.options.timeout, self._insist, author, newcomer)

    def _remove(self, rng: Random) -> None:
        """Some node says that another is no member any more; it may be down, or hold what nobody else has."""
        scene = self.scene
        if scene.options.nodes < 3 or self.removed is not None:
            return
        number = rng.randrange(1, scene.options.nodes)
        name = scene.nodes[number].name
        others = [node for node in scene.nodes[: scene.options.nodes] if node.number != number]
        if self.put(rng.choice(others), membership_key(name), membership(name, REMOVED)):
            self.removed = number
            scene.judge.removed(scene.world.now, number)


def with_night(schedule: Schedule, at: int, length: int) -> Schedule:
    """The same schedule, but at `at` all nodes stop for `length`."""
    nights = []
    for runs in schedule.runs:
        parts: list[Run] = []
        for start, stop in runs:
            if stop <= at:
                parts.append((start, stop))
            elif start >= at:
                parts.append((start + length, stop + length))
            else:
                parts += [(start, at), (at + length, stop + length)]
        nights.append(tuple(parts))
    return Schedule(schedule.kind, tuple(nights), schedule.end + length)
