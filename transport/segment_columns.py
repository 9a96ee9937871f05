"""The payloads of a segment, read as strictly as a frame: header, trailer, and the columns of a data block.

Whatever is no such payload is a DecodeError, before memory is taken for it.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT
from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import (
    ENDPOINT_BYTES_MAX,
    INT64_MAX,
    NAME_BYTES_MAX,
    NESTING_MAX,
    SIGNATURE_BYTES,
    SLOT_MAX,
    STATIONS_MAX,
    TEXT_BYTES_MAX,
    UINT64_MAX,
)
from roamcast.transport.segment_blocks import (
    BLOCK_EVENTS_MAX,
    CODES,
    HASH_BYTES,
    JOURNAL,
    KEY_ID_BYTES,
    LENGTH,
    LENGTH_CODE,
    MAP_BYTES_MAX,
    SCHEMA,
    SEQ,
    STATION,
    WALL,
    NewerSegment,
    SegmentHeader,
    SegmentTrailer,
    columns_of,
    key_order,
)
from roamcast.transport.strict import (
    ARRAY,
    BYTES,
    ENDED,
    FALSE,
    MAP,
    NINT,
    NULL,
    TAG,
    TRUE,
    Reader,
    read_whole,
)
from roamcast.transport.strict import TEXT as TEXT_ITEM

KEYS_MAX: Final = 256
"""Of one map."""
CELL_BYTES_MAX: Final = ENDPOINT_BYTES_MAX
"""One value of a text column."""

Columns = dict[str, Any]
"""Key -> bytes of an array, or list of text."""

Read = Callable[[Reader], Any]


def _keys(reader: Reader) -> Iterator[str]:
    """The keys of the map at the cursor, in their order and none twice; the caller takes each value."""
    before = (-1, b"")
    for _ in range(reader.count(KEYS_MAX, MAP)):
        key = reader.text(1, NAME_BYTES_MAX)
        if key_order(key) <= before:
            raise reader.refuse("map keys doubled or out of order")
        before = key_order(key)
        yield key


def _skip(reader: Reader, nesting: int = NESTING_MAX) -> None:
    """Step over a value that this version does not know."""
    major, size = reader.data[reader.pos] >> 5, len(reader.data)
    if major <= NINT:
        reader.head(major)
    elif major == BYTES:
        reader.octets(0, size)
    elif major == TEXT_ITEM:
        reader.text(0, size)
    elif major in (ARRAY, MAP) and nesting:
        for _ in range(reader.count(size, major) * (2 if major == MAP else 1)):
            _skip(reader, nesting - 1)
    elif major < TAG:
        raise reader.refuse("an unknown value is nested too deep")
    else:
        reader.simple((FALSE, TRUE, NULL))


def _fields(reader: Reader, known: dict[str, Read]) -> dict[str, Any]:
    """The known fields of a map."""
    values: dict[str, Any] = {}
    for key in _keys(reader):
        if key in known:
            values[key] = known[key](reader)
        else:
            _skip(reader)
    return values


# ---- header and trailer ----


def _natural(reader: Reader) -> int:
    return reader.integer(0, INT64_MAX)


def _uint64(reader: Reader) -> int:
    return reader.integer(0, UINT64_MAX)


def _hash(reader: Reader) -> bytes:
    return reader.octets(HASH_BYTES, HASH_BYTES)


def _or_empty(size: int) -> Read:
    def read(reader: Reader) -> bytes:
        value = reader.octets(0, size)
        if len(value) not in (0, size):
            raise reader.refuse(f"{size} bytes or none expected")
        return value

    return read


def _peers(reader: Reader) -> dict[int, tuple[int, bytes]]:
    peers: dict[int, tuple[int, bytes]] = {}
    before = -1
    for _ in range(reader.count(STATIONS_MAX, MAP)):
        slot = reader.integer(before + 1, SLOT_MAX)
        if reader.count(2) != 2:
            raise reader.refuse("seq and end expected")
        peers[slot] = _natural(reader), _hash(reader)
        before = slot
    return peers


def _schema(reader: Reader) -> int:
    schema: int = reader.integer(1, UINT64_MAX)
    if schema > SCHEMA:
        raise NewerSegment(reader.pos, f"segment of schema {schema}, at most {SCHEMA} is known here")
    return schema


def _writer(reader: Reader) -> str:
    writer = reader.text(0, NAME_BYTES_MAX)
    if writer not in (STATION, JOURNAL):
        raise reader.refuse(f"a writer {writer!r} is not known")
    return writer


HEADER_FIELDS: Final[dict[str, Read]] = {
    "schema": _schema, "writer": _writer, "seq": _natural, "prev": _or_empty(HASH_BYTES), "opened": _natural,
    "group": lambda reader: reader.text(1, NAME_BYTES_MAX), "id": lambda reader: reader.text(1, NAME_BYTES_MAX),
    "slot": lambda reader: reader.integer(0, SLOT_MAX), "generation": _uint64, "incarnation": _uint64,
    "key": _or_empty(KEY_ID_BYTES), "software": lambda reader: reader.text(0, TEXT_BYTES_MAX),
    "note": lambda reader: reader.text(0, TEXT_BYTES_MAX), "peers": _peers,
}  # fmt: skip
HEADER_NEEDED: Final = {"schema", "writer", "group", "id", "seq", "prev", "key", "opened"}
STATION_NEEDED: Final = {"slot", "generation"}
TRAILER_FIELDS: Final[dict[str, Read]] = {
    "blocks": _natural, "events": _natural, "end": _hash, "closed": _natural, "signature": _or_empty(SIGNATURE_BYTES),
}  # fmt: skip


def decode_header(payload: bytes) -> SegmentHeader:
    """The header. Raises DecodeError, and NewerSegment among these."""

    def read(reader: Reader) -> SegmentHeader:
        try:
            values = _fields(reader, HEADER_FIELDS)
        except NewerSegment:
            raise
        except DecodeError:
            _refuse_newer(payload)
            raise
        schema = values.pop("schema", 0)
        needed = HEADER_NEEDED | (STATION_NEEDED if values.get("writer") == STATION else {"incarnation"})
        if schema == 0 or (missing := sorted(needed - {"schema", *values})):
            raise reader.refuse(f"header without {'schema' if schema == 0 else ', '.join(missing)}")
        return SegmentHeader(**values)

    return read_whole(payload, MAP_BYTES_MAX, read)


def _refuse_newer(payload: bytes) -> None:
    """A header of the future may have other fields: that it is one is said first."""
    known: dict[str, Read] = {"schema": _schema}
    try:
        _fields(Reader(payload), known)
    except NewerSegment:
        raise
    except (DecodeError, *ENDED):
        return


def decode_trailer(payload: bytes) -> SegmentTrailer:
    """The trailer. Raises DecodeError."""

    def read(reader: Reader) -> SegmentTrailer:
        values = _fields(reader, TRAILER_FIELDS)
        if len(values) < len(TRAILER_FIELDS):
            raise reader.refuse("trailer without all its fields")
        return SegmentTrailer(**values)

    return read_whole(payload, MAP_BYTES_MAX, read)


# ---- data ----

Block = dict[str, Columns]
"""Event -> its columns in one block. Of events that are not known: `seq` alone."""


def inflate(payload: bytes, most: int) -> bytes:
    """The bytes that `payload` is the zlib form of, at most `most`. Raises DecodeError."""
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(payload, most + 1)
    except zlib.error as error:
        raise DecodeError(0, f"data block is not deflated: {error}") from error
    if len(raw) > most or not stream.eof or stream.unused_data:
        raise DecodeError(len(payload), "data block is too large, cut, or has bytes behind it")
    return raw


def array_of(code: str, parts: list[bytes]) -> array[Any]:
    """The numbers of little-endian arrays, one behind the other."""
    column: array[Any] = array(code)
    for part in parts:
        column.frombytes(part)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def decode_columns(raw: bytes, first: int) -> tuple[Block, int]:
    """The columns of one block, and how many events there are. first: number of its first event. Raises DecodeError."""

    def read(reader: Reader) -> tuple[Block, int]:
        found: Block = {}
        for event in _keys(reader):
            found[event] = _read_event(reader, columns_of(event) if event in EVENTS else {SEQ: "q", WALL: "q"})
        parts = [columns[SEQ] for columns in found.values()]
        if sum(map(len, parts)) > 8 * BLOCK_EVENTS_MAX:
            raise reader.refuse(f"more than {BLOCK_EVENTS_MAX} events in one block")
        numbers = array_of("q", parts)
        expected = array("q", range(first, first + len(numbers)))
        if numbers != expected and array("q", sorted(numbers)) != expected:
            raise reader.refuse(f"events are not numbered from {first} on")
        return found, len(numbers)

    return read_whole(raw, len(raw), read)


def _read_event(reader: Reader, types: dict[str, str]) -> Columns:
    """The columns of one event; all of one length. Raises DecodeError."""
    widths = {name + LENGTH: 4 for name, kind in types.items() if kind == INTS}
    widths |= {name: 8 for name, kind in types.items() if kind != TEXT}
    size, columns = len(reader.data), Columns()
    for key in _keys(reader):
        if types.get(key) == TEXT:
            rows_max = len(columns.get(SEQ, b"")) // 8  # its key stands before those of all texts
            columns[key] = [reader.text(0, CELL_BYTES_MAX) for _ in range(reader.count(rows_max))]
        elif key in widths:
            columns[key] = reader.octets(0, size)
            if len(columns[key]) % widths[key]:
                raise reader.refuse(f"column {key} is cut within a number")
        else:
            _skip(reader)
    rows = len(columns.get(SEQ, b"")) // 8
    if WALL not in columns or rows == 0:
        raise reader.refuse("an event without rows, seq or wall")
    for name, kind in types.items():
        _check_rows(reader, columns, name, kind, rows)
    return columns


def _check_rows(reader: Reader, columns: Columns, name: str, kind: str, rows: int) -> None:
    """All columns have `rows` rows. One that is missing is, with its lengths, not there at all."""
    values = columns.get(name)
    if kind == INTS:
        lengths = columns.get(name + LENGTH)
        if values is None or lengths is None:
            columns.pop(name, None)
            columns.pop(name + LENGTH, None)
            return
        fits = len(lengths) == 4 * rows and 8 * sum(array_of(LENGTH_CODE, [lengths])) == len(values)
    else:
        fits = values is None or len(values) == (rows if kind == TEXT else 8 * rows)
    if not fits:
        raise reader.refuse(f"column {name} does not have one value for each of {rows} events")


def join(blocks: list[Columns], event: str) -> Columns:
    """The columns of a known event over several blocks: arrays and lists of text; None: not every block has it."""
    joined = Columns()
    for name, kind in columns_of(event).items():
        for key in (name, name + LENGTH) if kind == INTS else (name,):
            parts = [columns.get(key) for columns in blocks]
            if any(part is None for part in parts):
                joined[key] = None
            elif kind == TEXT:
                joined[key] = [text for part in parts for text in part or ()]
            else:
                joined[key] = array_of(LENGTH_CODE if key != name else CODES[kind], [part or b"" for part in parts])
    return joined
