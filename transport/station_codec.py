"""Codec of the station link: frames of `middleware.station_frames` to bytes and back."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from roamcast.middleware import station_frames as frames
from roamcast.middleware.errors import ensure
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.live_frames import LiveCast, LiveClock
from roamcast.middleware.publication import Hearing, Publish
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.transport import limits
from roamcast.transport.group_codec import GROUP_LAYOUTS, GROUP_VIEW
from roamcast.transport.host_codec import LIVE_KIND
from roamcast.transport.lan_codec import LAN_LAYOUTS
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
)
from roamcast.transport.mail_codec import MAIL_LAYOUTS
from roamcast.transport.station_fields import (
    EXT,
    LIVE_PAST,
    LIVE_TAGS,
    MESSAGE,
    MH,
    NUMBERS,
    PART,
    SLOTS,
    SPOOL_ITEM,
    VECTOR,
    ascending,
    plain_row,
    read_row,
    record,
)
from roamcast.transport.strict import Reader


class _BatchLayout(Layout[frames.DataBatch]):
    """DATA: the origin stands once in the frame; the rows carry the rest, their numbers as differences."""

    def read(self, reader: Reader) -> frames.DataBatch:
        origin = SLOT.read(reader)
        rows: list[Row] = []
        before = 0
        for _ in range(reader.count(limits.ROWS_MAX)):
            rows.append(read_row(reader, origin, before, may_be_short=True))
            before = rows[-1].n
        return frames.DataBatch(origin, tuple(rows), LIVE_TAGS.read(reader))


class _BodyLayout(Layout[frames.Body]):
    """BODY: the origin stands once in the frame."""

    def read(self, reader: Reader) -> frames.Body:
        origin, since = SLOT.read(reader), NATURAL.read(reader)
        bodies = tuple([SpoolItem(origin, n, item, len(item)) for n, item in _BODIES.read(reader)])
        return frames.Body(origin, since, bodies, NUMBERS.read(reader))


def _plain_body(body: SpoolItem) -> tuple[int, bytes]:
    ensure(body.item is not None, f"body {(body.slot, body.n)} is sent without its bytes")
    return body.n, body.item or b""


AUDIENCES_MAX = 64
MARK_MAX = (1 << 48) - 1
"""Of a layout of clusters and its members."""

_BODY = group(COUNTER, octets(1, limits.ITEM_BYTES_MAX))
_BODIES = ascending(_BODY, limits.NUMBERS_MAX, itemgetter(0))
_PLAIN_BODIES = Field(_BODIES.read, lambda bodies: _BODIES.plain(map(_plain_body, bodies)))


def _plain_rows(rows: tuple[Row, ...]) -> list[Any]:
    return [plain_row(row, rows[at - 1].n if at else 0) for at, row in enumerate(rows)]


_ROWS = Field(lambda reader: (), _plain_rows)
_WANT = array(SLOT, limits.STATIONS_MAX)
_BEYOND = optional(record(Beyond, integer(1, MARK_MAX), PAIRS, PAIRS, PAIRS, SLOTS))
_AUDIENCES = ascending(integer(0, limits.UINT32_MAX), AUDIENCES_MAX, int)
_CODE, _TEXT = sentence(limits.CODE_BYTES_MAX), sentence(limits.TEXT_BYTES_MAX)

PEER: Final[Link[frames.StationFrame]] = Link(
    limits.PEER_FRAME_BYTES_MAX,
    Layout(32, frames.Link, VERSION, NAME, NAME, SLOT, UINT64, UINT64, NATURAL, COUNTER, COUNTER, *4 * (NATURAL,)),
    Layout(33, frames.WentBack, NATURAL, COUNTER, NATURAL, NATURAL),
    Layout(34, frames.NoLink),
    Layout(35, frames.Refusal, _CODE, _TEXT),
    Layout(36, LiveClock, NATURAL, NATURAL, optional(POSITION), NATURAL),
    Layout(37, Publish, UINT64, integer(1, limits.PORT_MAX), _AUDIENCES),
    Layout(38, Hearing, UINT64, _AUDIENCES),
    _BatchLayout(40, frames.DataBatch, SLOT, _ROWS, LIVE_TAGS),
    Layout(41, frames.Claims, FLAG, PAIRS, PAIRS, PAIRS, COUNTER, NATURAL, _WANT, GROUP_VIEW, _BEYOND),
    Layout(42, frames.Nack, SLOT, COUNTER, COUNTER),
    Layout(43, frames.Pull, SLOT, NATURAL, NUMBERS),
    _BodyLayout(44, frames.Body, SLOT, NATURAL, _PLAIN_BODIES, NUMBERS),
    Layout(45, frames.Keep, SLOT, NUMBERS),
    Layout(46, frames.Kept, SLOT, NUMBERS),
    Layout(
        47,
        LiveCast,
        *(NATURAL, NATURAL, LIVE_PAST, PAIRS, NATURAL, NATURAL, integer(0, limits.UINT32_MAX)),
        *(LIVE_KIND, NATURAL, octets(0, limits.BODY_BYTES_MAX)),
    ),
    Layout(48, frames.HandoffReq, MH, NATURAL, NATURAL, POSITION, NATURAL, array(PART, limits.SPOOL_PARTS_MAX)),
    Layout(49, frames.State, MH, NATURAL, VECTOR, VECTOR, NATURAL, MESSAGE, FLAG, NATURAL, PART, EXT),
    Layout(50, frames.SpoolPart, MH, NATURAL, PART, PART, array(SPOOL_ITEM, limits.SPOOL_ENTRIES_MAX)),
    Layout(51, frames.HandoffNack, MH, NATURAL, NATURAL),
    Layout(52, frames.Accept, MH, NATURAL),
    Layout(53, frames.Released, MH, NATURAL),
    Layout(54, frames.Cancel, MH, NATURAL, NATURAL),
    Layout(55, frames.Query, MH, NATURAL),
    Layout(56, frames.Probe, MH, NATURAL),
    Layout(57, frames.NoRec, MH, NATURAL),
    Layout(58, frames.Expire, MH, NATURAL, VECTOR),
    Layout(59, frames.XAck, MH, NATURAL),
    Layout(60, frames.Spooled, MH, NATURAL),
    Layout(61, frames.Claimed, MH, NATURAL),
    Layout(62, frames.Noted, MH, NATURAL),
    Layout(63, frames.GroupQuery, MH, NATURAL),
    *LAN_LAYOUTS,
    *MAIL_LAYOUTS,
    *GROUP_LAYOUTS,
)

encode_peer, decode_peer = PEER.encode, PEER.decode
