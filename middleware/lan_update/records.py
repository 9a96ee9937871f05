"""What the LAN update layer keeps and sends: entries with versions, packets (lan-update.md C.b)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Version(NamedTuple):
    """Of one key's entry; compared as a tuple, so that of two entries of a key every node names the same newer one."""

    time: int
    """Hybrid clock of the KEY: the author's UTC microseconds, or the time of the version before it if that is later."""
    count: int  # type: ignore[assignment]
    """Above the version before it where the time is the same."""
    node: str
    """The author: id of the station where the entry was made."""
    boot: int
    """64 random bits of the author's start: a store that went back in time never makes one version twice."""


@dataclass(slots=True, frozen=True)
class Entry:
    """One key's content. Everything but `holders` is fixed for ever and signed by the author."""

    key: str
    version: Version
    value: bytes | None
    """None: the key is deleted (a tombstone)."""
    after: Version | None = None
    """What the author had of this key when it wrote; None: nothing."""
    signature: bytes = b""
    """Ed25519 of the author, 64 bytes."""
    holders: frozenset[str] = frozenset()
    """Of a tombstone: nodes known to have it durably. Only grows for one version; not signed. Else empty."""


def has_seen(entry: Entry, version: Version) -> bool:
    """Whether the author of `entry` had `version` of its key, or a newer one, when it wrote."""
    return entry.after is not None and entry.after >= version


@dataclass(slots=True, frozen=True)
class LanPacket:
    """One packet of the exchange; any part may be empty. At most one is in flight to a peer."""

    number: int
    """Names it in its LanAck; never given twice by one process."""
    stale: bool
    """The sender may have slept longer than tombstones are kept (C.b, stale rule): it speaks without authority."""
    wall: int
    """The sender's clock, UTC microseconds."""
    sums: tuple[int, ...] = ()
    """BUCKETS sums mod 2^64 over all that the sender holds; or empty: not said."""
    described: tuple[int, ...] = ()
    """Buckets of which `versions` names every key that the sender holds."""
    versions: tuple[tuple[str, Version, frozenset[str]], ...] = ()
    """(key, version, holders)."""
    want: tuple[str, ...] = ()
    """Keys whose entries are asked for."""
    entries: tuple[Entry, ...] = ()


@dataclass(slots=True, frozen=True)
class LanAck:
    """Packet `number` was taken, and all that it changed is durable."""

    number: int


LanFrame = LanPacket | LanAck

BUCKETS = 256


@dataclass(slots=True, frozen=True)
class PutEntry:
    """Insert or replace the entry of its key."""

    entry: Entry


@dataclass(slots=True, frozen=True)
class DropEntry:
    """The entry of the key goes without a trace: a tombstone that all members hold, or a stale one set aside."""

    key: str


@dataclass(slots=True, frozen=True)
class PutAlive:
    """The own clock (UTC microseconds) at the last moment this node was known to be fresh."""

    wall: int


@dataclass(slots=True, frozen=True)
class PutFound:
    """lost+found: an entry set aside, because a fresh peer had forgotten the key while this node was away."""

    entry: Entry
    wall: int


@dataclass(slots=True, frozen=True)
class PutHistory:
    """An entry that held here, or lost. One line per key and version; a later one for the same version replaces it."""

    entry: Entry
    wall: int
    """When this node came to know it, UTC microseconds."""
    lost_to: Version | None = None
    """Of the newer entry whose author had not seen this one (two concurrent writes); None: it lost to none so far."""


LanWrite = PutEntry | DropEntry | PutAlive | PutFound | PutHistory

HISTORY_MAX = 50
"""Lines kept per key; the oldest versions go first."""
FOUND_MAX = 10_000
"""Entries kept in lost+found; the oldest go first."""


@dataclass(slots=True)
class LanImage:
    """Everything durable of the layer at one node. `apply` is the reference meaning of every write."""

    entries: dict[str, Entry] = field(default_factory=dict)
    alive: int = 0
    found: list[PutFound] = field(default_factory=list)
    history: dict[str, dict[Version, PutHistory]] = field(default_factory=dict)

    def apply(self, write: LanWrite) -> None:
        """Apply one write."""
        match write:
            case PutEntry(entry):
                self.entries[entry.key] = entry
            case DropEntry(key):
                self.entries.pop(key, None)
            case PutAlive(wall):
                self.alive = wall
            case PutFound():
                self.found = [*self.found, write][-FOUND_MAX:]
            case PutHistory(entry):
                lines = self.history.setdefault(entry.key, {})
                lines[entry.version] = write
                for version in sorted(lines)[: max(0, len(lines) - HISTORY_MAX)]:
                    del lines[version]

    def forget(self, key: str) -> None:
        """Keep of the history of `key` only what a node still asks for; the rest is for people, who read the store.

        That is: versions that the author of its entry had not seen; of a key without an entry the newest.
        """
        lines, entry = self.history.pop(key, {}), self.entries.get(key)
        kept = {version: line for version, line in lines.items() if entry is not None and not has_seen(entry, version)}
        if lines and entry is None:
            newest = max(lines)
            kept = {newest: lines[newest]}
        if kept:
            self.history[key] = kept
