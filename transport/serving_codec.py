"""The station's short ways through the host link's codec, for what comes or goes once per message or acknowledgement.

Items are encoded once, where a message enters the system; `encode_msg` only splices those bytes behind a head
(hot-path.md rule 4), so a MSG frame costs a station the same whatever the bodies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cbor2 import dumps

from roamcast.middleware.errors import ensure
from roamcast.middleware.host_frames import Ack, UpFrame
from roamcast.middleware.rows import Item
from roamcast.transport import limits
from roamcast.transport.errors import DecodeError
from roamcast.transport.host_codec import UP, plain_item, read_item
from roamcast.transport.limits import INT64_MAX, INT64_MIN
from roamcast.transport.strict import ENDED, Reader, read_whole

_ACK_HEAD: Final = b"\x83\x02"
_MSG_HEAD: Final = b"\x84\x09"
_SMALL: Final = [dumps(n) for n in range(256)]


def encode_item(item: Item) -> bytes:
    """The final bytes of a message as hosts receive it: made once, stored, spliced, never decoded by a station."""
    data = dumps(plain_item(item))
    ensure(len(data) <= limits.ITEM_BYTES_MAX, f"own item of {len(data)} bytes is too large")
    return data


def decode_item(data: bytes) -> Item:
    """The message in the bytes of `encode_item`. Raises DecodeError."""
    return read_whole(data, limits.ITEM_BYTES_MAX, read_item)


def encode_msg(prev: int, last: int, entries: Sequence[tuple[int, bytes]]) -> bytes:
    """A MSG frame from items that are encoded already.

    Args:
        prev, last: positions; the frame holds what its hosts are owed in (prev, last].
        entries: (position, bytes of the item), positions ascending within (prev, last].
    """
    parts = [_MSG_HEAD, dumps(prev), dumps(last), _array_head(2 * len(entries))]
    at = prev
    for position, item in entries:
        step = position - at
        parts.append(_SMALL[step] if 0 < step < 256 else dumps(step))
        parts.append(item)
        at = position
    data = b"".join(parts)
    ensure(
        len(entries) <= limits.MSG_ENTRIES_MAX and len(data) <= limits.DOWN_FRAME_BYTES_MAX,
        f"own MSG of {len(entries)} entries, {len(data)} bytes is too large",
    )
    return data


def _array_head(count: int) -> bytes:
    if count < 24:
        return bytes((0x80 | count,))
    return b"\x98" + count.to_bytes(1, "big") if count < 256 else b"\x99" + count.to_bytes(2, "big")


def decode_up(data: bytes) -> UpFrame:
    """The frame that a host sent. Raises DecodeError.

    ACK is the hot case and has one form of at most 20 bytes, read at once; whatever is odd about it, the table tells.
    """
    if data[:2] == _ACK_HEAD and len(data) <= 20:
        reader = Reader(data, 2)
        try:
            e, c = reader.integers(2)
        except (DecodeError, *ENDED):
            return UP.decode(data)
        if reader.pos == len(data) and 0 <= e <= INT64_MAX and INT64_MIN <= c <= INT64_MAX:
            return Ack(e, c)
    return UP.decode(data)
