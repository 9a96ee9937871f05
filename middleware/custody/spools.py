"""Spools: what is kept for absent hosts, entry by entry, and the items that entries and last values share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roamcast.middleware.custody.record import Record, SpoolEntry
from roamcast.middleware.rows import MessageId, Row, SpoolItem
from roamcast.middleware.spool_writes import DropSpoolItems, SpoolAdd, SpoolDrop, SpoolRenumber, SpoolTrim
from roamcast.middleware.writes import DurableState, Write


class Spools:
    """The spools of all records of a station. Every method returns the writes that make the change durable."""

    def __init__(self) -> None:
        self._uses: dict[MessageId, int] = {}
        """How many entries and last values need the item."""

    def __len__(self) -> int:
        return len(self._uses)

    def load(self, record: Record, image: DurableState) -> None:
        """What the store holds for a record."""
        for position, slot, n, topic, sub in image.spools.get(record.key, ()):
            item = image.items[slot, n]
            record.spool.append(SpoolEntry(position, SpoolItem(slot, n, None, item.size, topic, sub)))
            record.spool_bytes += item.size
            self.use(slot, n)

    def use(self, slot: int, n: int) -> bool:
        """The item is needed once more. True: it was not needed before, and has to be written."""
        uses = self._uses.get((slot, n), 0)
        self._uses[slot, n] = uses + 1
        return not uses

    def free(self, slot: int, n: int) -> list[Write]:
        """The item is needed once less."""
        self._uses[slot, n] -= 1
        if self._uses[slot, n]:
            return []
        del self._uses[slot, n]
        return [DropSpoolItems(((slot, n),))]

    def add(self, record: Record, entries: Sequence[tuple[int, Row | SpoolItem]]) -> list[Write]:
        """Append entries."""
        if not entries:
            return []
        fresh, lines = [], []
        for position, holder in entries:
            slot, n, size = holder.slot, holder.n, holder.size
            if self.use(slot, n):
                fresh.append(SpoolItem(slot, n, holder.item, size))
            topic, sub = (holder.topic, holder.sub) if isinstance(holder, SpoolItem) else (0, (0, 0))
            record.spool.append(SpoolEntry(position, SpoolItem(slot, n, None, size, topic, sub)))
            record.spool_bytes += size
            lines.append((position, slot, n, topic, sub))
        return [SpoolAdd(record.key, tuple(lines), tuple(fresh))]

    def renumber(self, record: Record) -> list[Write]:
        """A session begins: what waits stands at positions -L .. -1."""
        for i, entry in enumerate(record.spool):
            entry.position = i - len(record.spool)
        return [SpoolRenumber(record.key)] if record.spool else []

    def trim(self, record: Record, upto: int) -> list[Write]:
        """Entries with position <= upto are taken."""
        taken = [entry for entry in record.spool if entry.position <= upto]
        if not taken:
            return []
        record.spool = record.spool[len(taken) :]
        return [SpoolTrim(record.key, upto), *self._released(record, taken)]

    def drop(self, record: Record, unwanted: Callable[[SpoolItem], bool]) -> list[Write]:
        """Some entries, which the host is not owed any more, go."""
        gone = [entry for entry in record.spool if unwanted(entry.item)]
        if not gone:
            return []
        record.spool = [entry for entry in record.spool if not unwanted(entry.item)]
        return [SpoolDrop(record.key, tuple(entry.position for entry in gone)), *self._released(record, gone)]

    def clear(self, record: Record) -> list[Write]:
        """All of it goes, with its record."""
        gone, record.spool = record.spool, []
        return self._released(record, gone)

    def _released(self, record: Record, entries: Sequence[SpoolEntry]) -> list[Write]:
        freed: list[MessageId] = []
        for entry in entries:
            ident = (entry.item.slot, entry.item.n)
            self._uses[ident] -= 1
            record.spool_bytes -= entry.item.size
            if not self._uses[ident]:
                del self._uses[ident]
                freed.append(ident)
        return [DropSpoolItems(tuple(freed))] if freed else []
