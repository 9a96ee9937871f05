"""Random writes that a core could ask for, and what they make."""

from __future__ import annotations

import dataclasses
import random
import types
import typing
from typing import Any

from roamcast.middleware.lan_update.records import (
    DropEntry,
    Entry,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.middleware.membership.invitations import DropInvitation, Invitation, Newcomer, PutInvitation
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.rows import Kind, MessageId, Row, SpoolItem, Vector
from roamcast.middleware.spool_writes import (
    DropSpoolItems,
    PutItems,
    RecordKey,
    SpoolAdd,
    SpoolDrop,
    SpoolMove,
    SpoolRenumber,
    SpoolTrim,
)
from roamcast.middleware.writes import (
    DropHeld,
    DropLast,
    DropRecord,
    DropRows,
    DropSnapshot,
    DurableState,
    HostEntry,
    LastValue,
    PlaceRow,
    PutClock,
    PutHeld,
    PutHost,
    PutLast,
    PutLastSeq,
    PutRecord,
    PutReservation,
    PutRow,
    PutStart,
    PutStreams,
    PutView,
    RecordImage,
    Stream,
    Write,
)

SLOTS = 4
INVITATION_KEYS = ("k" * 40, "K" * 40, "#" * 40)
TOPICS = (1, 7, (1 << 32) - 1, 1 << 62 | 5 << 32 | 1)
LAN_KEYS = ("hosts/anna", "settings/x", "topics/\u96ea", "nul\x00nul", "nul\x00", "\U0001f4e1" * 50)


def any_value(rng: random.Random, hint: Any) -> Any:
    """A value of a field's type, so that a field added later is tested too."""
    if hint is bool:
        return rng.random() < 0.5
    if hint is int:
        return rng.randrange(1 << rng.randrange(1, 63))
    if hint is str:
        return rng.choice(["", "open", "höst"])
    if hint is bytes:
        return rng.randbytes(rng.randrange(4))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is types.UnionType:
        return any_value(rng, rng.choice(arguments)) if rng.random() < 0.7 else None
    if hint is types.NoneType:
        return None
    assert typing.get_origin(hint) is tuple, f"no values for {hint}"
    if arguments[-1] is Ellipsis:
        return tuple(any_value(rng, arguments[0]) for _ in range(rng.randrange(5)))
    return tuple(any_value(rng, argument) for argument in arguments)


def any_instance(rng: random.Random, kind: type, /, **given: Any) -> Any:
    """An instance of a dataclass with `given` fields, the others at random."""
    hints = typing.get_type_hints(kind)
    values = {f.name: any_value(rng, hints[f.name]) for f in dataclasses.fields(kind) if f.name not in given}
    return kind(**values, **given)


class Workload:
    """Random writes that a core could ask for; `image` is what they make."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.image = DurableState()
        self.bytes_of: dict[MessageId, bytes] = {}
        hosts = [(rng_slot << 32 | 1, incarnation) for rng_slot, incarnation in ((0, 0), (1, 1), (2, (1 << 64) - 1))]
        self.keys: list[RecordKey] = [(*mh, arr) for mh in hosts for arr in (0, 5, 9)]
        self.makers = (
            *(self.put_row,) * 8,
            *(self.place_row,) * 3,
            self.drop_rows,
            self.put_record,
            self.drop_record,
            *(self.put_lastseq,) * 3,
            *(self.spool_add,) * 4,
            self.spool_trim,
            *(self.spool_drop,) * 2,
            self.spool_renumber,
            self.spool_move,
            self.drop_items,
            *(self.put_items,) * 2,
            *(self.put_last,) * 2,
            self.drop_last,
            self.put_host,
            self.put_start,
            self.put_clock,
            *(self.put_held,) * 2,
            self.drop_held,
            self.put_view,
            self.put_reservation,
            *(self.put_invitation,) * 2,
            self.drop_invitation,
            *(self.put_entry,) * 3,
            self.drop_entry,
            self.put_alive,
            self.put_found,
            *(self.put_history,) * 5,
        )

    def batch(self) -> list[Write]:
        writes: list[Write] = []
        for _ in range(self.rng.choice((1, 3, 10, 30))):
            write = self.rng.choice(self.makers)()
            if write is not None:
                writes.append(write)
                self.image.apply((write,))
        return writes

    def next_position(self) -> int:
        return self.image.last_position + self.rng.choice((1, 1, 3))

    def put_row(self) -> Write:
        rng, slot = self.rng, self.rng.randrange(SLOTS)
        stream = self.image.streams.get(slot)
        n = (stream.stored if stream else 0) + 1
        item = rng.randbytes(rng.choice((0, 20, 9_000)))
        self.bytes_of[slot, n] = item
        row: Row = any_instance(
            rng,
            Row,
            slot=slot,
            n=n,
            steps=None,
            stamp=tuple((k, rng.randrange(1 << 50)) for k in range(SLOTS) if rng.random() < 0.5),
            kind=rng.choice(list(Kind)),
            incarnation=rng.getrandbits(64),
            taken=(rng.randrange(100), rng.randrange(-100, 100)),
            item=item,
            size=len(item),
            position=None,
            lean=False,
        )
        return PutRow(row, self.next_position() if rng.random() < 0.7 else None)

    def place_row(self) -> Write | None:
        waiting = [row.id for row in self.image.rows.values() if row.position is None]
        if not waiting:
            return None
        return PlaceRow(*self.rng.choice(waiting), self.next_position(), self.rng.randrange(1 << 50))

    def drop_rows(self) -> Write | None:
        slot = self.rng.randrange(SLOTS)
        stream = self.image.streams.get(slot)
        return DropRows(slot, self.rng.randint(stream.floor, stream.stored)) if stream else None

    def put_record(self) -> Write:
        number, incarnation, arr = self.rng.choice(self.keys)
        image: RecordImage = any_instance(
            self.rng, RecordImage, mh=(number, incarnation), arr=arr, base_c=self.rng.randrange(-9, 9)
        )
        return PutRecord(image)

    def drop_record(self) -> Write:
        return DropRecord(self.rng.choice(self.keys))

    def put_lastseq(self) -> Write | None:
        if not self.image.records:
            return None
        return PutLastSeq(
            self.rng.choice(list(self.image.records)), self.rng.randrange(99), (1, self.rng.randrange(99))
        )

    def spool_add(self) -> Write | None:
        rng, key = self.rng, self.rng.choice(self.keys)
        if not self.image.rows:
            return None
        spool = self.image.spools.get(key)
        pos = spool[-1][0] if spool else -50
        entries, items = [], []
        for slot, n in rng.sample(sorted(self.image.rows), rng.randint(1, min(5, len(self.image.rows)))):
            pos += rng.randint(1, 3)
            topic = rng.choice((0, 0, *TOPICS))
            sub = (rng.randrange(SLOTS), rng.randrange(1, 99)) if topic else (0, 0)
            entries.append((pos, slot, n, topic, sub))
            if (slot, n) not in self.image.items:
                items.append(self.item(slot, n))
        return SpoolAdd(key, tuple(entries), tuple(items))

    def item(self, slot: int, n: int) -> SpoolItem:
        """Of a row that is there: the bytes are given, or copied from it."""
        item = self.bytes_of[slot, n]
        return SpoolItem(slot, n, item if self.rng.random() < 0.5 else None, len(item))

    def put_items(self) -> Write | None:
        """Rows that are the last values of their topics go soon, or at once."""
        lacking = sorted(self.image.rows.keys() - self.image.items.keys())
        chosen = self.rng.sample(lacking, min(len(lacking), self.rng.randint(1, 3)))
        return PutItems(tuple(self.item(*one) for one in chosen)) if chosen else None

    def put_last(self) -> Write:
        value: LastValue = any_instance(self.rng, LastValue, topic=self.rng.choice(TOPICS))
        return PutLast(dataclasses.replace(value, slot=self.rng.randrange(SLOTS), n=self.rng.randrange(1 << 40)))

    def drop_last(self) -> Write:
        return DropLast(tuple(self.rng.sample(TOPICS, self.rng.randint(1, 2))))

    def spool_drop(self) -> Write | None:
        """Some entries, from anywhere in the spool."""
        key = self.rng.choice(self.keys)
        positions = [line[0] for line in self.image.spools.get(key, [])]
        if not positions:
            return None
        return SpoolDrop(key, tuple(self.rng.sample(positions, self.rng.randint(1, min(3, len(positions))))))

    def spool_trim(self) -> Write:
        key = self.rng.choice(self.keys)
        spool = self.image.spools.get(key)
        return SpoolTrim(key, self.rng.choice(spool)[0] if spool else 0)

    def spool_renumber(self) -> Write:
        return SpoolRenumber(self.rng.choice(self.keys))

    def spool_move(self) -> Write | None:
        free = [key for key in self.keys if not self.image.spools.get(key)]
        return SpoolMove(self.rng.choice(self.keys), self.rng.choice(free)) if free else None

    def drop_items(self) -> Write | None:
        if not self.image.items:
            return None
        ids = sorted(self.image.items)
        return DropSpoolItems(tuple(self.rng.sample(ids, self.rng.randint(1, min(3, len(ids))))))

    def put_host(self) -> Write:
        replaced = tuple(self.rng.getrandbits(64) for _ in range(self.rng.randrange(3)))
        entry: HostEntry = any_instance(
            self.rng, HostEntry, number=self.rng.randrange(5), incarnation=self.rng.getrandbits(64), replaced=replaced
        )
        return PutHost(entry)

    def put_start(self) -> Write:
        return PutStart(self.image.starts + 1)

    def put_clock(self) -> Write:
        return PutClock(self.rng.randrange(1 << 40))

    def put_held(self) -> Write:
        number, incarnation, arr = self.rng.choice(self.keys)
        image: RecordImage = any_instance(self.rng, RecordImage, mh=(number, incarnation), arr=arr)
        return PutHeld(self.rng.randrange(1, SLOTS), image)

    def drop_held(self) -> Write:
        return DropHeld(self.rng.choice(self.keys), self.rng.random() < 0.5)

    def some(self, slots: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(slot for slot in slots if self.rng.random() < 0.5)

    def put_view(self) -> Write:
        members = self.some((1, 2, 3, 500)) or (1,)
        closed = self.some(members)
        view: View = any_instance(
            self.rng,
            View,
            members=members,
            closed={slot: any_value(self.rng, tuple[int, Vector]) for slot in closed},
            final={slot: any_instance(self.rng, Ending) for slot in self.some(closed)},
            released=frozenset(self.some(closed)),
            dropped=frozenset(self.some(closed)),
        )
        return PutView(view)

    def put_reservation(self) -> Write:
        return PutReservation(self.rng.randrange(1, 1024), self.rng.getrandbits(64))

    def put_invitation(self) -> Write:
        rng = self.rng
        used_by = rng.choice((None, Newcomer(rng.getrandbits(64), "s" * 40)))
        return PutInvitation(any_instance(rng, Invitation, key=rng.choice(INVITATION_KEYS), used_by=used_by))

    def drop_invitation(self) -> Write:
        return DropInvitation(self.rng.choice(INVITATION_KEYS))

    def version(self, most: int = 1 << 63) -> Version:
        rng = self.rng
        return Version(rng.randrange(most), rng.randrange(2), rng.choice(("a", "b.2", "höst")), rng.getrandbits(64))

    def entry(self) -> Entry:
        rng = self.rng
        value = rng.choice((None, b"", rng.randbytes(20), rng.randbytes(16 << 10)))
        nodes = rng.sample(("a", "b.2", "höst"), rng.randrange(4)) if value is None else ()
        key, after = rng.choice(LAN_KEYS), rng.choice((None, self.version(3)))
        return Entry(key, self.version(), value, after, rng.randbytes(64), frozenset(nodes))

    def put_entry(self) -> Write:
        return PutEntry(self.entry())

    def drop_entry(self) -> Write:
        return DropEntry(self.rng.choice(LAN_KEYS))

    def put_alive(self) -> Write:
        return PutAlive(self.rng.randrange(1 << 63))

    def put_found(self) -> Write:
        return PutFound(self.entry(), self.rng.randrange(1 << 63))

    def put_history(self) -> Write:
        rng, entry = self.rng, self.entry()
        known = [line.entry for lines in self.image.lan.history.values() for line in lines.values()]
        if known and rng.random() < 0.3:
            entry = rng.choice(known)
        else:
            entry = dataclasses.replace(entry, key=rng.choice((*LAN_KEYS[:2], LAN_KEYS[0])), version=self.version(3))
        return PutHistory(entry, rng.randrange(1 << 63), rng.choice((None, self.version())))


class Joining(Workload):
    """Writes of a newcomer that takes a snapshot, again and again."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.makers = (
            *(self.put_row,) * 20,
            *(self.put_host,) * 3,
            self.put_view,
            self.put_start,
            self.put_clock,
            *(self.put_last,) * 2,
            *(self.put_kept,) * 2,
            self.put_streams,
            self.drop_snapshot,
        )

    def put_streams(self) -> Write:
        """Counters that fit: no row lies at or below its floor, none above what is stored."""
        rng, streams = self.rng, []
        for slot in self.some((1, 2, 3)):
            known = self.image.streams.get(slot, Stream())
            floor = known.floor if any(row.slot == slot for row in self.image.rows.values()) else rng.randrange(50)
            stored = max(known.stored, floor) + rng.randrange(3)
            streams.append((slot, stored, rng.randint(floor, stored), floor))
        return PutStreams(tuple(streams), self.next_position(), rng.randrange(1 << 50))

    def put_kept(self) -> Write:
        """The item of a last value whose row the sponsor has not any more."""
        slot, n, item = self.rng.randrange(SLOTS), (1 << 39) + self.rng.randrange(99), self.rng.randbytes(20)
        self.bytes_of[slot, n] = item
        return PutItems((SpoolItem(slot, n, item, len(item)),))

    def drop_snapshot(self) -> Write:
        self.bytes_of.clear()
        return DropSnapshot()
