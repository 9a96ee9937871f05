"""Writing a segment: rows of events to data blocks, and the encoder that keeps count and chain.

An encoder makes bytes and the caller keeps them: `accept` says that they are safe in the file, and only then do they
count. Bytes that were not kept are simply made anew.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from cbor2 import dumps

from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT
from roamcast.middleware.errors import ensure
from roamcast.transport.segment_blocks import (
    BLOCK_EVENTS_MAX,
    CODES,
    DATA,
    LENGTH,
    LENGTH_CODE,
    RAW_BYTES_MAX,
    RAW_BYTES_WANTED,
    SEGMENT_BYTES,
    SEGMENT_RAW_MAX,
    SegmentHeader,
    SegmentTrailer,
    block,
    chained,
    columns_of,
    encode_header,
    encode_trailer,
    key_order,
    signed_message,
)

if TYPE_CHECKING:
    from roamcast.transport.segment import Segment

Rows = Mapping[str, Sequence[tuple[Any, ...]]]
"""Event -> its rows (seq, wall, *columns); a list column holds integers, pairs one behind the other."""

ZLIB_LEVEL: Final = 1
_EVENTS: Final = sorted(EVENTS, key=key_order)


def _plan(event: str) -> list[tuple[str, int, str, bool]]:
    """(key, index in a row, type, whether it is the lengths of a list), in the order of the keys."""
    plan = []
    for index, (name, kind) in enumerate(columns_of(event).items()):
        plan.append((name, index, kind, False))
        if kind == INTS:
            plan.append((name + LENGTH, index, kind, True))
    return sorted(plan, key=lambda part: key_order(part[0]))


_PLANS: Final = {event: _plan(event) for event in EVENTS}


def little(code: str, values: Sequence[int]) -> bytes:
    """The values as a little-endian array."""
    return struct.pack(f"<{len(values)}{code}", *values)


def _column(values: Sequence[Any], kind: str, lengths: bool) -> Any:
    if kind == TEXT:
        return list(values)
    if lengths:
        return little(LENGTH_CODE, list(map(len, values)))
    return little(CODES[kind], list(chain.from_iterable(values)) if kind == INTS else values)


def encode_columns(events: Rows) -> bytes:
    """The map of columns that a data block holds. What is no such row raises struct.error, TypeError or an Error."""
    plain = {}
    for event in _EVENTS:
        rows = events.get(event)
        if rows:
            columns = list(zip(*rows, strict=True))
            ensure(len(columns) == len(EVENTS[event]) + 2, f"a row of {event} has another number of columns")
            plain[event] = {key: _column(columns[at], kind, lengths) for key, at, kind, lengths in _PLANS[event]}
    ensure(len(plain) == sum(map(bool, events.values())), "events that delivery_log.EVENTS does not name")
    return dumps(plain)


def encode_data(events: Rows) -> bytes:
    """One data block."""
    return block(DATA, zlib.compress(encode_columns(events), ZLIB_LEVEL))


def _halves(events: Rows) -> tuple[Rows, Rows]:
    """The rows with the lower and those with the higher half of the numbers."""
    numbers = sorted(row[0] for rows in events.values() for row in rows)
    middle = numbers[len(numbers) // 2]
    low = {event: [row for row in rows if row[0] < middle] for event, rows in events.items()}
    high = {event: [row for row in rows if row[0] >= middle] for event, rows in events.items()}
    return low, high


class SegmentEncoder:
    """One segment on its way into a file: `head`, any `data`, `trailer`; each is `accept`ed once the file has it."""

    def __init__(self, header: SegmentHeader) -> None:
        self.header = header
        self.events = 0
        """Events so far, the number of the next one."""
        self.blocks = 0
        """Data blocks."""
        self.size = 0
        """Bytes of the file."""
        self.raw = 0
        """Bytes of the data blocks, inflated."""
        self.end = b""
        """Chain behind the last data block (or the header)."""
        self._made: tuple[bytes, int, int, int, bytes] | None = None
        """What was made last, and events, blocks, raw, end with it."""

    @classmethod
    def resume(cls, segment: Segment) -> SegmentEncoder:
        """The encoder of a segment that has no trailer. What is behind its whole blocks must be cut off."""
        ensure(segment.trailer is None, "a closed segment does not go on")
        encoder = cls(segment.header)
        encoder.events, encoder.blocks, encoder.end = segment.events, segment.blocks, segment.end
        encoder.size, encoder.raw = segment.whole_bytes, segment.raw_bytes
        return encoder

    @property
    def full(self) -> bool:
        """Whether the next events belong into the next segment."""
        return self.size >= SEGMENT_BYTES or self.raw >= SEGMENT_RAW_MAX // 2

    def head(self) -> bytes:
        """Magic and header."""
        data = encode_header(self.header)
        self._made = data, 0, 0, 0, chained(b"", data[7:])
        return data

    def data(self, events: Rows) -> bytes:
        """Data blocks with these events: one, or more where it would be very large. Numbers go on at `self.events`."""
        made = bytearray()
        count, blocks, raw, end = self.events, self.blocks, self.raw, self.end
        waiting = [events]
        while waiting:
            part = waiting.pop()
            rows = sum(map(len, part.values()))
            columns = encode_columns(part) if rows <= BLOCK_EVENTS_MAX // 4 else b""
            if not columns or (len(columns) > RAW_BYTES_WANTED and rows > 1):
                waiting += reversed(_halves(part))
                continue
            ensure(len(columns) <= RAW_BYTES_MAX, f"an event of {len(columns)} bytes is too large for a log")
            data = block(DATA, zlib.compress(columns, ZLIB_LEVEL))
            count, blocks, raw, end = count + rows, blocks + 1, raw + len(columns), chained(end, data)
            made += data
        self._made = bytes(made), count, blocks, raw, end
        return self._made[0]

    def trailer(self, closed: int, sign: Callable[[bytes], bytes] | None = None) -> bytes:
        """The trailer. closed: microseconds UTC. sign: None where the header names no key."""
        ensure((sign is None) == (not self.header.key), "a segment is signed iff its header names a key")
        message = signed_message(self.header, self.events, self.end, closed)
        signature = b"" if sign is None else sign(message)
        data = encode_trailer(SegmentTrailer(self.blocks, self.events, self.end, closed, signature))
        self._made = data, self.events, self.blocks, self.raw, self.end
        return data

    def accept(self, data: bytes) -> None:
        """`data`, made last, is in the file."""
        made, self._made = self._made, None
        ensure(made is not None and made[0] is data, "only what was made last can be accepted")
        if made is not None:
            _, self.events, self.blocks, self.raw, self.end = made
            self.size += len(data)
