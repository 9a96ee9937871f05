"""The books of a station: custody records, spools, members, and the own stream; every durable change goes through here.

The parts of custody (sessions, handoff, downlink, retention) share this one object; it holds no rule of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from roamcast.middleware.causal_delivery import CausalDelivery
from roamcast.middleware.custody.last_values import LastValues
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.spools import Spools
from roamcast.middleware.custody.whereabouts import Whereabouts
from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.effects import Channel, CloseChannel, Effect, Notice, Persist, Reject, SendHost, SendPeer
from roamcast.middleware.errors import ensure
from roamcast.middleware.fifo_broadcast.core import FifoEntity
from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.host_frames import DownFrame, Refused
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import CONTROL_KINDS, MH, PRESENCE, STATION_KINDS, Item, Kind, MessageId, Row, Vector
from roamcast.middleware.settings import Settings
from roamcast.middleware.spool_writes import RecordKey
from roamcast.middleware.station_frames import BodyFrame, CustodyFrame, GroupFrame
from roamcast.middleware.topics import PRESENCE_PREFIX, Topics
from roamcast.middleware.writes import DropRecord, DurableState, HostEntry, PutClock, PutRecord, PutRow, PutView, Write

HLC_LIMIT = 1 << 53
"""Microseconds; a hybrid clock beyond it is no clock, and would overflow every store that followed it."""

REPLACED_KEPT = 16
"""Older incarnations of a name that are remembered as replaced."""


class Ledger:
    """State shared by the custody rules of one station, and the effects of the present tick."""

    def __init__(
        self,
        own: int,
        founders: Sequence[int],
        settings: Settings,
        image: DurableState,
        encode_item: Callable[[Item], bytes],
        mutants: frozenset[str],
        layout: Layout,
    ) -> None:
        self.own = own
        self.settings = settings
        self.mutants = mutants
        self.encode_item = encode_item
        self.now = 0
        self.wall = 0
        self.clock_jumped_at = 0
        """Monotonic time of the last wall clock jump over 5 minutes (or of the start)."""
        self.out: list[Effect] = []
        self.hlc = image.hlc if image.hlc < HLC_LIMIT else 0
        self.hosts = dict(sorted(image.hosts.items()))
        self.names: dict[int, str] = {}
        self.numbers: dict[str, int] = {}
        self.revoked: set[int] = set()
        self.records: dict[MH, dict[int, Record]] = {}
        self._incarnations: dict[int, list[int]] = {}
        """Incarnations of which there are records, by host number."""
        self.channels: dict[Channel, Record] = {}
        self.left: list[Record] = []
        """Lost their channels in this tick."""
        self.topics = Topics()
        self.configured = False
        """The topics are known: before, nothing can be called denied."""
        self.spools = Spools()
        self.trim_wanted = False
        """Some spool has entries that were acknowledged: the next collection trims it."""
        for _, record_image in sorted(image.records.items()):
            record = Record.of(record_image)
            self.add(record)
        self.stations: tuple[tuple[str, int, str, bytes], ...] = ()
        """What WELCOME says of the stations that serve hosts."""
        self.held: dict[RecordKey, tuple[int, Record]] = {}
        """(retiring station, record): ours once that station has ended."""
        for key, (origin, held_image) in sorted(image.held.items()):
            self.held[key] = (origin, Record.of(held_image))
        for record in [*self.all_records(), *(record for _, record in self.held.values())]:
            self.spools.load(record, image)
        self.view = image.view or View(tuple(sorted(founders)))
        self.to_own: list[CustodyFrame | GroupFrame] = []
        """What this station asks of itself: it has taken the place of one that it was linked with."""
        joining = bool(self.view.sponsor)  # the rows of an unfinished snapshot mean nothing yet
        self.table = MessageTable(self.view.members, DurableState() if joining else image)
        self.last = LastValues(self.table, self.spools, DurableState() if joining else image, mutants)
        self.fifo = FifoEntity(own, self.view, settings, self.table, mutants, layout)
        self.whereabouts = Whereabouts(own, self.table, self.of_host, mutants)
        self.fifo.body_to = lambda row: self.whereabouts.targets(row, self.settings, self.view)
        self.given_up: set[MessageId] = set()
        """Mail in the log whose body no living station has: nobody is owed it any more."""
        floors = [] if "sdep" in mutants else [r.sdep for r in self.all_records()]
        self.causal = CausalDelivery(own, self.view, self.table, floors, mutants)
        self.row_made: Callable[[Row], None] = lambda row: None
        """Called with every own row."""

    # ---- effects ----

    def persist(self, *writes: Write) -> None:
        """One atomic, durable step."""
        self.out.append(Persist(writes))

    def log(self, event: str, *values: Any) -> None:
        """An event of the delivery log, durable with the next `Persist`."""
        self.out.append(Logged(event, values))

    def tell(self, channel: Channel, frame: DownFrame) -> None:
        """A frame to one host."""
        self.out.append(SendHost(channel, frame))

    def ask(self, slot: int, frame: CustodyFrame | GroupFrame | BodyFrame) -> None:
        """A custody frame to one station; to none if that has ended."""
        if slot == self.own and not isinstance(frame, BodyFrame):
            self.to_own.append(frame)
        elif slot in self.fifo.peers:
            self.out.append(SendPeer(slot, frame))

    def notice(self, level: str, event: str, **fields: object) -> None:
        """A fact for the operator."""
        self.out.append(Notice(level, event, fields))

    def refuse(self, channel: Channel, code: str, text: str) -> None:
        """A host's frame is refused: told, counted, nothing changed."""
        self.tell(channel, Refused(code, text))
        self.out.append(Reject(channel, code, text))

    # ---- the group ----

    def follow(self, view: View) -> list[int]:
        """The group has changed, durably. Returns the origins whose heads may be deliverable now."""
        self.persist(PutView(view))
        self.view = view
        self.table.widen(max(view.members) + 1)
        self.fifo.follow(view)
        return self.causal.follow(view)

    # ---- records ----

    def all_records(self) -> Iterable[Record]:
        """Every custody record, in order of creation."""
        return [record for stays in self.records.values() for record in stays.values()]

    def of_host(self, number: int) -> list[Record]:
        """All records of a host, whatever its incarnation."""
        return [r for i in self._incarnations.get(number, ()) for r in self.records[number, i].values()]

    def add(self, record: Record) -> None:
        """The record is in the books from here."""
        if record.mh not in self.records:
            self.records[record.mh] = {}
            self._incarnations.setdefault(record.mh[0], []).append(record.mh[1])
        self.records[record.mh][record.arr] = record

    def remove(self, record: Record) -> None:
        """The record is out of the books."""
        stays = self.records[record.mh]
        del stays[record.arr]
        if not stays:
            del self.records[record.mh]
            incarnations = self._incarnations[record.mh[0]]
            incarnations.remove(record.mh[1])
            if not incarnations:
                del self._incarnations[record.mh[0]]

    def get(self, mh: MH, arr: int) -> Record | None:
        """The record of one stay."""
        return self.records.get(mh, {}).get(arr)

    def find(self, mh: MH, le: int) -> Record | None:
        """The record that knows session `le` of mh as its present or its last one (newest stay first).

        An unconfirmed stay knows it by hearsay only: what counts is the record that custody came from, if it is here.
        """
        stays = sorted(self.records.get(mh, {}).values(), key=lambda record: -record.arr)
        for record in stays:
            if record.sess == le and record.state != "done":
                return record
        hearsay = "by_hearsay" in self.mutants
        known = (r for r in stays if r.le == le and (r.confirmed or hearsay) and r.state != "done")
        return next(known, None)

    def promised(self, mh: MH, to: tuple[int, int]) -> Record | None:
        """The record of mh that was promised to (station, epoch), or to an ended one that it may stand for."""
        for record in self.records.get(mh, {}).values():
            station, epoch = record.moved_to or (0, 0)
            if epoch == to[1] and (station == to[0] or station in self.view.closed):
                return record
        return None

    def highest_epoch(self, mh: MH) -> int:
        """The highest attempt of mh that is known here; 0 if none."""
        return max((record.ep for record in self.records.get(mh, {}).values()), default=0)

    def save(self, record: Record, why: str, *more: Write) -> None:
        """Make the record durable, in one write with `more`. `why` names the line of the durability table."""
        self.add(record)
        if f"save:{why}" in self.mutants:
            if more:
                self.persist(*more)
            return
        self.persist(PutRecord(record.image()), *more)

    def drop(self, record: Record, *more: Write) -> None:
        """The record and its spool go."""
        self.remove(record)
        self.unbind(record)
        freed = self.spools.clear(record)
        if "save:deletion" in self.mutants:
            return
        self.persist(DropRecord(record.key), *freed, *more)

    def unbind(self, record: Record) -> Channel | None:
        """The record loses its channel. Returns the channel it had."""
        channel, record.channel = record.channel, None
        if channel is not None:
            self.channels.pop(channel, None)
            self.left.append(record)
            record.away_from = self.now
            record.away_since = self.wall
        return channel

    def hang_up(self, channel: Channel, reason: str) -> None:
        """Drop the channel after what was said to it."""
        self.out.append(CloseChannel(channel, reason))

    # ---- members ----

    def name_of(self, number: int) -> str:
        """The host's name for people; its number where the directory does not know it."""
        return self.names.get(number, str(number))

    def topic_name(self, number: int) -> str:
        """The topic's name for people."""
        if number >= PRESENCE:
            return f"{PRESENCE_PREFIX}{self.name_of(number - PRESENCE)}"
        return self.topics.name(number)

    def gone(self, number: int) -> bool:
        """Whether the host has left or was revoked, as far as is known here."""
        entry = self.hosts.get(number)
        return entry is not None and entry.gone

    def knows(self, number: int) -> bool:
        """Whether `number` names a member host that may be sent to."""
        return number in self.names and number not in self.revoked and not self.gone(number)

    def replaced(self, mh: MH) -> bool:
        """Whether a newer incarnation of the name has taken over."""
        entry = self.hosts.get(mh[0])
        return entry is not None and mh[1] in entry.replaced

    def outlived(self, record: Record) -> bool:
        """Whether a newer incarnation of the name is known; the row that bound the record's own may be lost."""
        entry = self.hosts.get(record.mh[0])
        other = entry is not None and entry.incarnation not in (0, record.mh[1]) and not record.join
        return self.replaced(record.mh) or (other and entry is not None and record.order < entry.stamp[0])

    def bound(self, mh: MH) -> int | None:
        """The place of this incarnation among the joins of its name, if a row that is here says that it has one.

        The row may wait for its delivery; of one that was replaced long ago the place is not known any more (0).
        """
        entry = self.hosts.get(mh[0])
        if entry is not None and entry.incarnation == mh[1]:
            return entry.stamp[0]
        binding = (row for row in self.table.waiting() if row.kind is Kind.BIND or row.kind is Kind.JOIN)
        orders = (row.number for row in binding if (row.host, row.incarnation) == mh)
        return next(orders, 0 if self.replaced(mh) else None)

    def bind_row(self, row: Row) -> tuple[HostEntry, int]:
        """What a delivered BIND or JOIN row makes of its host; and the incarnation that lost (0 = none)."""
        old = self.hosts.get(row.host) or HostEntry(row.host, 0, (0, 0, 0), False)
        stamp = (row.hlc if "join_by_clock" in self.mutants else row.number, row.slot, row.n)
        if row.incarnation == old.incarnation:
            return replace(old, stamp=max(stamp, old.stamp)), 0
        newer = stamp > old.stamp
        loser = old.incarnation if newer else row.incarnation
        kept = tuple(i for i in old.replaced if i != row.incarnation or not newer)
        if loser:
            kept = (*(i for i in kept if i != loser), loser)[-REPLACED_KEPT:]
        if newer:
            taken = old.taken if not old.incarnation else ()
            return HostEntry(row.host, row.incarnation, stamp, old.gone, kept, taken), loser
        return replace(old, replaced=kept), loser

    # ---- own stream ----

    def next_join_order(self) -> int:
        """The place of the next join of a name that this station orders: it alone gives these numbers now.

        Who orders in the place of a station that has ended does not know how far the clock of that one was: every end
        that is settled begins a generation of its own, above all orders of those before.
        """
        self.hlc = max(self.wall, self.hlc) + 1
        self.persist(PutClock(self.hlc))
        generation = 0 if "no_generation" in self.mutants else len(self.view.final)
        return generation * HLC_LIMIT + min(self.hlc, HLC_LIMIT - 1)

    def orders(self, host: int) -> bool:
        """Whether this station can tell how many ends came before, as it must in the place of another one."""
        return host >> 32 == self.own or self.view.closed.keys() == self.view.final.keys()

    def raise_join_order(self, order: int) -> None:
        """Joins are ordered above this from now on: another station, which may have ended, has ordered up to here."""
        clock = order % HLC_LIMIT
        if self.hlc < clock:
            self.hlc = clock
            self.persist(PutClock(clock))

    def merge_clock(self, hlc: int) -> None:
        """The hybrid clock of something delivered or handed over here; one that cannot be a clock is not followed."""
        if hlc < HLC_LIMIT:
            self.hlc = max(self.hlc, hlc)

    def write_row(
        self,
        kind: Kind,
        host: int,
        incarnation: int,
        *more: Write,
        number: int = 0,
        taken: tuple[int, int] = (0, 0),
        addressee: int = 0,
        body: bytes = b"",
        topic: str = "",
    ) -> Row:
        """Enter a message under the next own number: one write of the row and `more`. Delivery follows separately."""
        stamp = self.causal.stamp()
        n = self.causal.sent[self.own]
        ensure(n == self.table.origins[self.own].stored + 1, f"own number {n} is not the next")
        self.hlc = max(self.wall, self.hlc + 1)
        item = b""
        if kind not in CONTROL_KINDS:
            name = self.names[host]
            told = (topic, self.hlc) if topic else ("", 0)
            item = self.encode_item(Item(self.own, n, name, incarnation & 0xFFFFFFFF, number, kind, body, *told))
        row = Row(
            self.own, n, stamp, self.hlc, kind, host, incarnation, number, taken, addressee, item, len(item), None
        )
        if "own_split" in self.mutants:
            for write in (*more, PutRow(row)):
                self.persist(write)
        else:
            self.persist(PutRow(row), *more)
        self.fifo.accept_own(row, self.now)
        self.row_made(row)
        return row

    def uncopied(self) -> dict[MH, Row]:
        """By host: its first message here that too few stations have."""
        copied, stored = self.fifo.copied, self.table.origins[self.own].stored
        if copied >= stored:
            return {}
        firsts: dict[MH, Row] = {}
        for row in self.table.rows(self.own, copied + 1, stored):
            if row.number and row.kind not in STATION_KINDS:
                firsts.setdefault((row.host, row.incarnation), row)
        return firsts

    def vector(self) -> Vector:
        """DELIV of this station."""
        return self.table.vector_at(self.table.last_position)
