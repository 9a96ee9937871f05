"""Bounds the item bytes that committed rows hold in memory: the oldest give theirs up and are read back when needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from roamcast.middleware.rows import Row
from roamcast.middleware.writes import PutBody, PutRow, Write

ITEM_BYTES_MAX: Final = 64 << 20
ROW_BYTES: Final = 600
"""What a row costs here besides its item: rows that are collected meanwhile are kept no longer than this allows."""


class ItemBudget:
    """Rows in the order of their commit; beyond `bytes_max` the oldest lose their `item` (not their `size`)."""

    def __init__(self, bytes_max: int = ITEM_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rows: deque[Row] = deque()
        self.bytes_held = 0

    def committed(self, writes: Iterable[Write]) -> None:
        """`writes` are durable: from here on their items can be read back from the store."""
        for write in writes:
            if (type(write) is PutRow or type(write) is PutBody) and write.row.item is not None:
                self.hold(write.row)

    def hold(self, row: Row) -> None:
        """`row` holds its item, and the store holds it too."""
        self._rows.append(row)
        self.bytes_held += row.size + ROW_BYTES
        while self.bytes_held > self._bytes_max:
            oldest = self._rows.popleft()
            self.bytes_held -= oldest.size + ROW_BYTES
            if oldest.size:
                oldest.item = None
