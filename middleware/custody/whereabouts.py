"""Where hosts probably are: the stations to which the body of a mail goes at once. Whoever else needs it pulls it.

Known from the custody records here; else from the rows, by the station at which the host has last spoken; and from who
has pulled a body of its mail. Nothing of it is durable. Source: one-order.md 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roamcast.middleware.custody.record import Record
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.settings import Settings

ELSEWHERE = frozenset({Kind.BIND, Kind.LEAVE, Kind.EXPIRE})
"""Rows about a host by stations that do not have it, or not any more."""


class Whereabouts:
    """Of one station. It reads the log when it is asked, and before rows go: a group without lean mail pays nothing."""

    def __init__(
        self, own: int, table: MessageTable, records: Callable[[int], Iterable[Record]], mutants: frozenset[str]
    ) -> None:
        """`records`: those of a host here."""
        self._own = own
        self._mutants = mutants
        self._table = table
        self._records = records
        self._at: dict[int, tuple[int, int]] = {}
        """Host -> (hybrid clock, slot) of the last sign of it."""
        self._read_to = 0

    def read(self) -> None:
        """Take in what has been delivered since."""
        table = self._table
        for position in range(max(self._read_to + 1, table.first_logged), table.last_position + 1):
            row = table.row_at(position)
            if row is not None and row.kind not in ELSEWHERE:
                self.note(row.host, row.slot, row.hlc)
        self._read_to = table.last_position

    def note(self, host: int, slot: int, hlc: int) -> None:
        """The host was at that station then."""
        if self._at.get(host, (0, 0))[0] <= hlc:
            self._at[host] = (hlc, slot)

    def found(self, host: int, slot: int, hlc: int) -> None:
        """The host is at that station now, whatever clocks say."""
        self._at[host] = (max(hlc, self._at.get(host, (0, 0))[0]), slot)

    def targets(self, row: Row, settings: Settings, view: View) -> frozenset[int] | None:
        """Peers that get the body of an own row with the row; None: all do."""
        if row.kind is not Kind.MAIL or row.size < settings.lean_bytes or settings.copies > 1:
            return None
        if "lean_blind" in self._mutants:
            return frozenset()
        stays = list(self._records(row.addressee))
        if any(record.state == "open" for record in stays):
            return frozenset()
        slots = {record.moved_to[0] for record in stays if record.moved_to is not None}
        if not slots:
            self.read()
            slots = {self._at.get(row.addressee, (0, self._own))[1]}
        there = frozenset(view.heir_of(slot) for slot in slots)
        return None if 0 in there or self._own in there else there
