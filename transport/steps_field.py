"""How steps stand on the wire: hybrid clock and stamp of a row in one byte string, of variable-length numbers.

A number has seven bits a byte, low ones first; the top bit says that more follow; no byte too many. First the step of
the clock; 0: the clock follows as it is. Then for each entry of S that changed, slots ascending: step << 2 | gap, where
gap 0, 1, 2 is the slot 1, 2, 3 above the one before (the first: above -1), and 3 means that a number follows, of slots
above that. Step 0: the value follows. So an entry has one byte where neighbours send as often as the sender.
"""

from __future__ import annotations

from typing import Final

from roamcast.middleware.rows import Steps
from roamcast.transport import limits
from roamcast.transport.strict import Reader

Entries = tuple[tuple[int, int], ...]

STEPS_BYTES_MAX: Final = 10 << 10
"""At most 9 bytes for each station, and 10."""

WIDE: Final = 3
"""Code of a gap that has a number of its own."""


class _Numbers:
    """A cursor over the numbers of one byte string. IndexError: it ends within one."""

    __slots__ = ("_data", "_reader", "pos")

    def __init__(self, reader: Reader, data: bytes) -> None:
        self._reader = reader
        self._data = data
        self.pos = 0

    def next(self, most: int) -> int:
        """The number at the cursor, of at most `most`."""
        data, pos = self._data, self.pos
        byte = number = data[pos]
        if byte >= 0x80:
            number &= 0x7F
            shift = 0
            while byte >= 0x80 and shift < 63:
                pos += 1
                shift += 7
                byte = data[pos]
                number |= (byte & 0x7F) << shift
            if not 0 < byte < 0x80:
                raise self._reader.refuse("number of more than 64 bits, or not in its shortest form")
        if number > most:
            raise self._reader.refuse(f"{number} in steps, at most {most} allowed")
        self.pos = pos + 1
        return number


def read_steps(reader: Reader) -> tuple[int, Entries, Steps]:
    """Hybrid clock (0: `Steps` says it), the entries of S that are said in values, and the rest. Raises DecodeError."""
    data = reader.octets(1, STEPS_BYTES_MAX)
    numbers = _Numbers(reader, data)
    clock = numbers.next(limits.INT64_MAX)
    hlc = 0 if clock else numbers.next(limits.INT64_MAX)
    values: list[tuple[int, int]] = []
    steps: list[tuple[int, int]] = []
    slot = -1
    while numbers.pos < len(data):
        head = data[numbers.pos]
        if head < 0x80:
            numbers.pos += 1
        else:
            head = numbers.next(limits.COUNTER_MAX << 2 | WIDE)
        gap, step = head & 3, head >> 2
        slot += gap + 1 if gap < WIDE else WIDE + 1 + numbers.next(limits.SLOT_MAX)
        if step:
            steps.append((slot, step))
        else:
            values.append((slot, numbers.next(limits.COUNTER_MAX)))
    if slot > limits.SLOT_MAX:
        raise reader.refuse(f"slot {slot} is not within 0..{limits.SLOT_MAX}")
    return hlc, tuple(values), Steps(clock, tuple(steps))


def plain_steps(hlc: int, values: Entries, steps: Steps) -> bytes:
    """The bytes that `read_steps` reads."""
    out = bytearray()
    _put(out, steps.clock)
    if not steps.clock:
        _put(out, hlc)
    before = -1
    entries = [(slot, step, 0) for slot, step in steps.entries]
    if values:
        entries = sorted([*entries, *((slot, 0, value) for slot, value in values)])
    for slot, step, value in entries:
        gap = slot - before - 1
        before = slot
        head = step << 2 | min(gap, WIDE)
        if head < 0x80:
            out.append(head)
        else:
            _put(out, head)
        if gap >= WIDE:
            _put(out, gap - WIDE)
        if not step:
            _put(out, value)
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
