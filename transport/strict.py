"""The strict reader of the CBOR subset that is on our wire: one pass over the bytes, nothing built that is not wanted.

Accepted: integers of 64 bits in their shortest form, byte strings, UTF-8 text, arrays and maps of definite length,
true, false, null. All else is a DecodeError with its offset: tags, floats, open-ended items, longer forms, a length
beyond the end or beyond the field's limit (compared before anything is taken out), and whatever is not the type that
the layout asks for. Nesting is that of the layout, so hostile depth cannot arise.

Why not cbor2 for reading: it takes tags, trailing bytes, doubled keys and long forms, 5.9 and 6.x differ in what they
refuse, and the checks afterwards cost as much as this reader. On 5.9 in pure Python this reader is faster than `loads`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import EXTRA_BYTES_MAX, EXTRA_ELEMENTS_MAX, NESTING_MAX

T = TypeVar("T")

UINT, NINT, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)
MAJOR_NAMES: Final = ("unsigned", "negative", "bytes", "text", "array", "map", "tag", "simple")
FALSE, TRUE, NULL = 0xF4, 0xF5, 0xF6

_U16 = Struct(">H").unpack_from
_U32 = Struct(">I").unpack_from
_U64 = Struct(">Q").unpack_from
ENDED: Final = (IndexError, StructError)
"""What a Reader raises where the bytes end within an item."""

_SHORTEST: Final = (24, 1 << 8, 1 << 16, 1 << 32)


class Reader:
    """A cursor over one frame. A method takes the next item or raises DecodeError (one of ENDED: the bytes ended)."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    def refuse(self, reason: str) -> DecodeError:
        """The error to raise for what stands at, or just before, the cursor."""
        return DecodeError(self.pos, reason)

    def head(self, major: int) -> int:
        """Argument of the next item, which must be of type `major`: a value, a length or a count."""
        data, pos = self.data, self.pos
        first = data[pos]
        if first >> 5 != major:
            raise self.refuse(f"{MAJOR_NAMES[major]} expected, {MAJOR_NAMES[first >> 5]} found")
        low = first & 31
        pos += 1
        if low >= 24:
            if low > 27:
                raise self.refuse("open-ended or reserved length")
            end = pos + (1 << (low - 24))
            if end > len(data):
                raise IndexError
            low, shortest = int.from_bytes(data[pos:end]), _SHORTEST[low - 24]
            if low < shortest:
                raise self.refuse("integer not in its shortest form")
            pos = end
        self.pos = pos
        return low

    def integers(self, count: int) -> list[int]:
        """The next `count` integers, -2^64 .. 2^64-1: the hot loop of acknowledgements, rows and items."""
        data, pos = self.data, self.pos
        values = []
        for _ in range(count):
            low = data[pos]
            pos += 1
            if low >= 24:
                major, low = low >> 5, low & 31
                if major > NINT:
                    self.pos = pos - 1
                    raise self.refuse(f"integer expected, {MAJOR_NAMES[major]} found")
                if low >= 24:
                    shortest = 24
                    if low == 24:
                        low = data[pos]
                        pos += 1
                    elif low == 25:
                        (low,), shortest = _U16(data, pos), 1 << 8
                        pos += 2
                    elif low == 26:
                        (low,), shortest = _U32(data, pos), 1 << 16
                        pos += 4
                    elif low == 27:
                        (low,), shortest = _U64(data, pos), 1 << 32
                        pos += 8
                    else:
                        shortest = 32
                    if low < shortest:
                        self.pos = pos - 1
                        raise self.refuse("integer not in its shortest form, or open-ended")
                if major:
                    low = -1 - low
            values.append(low)
        self.pos = pos
        return values

    def integer(self, least: int, most: int) -> int:
        """One integer within least..most."""
        (value,) = self.integers(1)
        if not least <= value <= most:
            raise self.refuse(f"{value} is not within {least}..{most}")
        return value

    def count(self, most: int, major: int = ARRAY) -> int:
        """Elements (pairs) of the array (map) that begins here: at most `most`, and no more than bytes are left."""
        count = self.head(major)
        if count > most:
            raise self.refuse(f"{count} elements, at most {most} allowed")
        if count > len(self.data) - self.pos:
            raise IndexError
        return count

    def _string(self, major: int, least: int, most: int) -> bytes:
        length = self.head(major)
        if not least <= length <= most:
            raise self.refuse(f"length {length} is not within {least}..{most}")
        end = self.pos + length
        if end > len(self.data):
            raise IndexError
        value = self.data[self.pos : end]
        self.pos = end
        return value

    def octets(self, least: int, most: int) -> bytes:
        """A byte string of least..most bytes."""
        return self._string(BYTES, least, most)

    def text(self, least: int, most: int) -> str:
        """A text of least..most bytes of valid UTF-8."""
        value = self._string(TEXT, least, most)
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise self.refuse("text is not UTF-8") from error

    def simple(self, allowed: tuple[int, ...]) -> int:
        """One byte out of `allowed`: FALSE, TRUE, NULL."""
        value = self.data[self.pos]
        if value not in allowed:
            raise self.refuse("true, false or null expected")
        self.pos += 1
        return value

    def extras(self, count: int) -> None:
        """Step over `count` elements of a newer minor version: short, shallow, and still strict."""
        if count > EXTRA_ELEMENTS_MAX:
            raise self.refuse(f"{count} unknown elements, at most {EXTRA_ELEMENTS_MAX} allowed")
        limit = self.pos + EXTRA_BYTES_MAX
        for _ in range(count):
            self._skip(NESTING_MAX, limit)

    def _skip(self, nesting: int, limit: int) -> None:
        if self.pos >= limit:
            raise self.refuse(f"unknown elements of more than {EXTRA_BYTES_MAX} bytes")
        major = self.data[self.pos] >> 5
        if major <= NINT:
            self.head(major)
        elif major == BYTES:
            self.octets(0, EXTRA_BYTES_MAX)
        elif major == TEXT:
            self.text(0, EXTRA_BYTES_MAX)
        elif major == ARRAY and nesting:
            for _ in range(self.count(EXTRA_BYTES_MAX)):
                self._skip(nesting - 1, limit)
        else:
            self.simple((FALSE, TRUE, NULL))


def read_whole(data: bytes, bytes_max: int, read: Callable[[Reader], T]) -> T:
    """What `read` makes of all of `data`.

    Raises:
        DecodeError: for every byte string that is not exactly one such value of at most `bytes_max` bytes.
    """
    if len(data) > bytes_max:
        raise DecodeError(bytes_max, f"frame of {len(data)} bytes, at most {bytes_max} allowed")
    reader = Reader(data)
    try:
        value = read(reader)
    except ENDED as error:
        raise DecodeError(len(data), "frame ends too early") from error
    if reader.pos != len(data):
        raise DecodeError(reader.pos, "bytes after the frame")
    return value
