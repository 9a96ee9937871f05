"""How frames stand on the wire, for both directions at once.

A frame is a CBOR array: its kind, the fields of its dataclass in their order, then at most eight elements of a newer
minor version, which are ignored. A `Field` says how one value is read (type, range, size) and how it is made plain for
the encoder; a `Layout` is one frame, a `Link` the table of all frames that may come one way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from cbor2 import dumps

from roamcast.middleware.errors import ensure
from roamcast.middleware.host_frames import PROTOCOL_VERSION
from roamcast.transport import limits
from roamcast.transport.errors import DecodeError, OtherVersion, UnknownKind
from roamcast.transport.strict import ENDED, FALSE, NULL, TRUE, Reader, read_whole

F = TypeVar("F")


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """How one value is read, and what the encoder is given for it."""

    read: Callable[[Reader], Any]
    plain: Callable[[Any], Any] = _as_it_is


def integer(least: int, most: int) -> Field:
    """An integer within least..most."""
    return Field(lambda reader: reader.integer(least, most))


def text(least: int, most: int) -> Field:
    """A text of least..most bytes."""
    return Field(lambda reader: reader.text(least, most))


def sentence(most: int) -> Field:
    """A text for a person; the sender cuts it at `most` bytes."""
    return Field(lambda reader: reader.text(0, most), lambda value: value.encode()[:most].decode(errors="ignore"))


def octets(least: int, most: int) -> Field:
    """A byte string of least..most bytes."""
    return Field(lambda reader: reader.octets(least, most))


def group(*parts: Field) -> Field:
    """An array of exactly these parts, a tuple in Python."""

    def read(reader: Reader) -> tuple[Any, ...]:
        if reader.count(len(parts)) != len(parts):
            raise reader.refuse(f"array of {len(parts)} expected")
        return tuple([part.read(reader) for part in parts])

    return Field(read, lambda values: [part.plain(value) for part, value in zip(parts, values, strict=True)])


def array(element: Field, most: int) -> Field:
    """An array of at most `most` elements, a tuple in Python."""
    return Field(
        lambda reader: tuple([element.read(reader) for _ in range(reader.count(most))]),
        lambda values: [element.plain(value) for value in values],
    )


def optional(field: Field) -> Field:
    """The field, or null for None."""

    def read(reader: Reader) -> Any:
        if reader.data[reader.pos] == NULL:
            reader.pos += 1
            return None
        return field.read(reader)

    return Field(read, lambda value: None if value is None else field.plain(value))


def _read_pairs(reader: Reader) -> tuple[tuple[int, int], ...]:
    """Flat array slot, n, slot, n ... as pairs; slots strictly ascending."""
    count = reader.count(2 * limits.STATIONS_MAX)
    if count & 1:
        raise reader.refuse("slot without a number")
    values = reader.integers(count)
    pairs = tuple(zip(values[::2], values[1::2], strict=True))
    before = -1
    for slot, n in pairs:
        if slot <= before or not 0 <= n <= limits.COUNTER_MAX:
            raise reader.refuse("slots not ascending, or a number out of range")
        before = slot
    if before > limits.SLOT_MAX:
        raise reader.refuse(f"slot {before} is not within 0..{limits.SLOT_MAX}")
    return pairs


SLOT = integer(0, limits.SLOT_MAX)
COUNTER = integer(0, limits.COUNTER_MAX)
NATURAL = integer(0, limits.INT64_MAX)
POSITION = integer(limits.INT64_MIN, limits.INT64_MAX)
UINT64 = integer(0, limits.UINT64_MAX)
NAME = text(1, limits.NAME_BYTES_MAX)
PAIRS = Field(_read_pairs, lambda pairs: [number for pair in sorted(pairs) for number in pair])
FLAG = Field(lambda reader: reader.simple((FALSE, TRUE)) == TRUE)
VERSION = group(integer(0, limits.VERSION_MAX), integer(0, limits.VERSION_MAX))


class Layout(Generic[F]):
    """One frame: its kind number, its dataclass, its fields in the order of the dataclass."""

    def __init__(self, kind: int, frame: type[F], *parts: Field) -> None:
        self.kind = kind
        self.frame = frame
        self.parts = parts
        self._names = [field.name for field in fields(frame)]  # type: ignore[arg-type]
        ensure(len(self._names) == len(parts), f"{frame.__name__}: one layout part for each field")

    def read(self, reader: Reader) -> F:
        """The frame whose kind has just been read."""
        return self.frame(*[part.read(reader) for part in self.parts])

    def encode(self, frame: F) -> bytes:
        """The bytes of the frame."""
        plain = [part.plain(getattr(frame, name)) for part, name in zip(self.parts, self._names, strict=True)]
        return dumps([self.kind, *plain])


class Link(Generic[F]):
    """All frames that may come one way over one kind of connection."""

    def __init__(self, bytes_max: int, *layouts: Layout[Any]) -> None:
        self.layouts = layouts
        self._bytes_max = bytes_max
        self._by_kind = {layout.kind: layout for layout in layouts}
        self._by_frame = {layout.frame: layout for layout in layouts}
        self._elements_max = 1 + max(len(layout.parts) for layout in layouts) + limits.EXTRA_ELEMENTS_MAX

    def mark(self, frame: type[F]) -> bytes:
        """What every frame of this type has from its second byte on."""
        return dumps(self._by_frame[frame].kind)

    def encode(self, frame: F) -> bytes:
        """The bytes of one of our own frames."""
        data = self._by_frame[type(frame)].encode(frame)
        ensure(len(data) <= self._bytes_max, f"own {type(frame).__name__} of {len(data)} bytes is too large")
        return data

    def decode(self, data: bytes) -> F:
        """The frame that `data` is.

        Raises:
            DecodeError: for every byte string that is no frame of this link (`UnknownKind`, `OtherVersion` among them).
        """
        return read_whole(data, self._bytes_max, self._read)

    def _read(self, reader: Reader) -> F:
        count = reader.count(self._elements_max)
        kind = reader.integer(0, limits.UINT64_MAX)
        layout = self._by_kind.get(kind)
        if layout is None:
            raise UnknownKind(reader.pos, f"frame of unknown kind {kind}")
        start = reader.pos
        try:
            if count <= len(layout.parts):
                raise reader.refuse(f"{count} elements, {1 + len(layout.parts)} expected")
            frame: F = layout.read(reader)
        except (DecodeError, *ENDED):
            if VERSION in layout.parts:
                _refuse_other_major(Reader(reader.data, start))
            raise
        reader.extras(count - 1 - len(layout.parts))
        return frame


def _refuse_other_major(reader: Reader) -> None:
    """A handshake begins with its version, so that even a layout of the future can be told what is spoken here."""
    theirs = VERSION.read(reader)
    if theirs[0] != PROTOCOL_VERSION[0]:
        ours, other = (".".join(map(str, version)) for version in (PROTOCOL_VERSION, theirs))
        raise OtherVersion(reader.pos, f"version {other} is spoken there, {ours} here")
