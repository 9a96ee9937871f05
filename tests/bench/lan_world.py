"""A LAN of many-key nodes in virtual time: what an exchange costs on the wire, and how long it takes.

The nodes are the simulator's (the real core, disks, signatures as long as real ones). Each frame is encoded and
decoded by the codec of the station link, and is under way for DELAY; computing takes no time. Nothing is lost but
what goes to a node that is down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bench.child import Json

from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import (
    Entry,
    LanAck,
    LanFrame,
    LanImage,
    LanPacket,
    LanWrite,
    PutEntry,
    Version,
)
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.simulator.disk import Disk
from roamcast.middleware.simulator.lan.keys_node import (
    WALL,
    KeysNode,
    apply_writes,
    copy_image,
    membership,
    membership_key,
    sign_as,
)
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.world import World
from roamcast.transport.station_codec import decode_peer, encode_peer

DELAY = MS
SETTINGS = LanSettings()
VALUE_BYTES = 69
"""As large as the card of a host."""

AWAY = 10 * SECOND
"""Long enough for every packet to a node that is down to fail."""

SETTLE = 15 * SECOND
"""All that a change or a recovery causes is over then; `is_equal` shows it."""

EVENTS_MAX = 10_000_000
SEED = 1


def key_of(number: int) -> str:
    """One of the keys that all hold."""
    return f"hosts/h{number:05d}"


class LanWorld:
    """Members that hold the same `keys` keys, all running."""

    def __init__(self, nodes: int, keys: int, value_bytes: int = VALUE_BYTES) -> None:
        self._world = World()
        self._value_bytes = value_bytes
        self._newest: dict[str, Version] = {}
        self._lacking: set[tuple[int, str]] = set()
        """(node, key): it does not have the newest change."""
        self.nodes = [
            KeysNode(
                self._world, self, i, SETTINGS, Disk(LanImage(), apply_writes, copy_image, stream(SEED, f"disk {i}")),
                stream(SEED, f"node {i}"), frozenset(),
            )
            for i in range(nodes)
        ]  # fmt: skip
        self.entries = self._make_entries(keys)
        for node in self.nodes:
            node.disk.reset(LanImage(dict(self.entries), WALL))
            node.born = True
        self._forget()
        for node in self.nodes:
            node.start()
        self._run(SETTLE)

    def _make_entries(self, keys: int) -> dict[str, Entry]:
        """The membership entries, and keys written by all nodes in turn."""
        rng, names = stream(SEED, "entries"), [node.name for node in self.nodes]
        contents = [(name, membership_key(name), membership(name)) for name in names]
        contents += [(names[i % len(names)], key_of(i), self._value(0)) for i in range(keys)]
        plain = (Entry(key, Version(WALL, 0, name, rng.getrandbits(64)), value) for name, key, value in contents)
        return {entry.key: replace(entry, signature=sign_as(entry.version.node)(entry)) for entry in plain}

    def _value(self, version: int) -> bytes:
        return version.to_bytes(4, "big").ljust(self._value_bytes, b".")

    # ---- what is measured ----

    def change(self) -> Json:
        """One node changes a key while all run."""
        self._forget()
        self._put(0, key_of(0))
        self._run(SETTLE)
        return self._told()

    def recovery(self, changes: int) -> Json:
        """A node was away while the others, in turn, changed so many keys; it comes back."""
        *others, away = self.nodes
        keys = len(self.entries) - len(self.nodes)
        away.stop()
        for i in range(changes):
            self._put(i % len(others), key_of(i * keys // changes))
            self._run(10 * DELAY)
        self._run(AWAY)
        self._forget()
        for other in others:  # its driver says so when the link is there
            self._world.after(DELAY, other.act, LanNode.heard, away.name)
        away.start()
        self._run(SETTLE)
        return self._told()

    def _put(self, number: int, key: str) -> None:
        self.nodes[number].act(LanNode.put, key, self._value(self._world.now))

    def _run(self, duration: int) -> None:
        if not self._world.run_until(self._world.now + duration, EVENTS_MAX):
            raise RuntimeError(f"more than {EVENTS_MAX} events")

    def _forget(self) -> None:
        self._began = self._quiet_at = self._equal_at = self._world.now
        self._frames = self._bytes = 0

    def _told(self) -> Json:
        """Frames and bytes, acknowledgements too, and ms until all were equal, and until the last frame had come."""
        return {
            "frames": self._frames,
            "bytes": self._bytes,
            "equal_ms": (self._equal_at - self._began) / MS,
            "quiet_ms": (self._quiet_at - self._began) / MS,
            "equal": self.is_equal(),
        }

    def is_equal(self) -> bool:
        """Whether all run and hold the same, and nothing is left to be said."""
        cores = [node.core for node in self.nodes]
        return all(
            core is not None and core.entries == self.nodes[0].disk.state.entries and not core.status()["unsent"]
            for core in cores
        )

    # ---- what surrounds a node ----

    def send(self, node: KeysNode, peer: str, packet: LanPacket) -> None:
        """A packet leaves."""
        self._carry(node.number, int(peer[1:]), packet)

    def _carry(self, source: int, target: int, frame: LanFrame) -> None:
        data = encode_peer(frame)
        self._frames += 1
        self._bytes += len(data)
        self._world.after(DELAY, self._arrive, source, target, data)

    def _arrive(self, source: int, target: int, data: bytes) -> None:
        node, name = self.nodes[target], self.nodes[source].name
        if node.core is None:
            return
        self._quiet_at = self._world.now
        frame = decode_peer(data)
        if isinstance(frame, LanAck):
            node.act(LanNode.acked, name, frame.number)
        elif isinstance(frame, LanPacket) and node.take(name, frame):
            self._carry(target, source, LanAck(frame.number))

    def committed(self, node: KeysNode, writes: tuple[LanWrite, ...]) -> None:
        """Writes have become durable: who lacks what?"""
        for write in writes:
            if not isinstance(write, PutEntry):
                continue
            key, version = write.entry.key, write.entry.version
            if key not in self._newest or version > self._newest[key]:
                self._newest[key] = version
                self._lacking |= {(other.number, key) for other in self.nodes}
            if version == self._newest[key]:
                self._lacking.discard((node.number, key))
                self._equal_at = self._world.now

    def crash(self, node: KeysNode) -> None:
        """Nobody crashes here."""


def full_push(entries: Iterable[Entry]) -> Json:
    """One node tells another all entries, in packets as full as the layer makes them, each acknowledged."""
    left, number = list(entries), 1 << 62
    frames: list[LanFrame] = []
    while left:
        frames += [LanPacket(number, False, WALL, entries=tuple(left[: SETTINGS.entries_max])), LanAck(number)]
        left = left[SETTINGS.entries_max :]
    return {"frames": len(frames), "bytes": sum(len(encode_peer(frame)) for frame in frames)}
