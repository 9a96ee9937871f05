"""Last values: of every topic the newest retained message, and of every host its presence.

The row itself serves until it is collected; then its item is kept beside the spools. Source: one-order.md 4.3. The
order is (hybrid clock, slot) where the design has (sum of S, slot): both extend causality and are total, but rows carry
the clock, nobody needs to know the whole S of a row, and the newest is the one that people would call so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roamcast.middleware.custody.spools import Spools
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import PRESENCE_KINDS, VALUE_KINDS, Kind, Row, SpoolItem, Vector
from roamcast.middleware.spool_writes import PutItems
from roamcast.middleware.vectors import entry
from roamcast.middleware.writes import DropLast, DurableState, LastValue, PutLast, Write

SETTING_KINDS = VALUE_KINDS | {Kind.CLEAR}
"""What sets the last value of a topic, or takes it away."""


def order_of(row: Row, by_clock: bool = False) -> tuple[int, int, int]:
    """Which of two values of one topic is the newer: the larger one. by_clock: also of presence (tests only)."""
    if row.kind in PRESENCE_KINDS and not by_clock:
        return (row.taken[0], row.number, int(row.kind is Kind.OFFLINE))
    return (row.hlc, row.slot, 0)


class LastValues:
    """Of one station: they depend on what is delivered here, and on nothing else."""

    def __init__(self, table: MessageTable, spools: Spools, image: DurableState, mutants: frozenset[str]) -> None:
        self._table = table
        self._spools = spools
        self._mutants = mutants
        self._values = dict(image.last)
        self._kept: dict[int, SpoolItem] = {}
        """By topic: the item, where the row has gone."""
        for topic, value in self._values.items():
            if not value.cleared and table.origins[value.slot].get(value.n) is None:
                self._spools.use(value.slot, value.n)
                size = image.items[value.slot, value.n].size
                self._kept[topic] = SpoolItem(value.slot, value.n, None, size)

    def catch_up(self) -> list[Write]:
        """At a start: what the rows say that the table of values does not (a snapshot was taken over some time)."""
        writes: list[Write] = []
        for position in range(self._table.first_logged, self._table.last_position + 1):
            row = self._table.row_at(position)
            if row is not None and row.kind in SETTING_KINDS:
                writes += self.placed(row)
        return writes

    def placed(self, row: Row) -> list[Write]:
        """A row that may be one has taken its position."""
        topic, order = row.addressee, order_of(row, "p_sum" in self._mutants)
        before = self._values.get(topic)
        if before is not None and order <= before.order and "ret_last" not in self._mutants:
            return []
        value = LastValue(topic, order, row.slot, row.n, row.position or 0, row.kind is Kind.CLEAR)
        self._values[topic] = value
        return [PutLast(value), *self._forget(topic)]

    def _forget(self, topic: int) -> list[Write]:
        kept = self._kept.pop(topic, None)
        return [] if kept is None else self._spools.free(kept.slot, kept.n)

    def dropping(self, rows: Sequence[Row]) -> list[Write]:
        """These rows are about to go: what is a last value of them is kept."""
        fresh = []
        for row in rows:
            if row.kind not in SETTING_KINDS:
                continue
            value = self._values.get(row.addressee)
            if value is not None and (value.slot, value.n) == row.id and not value.cleared:
                self._kept[row.addressee] = SpoolItem(row.slot, row.n, None, row.size)  # memory does not hold its bytes
                if self._spools.use(row.slot, row.n):
                    fresh.append(SpoolItem(row.slot, row.n, row.item, row.size))
        return [PutItems(tuple(fresh))] if fresh else []

    def remove(self, topics: Sequence[int]) -> list[Write]:
        """These topics are no more."""
        gone = [topic for topic in topics if self._values.pop(topic, None) is not None]
        freed = [write for topic in gone for write in self._forget(topic)]
        return [DropLast(tuple(gone)), *freed] if gone else []

    def topics(self) -> list[int]:
        """Topics that have one, ascending."""
        return sorted(self._values)

    def get(self, topic: int) -> LastValue | None:
        """The value of a topic."""
        return self._values.get(topic)

    def holder(self, topic: int) -> Row | SpoolItem | None:
        """What has the bytes of the topic's value; None: it has none, or was cleared."""
        value = self._values.get(topic)
        if value is None or value.cleared:
            return None
        return self._kept.get(topic) or self._table.origins[value.slot].get(value.n)

    def given_with(self, topic: int, position: int | None, base: Vector) -> Row | SpoolItem | None:
        """What goes with the SUB that a stream passes at `position` of the log, or from a spool (None).

        None: nothing, or it still follows in the stream: unless it stands before the SUB in the log, or is covered by
        `base` (at an earlier station it stood so and was passed; what a spool holds, its owner has to look at).
        """
        value = self._values.get(topic)
        if value is None:
            return None
        before = position is not None and value.position < position
        passed = value.n <= entry(base, value.slot) and "ret_pos_only" not in self._mutants
        return self.holder(topic) if before or passed or "ret_always" in self._mutants else None

    def all(self, after: int) -> Iterator[tuple[LastValue, SpoolItem]]:
        """Values of topics above `after`, ascending, with their items as far as no row has them."""
        for topic in sorted(topic for topic in self._values if topic > after):
            value = self._values[topic]
            kept = self._kept.get(topic) or SpoolItem(value.slot, value.n, b"", 0)
            yield value, kept
