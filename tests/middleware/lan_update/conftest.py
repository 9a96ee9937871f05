"""A LAN of many-key nodes in memory: packets arrive at once unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.effects import Notice
from roamcast.middleware.lan_update.effects import Acknowledge, LanPersist, SendLan
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import LanImage, LanPacket, Version
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.settings import SECOND
from roamcast.middleware.simulator.lan.keys_node import (
    apply_writes,
    copy_image,
    membership,
    membership_key,
    role,
    sign_as,
    verify,
)

WALL = 1_800_000_000 * SECOND

Flight = tuple[str, str, LanPacket]
"""(sender, receiver, packet)."""


class Lan:
    """Nodes on a wire that a test may lose packets and acknowledgements on. They start as equal, known members."""

    def __init__(self, *names: str, mutants: frozenset[str] = frozenset(), **settings: Any) -> None:
        self.mutants = mutants
        self.settings = LanSettings(**settings)
        self.now = 1_000_000_000
        self.images: dict[str, LanImage] = {}
        """What is durable."""
        self.up: dict[str, LanNode] = {}
        self.skew: dict[str, int] = {}
        """How far the clock of a node is ahead."""
        self.lives = 0
        self.delay = 0
        """Of every packet; acknowledgements take no time."""
        self.wire: list[tuple[int, Flight]] = []
        """Under way, with the time of arrival."""
        self.sent: list[Flight] = []
        """Every packet that was sent, lost or not; cleared by tests at will."""
        self.told: dict[str, list[Any]] = {}
        """Changed, Dropped, Notice and Reject, per node."""
        self.lose: Callable[[str, str, LanPacket], bool] = lambda source, target, packet: False
        self.lose_ack: Callable[[str, str], bool] = lambda source, target: False
        for name in names:
            self.start(name)
            self.put(name, membership_key(name), membership(name))
            self.stop(name)
        for name in names:
            for other in names:
                self.introduce(name, to=other)
        self.start(*names)
        self.deliver()
        self.forget()

    def forget(self) -> None:
        """What was sent and told so far."""
        self.sent.clear()
        for told in self.told.values():
            told.clear()

    def introduce(self, name: str, to: str) -> None:
        """`to` has the membership entry of `name` on its disk."""
        key = membership_key(name)
        self.images[to].entries[key] = self.images[name].entries[key]

    # ---- lives ----

    def start(self, *names: str) -> None:
        for name in names:
            self.lives += 1
            image = copy_image(self.images.setdefault(name, LanImage()))
            self.told.setdefault(name, [])
            boot = 1_000_003 * self.lives
            self.up[name] = LanNode(name, image, boot, self.settings, role, sign_as(name), verify, self.mutants)
            self.act(name, LanNode.start)

    def stop(self, *names: str) -> None:
        for name in names:
            del self.up[name]

    def restart(self, *names: str) -> None:
        """All stop, then all start, and everything is said."""
        self.stop(*(name for name in names if name in self.up))
        self.start(*names)
        self.deliver()

    def wall(self, name: str) -> int:
        return WALL + self.now + self.skew.get(name, 0)

    # ---- inputs ----

    def act(self, name: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """One tick with one input."""
        node = self.up[name]
        node.begin(self.now, self.wall(name))
        try:
            return method(node, *arguments)
        finally:
            node.expire()
            self.perform(name, node)

    def perform(self, name: str, node: LanNode) -> None:
        for effect in node.flush():
            match effect:
                case LanPersist(writes):
                    apply_writes(self.images[name], writes)
                case SendLan(peer, packet):
                    self.sent.append((name, peer, packet))
                    if not self.lose(name, peer, packet):
                        self.wire.append((self.now + self.delay, (name, peer, packet)))
                case Acknowledge(peer, number):
                    if peer in self.up and not self.lose_ack(name, peer):
                        self.act(peer, LanNode.acked, name, number)
                case _:
                    self.told[name].append(effect)

    def put(self, name: str, key: str, value: bytes | None) -> Version:
        version: Version = self.act(name, LanNode.put, key, value)
        return version

    def deliver(self) -> None:
        """Everything that is due on the wire arrives, in order, and what that causes."""
        while self.wire and self.wire[0][0] <= self.now:
            self.hand(*self.wire.pop(0)[1])

    def hand(self, source: str, target: str, packet: LanPacket) -> None:
        """One packet arrives."""
        if target in self.up:
            self.act(target, LanNode.receive, source, packet)

    def run(self, duration: int) -> None:
        """Time passes; packets arrive and timers run when they are due."""
        end = self.now + duration
        while True:
            self.deliver()
            due = [deadline for node in self.up.values() if (deadline := node.next_deadline()) is not None]
            following = min((*due, *(time for time, _ in self.wire[:1])), default=end + 1)
            if following > end:
                break
            self.now = max(self.now, following)
            self.deliver()
            for name in list(self.up):
                self.act(name, LanNode.expire)
        self.now = end

    def leap(self, duration: int) -> None:
        """Much time passes in which nothing happened; then every timer runs once."""
        self.now += duration
        self.run(self.settings.exchange_interval)

    def purge(self) -> None:
        """Long enough for every settled tombstone to go."""
        self.run(self.settings.exchange_interval)
        self.leap(self.settings.purge_after)
        self.run(self.settings.exchange_interval)

    def cut(self, *side: str) -> None:
        """The nodes of `side` are cut off from all others; none: healed."""
        self.lose = lambda source, target, packet: (source in side) != (target in side)

    def status(self, name: str) -> dict[str, Any]:
        return self.up[name].status()

    # ---- questions ----

    def get(self, name: str, key: str) -> bytes | None:
        """What is durable there; None: deleted, or nothing."""
        entry = self.images[name].entries.get(key)
        return entry.value if entry else None

    def all_get(self, key: str) -> list[bytes | None]:
        return [self.get(name, key) for name in self.up]

    def is_equal(self, *names: str) -> bool:
        """Whether the stores of all named (default: all that are up) are equal, holders included."""
        stores = [self.images[name].entries for name in names or self.up]
        return all(store == stores[0] for store in stores)

    def of(self, name: str, kind: type) -> list[Any]:
        """What a node told, of one kind."""
        return [effect for effect in self.told[name] if isinstance(effect, kind)]

    def events(self, name: str) -> list[str]:
        return [notice.event for notice in self.of(name, Notice)]

    def packets(self, source: str, target: str | None = None) -> list[LanPacket]:
        """What was sent by one node, to one if `target` is given."""
        return [packet for one, other, packet in self.sent if one == source and target in (None, other)]


@pytest.fixture
def make_lan() -> type[Lan]:
    return Lan


@pytest.fixture
def lan() -> Lan:
    return Lan("a", "b", "c")
