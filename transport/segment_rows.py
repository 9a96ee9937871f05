"""Events packed once: so a store's tail keeps them, and the columns of a data block are cut out of them.

A packed event is a row of 8 bytes for its number, its wall time, each fixed column, and the length of each list (in
numbers) and text (in bytes); and these lists and texts, one behind the other. Little-endian.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from roamcast.middleware import delivery_log as log
from roamcast.middleware.delivery_log import INTS, TEXT
from roamcast.middleware.errors import InvariantError, ensure
from roamcast.transport.segment_blocks import CODES, LENGTH, LENGTH_CODE, columns_of, key_order

Rows = Mapping[str, Sequence[tuple[Any, ...]]]
"""Event -> its rows (seq, wall, *columns); a list column holds integers, pairs one behind the other."""

Event = tuple[str, int, Sequence[Any]]
"""(event, wall, values in the order of its columns)"""

_SHORT: Final = [struct.Struct(f"<{count}q").pack for count in range(65)]


def little(code: str, values: Sequence[int]) -> bytes:
    """The values as a little-endian array."""
    return struct.pack(f"<{len(values)}{code}", *values)


def numbers(data: bytes) -> tuple[int, ...]:
    """The values of a little-endian array of signed 64 bits."""
    return struct.unpack(f"<{len(data) // 8}q", data)


def _listed(values: Sequence[int]) -> bytes:
    return _SHORT[len(values)](*values) if len(values) < len(_SHORT) else little("q", values)


class Layout:
    """How an event is packed. Its lists and texts are its last columns."""

    def __init__(self, event: str, code: int) -> None:
        columns = columns_of(event)
        fixed = [name for name, kind in columns.items() if kind not in (INTS, TEXT)]
        self.event = event
        self.code = bytes((code,))
        self.beside = list(columns)[len(fixed) :]
        """Its lists and texts."""
        ensure([*fixed, *self.beside] == list(columns), f"the columns of {event} are not in order")
        self.are_texts = [columns[name] == TEXT for name in self.beside]
        self.fixed = len(fixed) - 2
        """Columns of its values that stand in the row."""
        self.row = struct.Struct("<" + "".join(CODES[columns[name]] for name in fixed) + "q" * len(self.beside))
        self.size = self.row.size
        self.pack = self.row.pack
        self.is_plain = not self.beside
        self.has_one_list = self.are_texts == [False]
        places = {name: at for at, name in enumerate([*fixed, *(name + LENGTH for name in self.beside)])}
        keys = [*columns, *(name + LENGTH for name, kind in columns.items() if kind == INTS)]
        self.plan = [(key, places.get(key, -1)) for key in sorted(keys, key=key_order)]
        """(key of a column, its place in the row; -1: it stands beside), in the order of the keys."""


CODES_OF_EVENTS: Final = (
    log.ACK, log.GAP, log.HOST, log.LOST, log.SENT, log.GIVEN, log.ORDER, log.CLOSED, log.MEMBER, log.HANDOFF,
    log.SESSION, log.ENDED, log.SUBSCRIBED, log.POSTED, log.ARRIVED, log.LIVE, log.HANDED, log.MISSED, log.UNTOLD,
    log.HEARD,
)  # fmt: skip
"""An event's place is its code in the tails of stores: new ones come behind."""

ensure(sorted(CODES_OF_EVENTS) == sorted(log.EVENTS), "CODES_OF_EVENTS has every event of delivery_log.EVENTS")

_BY_CODE: Final = [Layout(event, code) for code, event in enumerate(CODES_OF_EVENTS)]
LAYOUTS: Final = {layout.event: layout for layout in sorted(_BY_CODE, key=lambda layout: key_order(layout.event))}
"""In the order of the keys of a data block."""

Packed = tuple[Layout, bytes, bytes]
"""(layout, row, lists and texts)"""


def pack(event: str, seq: int, wall: int, values: Sequence[Any]) -> Packed:
    """One event; seq: its number in the segment. What is no such event raises struct.error, TypeError or an Error."""
    layout = LAYOUTS.get(event)
    if layout is None:
        raise InvariantError(f"{event} is no event that delivery_log.EVENTS names")
    if layout.is_plain:
        return layout, layout.pack(seq, wall, *values), b""
    fixed = layout.fixed
    if layout.has_one_list and len(values) == fixed + 1:
        listed = values[fixed]
        return layout, layout.pack(seq, wall, *values[:fixed], len(listed)), _listed(listed) if listed else b""
    beside = [each.encode() if isinstance(each, str) else _listed(each) for each in values[fixed:]]
    lengths = [len(each) if text else len(each) // 8 for each, text in zip(beside, layout.are_texts, strict=False)]
    return layout, layout.pack(seq, wall, *values[:fixed], *lengths, *beside[len(lengths) :]), b"".join(beside)


def pack_all(events: Rows) -> list[Packed]:
    """All rows, in the order of their numbers. Raises as `pack`."""
    rows = [(row, event) for event, of in events.items() for row in of]
    return [pack(event, row[0], row[1], row[2:]) for row, event in sorted(rows, key=lambda each: each[0][0])]


def parts(packed: Packed) -> list[bytes]:
    """Its lists and texts, each for itself."""
    layout, row, beside = packed
    made, at = [], 0
    for length, is_text in zip(layout.row.unpack(row)[2 + layout.fixed :], layout.are_texts, strict=True):
        end = at + (length if is_text else 8 * length)
        made.append(beside[at:end])
        at = end
    return made


def numbered(packed: Packed, seq: int) -> Packed:
    """The same event with another number in the segment."""
    layout, row, beside = packed
    return layout, little("q", (seq,)) + row[8:], beside


def columns(events: Sequence[Packed]) -> dict[str, dict[str, Any]]:
    """As a data block holds them."""
    kinds: dict[str, list[Packed]] = {}
    for each in events:
        event = each[0].event
        if event in kinds:
            kinds[event].append(each)
        else:
            kinds[event] = [each]
    return {event: _columns(LAYOUTS[event], kinds[event]) for event in LAYOUTS if event in kinds}


def _columns(layout: Layout, events: Sequence[Packed]) -> dict[str, Any]:
    cells = array("q", b"".join([row for _, row, _ in events]))
    width = layout.size // 8
    beside: dict[str, Any] = {}
    if layout.has_one_list:
        beside[layout.beside[0]] = b"".join([part for _, _, part in events])
    elif layout.beside:
        cut = zip(*map(parts, events), strict=True)
        for name, is_text, each in zip(layout.beside, layout.are_texts, cut, strict=True):
            beside[name] = [text.decode() for text in each] if is_text else b"".join(each)
    made: dict[str, Any] = {}
    for key, at in layout.plan:
        column = beside[key] if at < 0 else cells[at::width].tobytes()
        if key.endswith(LENGTH):
            column = little(LENGTH_CODE, numbers(column))
        made[key] = column
    return made


def joined(events: Iterable[Packed]) -> bytes:
    """All of them, one behind the other, each with the code of its event."""
    return b"".join([part for layout, row, beside in events for part in (layout.code, row, beside)])


def split(data: bytes, at: int) -> list[Packed]:
    """What was `joined`, from byte `at` on. Raises ValueError, IndexError or struct.error for anything else."""
    made: list[Packed] = []
    while at < len(data):
        layout = _BY_CODE[data[at]]
        row = data[at + 1 : at + 1 + layout.size]
        at += 1 + layout.size
        lengths = layout.row.unpack(row)[2 + layout.fixed :]
        size = sum(length if text else 8 * length for length, text in zip(lengths, layout.are_texts, strict=True))
        if min(lengths, default=0) < 0 or at + size > len(data):
            raise ValueError("cut within an event")
        made.append((layout, row, data[at : at + size]))
        at += size
    return made
