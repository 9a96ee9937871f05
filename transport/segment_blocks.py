"""What a segment of a delivery log or journal is made of: blocks, their chain, header, trailer, what is signed.

Source: docs/protocols/delivery-log.md, 'Segments'; payloads: segment.cddl. All of it is deterministic CBOR as on the
wire. Nothing here touches a file or a key.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cbor2 import dumps

from roamcast.middleware.delivery_log import EVENTS, INT, INTS, WORD
from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import TEXT_BYTES_MAX

MAGIC: Final = b"RCLOG1\n"
SCHEMA: Final = 1
STATION, JOURNAL = "station", "journal"
HEAD: Final = struct.Struct("<IIB")
"""Of a block: length and CRC-32 of all behind these two; type."""
COVERED: Final = 8
"""Bytes of a block that its length does not count."""

HEADER, DATA, TRAILER = b"HDT"
"""Types of blocks."""

RAW_BYTES_MAX: Final = 1 << 28
"""Of one data block, inflated. An encoder makes blocks of less than RAW_BYTES_WANTED, unless one event is larger."""
RAW_BYTES_WANTED: Final = 1 << 24
BLOCK_EVENTS_MAX: Final = 1 << 20
"""Events of one data block; an encoder puts at most a quarter of that into one."""
SEGMENT_RAW_MAX: Final = 1 << 30
"""Of all data blocks of a segment, inflated."""
SEGMENT_BYTES: Final = 64 << 20
"""A segment of this size is full: a writer begins the next one."""
MAP_BYTES_MAX: Final = 1 << 20
"""Header and trailer."""
KEY_ID_BYTES: Final = 8
HASH_BYTES: Final = 32

SEQ, WALL = "seq", "wall"
CODES: Final = {INT: "q", WORD: "Q", INTS: "q"}
"""Type of column -> type code of an array."""
LENGTH_CODE: Final = "I"
LENGTH: Final = "_len"
"""What follows the name of a list column in the name of the column of its lengths."""


class NewerSegment(DecodeError):
    """A segment of a larger schema: only a newer release can read it."""


class CutHeader(DecodeError):
    """The bytes end before a whole header: no event was ever logged in them."""


def columns_of(event: str) -> dict[str, str]:
    """All columns of an event and their types."""
    return {SEQ: INT, WALL: INT, **EVENTS[event]}


def key_order(key: str) -> tuple[int, bytes]:
    """The order of map keys (RFC 8949 section 4.2.1)."""
    return len(key.encode()), key.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """Who writes the segment, and what stands before it."""

    writer: str
    """STATION or JOURNAL."""
    group: str
    id: str
    """Of the station; name of the host."""
    seq: int
    """Of the segment, from 1."""
    prev: bytes
    """Chain end of the one before, 32 bytes; empty: there is none."""
    opened: int
    """Microseconds, UTC."""
    slot: int = 0
    generation: int = 0
    """Both of a station."""
    incarnation: int = 0
    """Of a host."""
    key: bytes = b""
    """First 8 bytes of SHA-256 of the public signing key; empty: not signed."""
    software: str = ""
    note: str = ""
    """What was found wrong at the start; cut at 512 bytes."""
    peers: Mapping[int, tuple[int, bytes]] = field(default_factory=dict)
    """Slot -> (seq, chain end) of the newest closed segment of that station, as far as the writer knows."""


@dataclass(frozen=True, slots=True)
class SegmentTrailer:
    """The end of a closed segment."""

    blocks: int
    """Data blocks."""
    events: int
    end: bytes
    """Chain behind the last data block."""
    closed: int
    """Microseconds, UTC."""
    signature: bytes
    """64 bytes; empty: not signed."""


def key_id(public: bytes) -> bytes:
    """How a header names a public signing key (32 bytes)."""
    return hashlib.sha256(public).digest()[:KEY_ID_BYTES]


def signed_message(header: SegmentHeader, events: int, end: bytes, closed: int) -> bytes:
    """What the signature is of (`signed-segment`)."""
    return dumps(
        ["RCLOG1", header.group, header.id, header.generation, header.seq, header.prev, end, events, closed]
    )  # fmt: skip


def block(type: int, payload: bytes) -> bytes:
    """One block."""
    checksum = zlib.crc32(payload, zlib.crc32(bytes((type,))))
    return HEAD.pack(len(payload) + 1, checksum, type) + payload


def scan(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The whole blocks with a good checksum, in order: (start, end, type). Ends silently at the first other one."""
    at = len(MAGIC)
    while len(data) - at >= HEAD.size:
        length, checksum, type = HEAD.unpack_from(data, at)
        end = at + COVERED + length
        if length == 0 or end > len(data) or zlib.crc32(memoryview(data)[at + COVERED : end]) != checksum:
            return
        yield at, end, type
        at = end


def chained(end: bytes, data: bytes) -> bytes:
    """The chain behind block `data`; `end` is the chain before it, empty for the header."""
    digest = hashlib.sha256(end)
    digest.update(data)
    return digest.digest()


def encode_header(header: SegmentHeader) -> bytes:
    """The beginning of a file: magic and header block."""
    plain: dict[str, Any] = {
        "schema": SCHEMA, "writer": header.writer, "group": header.group, "id": header.id, "seq": header.seq,
        "prev": header.prev, "key": header.key, "opened": header.opened, "software": header.software,
        "note": header.note.encode()[:TEXT_BYTES_MAX].decode(errors="ignore"),
    }  # fmt: skip
    if header.writer == STATION:
        peers = {slot: list(header.peers[slot]) for slot in sorted(header.peers)}
        plain |= {"slot": header.slot, "generation": header.generation, "peers": peers}
    else:
        plain |= {"incarnation": header.incarnation}
    return MAGIC + block(HEADER, encode_sorted(plain))


def encode_trailer(trailer: SegmentTrailer) -> bytes:
    """The trailer block."""
    plain = {
        "blocks": trailer.blocks, "events": trailer.events, "end": trailer.end, "closed": trailer.closed,
        "signature": trailer.signature,
    }  # fmt: skip
    return block(TRAILER, encode_sorted(plain))


def encode_sorted(values: Mapping[str, Any]) -> bytes:
    """A map with its keys in their order."""
    return dumps({key: values[key] for key in sorted(values, key=key_order)})
