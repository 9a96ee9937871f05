"""How the values of middleware/rows.py and middleware/writes.py lie in the columns of schema.sql, and back.

Readers raise ValueError or struct.error when the columns do not hold what the writers put there.
"""

from __future__ import annotations

import json
import struct
import zlib
from functools import cache
from itertools import chain
from typing import Any, Final

from roamcast.middleware.rows import Kind, MessageId, Row, Vector
from roamcast.middleware.spool_writes import RecordKey
from roamcast.middleware.writes import HostEntry, RecordImage

NUMBER_BITS: Final = 40
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
SLOT_MAX: Final = (1 << 63 - NUMBER_BITS) - 1
UNSIGNED_MASK: Final = (1 << 64) - 1

ROW_COLUMNS: Final = "id, position, hlc, kind, host, incarnation, number, taken_epoch, taken_position, addressee, stamp"
ITEM_COLUMNS: Final = "checksum, item"
RECORD_COLUMNS: Final = (
    "host, incarnation, arr, state, prev, link, t_vector, t_position, ready, le, sess, ep, base, base_c, closed, sdep,"
    " moved_slot, moved_epoch, succ_ok, joining, gap, exp_acked, ephemeral, away_since, ext, shift"
)
LASTSEQ_COLUMNS: Final = "lastseq, last_slot, last_n"
_IMAGE_NAMES: Final = f"{RECORD_COLUMNS}, {LASTSEQ_COLUMNS}".split(", ")
HOST_COLUMNS: Final = "number, incarnation, stamp_order, stamp_slot, stamp_n, gone, replaced, taken"


def message_key(slot: int, n: int) -> int:
    """Integer key of message (slot, n); ordered by slot, then number."""
    return slot << NUMBER_BITS | n


def message_id(key: int) -> MessageId:
    """The message that `message_key` named."""
    return key >> NUMBER_BITS, key & NUMBER_MASK


def signed(number: int) -> int:
    """A 64-bit number without sign as SQLite's signed integer of equal bits."""
    return number - (1 << 64) if number >> 63 else number


def unsigned(number: int) -> int:
    """Undoes `signed`."""
    return number & UNSIGNED_MASK


def record_key(key: RecordKey) -> tuple[int, int, int]:
    """Key columns of a custody record."""
    return key[0], signed(key[1]), key[2]


@cache
def _vector_struct(length: int) -> struct.Struct:
    return struct.Struct(f"<{length}Q")


@cache
def _stamp_struct(length: int) -> struct.Struct:
    return struct.Struct("<" + "IQ" * length)


def vector_blob(vector: Vector) -> bytes:
    """One counter a slot, 8 bytes each."""
    return _vector_struct(len(vector)).pack(*vector)


def vector(blob: bytes) -> Vector:
    """Undoes `vector_blob`."""
    return _vector_struct(len(blob) // 8).unpack(blob)


def stamp_blob(stamp: tuple[tuple[int, int], ...]) -> bytes:
    """(slot, value) pairs, 12 bytes each."""
    return _stamp_struct(len(stamp)).pack(*chain.from_iterable(stamp))


def stamp(blob: bytes) -> tuple[tuple[int, int], ...]:
    """Undoes `stamp_blob`."""
    flat = _stamp_struct(len(blob) // 12).unpack(blob)
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def row(columns: tuple[Any, ...]) -> Row:
    """A message from ROW_COLUMNS, and size and checksum of its item, which stays in the store unless it is empty.

    A negative checksum is the size of an item that is at other stations: a lean row.
    """
    key, position, hlc, kind, host, incarnation, number, taken_e, taken_c, addressee, stamp_bytes, size, crc = columns
    slot, n = message_id(key)
    lean = crc < 0
    if lean and size:
        raise ValueError(f"message ({slot}, {n}) has an item, and says that this is elsewhere")
    return Row(
        slot=slot,
        n=n,
        stamp=stamp(stamp_bytes),
        hlc=hlc,
        kind=Kind(kind),
        host=host,
        incarnation=unsigned(incarnation),
        number=number,
        taken=(taken_e, taken_c),
        addressee=addressee,
        item=None if lean else item_unread(slot, n, size, crc),
        size=-crc if lean else size,
        position=position,
        lean=lean,
    )


def item_columns(item: bytes) -> tuple[int, bytes]:
    """ITEM_COLUMNS of an item."""
    return zlib.crc32(item), item


def item(slot: int, n: int, checksum: int, content: bytes) -> bytes:
    """The item of message (slot, n), from ITEM_COLUMNS. Raises ValueError if it is not the one that was written."""
    if type(content) is not bytes or zlib.crc32(content) != checksum:
        raise ValueError(f"the item of message ({slot}, {n}) is not the one that was written: its checksum is wrong")
    return content


def item_unread(slot: int, n: int, size: int, checksum: int) -> bytes | None:
    """What memory holds of an item that stays in the store: None, but an empty one itself. Raises as `item`."""
    return None if size else item(slot, n, checksum, b"")


def record_columns(image: RecordImage) -> tuple[Any, ...]:
    """RECORD_COLUMNS of a custody record; lastseq and last_id have their own table."""
    moved_slot, moved_epoch = image.moved_to or (None, None)
    return (
        *record_key(image.key),
        image.state,
        image.prev,
        image.link,
        vector_blob(image.t_vector),
        image.t_position,
        image.ready,
        image.le,
        image.sess,
        image.ep,
        vector_blob(image.base),
        image.base_c,
        image.closed,
        vector_blob(image.sdep),
        moved_slot,
        moved_epoch,
        image.succ_ok,
        image.join,
        image.gap,
        image.exp_acked,
        image.ephemeral,
        image.away_since,
        json.dumps([[name, value.hex()] for name, value in image.ext]),
        image.shift,
    )


def record_image(columns: tuple[Any, ...]) -> RecordImage:
    """A custody record from RECORD_COLUMNS and LASTSEQ_COLUMNS."""
    c = dict(zip(_IMAGE_NAMES, columns, strict=True))
    if c["lastseq"] is None:
        raise ValueError(f"record {columns[:3]} has no lastseq")
    return RecordImage(
        mh=(c["host"], unsigned(c["incarnation"])),
        arr=c["arr"],
        state=c["state"],
        prev=c["prev"],
        link=bool(c["link"]),
        t_vector=vector(c["t_vector"]),
        t_position=c["t_position"],
        ready=bool(c["ready"]),
        le=c["le"],
        sess=c["sess"],
        ep=c["ep"],
        base=vector(c["base"]),
        base_c=c["base_c"],
        closed=bool(c["closed"]),
        lastseq=c["lastseq"],
        last_id=(c["last_slot"], c["last_n"]),
        sdep=vector(c["sdep"]),
        moved_to=None if c["moved_slot"] is None else (c["moved_slot"], c["moved_epoch"]),
        succ_ok=bool(c["succ_ok"]),
        join=int(c["joining"]),
        gap=bool(c["gap"]),
        exp_acked=bool(c["exp_acked"]),
        ephemeral=bool(c["ephemeral"]),
        away_since=c["away_since"],
        ext=tuple((name, bytes.fromhex(value)) for name, value in json.loads(c["ext"])),
        shift=c["shift"],
    )


def host_columns(entry: HostEntry) -> tuple[Any, ...]:
    """HOST_COLUMNS of a membership entry."""
    taken = vector_blob(tuple(chain.from_iterable(entry.taken)))
    return entry.number, signed(entry.incarnation), *entry.stamp, entry.gone, vector_blob(entry.replaced), taken


def host_entry(columns: tuple[Any, ...]) -> HostEntry:
    """A membership entry from HOST_COLUMNS."""
    number, incarnation, order, slot, n, gone, replaced, taken = columns
    ends = vector(taken)
    return HostEntry(
        number=number,
        incarnation=unsigned(incarnation),
        stamp=(order, slot, n),
        gone=bool(gone),
        replaced=vector(replaced),
        taken=tuple(zip(ends[::2], ends[1::2], strict=True)),
    )
