"""Codec of the tail of a delivery log, as it lies in a station's store: the packed events of one tick."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from roamcast.transport.errors import DecodeError
from roamcast.transport.segment_rows import Packed, joined, split

_HEAD: Final = struct.Struct("<qq")


def encode_tail(segment: int, first: int, events: Sequence[Packed]) -> bytes:
    """Events that are to stand in `segment` from number `first` on; none: so far it has come."""
    return _HEAD.pack(segment, first) + joined(events)


def decode_tail(data: bytes) -> tuple[int, int, list[Packed]]:
    """(segment, first, events). Raises DecodeError."""
    try:
        segment, first = _HEAD.unpack_from(data)
        return segment, first, split(data, _HEAD.size)
    except (ValueError, IndexError, struct.error) as error:
        raise DecodeError(0, f"no tail of a log ({error})") from None
