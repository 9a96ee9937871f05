"""Codec of the tail of a delivery log, as it lies in a station's store: the packed events of one tick."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from roamcast.transport.errors import DecodeError
from roamcast.transport.segment_rows import Packed, joined, split

_HEAD: Final = struct.Struct("<qq")
_SYNCED: Final = struct.Struct("<q")


class TailPart(NamedTuple):
    """Events that are to stand in `segment` from number `first` on; none: so far it has come."""

    segment: int
    first: int
    events: list[Packed]
    synced: int
    """Events of that segment that the disk has surely kept; `first`, but for events about live messages behind them."""

    @property
    def reach(self) -> tuple[int, int]:
        """How far the log must have come when this was written: segment, and events in it."""
        return self.segment, self.synced


def lacking(parts: Sequence[TailPart], segment: int, written: int) -> tuple[int, int]:
    """Where a tail goes on behind something that `segment`, with `written` events, does not have: (first, synced)
    there; (0, 0): it has all.
    """
    for part in parts:
        if part.segment == segment:
            if part.first > written:
                return part.first, part.synced
            written = max(written, part.first + len(part.events))
    return 0, 0


def encode_tail(segment: int, first: int, events: Sequence[Packed], synced: int | None = None) -> bytes:
    """See `TailPart`. synced: None: as `first`."""
    if synced is None or synced >= first:
        return _HEAD.pack(segment, first) + joined(events)
    return _HEAD.pack(-segment, first) + _SYNCED.pack(synced) + joined(events)


def decode_tail(data: bytes) -> TailPart:
    """Raises DecodeError."""
    try:
        segment, first = _HEAD.unpack_from(data)
        if segment >= 0:
            return TailPart(segment, first, split(data, _HEAD.size), first)
        (synced,) = _SYNCED.unpack_from(data, _HEAD.size)
        return TailPart(-segment, first, split(data, _HEAD.size + _SYNCED.size), synced)
    except (ValueError, IndexError, struct.error) as error:
        raise DecodeError(0, f"no tail of a log ({error})") from None
