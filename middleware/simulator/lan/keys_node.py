"""One node of the many-key LAN update layer in virtual time: its disk, its clock, its lives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.lan_update.effects import Acknowledge, LanEffect, LanPersist, SendLan
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import Entry, LanImage, LanPacket, LanWrite
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.settings import SECOND
from roamcast.middleware.simulator.disk import Disk
from roamcast.middleware.simulator.world import Alarm, World

WALL = 1_800_000_000 * SECOND
"""A right clock at virtual time 0."""
ACTIVE, REMOVED = b"active", b"removed"


def membership_key(node: str) -> str:
    """Key of the entry that says whether `node` is a member."""
    return f"m/{node}"


def membership(node: str, state: bytes = ACTIVE) -> bytes:
    """Value of that entry: the state, and the node's key, which outlives its membership."""
    return state + b" key of " + node.encode()


def role(key: str, value: bytes | None) -> tuple[str, bool] | None:
    """Which keys are membership entries, and what they say."""
    if not key.startswith("m/"):
        return None
    return key[2:], value is not None and value.startswith(ACTIVE)


def signature(entry: Entry, public: bytes) -> bytes:
    """What stands for a signature by the owner of a key."""
    content = repr((entry.key, tuple(entry.version), entry.value, entry.after and tuple(entry.after), public))
    return hashlib.blake2b(content.encode()).digest()


def verify(entry: Entry, entries: Mapping[str, Entry]) -> bool:
    """Whether the entry is signed by its author, whose key is in its membership entry (which may be this one)."""
    author = entry.version.node
    known = entries.get(membership_key(author))
    value = known.value if known is not None else entry.value
    return value is not None and entry.signature == signature(entry, value.partition(b" ")[2])


def sign_as(node: str) -> Callable[[Entry], bytes]:
    """The signing of one node."""
    public = membership(node).partition(b" ")[2]
    return lambda entry: signature(entry, public)


def copy_image(image: LanImage) -> LanImage:
    """A copy that shares only immutable parts."""
    history = {key: dict(lines) for key, lines in image.history.items()}
    return LanImage(dict(image.entries), image.alive, list(image.found), history)


def apply_writes(image: LanImage, writes: tuple[LanWrite, ...]) -> None:
    """The reference meaning of a node's writes."""
    for write in writes:
        image.apply(write)


class Surroundings(Protocol):
    """What a node has around it."""

    def send(self, node: KeysNode, peer: str, packet: LanPacket) -> None:
        """A packet leaves."""

    def committed(self, node: KeysNode, writes: tuple[LanWrite, ...]) -> None:
        """Writes have become durable."""

    def crash(self, node: KeysNode) -> None:
        """The node dies now."""


class KeysNode:
    """One node over all its lives. Power says when they begin and end; it may crash between any two effects."""

    def __init__(
        self,
        world: World,
        around: Surroundings,
        number: int,
        settings: LanSettings,
        disk: Disk[LanImage],
        rng: Random,
        mutants: frozenset[str],
    ) -> None:
        self.number = number
        self.name = f"n{number}"
        self.disk = disk
        self.core: LanNode | None = None
        self.born = False
        """Its disk holds something to begin with."""
        self.skew = 0
        """Its clock is so far ahead."""
        self.crash_per_effect = 0.0
        self.notices: list[str] = []
        self._world = world
        self._around = around
        self._settings = settings
        self._rng = rng
        self._mutants = mutants
        self._acknowledged = 0
        self._alarm = Alarm(world, lambda: self.act(LanNode.expire))

    def wall(self) -> int:
        """Its clock."""
        return WALL + self._world.now + self.skew

    def start(self) -> None:
        """A life begins on what the disk holds, if it holds anything yet."""
        if not self.born:
            return
        boot = self._rng.getrandbits(64)
        image = self.disk.load()
        self._alarm.clear()
        self.core = LanNode(
            self.name, image, boot, self._settings, role, sign_as(self.name), verify, self._mutants
        )  # fmt: skip
        self.act(LanNode.start)

    def stop(self) -> None:
        """Everything volatile is gone, and perhaps writes that nothing was built on yet."""
        self.core = None
        self.disk.crash()

    def act(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """One tick with one input, if it runs. Raises what `method` raises."""
        core = self.core
        if core is None:
            return None
        core.begin(self._world.now, self.wall())
        try:
            return method(core, *arguments)
        finally:
            core.expire()
            self._perform(core.flush())
            self._alarm.set(self.core.next_deadline() if self.core is not None else None)

    def take(self, source: str, packet: LanPacket) -> bool:
        """A packet arrives. Returns whether it was acknowledged."""
        self._acknowledged = -1
        self.act(LanNode.receive, source, packet)
        return self._acknowledged == packet.number

    def _perform(self, effects: list[LanEffect]) -> None:
        for effect in effects:
            if self.crash_per_effect and self._rng.random() < self.crash_per_effect:
                self._around.crash(self)
                return
            match effect:
                case LanPersist(writes):
                    self.disk.write(writes, partial(self._around.committed, self, writes))
                case SendLan(peer, packet):
                    self.disk.sync()
                    self._around.send(self, peer, packet)
                case Acknowledge(_, number):
                    self.disk.sync()
                    self._acknowledged = number
                case Notice(_, event) | Reject(_, event):
                    self.notices.append(event)
        self.disk.sync()
