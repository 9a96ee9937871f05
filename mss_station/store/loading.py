"""Reads the whole store back into a `DurableState`."""

from __future__ import annotations

import sqlite3
from typing import Final

from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.writes import DurableState, Stream
from roamcast.mss_station.store import columns
from roamcast.mss_station.store.group import load_group
from roamcast.mss_station.store.lan import load_lan
from roamcast.mss_station.store.values import load_values

SELECT_ROWS: Final = (
    f"SELECT {columns.ROW_COLUMNS}, length(item), checksum FROM message WHERE id BETWEEN ? AND ? ORDER BY id"
)


def load_state(connection: sqlite3.Connection) -> DurableState:
    """Everything but the bytes of the items: rows and spool items come with `item` None and their size.

    Empty items (control rows) are there. Spools without entries have no entry in `spools`.

    Raises:
        sqlite3.Error, ValueError, struct.error: the store does not hold what was written.
    """
    state = DurableState()
    state.starts, state.last_position, state.hlc = connection.execute(
        "SELECT starts, last_position, hlc FROM self"
    ).fetchone()
    for slot, stored, delivered, floor in connection.execute("SELECT slot, stored, delivered, floor FROM stream"):
        state.streams[slot] = Stream(stored, delivered, floor)
    for slot, stream in sorted(state.streams.items()):
        keys = (columns.message_key(slot, stream.floor + 1), columns.message_key(slot, columns.NUMBER_MASK))
        for values in connection.execute(SELECT_ROWS, keys):
            row = columns.row(values)
            state.rows[row.id] = row
    for values in connection.execute(
        f"SELECT {columns.RECORD_COLUMNS}, {columns.LASTSEQ_COLUMNS}"
        " FROM record LEFT JOIN record_lastseq USING (host, incarnation, arr) ORDER BY host, incarnation, arr"
    ):
        image = columns.record_image(values)
        state.records[image.key] = image
    for origin, *rest in connection.execute(
        f"SELECT origin, {columns.RECORD_COLUMNS}, {columns.LASTSEQ_COLUMNS} FROM held ORDER BY host, incarnation, arr"
    ):
        image = columns.record_image(tuple(rest))
        state.held[image.key] = origin, image
    for host, incarnation, arr, pos, message, topic, sub in connection.execute(
        "SELECT host, incarnation, arr, pos, message, topic, sub FROM spool ORDER BY host, incarnation, arr, pos"
    ):
        entries = state.spools.setdefault((host, columns.unsigned(incarnation), arr), [])
        entries.append((pos, *columns.message_id(message), topic, columns.message_id(sub)))
    for key, size, checksum in connection.execute("SELECT id, length(item), checksum FROM spool_item ORDER BY id"):
        slot, n = columns.message_id(key)
        state.items[slot, n] = SpoolItem(slot, n, columns.item_unread(slot, n, size, checksum), size)
    for values in connection.execute(f"SELECT {columns.HOST_COLUMNS} FROM host ORDER BY number"):
        entry = columns.host_entry(values)
        state.hosts[entry.number] = entry
    state.last = load_values(connection)
    load_group(connection, state)
    state.lan = load_lan(connection)
    return state
