"""Codec of what stations say of the group: the view in CLAIMS, records for an heir, slots, the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any, Final

from roamcast.middleware import station_frames as frames
from roamcast.middleware.errors import InvariantError
from roamcast.middleware.membership.view import Closing, Ending, GroupView, View
from roamcast.middleware.rows import Row
from roamcast.middleware.writes import HostEntry, LastValue, RecordImage
from roamcast.transport import limits
from roamcast.transport.layout import (
    COUNTER,
    FLAG,
    NATURAL,
    SLOT,
    UINT64,
    Field,
    Layout,
    array,
    group,
    integer,
    optional,
)
from roamcast.transport.limits import PLACE_MAX, SLOT_MAX, STATIONS_MAX
from roamcast.transport.station_fields import (
    EXT,
    MEMBER,
    MESSAGE,
    MH,
    PART,
    SLOTS,
    SPOOL_ITEM,
    VECTOR,
    ascending,
    plain_row,
    read_row,
    record,
)
from roamcast.transport.strict import BYTES, Reader

RECORD_STATES: Final = ("open", "moved", "done", "tomb")
"""Indexed by the number on the wire."""


# ---- the view in CLAIMS ----


def _check(reader: Reader, *sets: Iterable[int]) -> None:
    """Each set holds all of the next one."""
    if not all(set(inner).issubset(outer) for outer, inner in pairwise(sets)):
        raise reader.refuse("a view that contradicts itself")


_CLOSING = record(Closing, MEMBER, SLOT, COUNTER, COUNTER, VECTOR)
_CLOSINGS = ascending(_CLOSING, STATIONS_MAX, attrgetter("slot"))
_WHOLE_VIEW = record(GroupView, SLOTS, SLOTS, SLOTS, SLOTS, SLOTS, FLAG, _CLOSINGS)


def _read_view(reader: Reader) -> GroupView:
    if reader.data[reader.pos] >> 5 == BYTES:
        return GroupView(SLOTS.read(reader))
    view: GroupView = _WHOLE_VIEW.read(reader)
    if view == GroupView(view.members):
        raise reader.refuse("a view that says no more than its members")
    _check(reader, view.members, view.closed, view.final)
    _check(reader, view.closed, view.released, view.off)
    _check(reader, view.closed, [closing.slot for closing in view.closings])
    return view


def _plain_view(view: GroupView | None) -> Any:
    if view is None:
        raise InvariantError("CLAIMS are sent without a view of the group")
    return SLOTS.plain(view.members) if view == GroupView(view.members) else _WHOLE_VIEW.plain(view)


GROUP_VIEW = Field(_read_view, _plain_view)


# ---- records for an heir ----


def _read_state(reader: Reader) -> str:
    return RECORD_STATES[reader.integer(0, len(RECORD_STATES) - 1)]


def _read_ext(reader: Reader) -> tuple[tuple[str, bytes], ...]:
    return tuple(EXT.read(reader).items())


_PLACE = integer(-PLACE_MAX - 1, PLACE_MAX)
_SHIFT = integer(0, PLACE_MAX)
_KEY = group(NATURAL, UINT64, NATURAL)
_IMAGE = record(
    RecordImage,
    MH,
    NATURAL,
    Field(_read_state, RECORD_STATES.index),
    optional(integer(-1, SLOT_MAX)),
    FLAG,
    VECTOR,
    _PLACE,
    FLAG,
    NATURAL,
    NATURAL,
    NATURAL,
    VECTOR,
    _PLACE,
    FLAG,
    NATURAL,
    MESSAGE,
    VECTOR,
    optional(group(SLOT, NATURAL)),
    FLAG,
    _SHIFT,
    FLAG,
    FLAG,
    FLAG,
    NATURAL,
    Field(_read_ext, lambda ext: EXT.plain(dict(ext))),
    _SHIFT,
)
_SPOOL = ascending(group(_PLACE, SPOOL_ITEM), limits.SPOOL_ENTRIES_MAX, itemgetter(0))


# ---- the snapshot for a newcomer ----


def _read_placed(reader: Reader) -> tuple[int, Row]:
    if reader.count(3) != 3:
        raise reader.refuse("array of 3 expected")
    return NATURAL.read(reader), read_row(reader, SLOT.read(reader))


def _plain_placed(placed: tuple[int, Row]) -> list[Any]:
    position, row = placed
    return [position, row.slot, plain_row(row)]


def _by_slot(value: Field) -> Field:
    """Slot and value, slots ascending; a dict in Python."""
    lines = ascending(group(MEMBER, value), STATIONS_MAX, itemgetter(0))
    return Field(lambda reader: dict(lines.read(reader)), lambda values: lines.plain(values.items()))


def _read_slot_set(reader: Reader) -> frozenset[int]:
    return frozenset(SLOTS.read(reader))


_SLOT_SET = Field(_read_slot_set, SLOTS.plain)
_CLOSED = _by_slot(group(SLOT, VECTOR))
_FINAL = _by_slot(record(Ending, SLOT, COUNTER, VECTOR))
_VIEW = record(View, SLOTS, _CLOSED, _FINAL, _SLOT_SET, _SLOT_SET, FLAG, SLOT, SLOT, FLAG)


def _read_durable_view(reader: Reader) -> View:
    view: View = _VIEW.read(reader)
    _check(reader, view.members, view.closed, view.final, view.dropped)
    _check(reader, view.closed, view.released)
    return view


def _read_taken(reader: Reader) -> tuple[tuple[int, int], ...]:
    ranges: tuple[tuple[int, int], ...] = _RANGES.read(reader)
    before = 0
    for first, last in ranges:
        if not before < first <= last:
            raise reader.refuse("ranges are not ascending, or not apart")
        before = last + 1
    return ranges


_RANGES = array(group(NATURAL, NATURAL), limits.TAKEN_MAX)
_DURABLE_VIEW = Field(_read_durable_view, _VIEW.plain)
_REPLACED = array(UINT64, limits.REPLACED_MAX)
_HOST = record(HostEntry, NATURAL, UINT64, group(NATURAL, SLOT, COUNTER), FLAG, _REPLACED, Field(_read_taken))
_ROWS = ascending(Field(_read_placed, _plain_placed), limits.ROWS_MAX, itemgetter(0))
_HOSTS = ascending(_HOST, limits.SNAPSHOT_HOSTS_MAX, attrgetter("number"))
_LAST = record(LastValue, NATURAL, group(NATURAL, NATURAL, NATURAL), SLOT, COUNTER, NATURAL, FLAG)
_VALUES = ascending(group(_LAST, SPOOL_ITEM), limits.VALUES_MAX, lambda pair: pair[0].topic)
_STREAMS = ascending(group(SLOT, COUNTER, COUNTER), STATIONS_MAX, itemgetter(0))

GROUP_LAYOUTS: Final[tuple[Layout[Any], ...]] = (
    Layout(72, frames.Adopt, _IMAGE, PART, _SHIFT, _SHIFT),
    Layout(73, frames.AdoptPart, _KEY, PART, PART, _SPOOL),
    Layout(74, frames.Adopted, _KEY),
    Layout(75, frames.Reserve, MEMBER, UINT64),
    Layout(76, frames.Reserved, MEMBER, UINT64, FLAG, SLOT),
    Layout(77, frames.SnapshotReq, NATURAL, NATURAL, NATURAL),
    Layout(
        78,
        frames.Snapshot,
        NATURAL,
        NATURAL,
        NATURAL,
        _ROWS,
        _HOSTS,
        _VALUES,
        FLAG,
        _STREAMS,
        NATURAL,
        NATURAL,
        _DURABLE_VIEW,
    ),
)
