"""Spool writes, executed in their order."""

from __future__ import annotations

import sqlite3
from typing import Final

from roamcast.middleware.spool_writes import SpoolAdd, SpoolDrop, SpoolMove, SpoolRenumber, SpoolTrim
from roamcast.middleware.writes import DropHeld, DropRecord
from roamcast.mss_station.store.columns import message_key, record_key

SpoolWrite = SpoolAdd | SpoolTrim | SpoolDrop | SpoolRenumber | SpoolMove | DropRecord | DropHeld

KEY: Final = "host = ? AND incarnation = ? AND arr = ?"
ADD_ENTRY: Final = "INSERT INTO spool (host, incarnation, arr, pos, message, topic, sub) VALUES (?,?,?,?,?,?,?)"


def write_spool(connection: sqlite3.Connection, writes: list[SpoolWrite]) -> None:
    """Spool writes in order; neighbouring additions in one statement."""
    entries: list[tuple[int, ...]] = []
    for write in writes:
        if isinstance(write, SpoolAdd):
            key = record_key(write.key)
            entries.extend(
                (*key, pos, message_key(slot, n), topic, message_key(*sub))
                for pos, slot, n, topic, sub in write.entries
            )
            continue
        connection.executemany(ADD_ENTRY, entries)
        entries.clear()
        match write:
            case DropRecord(dropped) | DropHeld(dropped):
                connection.execute(f"DELETE FROM spool WHERE {KEY}", record_key(dropped))
            case SpoolTrim(trimmed, upto):
                connection.execute(f"DELETE FROM spool WHERE {KEY} AND pos <= ?", (*record_key(trimmed), upto))
            case SpoolDrop(lacking, positions):
                lines = [(*record_key(lacking), pos) for pos in positions]
                connection.executemany(f"DELETE FROM spool WHERE {KEY} AND pos = ?", lines)
            case SpoolRenumber(renumbered):
                _renumber(connection, record_key(renumbered))
            case SpoolMove(source, target):
                moved = (*record_key(target), *record_key(source))
                connection.execute(f"DELETE FROM spool WHERE {KEY}", record_key(target))
                connection.execute(f"UPDATE spool SET host = ?, incarnation = ?, arr = ? WHERE {KEY}", moved)
    connection.executemany(ADD_ENTRY, entries)


def _renumber(connection: sqlite3.Connection, key: tuple[int, int, int]) -> None:
    """Positions -L .. -1, in order. Through memory: renumbering in place would meet its own keys."""
    old = connection.execute(f"SELECT pos, message, topic, sub FROM spool WHERE {KEY} ORDER BY pos", key).fetchall()
    if not old or (old[0][0] == -len(old) and old[-1][0] == -1):
        return
    connection.execute(f"DELETE FROM spool WHERE {KEY}", key)
    connection.executemany(ADD_ENTRY, [(*key, i - len(old), *line[1:]) for i, line in enumerate(old)])
