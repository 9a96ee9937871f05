"""Writing a segment: events to data blocks, and the encoder that keeps count and chain.

An encoder makes bytes and the caller keeps them: `accept` says that they are safe in the file, and only then do they
count. Bytes that were not kept are simply made anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cbor2 import dumps

from roamcast.middleware.errors import ensure
from roamcast.transport.segment_blocks import (
    BLOCK_EVENTS_MAX,
    DATA,
    RAW_BYTES_MAX,
    RAW_BYTES_WANTED,
    SEGMENT_BYTES,
    SEGMENT_RAW_MAX,
    SegmentHeader,
    SegmentTrailer,
    block,
    chained,
    encode_header,
    encode_trailer,
    signed_message,
)
from roamcast.transport.segment_rows import Packed, Rows, columns, pack_all

if TYPE_CHECKING:
    from roamcast.transport.segment import Segment

ZLIB_LEVEL: Final = 1


def encode_columns(events: Rows) -> bytes:
    """The map of columns that a data block holds. What is no such row raises struct.error, TypeError or an Error."""
    return dumps(columns(pack_all(events)))


def encode_data(events: Rows) -> bytes:
    """One data block."""
    return block(DATA, zlib.compress(encode_columns(events), ZLIB_LEVEL))


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

    def data(self, events: Rows | Sequence[Packed]) -> bytes:
        """Data blocks with these events: one, or more where it would be very large. Their numbers go on at `events`."""
        made = bytearray()
        count, blocks, raw, end = self.events, self.blocks, self.raw, self.end
        waiting = [pack_all(events) if isinstance(events, Mapping) else events]
        while waiting:
            part = waiting.pop()
            rows = len(part)
            body = dumps(columns(part)) if rows <= BLOCK_EVENTS_MAX // 4 else b""
            if not body or (len(body) > RAW_BYTES_WANTED and rows > 1):
                waiting += [part[rows // 2 :], part[: rows // 2]]
                continue
            ensure(len(body) <= RAW_BYTES_MAX, f"an event of {len(body)} bytes is too large for a log")
            data = block(DATA, zlib.compress(body, ZLIB_LEVEL))
            count, blocks, raw, end = count + rows, blocks + 1, raw + len(body), chained(end, data)
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
