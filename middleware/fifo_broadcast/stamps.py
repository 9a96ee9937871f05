"""Stamps on their way: S and the hybrid clock of a row, said as steps above row n-1 of the same origin.

In a table a stamp is absolute, and the same for ever and everywhere. What is sent for the first time says steps
instead: numbers of one byte mostly. That is safe because rows are accepted in order: whoever takes row n has row n-1,
and what the rows up to it have said last of an entry is the same at both ends, as far as each of them knows it. What
the sender does not know, or has not said since a peer started anew, it says as a value. A step above what the receiver
does not know makes the row as good as lost: it is asked for, and repairs are in values alone.

Source: overview section 6; fifo-broadcast.md (f). How many bytes: docs/protocols/fifo-broadcast.md, 'Causal header'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import CLOCK_MAX, COUNTER_MAX, Row, Steps

UNKNOWN_BASE = "steps above what is not known here"
BEYOND = "steps beyond the range of a counter"


class StampBook:
    """What the rows of one origin have said last, up to row n: of each entry of S, and of the hybrid clock."""

    __slots__ = ("_clock", "_n", "_values")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._n = self._clock = 0
        self._values: dict[int, int] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Row n, with its stamp in values. If it is not the next one, all before it is forgotten."""
        if row.n != self._n + 1:
            self.forget()
        self._n, self._clock = row.n, row.hlc
        self._values.update(row.stamp)

    def forget(self) -> None:
        """Nothing that was said so far is built on any more."""
        self._clock = 0
        self._values.clear()

    def shorten(self, row: Row) -> Row:
        """The next row as it is sent for the first time. The row itself stays as it is."""
        if row.n != self._n + 1:
            self.forget()
        known = self._values
        steps = tuple([(slot, value - known[slot]) for slot, value in row.stamp if known.get(slot, value) < value])
        values = tuple([(slot, value) for slot, value in row.stamp if known.get(slot, value) >= value])
        clock = max(0, row.hlc - self._clock) if self._clock else 0
        self.add(row)
        return replace(row, stamp=values, steps=Steps(clock, steps)) if clock or steps else row

    def resolve(self, row: Row) -> str | None:
        """Give the next row, as it came, its stamp and clock in values. Returns why that cannot be."""
        steps = row.steps
        if steps is None:
            return None
        known = self._values
        try:
            risen = [(slot, known[slot] + step) for slot, step in steps.entries]
        except KeyError:
            return UNKNOWN_BASE
        if steps.clock and not self._clock:
            return UNKNOWN_BASE
        hlc = self._clock + steps.clock if steps.clock else row.hlc
        if hlc > CLOCK_MAX or max(risen, key=itemgetter(1), default=(0, 0))[1] > COUNTER_MAX:
            return BEYOND
        row.stamp = tuple(sorted([*row.stamp, *risen]) if row.stamp else risen)
        row.hlc, row.steps = hlc, None
        return None


class Stamps:
    """The books of a station: of what it has stored by origin, and of what it has sent."""

    def __init__(self, own: int, table: MessageTable) -> None:
        """What is known of others' streams is what the rows say that are still in the table."""
        self._stored: defaultdict[int, StampBook] = defaultdict(StampBook)
        self._sent: defaultdict[tuple[int, tuple[int, ...]], StampBook] = defaultdict(StampBook)
        """By origin and receivers: a gateway passes a stream on into several clusters, here further than there."""
        for slot, origin in enumerate(table.origins):
            if slot != own:
                self._stored[slot] = StampBook(origin.rows)

    def resolve(self, row: Row) -> str | None:
        """`StampBook.resolve` above what is stored of its origin."""
        return self._stored[row.slot].resolve(row)

    def stored(self, row: Row) -> None:
        """The row has been stored, as the next of its origin."""
        self._stored[row.slot].add(row)

    def shorten(self, rows: Sequence[Row], to: tuple[int, ...]) -> list[Row]:
        """Rows of one origin, ascending, as they are sent to these for the first time, by it or by a gateway."""
        return [self._sent[row.slot, to].shorten(row) for row in rows]

    def start_anew(self) -> None:
        """A peer has started: it may know less than the others, so the next stamps are said in values."""
        self._sent.clear()


def is_stamp(row: Row, known: Iterable[int]) -> bool:
    """Whether stamp and steps of a row that came name `known` slots in order, each once and not its own, from 1."""
    before = -1
    for slot, value in row.stamp:
        if slot <= before or slot == row.slot or slot not in known or value < 1:
            return False
        before = slot
    if row.steps is None:
        return True
    before = -1
    named = {slot for slot, _ in row.stamp}
    for slot, step in row.steps.entries:
        if slot <= before or slot == row.slot or slot not in known or step < 1 or slot in named:
            return False
        before = slot
    return row.steps.clock >= 0
