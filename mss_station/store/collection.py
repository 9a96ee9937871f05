"""Removes collected rows from the message table, a bounded number in each transaction.

The durable fact is the floor: a row at or below it is gone from the moment the floor is committed, whatever the table
still holds. So one `DropRows` over a million rows neither stops the loop nor needs a write-ahead log of its size, which
a full disk would not have. Removal then trails by a few ticks; it is in the same transactions as everything else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from roamcast.mss_station.store.columns import message_id, message_key

REMOVE_ROWS_MAX: Final = 1000
"""Rows a transaction; more than a tick accepts (512), so that removal keeps up. About 2 ms."""

REMOVE_ROWS: Final = "DELETE FROM message WHERE id BETWEEN ? AND ?"


class Collection:
    """Knows per origin the floor that is committed, and up to which number rows are really gone."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read where a former process stopped."""
        self._floors: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        for slot, floor in connection.execute("SELECT slot, floor FROM stream ORDER BY slot").fetchall():
            keys = (message_key(slot, 0), message_key(slot, floor))
            first = connection.execute("SELECT min(id) FROM message WHERE id BETWEEN ? AND ?", keys).fetchone()[0]
            self._floors[slot] = floor
            self._gone[slot] = floor if first is None else message_id(first)[1] - 1

    def is_behind(self) -> bool:
        """Whether rows below their floor are still in the table."""
        return self._gone != self._floors

    def remove(self, connection: sqlite3.Connection, floors: Mapping[int, int]) -> dict[int, int]:
        """Remove some rows, inside the transaction that the caller has opened and in which `floors` are raised.

        Returns:
            Per origin, up to which number rows are gone once this is committed; for `accept`.
        """
        room = REMOVE_ROWS_MAX
        gone: dict[int, int] = {}
        for slot, floor in {**self._floors, **floors}.items():
            begin = self._gone.get(slot, 0)
            end = min(floor, begin + room)
            if end > begin:
                connection.execute(REMOVE_ROWS, (message_key(slot, begin + 1), message_key(slot, end)))
                room -= end - begin
                gone[slot] = end
        return gone

    def accept(self, floors: Mapping[int, int], gone: Mapping[int, int]) -> None:
        """The transaction with `floors` raised and rows up to `gone` removed was committed."""
        for slot, floor in floors.items():
            self._floors[slot] = max(floor, self._floors.get(slot, 0))
            self._gone.setdefault(slot, 0)
        self._gone.update(gone)
