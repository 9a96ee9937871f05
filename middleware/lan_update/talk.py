"""What a node has to say to one peer, and the packet that says it (lan-update.md C.b, PUMP and SENT)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from roamcast.middleware.lan_update.records import Entry, LanPacket, Version
from roamcast.middleware.lan_update.replica import Replica
from roamcast.middleware.lan_update.settings import LanSettings

VERSION_BYTES = 32
"""About what a version costs on the wire, its node's id left out."""
SIGNATURE_BYTES = 68


@dataclass(slots=True, frozen=True)
class Flight:
    """A packet that is not acknowledged yet."""

    number: int
    due: int
    """It has failed then."""
    sums: bool
    """It had the sums in it."""
    keys: tuple[str, ...]
    """Of its entries."""


@dataclass(slots=True)
class Talk:
    """One peer. Nothing of it is durable: after a start the digests find again what was lost here."""

    sync: bool = False
    """It is to be told the sums."""
    describe: dict[int, None] = field(default_factory=dict)
    """Buckets that it is to be told in full."""
    want: dict[str, Version] = field(default_factory=dict)
    """Keys that it has newer, and how new."""
    dirty: dict[str, None] = field(default_factory=dict)
    """Keys whose entries it is to be told."""
    kept: dict[str, None] = field(default_factory=dict)
    """Keys of packets that failed: dirty again once it is heard."""
    left_out: bool = False
    """More was to be remembered than may be: it is told the sums when the rest is said."""
    lapsed: bool = False
    """A packet to it has failed, and it was not heard since."""
    retry_at: int = 0
    """Lapsed: a mere sign of life counts from then on."""
    missed: bool = False
    """An entry of its was dropped because the author is not known here yet."""
    says_stale: bool = False
    equal: bool = False
    """Its sums were those of this node, once in this life."""
    clock: int | None = None
    """Its clock, ahead of the monotonic clock here."""
    flight: Flight | None = None

    def has(self, key: str) -> None:
        """It has what is here of the key, or newer: no need to tell."""
        self.dirty.pop(key, None)
        self.kept.pop(key, None)

    def unsent(self) -> int:
        """How many keys it is still to be told."""
        return len({**self.dirty, **self.kept})

    def is_silent(self) -> bool:
        """There is nothing to say."""
        return not (self.sync or self.describe or self.want or self.dirty or self.left_out)


def make_packet(talk: Talk, replica: Replica, settings: LanSettings, number: int, stale: bool) -> LanPacket | None:
    """All that is to be said, of what is held now, as far as it fits; None: nothing. It is no longer owed.

    The lines of versions and the wanted keys share `entries_bytes_max` (but one bucket goes whole, whatever its
    size), the entries have as much again (but one entry goes in any case).
    """
    if talk.is_silent():
        return None
    if talk.left_out and not (talk.describe or talk.want or talk.dirty):
        talk.sync, talk.left_out = True, False
    sums = tuple(replica.digest.sums) if talk.sync else ()
    talk.sync = False
    described, versions, room = _describe(talk, replica, settings.entries_bytes_max)
    want = _wanted(talk, replica, room)
    entries = tuple(_entries(talk, replica, settings))
    if not (sums or described or want or entries):
        return None
    return LanPacket(number, stale, replica.wall, sums, described, versions, want, entries)


def _describe(
    talk: Talk, replica: Replica, room: int
) -> tuple[tuple[int, ...], tuple[tuple[str, Version, frozenset[str]], ...], int]:
    """Buckets, a line for every key in them, and the bytes left."""
    described: list[int] = []
    lines: list[tuple[str, Version, frozenset[str]]] = []
    for bucket in sorted(talk.describe):
        held = [replica.entries[key] for key in replica.digest.keys[bucket]]
        size = sum(map(_line_bytes, held))
        if described and size > room:
            break
        room -= size
        described.append(bucket)
        lines += [(entry.key, entry.version, entry.holders) for entry in held]
        del talk.describe[bucket]
    return tuple(described), tuple(lines), room


def _wanted(talk: Talk, replica: Replica, room: int) -> tuple[str, ...]:
    wanted = []
    for key, version in list(talk.want.items()):
        held = replica.entries.get(key)
        if held is None or held.version < version:
            room -= len(key.encode()) + 3
            if room < 0:
                break
            wanted.append(key)
        del talk.want[key]
    return tuple(wanted)


def _entries(talk: Talk, replica: Replica, settings: LanSettings) -> Iterator[Entry]:
    """Membership entries first: the receiver verifies the others by them."""
    first = [member.key for member in replica.members.values() if member.key in talk.dirty]
    room, left = settings.entries_bytes_max, settings.entries_max
    for key in list(dict.fromkeys((*first, *talk.dirty))):
        entry = replica.entries.get(key)
        if entry is not None:
            size = entry_bytes(entry)
            if left == 0 or (size > room and left < settings.entries_max):
                return
            room, left = room - size, left - 1
            yield entry
        del talk.dirty[key]


def entry_bytes(entry: Entry) -> int:
    """About the size of an entry on the wire."""
    return _line_bytes(entry) + VERSION_BYTES + SIGNATURE_BYTES + len(entry.value or b"")


def _line_bytes(entry: Entry) -> int:
    names = len(entry.key.encode()) + len(entry.version.node) + 3
    return VERSION_BYTES + names + sum(len(holder) + 2 for holder in entry.holders)
