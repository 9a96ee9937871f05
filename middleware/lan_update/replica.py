"""What one node holds: entries, their digest, members, history. Every durable change goes through here.

The rules of the layer (merging, freshness, talks) share this one object; it holds no rule of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from roamcast.middleware.effects import Notice
from roamcast.middleware.lan_update.digest import Digest
from roamcast.middleware.lan_update.effects import Changed, Dropped, LanEffect, LanPersist
from roamcast.middleware.lan_update.records import (
    DropEntry,
    Entry,
    LanImage,
    LanWrite,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
    has_seen,
)

Role = Callable[[str, bytes | None], tuple[str, bool] | None]
"""(key, value) -> (node, is it an active member) if the key is that of a membership entry, else None."""


class Member(NamedTuple):
    """What the membership entry of a node says."""

    key: str
    active: bool


class Replica:
    """State shared by the rules of one node, and the effects of the present tick."""

    def __init__(self, own: str, image: LanImage, role: Role) -> None:
        self.own = own
        self.image = image
        self.entries = image.entries
        self.digest = Digest()
        self.tombstones: dict[str, None] = {}
        """Keys whose entry says that they are deleted."""
        self.members: dict[str, Member] = {}
        """By node, all that were ever members."""
        self.peers: tuple[str, ...] = ()
        """Active members but this node, in order."""
        self.now = 0
        self.wall = 0
        self.changes = 0
        """Entries put or dropped in this life."""
        self.out: list[LanEffect] = []
        self.role = role
        self._everyone = frozenset({own})
        self._writes: list[LanWrite] = []
        self._news: list[LanEffect] = []
        for entry in image.entries.values():
            self._index(entry)
        for key in list(image.history):
            image.forget(key)

    # ---- questions ----

    @property
    def removed(self) -> bool:
        """Whether this node is known here to be no member any more."""
        return self.is_removed(self.own)

    def is_removed(self, node: str) -> bool:
        """Whether `node` was a member and is none any more."""
        member = self.members.get(node)
        return member is not None and not member.active

    def is_settled(self, entry: Entry) -> bool:
        """Whether every member holds this tombstone: it is news to nobody, and goes when it is old enough."""
        return entry.value is None and self._everyone <= entry.holders and self.role(entry.key, None) is None

    # ---- changes ----

    def store(self, entry: Entry) -> None:
        """A newer entry takes its key's place; the one before is a loser if the new one's author had not seen it."""
        before = self.entries.get(entry.key)
        if before is not None and not has_seen(entry, before.version):
            self._note(before, entry.version)
        self._write(PutEntry(entry))
        self._note(entry, None)
        self.image.forget(entry.key)
        self._index(entry)
        self._news.append(Changed(entry))

    def note_loser(self, entry: Entry) -> None:
        """An older entry came: it goes into the history if the present one's author had not seen it."""
        present = self.entries[entry.key]
        if not has_seen(present, entry.version) and entry.version not in self.image.history.get(entry.key, ()):
            self._note(entry, present.version)

    def add_holders(self, entry: Entry, holders: frozenset[str]) -> None:
        """The tombstone `entry` is held by `holders`."""
        entry = replace(entry, holders=holders)
        self._write(PutEntry(entry))
        self._index(entry)

    def drop(self, key: str) -> None:
        """The entry of the key goes without a trace."""
        self._write(DropEntry(key))
        self.image.forget(key)
        self.digest.drop(key)
        self.tombstones.pop(key, None)
        self._news.append(Dropped(key))

    def set_aside(self, entry: Entry) -> None:
        """The entry goes to lost+found."""
        self._write(PutFound(entry, self.wall))
        self.drop(entry.key)

    def settled_since(self, entry: Entry) -> int:
        """Own clock when every member was first known to hold the tombstone; noted now if it was not yet.

        It is the `wall` of the tombstone's line in the history, once that names all of them as holders.
        """
        line = self.image.history.get(entry.key, {}).get(entry.version)
        if line is None or not self._everyone <= line.entry.holders or line.wall > self.wall:
            line = PutHistory(entry, self.wall, line.lost_to if line else None)
            self._write(line)
        return line.wall

    def note_alive(self) -> None:
        """This node is fresh now."""
        self._write(PutAlive(self.wall))

    def notice(self, level: str, event: str, **fields: object) -> None:
        """A fact for the operator."""
        self.out.append(Notice(level, event, fields))

    def commit(self) -> None:
        """Everything since the last commit is one durable step; then it is told."""
        if self._writes:
            self.out.append(LanPersist(tuple(self._writes)))
            self.out += self._news
            self._writes, self._news = [], []

    # ---- books ----

    def _note(self, entry: Entry, lost_to: Version | None) -> None:
        line = self.image.history.get(entry.key, {}).get(entry.version)
        self._write(PutHistory(entry, self.wall if line is None else line.wall, lost_to))

    def _write(self, write: LanWrite) -> None:
        self.image.apply(write)
        self._writes.append(write)
        self.changes += isinstance(write, PutEntry | DropEntry)

    def _index(self, entry: Entry) -> None:
        self.digest.put(entry)
        if entry.value is None:
            self.tombstones[entry.key] = None
        else:
            self.tombstones.pop(entry.key, None)
        role = self.role(entry.key, entry.value)
        if role is not None:
            self.members[role[0]] = Member(entry.key, role[1])
            active = (node for node, member in self.members.items() if member.active and node != self.own)
            self.peers = tuple(sorted(active))
            self._everyone = frozenset({self.own, *self.peers})
