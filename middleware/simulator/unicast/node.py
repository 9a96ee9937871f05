"""One station of the causal unicast in virtual time: its disk, its lives, and the application that reads its mail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from roamcast.middleware.causal_unicast.effects import Arrived, MailEffect, MailLost, MailPersist, SendMail
from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.records import InboxItem, MailFrame, MailImage, MailWrite
from roamcast.middleware.causal_unicast.rules import Rules
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.disk import Disk, DiskFault
from roamcast.middleware.simulator.world import Alarm, World

DEPTH_MAX = 5
"""Answers to answers to answers ..."""
READ = 1_000
LAZY = 400_000
"""Microseconds that an application takes at most for one mail; a lazy one."""


def apply_writes(image: MailImage, writes: tuple[MailWrite, ...]) -> None:
    """The reference meaning of a station's writes."""
    for write in writes:
        image.apply(write)


def disk_of(rng: Random, faults: tuple[DiskFault, ...]) -> Disk[MailImage]:
    """An empty disk."""
    return Disk(MailImage(), apply_writes, MailImage.copy, rng, faults)


class Surroundings(Protocol):
    """What a station has around it."""

    def transmit(self, source: int, target: int, frame: MailFrame) -> None:
        """A frame leaves."""

    def committed(self, node: MailNode, writes: tuple[MailWrite, ...]) -> None:
        """Writes have become durable."""

    def read(self, node: MailNode, item: InboxItem) -> None:
        """The application has read a mail, and may send others."""

    def told(self, node: MailNode, lost: MailLost) -> None:
        """The application hears of mail that is lost."""

    def crash(self, node: MailNode) -> None:
        """The station dies now."""


class MailNode:
    """One station over all its lives."""

    def __init__(
        self,
        world: World,
        around: Surroundings,
        slot: int,
        settings: MailSettings,
        disk: Disk[MailImage],
        rng: Random,
        rules: Rules,
        mutants: frozenset[str],
    ) -> None:
        self.slot = slot
        self.disk = disk
        self.core: MailStation | None = None
        self.gone = False
        """It never comes back."""
        self.peers: set[int] = set()
        self.ended: list[int] = []
        """What the group's configuration says; a start reads both."""
        self.crash_per_effect = 0.0
        self.reading = READ
        self.crashes = 0
        self.codes: dict[str, int] = {}
        """Refusals, by code."""
        self._world = world
        self._around = around
        self._settings = settings
        self._rng = rng
        self._rules = rules
        self._mutants = mutants
        self._queue: deque[InboxItem] = deque()
        self._read = 0
        """Position of the mail that was read last."""
        self._busy = False
        self._alarm = Alarm(world, lambda: self.act(lambda core: None))

    # ---- lives ----

    def start(self) -> None:
        """A life begins on what the disk holds."""
        image = self.disk.load()
        self._alarm.clear()
        self._busy = False
        self._read = image.inbox_taken
        self.core = MailStation(self.slot, self.peers, image, self._settings, self._rules, self._mutants)
        self._queue = deque(self.core.unread())
        for slot in self.ended:
            self.act(MailStation.retire, slot)
        self.act(lambda core: None)
        self._read_next()

    def stop(self) -> None:
        """Everything volatile is gone, and perhaps writes that nothing was built on yet."""
        self.core = None
        self.crashes += 1
        self.disk.crash()

    # ---- the group ----

    def add(self, slot: int) -> None:
        """It hears that a station has joined."""
        self.peers.add(slot)
        self.act(MailStation.add, slot)

    def retire(self, slot: int) -> None:
        """It hears that a station has ended."""
        self.ended.append(slot)
        self.act(MailStation.retire, slot)

    # ---- ticks ----

    def act(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """One tick with one input, if it runs."""
        core = self.core
        if core is None:
            return None
        core.begin(self._world.now)
        try:
            return method(core, *arguments)
        except MailRefused as refused:
            self.codes[refused.code] = self.codes.get(refused.code, 0) + 1
            return None
        finally:
            self._perform(core.flush())
            self._alarm.set(self.core.next_deadline() if self.core is not None else None)

    def _perform(self, effects: list[MailEffect]) -> None:
        for effect in effects:
            if self.crash_per_effect and self._rng.random() < self.crash_per_effect:
                self._around.crash(self)
                return
            match effect:
                case MailPersist(writes):
                    self.disk.write(writes, partial(self._around.committed, self, writes))
                case SendMail(peer, frame):
                    if "ack_early" not in self._mutants:
                        self.disk.sync()
                    self._around.transmit(self.slot, peer, frame)
                case Arrived(item):
                    self.disk.sync()
                    self._queue.append(item)
                    self._read_next()
                case MailLost():
                    self._around.told(self, effect)
                case Reject(_, code, _) | Notice(_, code, _):
                    self.codes[code] = self.codes.get(code, 0) + 1
        self.disk.sync()

    # ---- the application ----

    def _read_next(self) -> None:
        if self.core is not None and self._queue and not self._busy:
            self._busy = True
            self._world.after(self._rng.randint(1, self.reading), self._reads, self.core)

    def _reads(self, core: MailStation) -> None:
        if self.core is None or core is not self.core:
            return
        self._busy = False
        item = self._queue.popleft()
        if item.position != self._read + 1:
            raise Violation("inbox", [f"station {self.slot} gave {item.position} after {self._read}"])
        self._read = item.position
        self._around.read(self, item)
        if not self._queue or self._rng.random() < 0.5:
            self.act(MailStation.taken, self._read)
        if self.core is core:
            self._read_next()
