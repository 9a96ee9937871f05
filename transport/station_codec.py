"""Codec of the station link: frames of `middleware.station_frames` to bytes and back. Items travel as they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from roamcast.middleware import station_frames as frames
from roamcast.middleware.errors import ensure
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.transport import limits
from roamcast.transport.layout import (
    COUNTER,
    FLAG,
    NAME,
    NATURAL,
    POSITION,
    SLOT,
    UINT64,
    VERSION,
    Field,
    Layout,
    Link,
    array,
    group,
    integer,
    octets,
    sentence,
)
from roamcast.transport.limits import COUNTER_MAX, INT64_MAX, SLOT_MAX
from roamcast.transport.strict import MAP, Reader

Pairs = tuple[tuple[int, int], ...]

ROW_ELEMENTS: Final = 11
ROW_KINDS: Final = tuple(Kind)


def _read_pairs(reader: Reader) -> Pairs:
    """Flat array slot, n, slot, n ... as pairs; slots strictly ascending."""
    count = reader.count(2 * (SLOT_MAX + 1))
    if count & 1:
        raise reader.refuse("slot without a number")
    values = reader.integers(count)
    pairs = tuple(zip(values[::2], values[1::2], strict=True))
    before = -1
    for slot, n in pairs:
        if slot <= before or not 0 <= n <= COUNTER_MAX:
            raise reader.refuse("slots not ascending, or a number out of range")
        before = slot
    if before > SLOT_MAX:
        raise reader.refuse(f"slot {before} is not within 0..{SLOT_MAX}")
    return pairs


def _flat(pairs: Pairs) -> list[int]:
    """The pairs as one flat list, slots ascending."""
    return [number for pair in sorted(pairs) for number in pair]


def _read_vector(reader: Reader) -> tuple[int, ...]:
    vector = tuple(reader.integers(reader.count(SLOT_MAX + 1)))
    if vector and not 0 <= min(vector) <= max(vector) <= COUNTER_MAX:
        raise reader.refuse("vector entry out of range")
    return vector


def _key_order(key: str) -> tuple[int, bytes]:
    """Order of the keys as they are encoded (RFC 8949 section 4.2.1)."""
    return len(key.encode()), key.encode()


def _read_ext(reader: Reader) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    before = (-1, b"")
    for _ in range(reader.count(limits.EXT_ENTRIES_MAX, MAP)):
        key = reader.text(1, limits.EXT_KEY_BYTES_MAX)
        if _key_order(key) <= before:
            raise reader.refuse("map keys doubled or out of order")
        before = _key_order(key)
        entries[key] = reader.octets(0, limits.EXT_VALUE_BYTES_MAX)
    return entries


def _plain_ext(entries: dict[str, bytes]) -> dict[str, bytes]:
    return {key: entries[key] for key in sorted(entries, key=_key_order)}


def _read_row(reader: Reader, origin: int) -> Row:
    if reader.count(ROW_ELEMENTS) != ROW_ELEMENTS:
        raise reader.refuse(f"row of {ROW_ELEMENTS} elements expected")
    n, hlc, host, incarnation, number, e, c, kind, addressee = reader.integers(9)
    if not (
        1 <= n <= COUNTER_MAX
        and 0 <= hlc <= INT64_MAX
        and 0 <= host <= INT64_MAX
        and 0 <= incarnation <= limits.UINT64_MAX
        and 0 <= number <= INT64_MAX
        and 0 <= e <= INT64_MAX
        and limits.INT64_MIN <= c <= INT64_MAX
        and 0 <= kind < len(ROW_KINDS)
        and 0 <= addressee <= INT64_MAX
    ):
        raise reader.refuse("a number of the row is out of range")
    stamp = _read_pairs(reader)
    item = reader.octets(0, limits.ITEM_BYTES_MAX)
    return Row(origin, n, stamp, hlc, ROW_KINDS[kind], host, incarnation, number, (e, c), addressee, item, len(item))


def _plain_row(row: Row) -> list[Any]:
    ensure(row.item is not None, f"row {row.id} is sent without its item")
    e, c = row.taken
    head = [row.n, row.hlc, row.host, row.incarnation, row.number, e, c, int(row.kind), row.addressee]
    return [*head, _flat(row.stamp), row.item]


class _BatchLayout(Layout[frames.DataBatch]):
    """DATA: the origin stands once in the frame; the rows carry the rest."""

    def read(self, reader: Reader) -> frames.DataBatch:
        origin = SLOT.read(reader)
        rows = tuple([_read_row(reader, origin) for _ in range(reader.count(limits.ROWS_MAX))])
        if any(one.n >= other.n for one, other in pairwise(rows)):
            raise reader.refuse("row numbers do not ascend")
        return frames.DataBatch(origin, rows)


def _read_spool_item(reader: Reader) -> SpoolItem:
    slot, n, item = _SPOOLED.read(reader)
    return SpoolItem(slot, n, item, len(item))


def _plain_spool_item(entry: SpoolItem) -> list[Any]:
    ensure(entry.item is not None, f"spool entry {(entry.slot, entry.n)} is sent without its item")
    return [entry.slot, entry.n, entry.item]


_PAIRS = Field(_read_pairs, _flat)
_VECTOR = Field(_read_vector)
_MH = group(NATURAL, UINT64)
_PART = integer(0, limits.SPOOL_PARTS_MAX)
_SPOOLED = group(SLOT, COUNTER, octets(0, limits.ITEM_BYTES_MAX))
_SPOOL_ITEM = Field(_read_spool_item, _plain_spool_item)
_ROWS = Field(lambda reader: (), lambda rows: [_plain_row(row) for row in rows])
_CODE, _TEXT = sentence(limits.CODE_BYTES_MAX), sentence(limits.TEXT_BYTES_MAX)

PEER: Final[Link[frames.StationFrame]] = Link(
    limits.PEER_FRAME_BYTES_MAX,
    Layout(32, frames.Link, VERSION, NAME, NAME, SLOT, UINT64, UINT64, NATURAL, COUNTER, COUNTER, NATURAL, NATURAL),
    Layout(33, frames.WentBack, NATURAL, COUNTER),
    Layout(34, frames.NoLink),
    Layout(35, frames.Refusal, _CODE, _TEXT),
    _BatchLayout(40, frames.DataBatch, SLOT, _ROWS),
    Layout(41, frames.Claims, FLAG, _PAIRS, _PAIRS, _PAIRS, COUNTER, NATURAL, array(SLOT, limits.STATIONS_MAX)),
    Layout(42, frames.Nack, SLOT, COUNTER, COUNTER),
    Layout(48, frames.HandoffReq, _MH, NATURAL, NATURAL, POSITION, NATURAL, array(_PART, limits.SPOOL_PARTS_MAX)),
    Layout(
        49,
        frames.State,
        _MH,
        NATURAL,
        _VECTOR,
        _VECTOR,
        NATURAL,
        group(SLOT, COUNTER),
        FLAG,
        NATURAL,
        _PART,
        Field(_read_ext, _plain_ext),
    ),
    Layout(50, frames.SpoolPart, _MH, NATURAL, _PART, _PART, array(_SPOOL_ITEM, limits.SPOOL_ENTRIES_MAX)),
    Layout(51, frames.HandoffNack, _MH, NATURAL, NATURAL),
    Layout(52, frames.Accept, _MH, NATURAL),
    Layout(53, frames.Released, _MH, NATURAL),
    Layout(54, frames.Cancel, _MH, NATURAL, NATURAL),
    Layout(55, frames.Query, _MH, NATURAL),
    Layout(56, frames.Probe, _MH, NATURAL),
    Layout(57, frames.NoRec, _MH, NATURAL),
    Layout(58, frames.Expire, _MH, NATURAL, _VECTOR),
    Layout(59, frames.XAck, _MH, NATURAL),
    Layout(60, frames.Spooled, _MH, NATURAL),
)

encode_peer, decode_peer = PEER.encode, PEER.decode
