"""Codec of the station link: frames of `middleware.station_frames` to bytes and back."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from roamcast.middleware import station_frames as frames
from roamcast.transport import limits
from roamcast.transport.group_codec import GROUP_LAYOUTS, GROUP_VIEW
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
    sentence,
)
from roamcast.transport.mail_codec import MAIL_LAYOUTS
from roamcast.transport.station_fields import EXT, MESSAGE, MH, PART, SPOOL_ITEM, VECTOR, plain_row, read_row
from roamcast.transport.strict import Reader


class _BatchLayout(Layout[frames.DataBatch]):
    """DATA: the origin stands once in the frame; the rows carry the rest."""

    def read(self, reader: Reader) -> frames.DataBatch:
        origin = SLOT.read(reader)
        rows = tuple([read_row(reader, origin) for _ in range(reader.count(limits.ROWS_MAX))])
        if any(one.n >= other.n for one, other in pairwise(rows)):
            raise reader.refuse("row numbers do not ascend")
        return frames.DataBatch(origin, rows)


_ROWS = Field(lambda reader: (), lambda rows: [plain_row(row) for row in rows])
_WANT = array(SLOT, limits.STATIONS_MAX)
_CODE, _TEXT = sentence(limits.CODE_BYTES_MAX), sentence(limits.TEXT_BYTES_MAX)

PEER: Final[Link[frames.StationFrame]] = Link(
    limits.PEER_FRAME_BYTES_MAX,
    Layout(32, frames.Link, VERSION, NAME, NAME, SLOT, UINT64, UINT64, NATURAL, COUNTER, COUNTER, *4 * (NATURAL,)),
    Layout(33, frames.WentBack, NATURAL, COUNTER, NATURAL, NATURAL),
    Layout(34, frames.NoLink),
    Layout(35, frames.Refusal, _CODE, _TEXT),
    _BatchLayout(40, frames.DataBatch, SLOT, _ROWS),
    Layout(41, frames.Claims, FLAG, PAIRS, PAIRS, PAIRS, COUNTER, NATURAL, _WANT, GROUP_VIEW),
    Layout(42, frames.Nack, SLOT, COUNTER, COUNTER),
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
