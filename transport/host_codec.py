"""Codec of the host link: frames of `middleware.host_frames` to bytes and back. All that an agent needs of CBOR.

Items are encoded once, where a message enters the system; `encode_msg` only splices those bytes behind a head
(hot-path.md rule 4), so a MSG frame costs a station the same whatever the bodies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cbor2 import dumps

from roamcast.middleware import host_frames as frames
from roamcast.middleware.errors import ensure
from roamcast.middleware.rows import Item, Kind
from roamcast.transport import limits
from roamcast.transport.errors import DecodeError
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
    optional,
    sentence,
    text,
)
from roamcast.transport.limits import BODY_BYTES_MAX, INT64_MAX, INT64_MIN
from roamcast.transport.strict import ENDED, Reader, read_whole

ITEM_ELEMENTS: Final = 7
ITEM_KINDS: Final = (Kind.BROADCAST, Kind.MAIL, Kind.REFUSED)
"""What a host can be given; indexed by the number on the wire."""

_ACK_HEAD: Final = b"\x83\x02"
_MSG_HEAD: Final = b"\x84\x09"
_SMALL: Final = [dumps(n) for n in range(256)]


def _read_item(reader: Reader) -> Item:
    extra = reader.count(ITEM_ELEMENTS + limits.EXTRA_ELEMENTS_MAX) - ITEM_ELEMENTS
    if extra < 0:
        raise reader.refuse(f"item of fewer than {ITEM_ELEMENTS} elements")
    slot, n = reader.integers(2)
    sender = reader.text(1, limits.NAME_BYTES_MAX)
    incarnation32, number, kind = reader.integers(3)
    body = reader.octets(0, BODY_BYTES_MAX)
    if not (
        0 <= slot <= limits.SLOT_MAX
        and 1 <= n <= limits.COUNTER_MAX
        and 0 <= incarnation32 <= limits.UINT32_MAX
        and 0 <= number <= INT64_MAX
        and 0 <= kind < len(ITEM_KINDS)
    ):
        raise reader.refuse("a number of the item is out of range")
    reader.extras(extra)
    return Item(slot, n, sender, incarnation32, number, ITEM_KINDS[kind], body)


def encode_item(item: Item) -> bytes:
    """The final bytes of a message as hosts receive it: made once, stored, spliced, never decoded by a station."""
    data = dumps([item.slot, item.n, item.sender, item.incarnation32, item.number, int(item.kind), item.body])
    ensure(len(data) <= limits.ITEM_BYTES_MAX, f"own item of {len(data)} bytes is too large")
    return data


def decode_item(data: bytes) -> Item:
    """The message in the bytes of `encode_item`. Raises DecodeError."""
    return read_whole(data, limits.ITEM_BYTES_MAX, _read_item)


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


def _read_entries(reader: Reader) -> list[tuple[int, Item]]:
    count = reader.count(2 * limits.MSG_ENTRIES_MAX)
    if count & 1:
        raise reader.refuse("a step without its item")
    entries = []
    for _ in range(count // 2):
        (step,) = reader.integers(1)
        if step < 1:
            raise reader.refuse("positions do not ascend")
        entries.append((step, _read_item(reader)))
    return entries


class _MsgLayout(Layout[frames.Msg]):
    """MSG: its entries are one flat array step, item, step, item ...; a step counts from the position before."""

    def read(self, reader: Reader) -> frames.Msg:
        prev, last, steps = (part.read(reader) for part in self.parts)
        at = prev
        entries = []
        for step, item in steps:
            at += step
            entries.append((at, item))
        if at > last:
            raise reader.refuse(f"position {at} is above the frame's last {last}")
        return frames.Msg(prev, last, tuple(entries))

    def encode(self, frame: frames.Msg) -> bytes:
        return encode_msg(frame.prev, frame.last, [(position, encode_item(item)) for position, item in frame.entries])


_BODY = octets(0, BODY_BYTES_MAX)
_TEXT = sentence(limits.TEXT_BYTES_MAX)
_BODY_SIZE = integer(0, BODY_BYTES_MAX)
_ENDPOINT, _KEY = text(1, limits.ENDPOINT_BYTES_MAX), octets(limits.KEY_BYTES, limits.KEY_BYTES)
_STATIONS = array(group(NAME, SLOT, _ENDPOINT, _KEY), limits.STATIONS_MAX)
_PING_S = integer(0, limits.PING_S_MAX)

UP: Final[Link[frames.UpFrame]] = Link(
    limits.UP_FRAME_BYTES_MAX,
    Layout(1, frames.Hello, VERSION, NAME, UINT64, FLAG, NATURAL, SLOT, NATURAL, POSITION, NATURAL, _PING_S),
    Layout(2, frames.Ack, NATURAL, POSITION),
    Layout(3, frames.Data, NATURAL, NATURAL, POSITION, optional(NAME), _BODY),
    Layout(4, frames.Ping, NATURAL, POSITION),
    Layout(5, frames.Detach, NATURAL),
    Layout(6, frames.Leave, NATURAL),
)
DOWN: Final[Link[frames.DownFrame]] = Link(
    limits.DOWN_FRAME_BYTES_MAX,
    Layout(8, frames.Welcome, VERSION, NATURAL, NATURAL, FLAG, POSITION, _BODY_SIZE, NATURAL, _STATIONS),
    _MsgLayout(9, frames.Msg, POSITION, POSITION, Field(_read_entries)),
    Layout(10, frames.Uack, NATURAL, NATURAL, SLOT, COUNTER),
    Layout(11, frames.Pong, POSITION),
    Layout(12, frames.Wait, _TEXT, SLOT, NATURAL),
    Layout(13, frames.Reset, NATURAL),
    Layout(14, frames.Stale, NATURAL),
    Layout(15, frames.Replaced, NATURAL),
    Layout(16, frames.Refused, sentence(limits.CODE_BYTES_MAX), _TEXT),
    Layout(17, frames.NoSession),
    Layout(18, frames.Left),
)

encode_up = UP.encode
encode_down, decode_down = DOWN.encode, DOWN.decode


def decode_up(data: bytes) -> frames.UpFrame:
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
            return frames.Ack(e, c)
    return UP.decode(data)
