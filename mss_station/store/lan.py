"""The configuration of the LAN in the store: meaning as `LanImage.apply` says, tables lan_* of schema.sql.

Every line has a checksum of all its columns. Readers raise ValueError where it is wrong: an entry that was left out or
taken as it is could let a revoked host in again, so a store with such a line is refused like one with any other damage.
Lines that are for people alone, most of the history and lost+found, are judged when somebody reads them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from roamcast.middleware.lan_update.records import (
    FOUND_MAX,
    HISTORY_MAX,
    DropEntry,
    Entry,
    LanImage,
    LanWrite,
    PutAlive,
    PutEntry,
    PutFound,
    PutHistory,
    Version,
)
from roamcast.mss_station.store.columns import signed, unsigned
from roamcast.mss_station.store.sums import checked, summed

VERSION_COLUMNS: Final = 4
ENTRY_COLUMNS: Final = 12
ENTRY_NAMES: Final = (
    "key, time, count, node, boot, value, after_time, after_count, after_node, after_boot, signature, holders"
)
FOUND_NAMES: Final = f"{ENTRY_NAMES}, wall"
HISTORY_NAMES: Final = f"{ENTRY_NAMES}, wall, lost_time, lost_count, lost_node, lost_boot"

DROP_ENTRY: Final = "DELETE FROM lan_entry WHERE key = ?"
PUT_ENTRY: Final = f"INSERT OR REPLACE INTO lan_entry ({ENTRY_NAMES}, checksum) VALUES ({','.join('?' * 13)})"
PUT_FOUND: Final = f"INSERT INTO lan_found ({FOUND_NAMES}, checksum) VALUES ({','.join('?' * 14)})"
PRUNE_FOUND: Final = f"DELETE FROM lan_found WHERE id <= (SELECT max(id) FROM lan_found) - {FOUND_MAX}"
PUT_HISTORY: Final = f"INSERT OR REPLACE INTO lan_history ({HISTORY_NAMES}, checksum) VALUES ({','.join('?' * 18)})"
NEWEST_FIRST: Final = "ORDER BY time DESC, count DESC, node DESC, boot < 0 DESC, boot DESC"
"""Boot lies as a signed integer: what is below 0 there is above all others."""
PRUNE_HISTORY: Final = (
    "DELETE FROM lan_history WHERE key = ?1 AND (time, count, node, boot) IN"
    f" (SELECT time, count, node, boot FROM lan_history WHERE key = ?1 {NEWEST_FIRST} LIMIT -1 OFFSET {HISTORY_MAX})"
)
HISTORY_KEYS: Final = (  # each found from the one before: the lines themselves are not read
    "WITH RECURSIVE keys (key) AS (SELECT min(key) FROM lan_history UNION ALL"
    " SELECT (SELECT min(key) FROM lan_history WHERE key > keys.key) FROM keys WHERE key IS NOT NULL)"
    " SELECT key FROM keys WHERE key IS NOT NULL"
)
NEWEST: Final = f"WHERE key = ? {NEWEST_FIRST} LIMIT 1"
PAST: Final = "WHERE key > ? AND key < ? AND instr(substr(key, ?), '/') = 0 AND value IS NOT NULL"
SINCE: Final = "WHERE key = ? AND time >= ?"


def write_lan(connection: sqlite3.Connection, writes: Sequence[LanWrite]) -> None:
    """Execute the writes of one transaction, which the caller has opened. Raises sqlite3.Error."""
    entries: dict[str, Entry | None] = {}
    history: dict[tuple[str, Version], PutHistory] = {}
    found: list[PutFound] = []
    for write in writes:
        match write:
            case PutEntry(entry):
                entries[entry.key] = entry
            case DropEntry(key):
                entries[key] = None
            case PutAlive(wall):
                connection.execute("UPDATE self SET alive = ?", (wall,))
            case PutFound():
                found.append(write)
            case PutHistory(entry):
                history[entry.key, entry.version] = write
    connection.executemany(DROP_ENTRY, [(key,) for key, entry in entries.items() if entry is None])
    connection.executemany(
        PUT_ENTRY, [summed(*_entry_columns(entry)) for entry in entries.values() if entry is not None]
    )
    if found:
        connection.executemany(PUT_FOUND, [summed(*_entry_columns(line.entry), line.wall) for line in found])
        connection.execute(PRUNE_FOUND)
    if history:
        connection.executemany(PUT_HISTORY, [_history_columns(line) for line in history.values()])
        connection.executemany(PRUNE_HISTORY, [(key,) for key in dict.fromkeys(key for key, _ in history)])


def load_lan(connection: sqlite3.Connection) -> LanImage:
    """What a node works with: lost+found, and the history but for what `LanImage.forget` keeps, stay in the store.

    Raises:
        sqlite3.Error, ValueError: the store does not hold what was written.
    """
    image = LanImage()
    (image.alive,) = connection.execute("SELECT alive FROM self").fetchone()
    for columns in checked(connection, "lan_entry", ENTRY_NAMES, "ORDER BY key"):
        entry = _entry(columns)
        image.entries[entry.key] = entry
    for (key,) in connection.execute(HISTORY_KEYS).fetchall():
        held = image.entries.get(key)
        if held is None:
            lines = _history(connection, NEWEST, key)
        else:
            lines = _history(connection, SINCE, key, held.after.time if held.after else 0)
        image.history[key] = {line.entry.version: line for line in lines}
        image.forget(key)
    return image


def load_found(connection: sqlite3.Connection) -> list[PutFound]:
    """All of lost+found, in the order in which it came. Raises as `load_lan`."""
    lines = checked(connection, "lan_found", FOUND_NAMES, "ORDER BY id")
    return [PutFound(_entry(columns), columns[ENTRY_COLUMNS]) for columns in lines]


def load_history(connection: sqlite3.Connection, key: str) -> list[PutHistory]:
    """The history of a key, versions ascending. Raises as `load_lan`."""
    return sorted(_history(connection, SINCE, key, 0), key=lambda line: line.entry.version)


def load_past(connection: sqlite3.Connection, prefix: str) -> list[PutHistory]:
    """The history of all keys that are `prefix` and a word without a slash, no deletions. Raises as `load_lan`."""
    return _history(connection, PAST, prefix, prefix.rstrip("/") + chr(ord("/") + 1), len(prefix) + 1)


def _history(connection: sqlite3.Connection, which: str, *parameters: str | int) -> list[PutHistory]:
    return [
        PutHistory(_entry(columns), columns[ENTRY_COLUMNS], _version(columns[ENTRY_COLUMNS + 1 :]))
        for columns in checked(connection, "lan_history", HISTORY_NAMES, which, parameters)
    ]


def _version_columns(version: Version | None) -> tuple[Any, ...]:
    return (None,) * VERSION_COLUMNS if version is None else (*version[:-1], signed(version.boot))


def _version(columns: tuple[Any, ...]) -> Version | None:
    time, count, node, boot = columns
    return None if time is None else Version(time, count, node, unsigned(boot))


def _entry_columns(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.key,
        *_version_columns(entry.version),
        entry.value,
        *_version_columns(entry.after),
        entry.signature,
        json.dumps(sorted(entry.holders)),
    )


def _history_columns(line: PutHistory) -> tuple[Any, ...]:
    return summed(*_entry_columns(line.entry), line.wall, *_version_columns(line.lost_to))


def _entry(columns: tuple[Any, ...]) -> Entry:
    key, time, count, node, boot, value, *after, signature, holders = columns[:ENTRY_COLUMNS]
    version = Version(time, count, node, unsigned(boot))
    return Entry(key, version, value, _version(tuple(after)), signature, frozenset(json.loads(holders)))
