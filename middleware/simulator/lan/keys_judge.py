"""The judge of the many-key LAN update layer: sees commits, stores and packets, and nothing of the rules.

It checks what lan-update.md C.c demands: K1 no version goes back, K2 one version is one value, K3 theorem 1, K4 equal
and quiet at rest, K5 nothing deleted comes back, K6 holders only grow, K7 a stale node does not tell what the other
lacks (only here a node is asked: whether it is stale), K8 nothing of a removed node is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from roamcast.middleware.lan_update.records import (
    DropEntry,
    Entry,
    LanImage,
    LanPacket,
    LanWrite,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.lan.keys_node import KeysNode, role
from roamcast.middleware.simulator.lan.schedule import Runs, earliest_paths


@dataclass(slots=True)
class Update:
    """A local update, by its first commit."""

    time: int
    node: int
    entry: Entry


@dataclass(slots=True)
class _Store:
    """What one node has durably, and since when it had what."""

    held: dict[str, Entry] = field(default_factory=dict)
    times: dict[str, list[int]] = field(default_factory=dict)
    versions: dict[str, list[Version | None]] = field(default_factory=dict)

    def change(self, time: int, key: str, entry: Entry | None) -> None:
        """From `time` on there is this entry of the key; None: none."""
        if entry is None:
            self.held.pop(key, None)
        else:
            self.held[key] = entry
        self.times.setdefault(key, []).append(time)
        self.versions.setdefault(key, []).append(entry.version if entry else None)

    def had(self, time: int, key: str) -> Version | None:
        """The version that was durable at the end of `time`."""
        at = bisect_right(self.times.get(key, []), time)
        return self.versions[key][at - 1] if at else None


class KeysJudge:
    """Told of everything durable, everything sent, and everything that a person did to the nodes."""

    def __init__(self) -> None:
        self.updates: dict[tuple[str, Version], Update] = {}
        self.complete: dict[str, tuple[Version, int]] = {}
        """Newest tombstone of a key that all members ever held at once, and since when."""
        self.checks = 0
        """Times that theorem 1 demanded an update of a node."""
        self.purged: dict[tuple[str, Version], int] = {}
        """Tombstones that were purged somewhere, and at how many nodes."""
        self.commits = 0
        self.members: dict[int, str] = {}
        """Active members as a person counts them: number -> name."""
        self.went_back: dict[int, None] = {}
        """Nodes on which an old backup was restored: what is deleted may lie there until there is rest."""
        self._stores: dict[int, _Store] = {}

    def has(self, node: int) -> dict[str, Entry]:
        """What a node has durably."""
        return self._stores.setdefault(node, _Store()).held

    # ---- what people do ----

    def replaced(self, time: int, node: int, image: LanImage) -> None:
        """The disk of a node now holds `image`."""
        store = self._stores.setdefault(node, _Store())
        for key in {**store.held, **image.entries}:
            store.change(time, key, image.entries.get(key))
        for entry in image.entries.values():
            self.updates.setdefault((entry.key, entry.version), Update(time, node, entry))

    def removed(self, time: int, node: int) -> None:
        """A member is none any more: what all the others have deleted is deleted everywhere from now on."""
        del self.members[node]
        for other in self.members:
            for entry in self.has(other).values():
                if entry.value is None:
                    self._see_complete(time, entry)

    # ---- what nodes do ----

    def committed(self, time: int, node: int, name: str, writes: tuple[LanWrite, ...]) -> None:
        """Writes of a node have become durable. Raises Violation."""
        store = self._stores.setdefault(node, _Store())
        self.commits += 1
        for write in writes:
            match write:
                case PutEntry(entry):
                    self._put(time, node, name, store.held.get(entry.key), entry)
                    store.change(time, entry.key, entry)
                    if entry.value is None:
                        self._see_complete(time, entry)
                case DropEntry(key):
                    tombstone = (key, store.held[key].version)
                    if store.held[key].value is None:
                        self.purged[tombstone] = self.purged.get(tombstone, 0) + 1
                    store.change(time, key, None)

    def _put(self, time: int, node: int, name: str, before: Entry | None, entry: Entry) -> None:
        update = self.updates.get((entry.key, entry.version))
        if update is None:
            if entry.version.node != name:
                raise Violation("K2", [f"{name} has {_brief(entry)}, which {entry.version.node} never made durable"])
            update = self.updates[entry.key, entry.version] = Update(time, node, entry)
        if (update.entry.value, update.entry.after) != (entry.value, entry.after):
            raise Violation("K2", [f"{_brief(update.entry)} at n{update.node}, {_brief(entry)} at {name}"])
        if before is not None and entry.version < before.version:
            raise Violation("K1", [f"{name} had {_brief(before)} and stored {_brief(entry)} at {time} us"])
        if before is not None and entry.version == before.version and not before.holders <= entry.holders:
            raise Violation("K6", [f"{name}: {_brief(before)} lost holders {sorted(before.holders - entry.holders)}"])
        if node not in self.went_back:
            self._check_deleted(name, entry, update.time)

    def _check_deleted(self, name: str, entry: Entry, made: int) -> None:
        if entry.value is not None and entry.key in self.complete:
            version, since = self.complete[entry.key]
            if entry.version < version and made < since:
                raise Violation("K5", [f"{name} has {_brief(entry)}; all had deleted the key by {since} us"])

    def _see_complete(self, time: int, entry: Entry) -> None:
        for node in self.members:
            held = self.has(node).get(entry.key)
            if held is None or held.version != entry.version:
                return
        before = self.complete.get(entry.key)
        if before is None or before[0] < entry.version:
            self.complete[entry.key] = entry.version, time

    def sent(self, node: KeysNode, target: int, packet: LanPacket) -> None:
        """A packet leaves. Raises Violation."""
        if node.core is None or not node.core.status()["stale"]:
            return
        for entry in packet.entries:
            if role(entry.key, entry.value) is None and entry.key not in self.has(target):
                raise Violation("K7", [f"{node.name} is stale and sends {_brief(entry)} to n{target}, which lacks it"])

    def taken(self, source: int, target: int, before: dict[str, Entry], knew: bool) -> None:
        """A packet was handled; `knew`: the target had it durably that the source was removed. Raises Violation."""
        if knew and before != self.has(target):
            raise Violation("K8", [f"n{target} knew that n{source} was removed, and took its packet"])

    # ---- the end ----

    def check_theorem_1(self, runs: Sequence[Runs], window: int, end: int) -> None:
        """Every update is where theorem 1 demands it, by the earliest path of windows. Raises Violation."""
        for update in self.updates.values():
            key, version = update.entry.key, update.entry.version
            if role(key, None) is not None:
                continue
            for node, by in enumerate(earliest_paths(runs, {update.node: update.time}, window)):
                if by is None or by > end:
                    continue
                self.checks += node != update.node
                had = self._stores[node].had(by, key)
                deleted = self.complete.get(key)
                if (had is None or had < version) and not (had is None and deleted and deleted[0] >= version):
                    words = f"{_brief(update.entry)} was durable at n{update.node} at {update.time} us"
                    raise Violation("K3", [words, f"n{node} has {had} at {by} us"])

    def unequal(self) -> list[str]:
        """Where the members' stores differ, apart from tombstones that some have purged already."""
        first, *others = [self._without_purged(node) for node in self.members]
        for node, other in zip(list(self.members)[1:], others, strict=True):
            for key in sorted({**first, **other}):
                if first.get(key) != other.get(key):
                    one = next(iter(self.members))
                    return [f"n{one} has {_brief(first.get(key))}", f"n{node} has {_brief(other.get(key))}"]
        return []

    def _without_purged(self, node: int) -> dict[str, Entry]:
        held = self.has(node)
        return {key: entry for key, entry in held.items() if (key, entry.version) not in self.purged}

    def tombstones(self) -> list[str]:
        """Tombstones that some member still has."""
        return [
            f"n{node} has {_brief(entry)}"
            for node in self.members
            for key, entry in self.has(node).items()
            if entry.value is None and role(key, None) is None
        ]

    def check_newest(self, lost: Iterable[tuple[str, Version]] = ()) -> None:
        """At rest: every update, but those that may be lost, has a newer one or is what is held. Raises Violation."""
        gone = frozenset(lost)
        held = self.has(next(iter(self.members)))
        for (key, version), update in self.updates.items():
            entry, deleted = held.get(key), self.complete.get(key)
            is_held = entry is not None and entry.version >= version
            if not (is_held or (deleted and deleted[0] >= version) or (key, version) in gone):
                raise Violation("K4", [f"{_brief(update.entry)} of n{update.node} is lost"])
        for key, entry in held.items():
            self._check_deleted(f"n{next(iter(self.members))}", entry, self.updates[key, entry.version].time)


def _brief(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    version = entry.version
    value = "deleted" if entry.value is None else repr(entry.value)
    return f"{entry.key} {version.time}.{version.count}.{version.node}.{version.boot & 0xFFFF:x} {value}"


def line_of(write: LanWrite) -> str:
    """A write for the trace."""
    match write:
        case PutEntry(entry):
            return " ".join((f"put {_brief(entry)}", *sorted(entry.holders)))
        case PutHistory(entry, _, lost_to):
            return f"history {_brief(entry)}" + (f" lost to {lost_to.node}" if lost_to else "")
        case PutFound(entry):
            return f"found {_brief(entry)}"
        case DropEntry(key):
            return f"drop {key}"
        case PutAlive(wall):
            return f"alive {wall}"
