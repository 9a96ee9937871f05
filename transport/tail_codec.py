"""Codec of the tail of a delivery log, as it lies in a station's store: the events of one tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cbor2 import dumps, loads

from roamcast.transport.errors import DecodeError

Event = tuple[str, int, Sequence[Any]]
"""(event, wall, values in the order of its columns)."""


def encode_tail(segment: int, first: int, events: Sequence[Event]) -> bytes:
    """Events that are to stand in `segment` from number `first` on."""
    return dumps([segment, first, events])


def decode_tail(data: bytes) -> tuple[int, int, list[Event]]:
    """(segment, first, events). Raises DecodeError."""
    try:
        segment, first, events = loads(data)
        return int(segment), int(first), [(str(event), int(wall), values) for event, wall, values in events]
    except Exception as error:  # cbor2 raises many kinds for bytes that nobody wrote
        raise DecodeError(0, f"no tail of a log ({type(error).__name__})") from None
