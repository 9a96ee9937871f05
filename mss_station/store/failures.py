"""What SQLite's errors mean for a station, in words an operator can act on."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Final

from roamcast.middleware.errors import InvariantError
from roamcast.mss_station.errors import StoreBusy, StoreDamaged, StoreFull, StoreUnwritable
from roamcast.mss_station.store.reserve import free_bytes

FULL_BELOW_BYTES: Final = 1 << 20
"""Some failed writes (shared memory, delayed allocation, quotas) say only "I/O error": with less room it is that."""

UNWRITABLE: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
NO_TEXT: Final = "Could not decode to UTF-8"
"""Python's own words, without a code of SQLite, for a text that nobody wrote."""

OTHER_SCHEMA: Final = re.compile(
    r"no such (column|table)|table \S+ has (no column|\d+ columns)|ON CONFLICT clause does not match"
)
"""SQLite's words for a statement of ours that does not fit to the store: the text of its schema has changed."""

OTHER_WAY: Final = (
    "give the station up at another one (mss-station stations retire DIR ID --lost) and let it join again (mss-station "
    "join DIR TOKEN --rejoin, or join in a new directory)"
)


def failure(error: sqlite3.Error, path: Path) -> Exception:
    """The typed error to raise instead of `error`, which came from the store at `path`."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return StoreFull(f"{path}: no room left ({error}); free space on its volume")
    if code in UNWRITABLE:
        return StoreUnwritable(
            f"{path}: cannot be written ({error}); check the disk, and that this user may write in the directory"
        )
    if code in BUSY:
        return StoreBusy(f"{path}: another process holds its write lock ({error}); end that process or let it finish")
    other_schema = code == sqlite3.SQLITE_ERROR and OTHER_SCHEMA.match(str(error))
    if code in DAMAGED or str(error).startswith(NO_TEXT) or other_schema:
        return damaged(path, str(error))
    return InvariantError(f"{path}: {type(error).__name__}: {error}")


def damaged(path: Path, why: str) -> StoreDamaged:
    """The error for a store that contradicts itself."""
    return StoreDamaged(
        f"{path}: damaged ({why}). Keep the file and do not start with an empty or an older one: its numbers would be "
        "given twice. Put back an undamaged copy of the directory that is not older; if there is none, "
        f"{OTHER_WAY}"
    )


def _is_full(path: Path) -> bool:
    try:
        return free_bytes(path.parent) < FULL_BELOW_BYTES
    except OSError:
        return False
