"""The writes by which a newcomer takes its sponsor's store: they replace counters and rows, whatever there was.

So each is executed by itself, in order with the batches before and behind it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from roamcast.middleware.writes import DropSnapshot, PutStreams
from roamcast.mss_station.store.batch import Batch, StoreWrite

SnapshotWrite = PutStreams | DropSnapshot
SNAPSHOT_WRITES: Final = frozenset({PutStreams, DropSnapshot})


def steps(writes: Sequence[StoreWrite]) -> list[Batch | SnapshotWrite]:
    """What one transaction executes, in order; a single batch if there is no snapshot write among the writes."""
    if SNAPSHOT_WRITES.isdisjoint(map(type, writes)):
        return [Batch(writes)]
    found: list[Batch | SnapshotWrite] = []
    gathered: list[StoreWrite] = []
    for write in writes:
        if isinstance(write, PutStreams | DropSnapshot):
            found += [Batch(gathered), write]
            gathered = []
        else:
            gathered.append(write)
    return [*found, Batch(gathered)]


def write_snapshot(connection: sqlite3.Connection, write: SnapshotWrite) -> None:
    """Execute the write, inside the transaction that the caller has opened. Raises sqlite3.Error."""
    match write:
        case PutStreams(streams, last_position, hlc):
            statement = "INSERT OR REPLACE INTO stream (slot, stored, delivered, floor) VALUES (?,?,?,?)"
            connection.executemany(statement, streams)
            connection.execute("UPDATE self SET last_position = ?, hlc = ?", (last_position, hlc))
        case DropSnapshot():
            for table in ("message", "stream", "host", "last_value", "spool_item"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("UPDATE self SET last_position = 0")
