"""Durable facts: what a `Persist` effect may write, and the image of a store that they make up.

`DurableState.apply` is the reference meaning of every write. The simulator's disk is this class; the SQLite store is
tested to hold the same after the same writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from roamcast.middleware.lan_update.records import LanImage, LanWrite
from roamcast.middleware.membership.invitations import (
    DropInvitation,
    InvitationImage,
    InvitationWrite,
    PutInvitation,
)
from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import MH, MessageId, Row, SpoolItem, Vector
from roamcast.middleware.spool_writes import (
    DropSpoolItems,
    PutItems,
    RecordKey,
    SpoolAdd,
    SpoolDrop,
    SpoolLine,
    SpoolMove,
    SpoolRenumber,
    SpoolTrim,
    SpoolWrite,
    apply_spool,
)


@dataclass(slots=True, frozen=True)
class RecordImage:
    """Durable part of a custody record (causal-broadcast.md (b), one-order.md 3.1). Spool entries are kept apart."""

    mh: MH
    arr: int
    state: str
    """'open' | 'moved' | 'done' | 'tomb'."""
    prev: int | None
    link: bool
    t_vector: Vector
    """DELIV when custody arrived."""
    t_position: int
    """Last position when custody arrived."""
    ready: bool
    le: int
    sess: int
    ep: int
    base: Vector
    base_c: int
    closed: bool
    lastseq: int
    last_id: MessageId
    sdep: Vector
    moved_to: tuple[int, int] | None
    """(slot, epoch)."""
    succ_ok: bool
    join: int
    """Order of a join that is not confirmed yet; 0 = none."""
    gap: bool
    exp_acked: bool
    ephemeral: bool
    away_since: int
    """UTC microseconds at which the channel was lost; 0 = attached or never."""
    ext: tuple[tuple[str, bytes], ...] = ()
    shift: int = 0
    """Positions of session `sess` were given by a retired station: less this they are positions here."""

    @property
    def key(self) -> RecordKey:
        """(host number, incarnation, arr)."""
        return (*self.mh, self.arr)


@dataclass(slots=True, frozen=True)
class HostEntry:
    """What the rows delivered here say of a host's membership."""

    number: int
    incarnation: int
    """Newest incarnation, 0 = none bound yet."""
    stamp: tuple[int, int, int]
    """(order, slot, n) of the row that made it the newest; order 0 = the binding of the enrolment."""
    gone: bool
    """Left or revoked."""
    replaced: tuple[int, ...] = ()
    """Older incarnations that lost to a newer one (the last few)."""
    taken: tuple[tuple[int, int], ...] = ()
    """Own numbers of `incarnation` whose rows were dropped here: (first, last), ascending, apart from each other."""


@dataclass(slots=True, frozen=True)
class LastValue:
    """The newest retained message of a topic, as far as it is delivered here; or what the presence of a host is."""

    topic: int
    order: tuple[int, int, int]
    """The largest is the newest. (hybrid clock, slot, 0); of presence: (join, attempt, 1 if away)."""
    slot: int
    n: int
    position: int
    """Of its row, at this station."""
    cleared: bool
    """The topic has none: something older that comes later does not count."""


@dataclass(slots=True, frozen=True)
class PutRow:
    """Insert a row (accepted); with a position it is also delivered. Raises the counters and hlc with it."""

    row: Row
    position: int | None = None
    """Position the row had when the effect was made (the row object may have moved on)."""


@dataclass(slots=True, frozen=True)
class PutBody:
    """The item of a lean row has come: it is a whole row from here."""

    row: Row
    item: bytes


@dataclass(slots=True, frozen=True)
class PlaceRow:
    """The stored row (slot, n) took `position`. Raises delivered, last position and hlc."""

    slot: int
    n: int
    position: int
    hlc: int


@dataclass(slots=True, frozen=True)
class DropRows:
    """Rows of `slot` with n <= floor go; floor is raised."""

    slot: int
    floor: int


@dataclass(slots=True, frozen=True)
class PutRecord:
    """Insert or replace a custody record (its spool stays)."""

    image: RecordImage


@dataclass(slots=True, frozen=True)
class DropRecord:
    """The record and its spool entries go."""

    key: RecordKey


@dataclass(slots=True, frozen=True)
class PutLastSeq:
    """Narrow update of a record, in the same Persist as the host's own row."""

    key: RecordKey
    lastseq: int
    last_id: MessageId


@dataclass(slots=True, frozen=True)
class PutLast:
    """The last value of its topic is this one from here."""

    value: LastValue


@dataclass(slots=True, frozen=True)
class DropLast:
    """These topics are no more: their last values go."""

    topics: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class PutHeld:
    """A record of the retiring station `origin`, kept until that has ended; its spool lies with the others."""

    origin: int
    image: RecordImage


@dataclass(slots=True, frozen=True)
class DropHeld:
    """It is held no more; its spool stays if `spool`."""

    key: RecordKey
    spool: bool


@dataclass(slots=True, frozen=True)
class PutHost:
    """Insert or replace what is known of a host's membership."""

    entry: HostEntry


@dataclass(slots=True, frozen=True)
class PutStart:
    """A start of the process: `starts` is durable before the first LINK of a life."""

    starts: int


@dataclass(slots=True, frozen=True)
class PutClock:
    """The hybrid clock is at least here: for a join, or what a host has seen elsewhere; no row here tells it."""

    hlc: int


@dataclass(slots=True, frozen=True)
class PutView:
    """The station's view of the group is this one now."""

    view: View


@dataclass(slots=True, frozen=True)
class PutReservation:
    """Slot `slot` is meant for the station of this generation, and for no other one ever."""

    slot: int
    generation: int


@dataclass(slots=True, frozen=True)
class PutStreams:
    """What a newcomer takes from its sponsor's snapshot: counters of all streams, last position, hybrid clock."""

    streams: tuple[tuple[int, int, int, int], ...]
    """(slot, stored, delivered, floor)."""
    last_position: int
    hlc: int


@dataclass(slots=True, frozen=True)
class DropSnapshot:
    """Rows, hosts and counters of an unfinished snapshot go: another sponsor's positions are others."""


Write = (
    PutRow
    | PutBody
    | PlaceRow
    | DropRows
    | PutRecord
    | DropRecord
    | PutLastSeq
    | PutLast
    | DropLast
    | SpoolWrite
    | PutHeld
    | DropHeld
    | PutHost
    | PutStart
    | PutClock
    | PutView
    | PutReservation
    | PutStreams
    | DropSnapshot
    | InvitationWrite
    | LanWrite
)


@dataclass(slots=True)
class Stream:
    """Per origin: counters that outlive the rows."""

    stored: int = 0
    delivered: int = 0
    floor: int = 0


@dataclass(slots=True)
class DurableState:
    """The whole content of a station's store, as plain objects."""

    rows: dict[MessageId, Row] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)
    last_position: int = 0
    hlc: int = 0
    starts: int = 0
    records: dict[RecordKey, RecordImage] = field(default_factory=dict)
    spools: dict[RecordKey, list[SpoolLine]] = field(default_factory=dict)
    """Positions ascending."""
    held: dict[RecordKey, tuple[int, RecordImage]] = field(default_factory=dict)
    """(origin, record)."""
    items: dict[MessageId, SpoolItem] = field(default_factory=dict)
    last: dict[int, LastValue] = field(default_factory=dict)
    """By topic."""
    hosts: dict[int, HostEntry] = field(default_factory=dict)
    view: View | None = None
    """None: as founded."""
    reserved: dict[int, int] = field(default_factory=dict)
    """Slot -> generation."""
    invitations: InvitationImage = field(default_factory=InvitationImage)
    lan: LanImage = field(default_factory=LanImage)

    def apply(self, writes: tuple[Write, ...]) -> None:
        """Apply all writes of one Persist. Raises nothing that a caller could handle: a mismatch is a bug."""
        for write in writes:
            self._one(write)

    def _stream(self, slot: int) -> Stream:
        return self.streams.setdefault(slot, Stream())

    def _one(self, write: Write) -> None:
        match write:
            case PutRow(row, position):
                self.rows[row.id] = replace(row, position=position)
                stream = self._stream(row.slot)
                stream.stored = max(stream.stored, row.n)
                self.hlc = max(self.hlc, row.hlc)
                if position is not None:
                    self._place(row.slot, row.n, position)
            case PutBody(row, item):
                self.rows[row.id] = replace(self.rows[row.id], item=item, lean=False)
            case PlaceRow(slot, n, position, hlc):
                self.rows[slot, n].position = position
                self.hlc = max(self.hlc, hlc)
                self._place(slot, n, position)
            case DropRows(slot, floor):
                stream = self._stream(slot)
                for n in range(stream.floor + 1, floor + 1):
                    self.rows.pop((slot, n), None)
                stream.floor = max(stream.floor, floor)
            case PutRecord(image):
                self.records[image.key] = image
            case DropRecord(key):
                self.records.pop(key, None)
                self.spools.pop(key, None)
            case PutLastSeq(key, lastseq, last_id):
                self.records[key] = replace(self.records[key], lastseq=lastseq, last_id=last_id)
            case PutLast(value):
                self.last[value.topic] = value
            case DropLast(topics):
                for topic in topics:
                    self.last.pop(topic, None)
            case PutHeld(origin, image):
                self.held[image.key] = (origin, image)
            case DropHeld(key, spool):
                self.held.pop(key, None)
                if not spool:
                    self.spools.pop(key, None)
            case PutHost(entry):
                self.hosts[entry.number] = entry
            case PutStart(starts):
                self.starts = starts
            case PutClock(hlc):
                self.hlc = max(self.hlc, hlc)
            case PutView(view):
                self.view = view
            case PutReservation(slot, generation):
                self.reserved[slot] = generation
            case DropSnapshot():
                self.rows.clear()
                self.streams.clear()
                self.hosts.clear()
                self.last.clear()
                self.items.clear()
                self.last_position = 0
            case PutStreams(streams, last_position, hlc):
                self.streams.update({slot: Stream(*counters) for slot, *counters in streams})
                self.last_position, self.hlc = last_position, hlc
            case SpoolAdd() | SpoolTrim() | SpoolDrop() | SpoolRenumber() | SpoolMove() | DropSpoolItems() | PutItems():
                apply_spool(write, self.spools, self.items)
            case PutInvitation() | DropInvitation():
                self.invitations.apply(write)
            case _:
                self.lan.apply(write)

    def _place(self, slot: int, n: int, position: int) -> None:
        stream = self._stream(slot)
        stream.delivered = max(stream.delivered, n)
        self.last_position = max(self.last_position, position)
