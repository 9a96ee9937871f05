"""Values that frames of the station link share: rows, spool items, vectors, sets of slots. Items travel as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final

from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.errors import ensure
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.transport import limits
from roamcast.transport.layout import COUNTER, NATURAL, PAIRS, SLOT, UINT64, Field, array, group, integer
from roamcast.transport.limits import COUNTER_MAX, INT64_MAX, SLOT_MAX
from roamcast.transport.steps_field import plain_steps, read_steps
from roamcast.transport.strict import BYTES, MAP, Reader

ROW_ELEMENTS: Final = 11
SHORT_ROW_ELEMENTS: Final = 10
ROW_KINDS: Final = tuple(Kind)
SPOOLED_PLAIN, SPOOLED_ON_TOPIC = 3, 6
SLOTS_BYTES_MAX: Final = (SLOT_MAX >> 3) + 1


def record(kind: type, *parts: Field) -> Field:
    """An array of exactly the fields of a dataclass, in their order."""
    whole = group(*parts)
    names = [field.name for field in fields(kind)]
    return Field(
        lambda reader: kind(*whole.read(reader)),
        lambda value: whole.plain([getattr(value, name) for name in names]),
    )


def ascending(element: Field, most: int, key: Callable[[Any], int]) -> Field:
    """An array of at most `most` elements in strictly ascending order of their `key`; the sender sorts."""
    whole = array(element, most)

    def read(reader: Reader) -> tuple[Any, ...]:
        values: tuple[Any, ...] = whole.read(reader)
        if any(key(one) >= key(other) for one, other in pairwise(values)):
            raise reader.refuse("elements are not in ascending order")
        return values

    return Field(read, lambda values: whole.plain(sorted(values, key=key)))


def _read_slots(reader: Reader) -> tuple[int, ...]:
    """Bit i of the little-endian number is slot i; no byte too many, so that a set has one form."""
    data = reader.octets(0, SLOTS_BYTES_MAX)
    bits = int.from_bytes(data, "little")
    if data.endswith(b"\0") or bits & 1:
        raise reader.refuse("a set of slots that ends in zeros, or slot 0 in it")
    return tuple([slot for slot in range(bits.bit_length()) if bits >> slot & 1])


def _plain_slots(slots: Iterable[int]) -> bytes:
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _read_vector(reader: Reader) -> tuple[int, ...]:
    vector = tuple(reader.integers(reader.count(SLOT_MAX + 1)))
    if vector and not 0 <= min(vector) <= max(vector) <= COUNTER_MAX:
        raise reader.refuse("vector entry out of range")
    return vector


def _key_order(key: str) -> tuple[int, bytes]:
    """Order of the keys as they are encoded (RFC 8949 section 4.2.1)."""
    return len(key.encode()), key.encode()


def _read_ext(reader: Reader) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    before = (-1, b"")
    for _ in range(reader.count(limits.EXT_ENTRIES_MAX, MAP)):
        key = reader.text(1, limits.EXT_KEY_BYTES_MAX)
        if _key_order(key) <= before:
            raise reader.refuse("map keys doubled or out of order")
        before = _key_order(key)
        entries[key] = reader.octets(0, limits.EXT_VALUE_BYTES_MAX)
    return entries


def _plain_ext(entries: dict[str, bytes]) -> dict[str, bytes]:
    return {key: entries[key] for key in sorted(entries, key=_key_order)}


def read_row(reader: Reader, origin: int, before: int = 0, may_be_short: bool = False) -> Row:
    """The row of `origin` at the cursor; `before`: number of the one before it in the frame. Raises DecodeError."""
    count = reader.count(ROW_ELEMENTS)
    is_short = may_be_short and count == SHORT_ROW_ELEMENTS
    if count != ROW_ELEMENTS and not is_short:
        raise reader.refuse(f"row of {ROW_ELEMENTS} elements expected, on its first way of {SHORT_ROW_ELEMENTS}")
    hlc = 0
    if is_short:
        rise, host, incarnation, number, e, c, kind, addressee = reader.integers(8)
    else:
        rise, hlc, host, incarnation, number, e, c, kind, addressee = reader.integers(9)
    if not (
        1 <= rise <= COUNTER_MAX - before
        and 0 <= hlc <= INT64_MAX
        and 0 <= host <= INT64_MAX
        and 0 <= incarnation <= limits.UINT64_MAX
        and 0 <= number <= INT64_MAX
        and 0 <= e <= INT64_MAX
        and limits.INT64_MIN <= c <= INT64_MAX
        and 0 <= kind < len(ROW_KINDS)
        and 0 <= addressee <= INT64_MAX
    ):
        raise reader.refuse("a number of the row is out of range")
    steps = None
    if is_short:
        hlc, stamp, steps = read_steps(reader)
    else:
        stamp = PAIRS.read(reader)
    item, size = _read_body(reader)
    return Row(
        origin, before + rise, stamp, hlc, ROW_KINDS[kind], host, incarnation, number, (e, c), addressee, item, size,
        None, item is None, steps,
    )  # fmt: skip


def _read_body(reader: Reader) -> tuple[bytes | None, int]:
    """An item and its size; or of one that is elsewhere its size alone."""
    if reader.data[reader.pos] >> 5 == BYTES:
        item = reader.octets(0, limits.ITEM_BYTES_MAX)
        return item, len(item)
    return None, reader.integer(1, limits.ITEM_BYTES_MAX)


def plain_row(row: Row, before: int = 0) -> list[Any]:
    """The row, for an encoder; its origin stands elsewhere in the frame, as does the number of the row before it."""
    ensure(row.item is not None or row.lean, f"row {row.id} is sent without its item")
    e, c = row.taken
    who = [row.host, row.incarnation, row.number, e, c, int(row.kind), row.addressee]
    body = row.size if row.lean else row.item
    if row.steps is not None:
        return [row.n - before, *who, plain_steps(row.hlc, row.stamp, row.steps), body]
    return [row.n - before, row.hlc, *who, PAIRS.plain(row.stamp), body]


def _read_spool_item(reader: Reader) -> SpoolItem:
    count = reader.count(SPOOLED_ON_TOPIC)
    if count not in (SPOOLED_PLAIN, SPOOLED_ON_TOPIC):
        raise reader.refuse(f"array of {SPOOLED_PLAIN} or {SPOOLED_ON_TOPIC} expected")
    slot, n, item = SLOT.read(reader), COUNTER.read(reader), reader.octets(0, limits.ITEM_BYTES_MAX)
    if count == SPOOLED_PLAIN:
        return SpoolItem(slot, n, item, len(item))
    topic, sub = integer(1, INT64_MAX).read(reader), (SLOT.read(reader), COUNTER.read(reader))
    return SpoolItem(slot, n, item, len(item), topic, sub)


def _plain_spool_item(entry: SpoolItem) -> list[Any]:
    ensure(entry.item is not None, f"spool entry {(entry.slot, entry.n)} is sent without its item")
    plain = [entry.slot, entry.n, entry.item]
    return [*plain, entry.topic, *entry.sub] if entry.topic else plain


def _past(*parts: Field) -> Field:
    whole = group(*parts)
    return Field(lambda reader: Past(*whole.read(reader)), whole.plain)


MH = group(NATURAL, UINT64)
MEMBER = integer(1, SLOT_MAX)
"""Slot of a station that is or was a member; slot 0 is none."""
SLOTS = Field(_read_slots, _plain_slots)
VECTOR = Field(_read_vector)
MESSAGE = group(SLOT, COUNTER)
PART = integer(0, limits.SPOOL_PARTS_MAX)
NUMBERS = ascending(COUNTER, limits.NUMBERS_MAX, lambda n: int(n))
"""Of rows in one stream."""
LIVE_PAST = _past(array(group(NATURAL, SLOT), limits.LIVE_ENTRIES_MAX), NATURAL)
LIVE_TAGS = ascending(group(COUNTER, LIVE_PAST), limits.ROWS_MAX, lambda tag: int(tag[0]))
EXT = Field(_read_ext, _plain_ext)
SPOOL_ITEM = Field(_read_spool_item, _plain_spool_item)
