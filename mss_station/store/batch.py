"""The writes of one tick, gathered so that each row of the store is written at most once.

Nearly every message is accepted and delivered in one tick: its position is filled in before it is inserted, and
counters, records and hosts are written once with their last value (hot-path.md rule 15). Meaning: `DurableState.apply`.
Spool writes keep their order among themselves; rows come before them, for an item may be copied from its row.
Floors are raised here; the rows below go in collection.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from roamcast.middleware.errors import InvariantError, ensure
from roamcast.middleware.lan_update.records import DropEntry, LanWrite, PutAlive, PutEntry, PutFound, PutHistory
from roamcast.middleware.membership.invitations import DropInvitation, PutInvitation
from roamcast.middleware.rows import MessageId, SpoolItem
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
    HostEntry,
    LastValue,
    PlaceRow,
    PutBody,
    PutClock,
    PutHeld,
    PutHost,
    PutLast,
    PutLastSeq,
    PutRecord,
    PutReservation,
    PutRow,
    PutStart,
    PutView,
    RecordImage,
    Write,
)
from roamcast.mss_station.store.columns import (
    HOST_COLUMNS,
    ITEM_COLUMNS,
    LASTSEQ_COLUMNS,
    NUMBER_BITS,
    NUMBER_MASK,
    RECORD_COLUMNS,
    ROW_COLUMNS,
    SLOT_MAX,
    host_columns,
    item_columns,
    message_key,
    record_columns,
    record_key,
    signed,
    stamp_blob,
)
from roamcast.mss_station.store.group import GroupWrite, write_group
from roamcast.mss_station.store.lan import write_lan
from roamcast.mss_station.store.mail import MAIL_WRITES, MailStoreWrite, write_mail
from roamcast.mss_station.store.spools import KEY, SpoolWrite, write_spool
from roamcast.mss_station.store.tail import DropTail, PutTail, TailWrite, write_tail
from roamcast.mss_station.store.values import write_values

StoreWrite = Write | MailStoreWrite | TailWrite

INSERT_ROW: Final = f"INSERT INTO message ({ROW_COLUMNS}, {ITEM_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
PUT_BODY: Final = "UPDATE message SET checksum = ?, item = ? WHERE id = ? AND checksum = ?"
PLACE_ROW: Final = "UPDATE message SET position = ? WHERE id = ?"
PUT_STREAM: Final = (
    "INSERT INTO stream (slot, stored, delivered, floor) VALUES (?,?,?,?) ON CONFLICT (slot) DO UPDATE SET"
    " stored = max(stored, excluded.stored), delivered = max(delivered, excluded.delivered),"
    " floor = max(floor, excluded.floor)"
)
PUT_SELF: Final = (
    "UPDATE self SET last_position = max(last_position, ?), hlc = max(hlc, ?), starts = coalesce(?, starts)"
)
PUT_RECORD: Final = f"INSERT OR REPLACE INTO record ({RECORD_COLUMNS}) VALUES ({','.join('?' * 26)})"
PUT_HELD: Final = (
    f"INSERT OR REPLACE INTO held ({RECORD_COLUMNS}, {LASTSEQ_COLUMNS}, origin) VALUES ({','.join('?' * 30)})"
)
PUT_LASTSEQ: Final = (
    f"INSERT OR REPLACE INTO record_lastseq (host, incarnation, arr, {LASTSEQ_COLUMNS}) VALUES (?,?,?,?,?,?)"
)
RAISE_LASTSEQ: Final = f"UPDATE record_lastseq SET lastseq = ?, last_slot = ?, last_n = ? WHERE {KEY}"
PUT_HOST: Final = f"INSERT OR REPLACE INTO host ({HOST_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)"
PUT_ITEM: Final = f"INSERT OR REPLACE INTO spool_item (id, {ITEM_COLUMNS}) VALUES (?,?,?)"
COPY_ITEM: Final = (
    f"INSERT OR IGNORE INTO spool_item (id, {ITEM_COLUMNS})"
    f" SELECT id, {ITEM_COLUMNS} FROM message WHERE id = ? AND checksum >= 0"
)


class Batch:
    """Writes of one transaction."""

    __slots__ = (
        "_bodies",
        "_held",
        "_hlc",
        "_hosts",
        "_items",
        "_last_position",
        "_lastseqs",
        "_lists",
        "_placed",
        "_records",
        "_rows",
        "_spool",
        "_starts",
        "_streams",
        "_values",
    )

    def __init__(self, writes: Sequence[StoreWrite]) -> None:
        """Gather `writes`, in order. Nothing is executed yet."""
        self._rows: dict[int, list[int | bytes | None]] = {}
        self._placed: dict[int, int] = {}
        self._bodies: dict[int, bytes] = {}
        self._streams: dict[int, list[int]] = {}
        self._last_position = 0
        self._hlc = 0
        self._starts: int | None = None
        self._records: dict[RecordKey, RecordImage | None] = {}
        self._lastseqs: dict[RecordKey, tuple[int, MessageId]] = {}
        self._held: dict[RecordKey, tuple[int, RecordImage] | None] = {}
        self._hosts: dict[int, HostEntry] = {}
        self._spool: list[SpoolWrite] = []
        self._items: dict[MessageId, SpoolItem | None] = {}
        self._values: dict[int, LastValue | None] = {}
        self._lists: dict[Callable[[sqlite3.Connection, Any], None], list[Any]] = {}
        """By what executes them: writes that keep their order among themselves."""
        gather = GATHER
        for write in writes:
            gather[type(write)](self, write)

    def execute(self, connection: sqlite3.Connection) -> None:
        """Write all, inside the transaction that the caller has opened.

        Raises:
            sqlite3.Error: as SQLite says; the caller rolls back.
            InvariantError: a write speaks of a row that is not there.
        """
        if self._rows:
            connection.executemany(INSERT_ROW, self._rows.values())
        if self._placed:
            _change_each(connection, PLACE_ROW, [(position, key) for key, position in self._placed.items()])
        if self._bodies:
            lines = [(*item_columns(item), key, -len(item)) for key, item in self._bodies.items()]
            _change_each(connection, PUT_BODY, lines)
        if self._spool:
            write_spool(connection, self._spool)
        if self._items:
            self._write_items(connection)
        if self._records or self._lastseqs:
            self._write_records(connection)
        if self._held:
            self._write_held(connection)
        if self._hosts:
            connection.executemany(PUT_HOST, [host_columns(entry) for entry in self._hosts.values()])
        if self._values:
            write_values(connection, self._values)
        for write_all, writes in self._lists.items():
            write_all(connection, writes)
        for slot, counters in self._streams.items():
            connection.execute(PUT_STREAM, (slot, *counters))
        if self._last_position or self._hlc or self._starts is not None:
            connection.execute(PUT_SELF, (self._last_position, self._hlc, self._starts))

    def floors(self) -> dict[int, int]:
        """Floors that the writes raise, by origin."""
        return {slot: counters[2] for slot, counters in self._streams.items() if counters[2]}

    def _write_records(self, connection: sqlite3.Connection) -> None:
        for key, image in self._records.items():
            if image is None:
                connection.execute(f"DELETE FROM record WHERE {KEY}", record_key(key))
                connection.execute(f"DELETE FROM record_lastseq WHERE {KEY}", record_key(key))
            else:
                connection.execute(PUT_RECORD, record_columns(image))
                connection.execute(PUT_LASTSEQ, (*record_key(key), image.lastseq, *image.last_id))
        if self._lastseqs:
            rows = [(lastseq, *last_id, *record_key(key)) for key, (lastseq, last_id) in self._lastseqs.items()]
            _change_each(connection, RAISE_LASTSEQ, rows)

    def _write_held(self, connection: sqlite3.Connection) -> None:
        for key, held in self._held.items():
            if held is None:
                connection.execute(f"DELETE FROM held WHERE {KEY}", record_key(key))
            else:
                origin, image = held
                connection.execute(PUT_HELD, (*record_columns(image), image.lastseq, *image.last_id, origin))

    def _write_items(self, connection: sqlite3.Connection) -> None:
        dropped, given, copied = [], [], []
        for (slot, n), item in self._items.items():
            key = message_key(slot, n)
            if item is None:
                dropped.append((key,))
            elif item.item is None:
                copied.append((key,))
            else:
                given.append((key, *item_columns(item.item)))
        connection.executemany("DELETE FROM spool_item WHERE id = ?", dropped)
        connection.executemany(PUT_ITEM, given)
        if connection.executemany(COPY_ITEM, copied).rowcount < len(copied):
            for key_only in copied:
                found = connection.execute("SELECT 1 FROM spool_item WHERE id = ?", key_only).fetchone()
                ensure(found, "a spool item without bytes has neither a row nor an item in the store")

    def _stream(self, slot: int) -> list[int]:
        return self._streams.setdefault(slot, [0, 0, 0])

    def _put_row(self, write: PutRow) -> None:
        row, position = write.row, write.position
        slot, n, item = row.slot, row.n, row.item
        if (item is None and not row.lean) or not (0 < n <= NUMBER_MASK and 0 <= slot <= SLOT_MAX):
            raise InvariantError(f"row {slot, n} is put without its item, or its id does not fit the key")
        key = slot << NUMBER_BITS | n
        self._rows[key] = [
            key,
            position,
            row.hlc,
            int(row.kind),
            row.host,
            signed(row.incarnation),
            row.number,
            *row.taken,
            row.addressee,
            stamp_blob(row.stamp),
            *((-row.size, b"") if item is None else item_columns(item)),
        ]
        counters = self._streams.get(slot) or self._stream(slot)
        if n > counters[0]:
            counters[0] = n
        if row.hlc > self._hlc:
            self._hlc = row.hlc
        if position is not None:
            if n > counters[1]:
                counters[1] = n
            if position > self._last_position:
                self._last_position = position

    def _put_body(self, write: PutBody) -> None:
        key = message_key(*write.row.id)
        columns = self._rows.get(key)
        if columns is None:
            self._bodies[key] = write.item
        else:
            columns[-2:] = item_columns(write.item)

    def _place_row(self, write: PlaceRow) -> None:
        key = message_key(write.slot, write.n)
        columns = self._rows.get(key)
        if columns is None:
            self._placed[key] = write.position
        else:
            columns[1] = write.position
        counters = self._stream(write.slot)
        counters[1] = max(counters[1], write.n)
        self._last_position = max(self._last_position, write.position)
        self._hlc = max(self._hlc, write.hlc)

    def _drop_rows(self, write: DropRows) -> None:
        counters = self._stream(write.slot)
        counters[2] = max(counters[2], write.floor)

    def _put_record(self, write: PutRecord) -> None:
        key = write.image.key
        self._records[key] = write.image
        self._lastseqs.pop(key, None)

    def _drop_record(self, write: DropRecord) -> None:
        self._records[write.key] = None
        self._lastseqs.pop(write.key, None)
        self._spool.append(write)

    def _put_lastseq(self, write: PutLastSeq) -> None:
        key = write.key
        if key in self._records:
            image = self._records[key]
            if image is None:
                raise InvariantError(f"lastseq of record {key}, which was dropped before")
            self._records[key] = replace(image, lastseq=write.lastseq, last_id=write.last_id)
        else:
            self._lastseqs[key] = write.lastseq, write.last_id

    def _spool_add(self, write: SpoolAdd) -> None:
        self._spool.append(write)
        for item in write.items:
            self._items[item.slot, item.n] = item

    def _put_items(self, write: PutItems) -> None:
        for item in write.items:
            self._items[item.slot, item.n] = item

    def _put_last(self, write: PutLast) -> None:
        self._values[write.value.topic] = write.value

    def _drop_last(self, write: DropLast) -> None:
        self._values |= dict.fromkeys(write.topics)

    def _spool_other(self, write: SpoolTrim | SpoolDrop | SpoolRenumber | SpoolMove) -> None:
        self._spool.append(write)

    def _drop_items(self, write: DropSpoolItems) -> None:
        for message in write.ids:
            self._items[message] = None

    def _put_held(self, write: PutHeld) -> None:
        self._held[write.image.key] = write.origin, write.image

    def _drop_held(self, write: DropHeld) -> None:
        self._held[write.key] = None
        if not write.spool:
            self._spool.append(write)

    def _put_host(self, write: PutHost) -> None:
        self._hosts[write.entry.number] = write.entry

    def _put_start(self, write: PutStart) -> None:
        self._starts = write.starts

    def _put_clock(self, write: PutClock) -> None:
        self._hlc = max(self._hlc, write.hlc)

    def _group_write(self, write: GroupWrite) -> None:
        self._lists.setdefault(write_group, []).append(write)

    def _lan_write(self, write: LanWrite) -> None:
        self._lists.setdefault(write_lan, []).append(write)

    def _tail_write(self, write: TailWrite) -> None:
        self._lists.setdefault(write_tail, []).append(write)

    def _mail_write(self, write: MailStoreWrite) -> None:
        self._lists.setdefault(write_mail, []).append(write)


GATHER: Final[dict[type, Callable[[Batch, Any], None]]] = {
    PutRow: Batch._put_row,
    PutBody: Batch._put_body,
    PlaceRow: Batch._place_row,
    DropRows: Batch._drop_rows,
    PutRecord: Batch._put_record,
    DropRecord: Batch._drop_record,
    PutLastSeq: Batch._put_lastseq,
    SpoolAdd: Batch._spool_add,
    SpoolTrim: Batch._spool_other,
    SpoolDrop: Batch._spool_other,
    SpoolRenumber: Batch._spool_other,
    SpoolMove: Batch._spool_other,
    DropSpoolItems: Batch._drop_items,
    PutItems: Batch._put_items,
    PutLast: Batch._put_last,
    DropLast: Batch._drop_last,
    PutHost: Batch._put_host,
    PutStart: Batch._put_start,
    PutClock: Batch._put_clock,
    PutHeld: Batch._put_held,
    DropHeld: Batch._drop_held,
    PutView: Batch._group_write,
    PutReservation: Batch._group_write,
    PutInvitation: Batch._group_write,
    DropInvitation: Batch._group_write,
    PutEntry: Batch._lan_write,
    DropEntry: Batch._lan_write,
    PutAlive: Batch._lan_write,
    PutFound: Batch._lan_write,
    PutHistory: Batch._lan_write,
    **dict.fromkeys(MAIL_WRITES, Batch._mail_write),
    PutTail: Batch._tail_write,
    DropTail: Batch._tail_write,
}
"""What each write does to a batch. A write that is not here is our own bug (KeyError)."""


def _change_each(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    changed = connection.executemany(statement, rows).rowcount
    if changed != len(rows):
        raise InvariantError(f"{changed} rows instead of {len(rows)} changed by: {statement}")
