"""Codec of the host link: frames of `middleware.host_frames` to bytes and back. All that an agent needs of CBOR.

What a station does with them so often that it has a short way of its own is in `serving_codec`.
"""

from __future__ import annotations

from typing import Any, Final

from cbor2 import dumps

from roamcast.middleware import host_frames as frames
from roamcast.middleware.rows import VALUE_KINDS, Item, Kind
from roamcast.transport import limits
from roamcast.transport.layout import (
    COUNTER,
    FLAG,
    NAME,
    NATURAL,
    PAIRS,
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
from roamcast.transport.limits import BODY_BYTES_MAX, INT64_MAX
from roamcast.transport.strict import Reader

ITEM_ELEMENTS, TOPIC_ELEMENTS = 7, 9
PLAIN_KINDS: Final = (Kind.BROADCAST, Kind.MAIL, Kind.REFUSED)
ITEM_KINDS: Final = {int(kind): kind for kind in PLAIN_KINDS + tuple(Kind)[Kind.TOPIC :]}
"""What a host can be given, by the number on the wire."""


def read_item(reader: Reader) -> Item:
    """The message at the cursor. Raises DecodeError."""
    extra = reader.count(TOPIC_ELEMENTS + limits.EXTRA_ELEMENTS_MAX) - ITEM_ELEMENTS
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
        and kind in ITEM_KINDS
    ):
        raise reader.refuse("a number of the item is out of range")
    topic, hlc = "", 0
    if kind >= Kind.TOPIC:
        extra -= TOPIC_ELEMENTS - ITEM_ELEMENTS
        if extra < 0:
            raise reader.refuse(f"item on a topic of fewer than {TOPIC_ELEMENTS} elements")
        topic, hlc = reader.text(1, limits.TOPIC_BYTES_MAX), reader.integer(0, INT64_MAX)
    reader.extras(extra)
    return Item(slot, n, sender, incarnation32, number, ITEM_KINDS[kind], body, topic, hlc)


def plain_item(item: Item) -> list[Any]:
    """The message, for an encoder."""
    plain = [item.slot, item.n, item.sender, item.incarnation32, item.number, int(item.kind), item.body]
    return [*plain, item.topic, item.hlc] if item.kind >= Kind.TOPIC else plain


def _read_entries(reader: Reader) -> list[tuple[int, Item]]:
    count = reader.count(2 * limits.MSG_ENTRIES_MAX)
    if count & 1:
        raise reader.refuse("a step without its item")
    entries: list[tuple[int, Item]] = []
    for _ in range(count // 2):
        (step,) = reader.integers(1)
        item = read_item(reader)
        if step < 1 and not (step == 0 and entries and _goes_with(entries[-1][1], item)):
            raise reader.refuse("positions do not ascend")
        entries.append((step, item))
    return entries


def _goes_with(before: Item, item: Item) -> bool:
    """Whether they may have one position: a subscription, and the last value of its topic."""
    return before.kind is Kind.SUB and item.topic == before.topic and item.kind in VALUE_KINDS


def _read_data_kind(reader: Reader) -> Kind:
    kind = reader.integer(0, limits.UINT32_MAX)
    if kind not in DATA_KINDS:
        raise reader.refuse(f"a host sends nothing of kind {kind} on a topic")
    return Kind(kind)


def _read_live_kind(reader: Reader) -> Kind:
    kind = reader.integer(0, limits.UINT32_MAX)
    if kind not in LIVE_KINDS:
        raise reader.refuse(f"nothing live is of kind {kind}")
    return Kind(kind)


LIVE_KINDS: Final = (Kind.BROADCAST, Kind.MAIL, Kind.TOPIC)
LIVE_KIND: Final = Field(_read_live_kind, int)
DATA_KINDS: Final = (Kind.TOPIC, Kind.RETAINED, Kind.SUB, Kind.UNSUB)


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
        at = frame.prev
        entries: list[Any] = []
        for position, item in frame.entries:
            entries += [position - at, plain_item(item)]
            at = position
        return dumps([self.kind, frame.prev, frame.last, entries])


_BODY = octets(0, BODY_BYTES_MAX)
_TEXT = sentence(limits.TEXT_BYTES_MAX)
_BODY_SIZE = integer(0, BODY_BYTES_MAX)
_ENDPOINT, _KEY = text(1, limits.ENDPOINT_BYTES_MAX), octets(limits.KEY_BYTES, limits.KEY_BYTES)
_STATIONS = array(group(NAME, SLOT, _ENDPOINT, _KEY), limits.STATIONS_MAX)
_PING_S = integer(0, limits.PING_S_MAX)
_TOPIC = text(1, limits.TOPIC_BYTES_MAX)
_ENDED = array(group(SLOT, COUNTER, text(0, limits.TOPIC_BYTES_MAX)), limits.ENDED_MAX)
_UINT32, _ON_TOPIC = integer(0, limits.UINT32_MAX), text(0, limits.TOPIC_BYTES_MAX)
_STORED, _ABSENT = array(NATURAL, frames.STORED_MAX), array(NATURAL, limits.ABSENT_MAX)

UP: Final[Link[frames.UpFrame]] = Link(
    limits.UP_FRAME_BYTES_MAX,
    Layout(1, frames.Hello, VERSION, NAME, UINT64, FLAG, NATURAL, SLOT, NATURAL, POSITION, NATURAL, _PING_S),
    Layout(2, frames.Ack, NATURAL, POSITION),
    Layout(3, frames.Data, NATURAL, NATURAL, POSITION, optional(NAME), _BODY),
    Layout(24, frames.TopicData, NATURAL, NATURAL, POSITION, Field(_read_data_kind, int), _TOPIC, _BODY),
    Layout(4, frames.Ping, NATURAL, POSITION),
    Layout(5, frames.Detach, NATURAL),
    Layout(6, frames.Leave, NATURAL),
    Layout(21, frames.Seen, NATURAL, PAIRS, NATURAL, NATURAL, _STORED),
    Layout(26, frames.Heard, NATURAL),
    Layout(27, frames.LiveData, NATURAL, NATURAL, optional(_TOPIC), FLAG, NATURAL, _BODY, NATURAL),
)
DOWN: Final[Link[frames.DownFrame]] = Link(
    limits.DOWN_FRAME_BYTES_MAX,
    Layout(
        8,
        frames.Welcome,
        VERSION,
        NATURAL,
        NATURAL,
        FLAG,
        POSITION,
        _BODY_SIZE,
        NATURAL,
        _STATIONS,
        PAIRS,
        _ABSENT,
        _ENDED,
        NATURAL,
    ),
    _MsgLayout(9, frames.Msg, POSITION, POSITION, Field(_read_entries)),
    Layout(10, frames.Uack, NATURAL, NATURAL, SLOT, COUNTER),
    Layout(11, frames.Pong, POSITION, NATURAL, PAIRS),
    Layout(12, frames.Wait, _TEXT, SLOT, NATURAL),
    Layout(13, frames.Reset, NATURAL),
    Layout(14, frames.Stale, NATURAL),
    Layout(15, frames.Replaced, NATURAL),
    Layout(16, frames.Refused, sentence(limits.CODE_BYTES_MAX), _TEXT),
    Layout(17, frames.NoSession),
    Layout(18, frames.Left),
    Layout(20, frames.Move, _STATIONS),
    Layout(22, frames.Ask, NATURAL),
    Layout(23, frames.Fates, NATURAL, _ABSENT),
    Layout(25, frames.Unsubscribed, NATURAL, _ENDED),
    Layout(
        28,
        frames.LiveMsg,
        POSITION,
        group(NATURAL, SLOT),
        NAME,
        _UINT32,
        LIVE_KIND,
        _ON_TOPIC,
        NATURAL,
        NATURAL,
        _BODY,
    ),
    Layout(29, frames.LiveRefused, sentence(limits.CODE_BYTES_MAX), _TEXT, NATURAL),
)

encode_up = UP.encode
encode_down, decode_down = DOWN.encode, DOWN.decode
