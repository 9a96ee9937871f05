"""Segments of delivery logs and journals: reading one, whatever its bytes are.

`read_segment` looks at the file block by block and stops at the first that does not hold; what stands before it counts.
Source: docs/protocols/delivery-log.md, 'Segments'. To write one: `SegmentEncoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from roamcast.middleware.delivery_log import EVENTS
from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import SIGNATURE_BYTES
from roamcast.transport.segment_blocks import (
    COVERED,
    DATA,
    HEAD,
    HEADER,
    JOURNAL,
    MAGIC,
    RAW_BYTES_MAX,
    SEGMENT_RAW_MAX,
    STATION,
    TRAILER,
    CutHeader,
    NewerSegment,
    SegmentHeader,
    SegmentTrailer,
    chained,
    key_id,
    scan,
    signed_message,
)
from roamcast.transport.segment_columns import (
    Block,
    Columns,
    decode_columns,
    decode_header,
    decode_trailer,
    inflate,
    join,
)
from roamcast.transport.segment_writer import SegmentEncoder, encode_data

__all__ = [
    "CLOSED", "DAMAGED", "FORGED", "JOURNAL", "OPEN", "STATION", "TORN", "UNSIGNED", "Columns", "CutHeader",
    "NewerSegment", "Segment", "SegmentEncoder", "SegmentHeader", "SegmentTrailer", "encode_data", "key_id",
    "read_header", "read_segment", "scan",
]  # fmt: skip

CLOSED, OPEN, TORN, DAMAGED, FORGED, UNSIGNED = "closed", "open", "torn", "damaged", "forged", "unsigned"

Verify = Callable[[bytes, bytes, bytes], bool]
"""(key id of the header, message, signature of 64 bytes) -> whether that key has signed it."""

_ENDS_INSIDE: Final = "the file ends inside a block"


@dataclass(slots=True)
class Segment:
    """What one file says, as far as it holds."""

    header: SegmentHeader
    status: str = OPEN
    """CLOSED (trailer, chain and signature hold), OPEN (whole blocks, no trailer), TORN (ends inside a block), DAMAGED,
    FORGED (the signature does not hold), UNSIGNED (closed, but nobody has signed)."""
    reason: str = ""
    """Of TORN, DAMAGED, FORGED: what was seen."""
    whole_bytes: int = 0
    """Bytes of the blocks that hold, with the magic: all of a sound file."""
    blocks: int = 0
    """Data blocks that hold."""
    events: int = 0
    raw_bytes: int = 0
    """Bytes of the data blocks, inflated."""
    end: bytes = b""
    """Chain behind the last data block that holds (or the header)."""
    trailer: SegmentTrailer | None = None
    _data: list[Block] = field(default_factory=list, repr=False)

    @property
    def names(self) -> set[str]:
        """Events of which there are rows, also such that are not known here."""
        return {event for block in self._data for event in block}

    def columns(self, event: str) -> Columns:
        """Column -> array of 64 bits, or list of text; empty: there are no rows, or the event is not known.

        A list column NAME is two: NAME_len (how many numbers for each row) and NAME (all of them). A column that not
        all blocks have is None. Arrays are made anew at each call; `numpy.asarray` takes them as they are.
        """
        blocks = [block[event] for block in self._data if event in block]
        return join(blocks, event) if blocks and event in EVENTS else {}


def read_header(data: bytes) -> SegmentHeader:
    """The header of a segment; the rest is not looked at. Raises as `read_segment`."""
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            raise CutHeader(len(data), "segment ends within its magic")
        raise DecodeError(0, "no segment of a log")
    for start, end, type in scan(data):
        if type != HEADER:
            raise DecodeError(start, "segment does not begin with a header")
        return decode_header(data[start + HEAD.size : end])
    if _is_cut(data, len(MAGIC)):
        raise CutHeader(len(data), "segment ends within its header")
    raise DecodeError(len(MAGIC), "the header is damaged")


def read_segment(data: bytes, verify: Verify | None = None) -> Segment:
    """The segment that `data` is.

    verify: None: signatures are not looked at. It must know whose key it is: only one of the station `header.id` will
        do (see `read_header`). A station's segment without a key is then forged.

    Raises:
        DecodeError: no segment at all. Among these NewerSegment (larger schema) and CutHeader (it ends before its first
            whole block). Nothing else, whatever the bytes are.
    """
    segment = Segment(read_header(data))
    for start, end, type in scan(data):
        if segment.trailer is not None:
            return _damaged(segment, "bytes behind the trailer")
        payload = data[start + HEAD.size : end]
        try:
            if start == len(MAGIC):
                segment.end = chained(b"", data[start:end])
            elif type == DATA:
                _take_data(segment, payload)
                segment.end = chained(segment.end, data[start:end])
            elif type == TRAILER:
                _take_trailer(segment, payload)
            else:
                raise DecodeError(start, f"block of unknown type {type}")
        except DecodeError as error:
            return _damaged(segment, f"block at byte {start}: {error.reason}")
        segment.whole_bytes = end
    if segment.whole_bytes < len(data):
        if segment.trailer is not None:
            return _damaged(segment, "bytes behind the trailer")
        if not _is_cut(data, segment.whole_bytes):
            return _damaged(segment, f"block at byte {segment.whole_bytes}: bad checksum")
        segment.status, segment.reason = TORN, _ENDS_INSIDE
    elif segment.trailer is not None:
        segment.status = _judged(segment, segment.trailer, verify)
        segment.reason = "the signature does not hold" if segment.status == FORGED else ""
    return segment


def _is_cut(data: bytes, at: int) -> bool:
    """Whether what stands here is the rest of an interrupted write: a block that is not whole, or the last one."""
    if len(data) - at < HEAD.size:
        return True
    length, _, _ = HEAD.unpack_from(data, at)
    return at + COVERED + length >= len(data) or data.count(0, at) == len(data) - at


def _damaged(segment: Segment, reason: str) -> Segment:
    segment.status, segment.reason = DAMAGED, reason
    return segment


def _take_data(segment: Segment, payload: bytes) -> None:
    raw = inflate(payload, min(RAW_BYTES_MAX, SEGMENT_RAW_MAX - segment.raw_bytes))
    block, rows = decode_columns(raw, segment.events)
    segment._data.append(block)
    segment.raw_bytes += len(raw)
    segment.events += rows
    segment.blocks += 1


def _take_trailer(segment: Segment, payload: bytes) -> None:
    trailer = decode_trailer(payload)
    if (trailer.blocks, trailer.events, trailer.end) != (segment.blocks, segment.events, segment.end):
        raise DecodeError(0, "the trailer is that of other blocks")
    segment.trailer = trailer


def _judged(segment: Segment, trailer: SegmentTrailer, verify: Verify | None) -> str:
    header = segment.header
    if not header.key:
        return FORGED if trailer.signature or (verify is not None and header.writer == STATION) else UNSIGNED
    if verify is None:
        return CLOSED
    message = signed_message(header, trailer.events, trailer.end, trailer.closed)
    whole = len(trailer.signature) == SIGNATURE_BYTES
    return CLOSED if whole and verify(header.key, message, trailer.signature) else FORGED
