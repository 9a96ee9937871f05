"""Creates a store, and judges one before it is used: nothing here changes a store that is refused."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from roamcast.mss_station.errors import (
    StoreExists,
    StoreForeign,
    StoreIdentity,
    StoreMissing,
    StoreUnwritable,
    StoreVersion,
)
from roamcast.mss_station.store.columns import signed, unsigned
from roamcast.mss_station.store.failures import OTHER_WAY, damaged

STORE_NAME: Final = "station.db"
APPLICATION_ID: Final = 0x526F616D
"""ASCII "Roam"; in the file's header, where `file` and other tools find it."""
SCHEMA_VERSION: Final = 4
SCHEMA: Final = files("roamcast.mss_station.store").joinpath("schema.sql").read_text("utf-8")
MAIL_TABLES: Final = re.findall(r"^CREATE TABLE mail_.*?^\)[^;]*;", SCHEMA, re.MULTILINE | re.DOTALL)
OLDER: Final = {
    1: ("CREATE TABLE log_tail (id INTEGER PRIMARY KEY, events BLOB NOT NULL)",),
    2: ("DELETE FROM log_tail",),  # packed otherwise; no release has written it
    3: (
        "ALTER TABLE spool ADD COLUMN topic INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE spool ADD COLUMN sub INTEGER NOT NULL DEFAULT 0",
        "CREATE TABLE last_value (topic INTEGER PRIMARY KEY, first INTEGER NOT NULL, second INTEGER NOT NULL,"
        " third INTEGER NOT NULL, message INTEGER NOT NULL, position INTEGER NOT NULL, cleared INTEGER NOT NULL,"
        " checksum INTEGER NOT NULL)",
        *MAIL_TABLES,
    ),
}
"""Format -> the statements that make the next one of it."""

BUSY_TIMEOUT_MS: Final = 250

Durability = Literal["power", "process"]
"""What a committed transaction survives: loss of power, or only the death of the process."""

_log = logging.getLogger("roamcast.station")


@dataclass(frozen=True, slots=True)
class StationIdentity:
    """Whose store it is; the same three stand in station.toml."""

    station_id: str
    slot: int
    generation: int
    """64 random bits, drawn when the slot was given to this directory."""


def connect(path: Path, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    """A connection to an existing file. Raises sqlite3.Error."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def connect_for_writing(path: Path, durability: Durability) -> sqlite3.Connection:
    """The connection of a running station, set up for its durability. Raises sqlite3.Error, StoreUnwritable."""
    connection = connect(path, "rw")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        connection.close()
        raise StoreUnwritable(f"{path}: a write-ahead log is not possible here; use a local file system")
    _raise_format(connection)
    set_durability(connection, durability)
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("PRAGMA wal_autocheckpoint = 1000")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    return connection


def _raise_format(connection: sqlite3.Connection) -> None:
    """A store of an older format becomes one of this release."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    while version in OLDER:
        connection.execute("BEGIN IMMEDIATE")
        for statement in OLDER[version]:
            connection.execute(statement)
        version += 1
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")


def set_durability(connection: sqlite3.Connection, durability: Durability) -> None:
    """What the commits of this connection survive. Raises sqlite3.Error."""
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of a store of this format and changes nothing, whether its station runs or not.

    Raises:
        StoreMissing, StoreForeign, StoreVersion: why it is refused.
        sqlite3.Error: it could not be read.
    """
    _examine_header(path)
    connection = connect(path, "ro")
    try:
        connection.execute("BEGIN")
        # Again, now with what the write-ahead log says.
        _examine_format(
            path, *(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        )
        yield connection
    finally:
        connection.close()


def examine(path: Path, identity: StationIdentity) -> None:
    """Check that the file is a sound store of this format and of this station. Reads all of it once.

    Warns if other users may read it: the messages are in it.

    Raises:
        StoreMissing, StoreForeign, StoreVersion, StoreIdentity, StoreDamaged: why it is refused.
        sqlite3.Error: it could not be read.
    """
    with reading(path) as connection:
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise damaged(path, problem)
        columns = connection.execute("SELECT station_id, slot, generation FROM self").fetchone()
        if columns is None:
            raise damaged(path, "it names no station")
        found = StationIdentity(columns[0], columns[1], unsigned(columns[2]))
    if found != identity:
        raise StoreIdentity(
            f"{path}: belongs to station {found.station_id!r}, slot {found.slot}, generation {found.generation:x}; "
            f"the configuration says {identity.station_id!r}, slot {identity.slot}, generation "
            f"{identity.generation:x}. Put the store and station.toml of one station together again"
        )
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        _log.warning("store_not_private: others can read the messages in %s: chmod 600 %s*", path, path)


def _examine_header(path: Path) -> None:
    # With SQLite closed: opening a store can already write (recovery of the log, checkpoint at the end).
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise StoreMissing(
            f"{path}: there is no store. Bring back the station's own; an empty one is never made in its place, for "
            f"its numbers would be given twice. If it is gone, {OTHER_WAY}"
        ) from None
    except OSError as error:
        raise StoreUnwritable(f"{path}: cannot be read ({error.strerror})") from error
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise StoreForeign(
            f"{path}: not an SQLite file, or damaged in its first bytes. Bring back the station's store. If it is gone,"
            f" {OTHER_WAY}"
        )
    _examine_format(path, int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big", signed=True))


def _examine_format(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise StoreForeign(
            f"{path}: an SQLite file of another program. Move it away and bring back the station's store"
        )
    if version != SCHEMA_VERSION and version not in OLDER:
        newer = "newer than" if version > SCHEMA_VERSION else "not known to"
        raise StoreVersion(
            f"{path}: store format {version} is {newer} this release, which knows format {SCHEMA_VERSION}. Run the "
            "release that wrote it; the file has not been changed"
        )


def create(path: Path, identity: StationIdentity) -> None:
    """Make an empty store: complete under its name, or not there at all.

    Raises:
        StoreExists: there is a store.
        StoreUnwritable: the file cannot be made.
        sqlite3.Error: it could not be written.
    """
    if path.exists():
        raise StoreExists(f"{path}: there is a store already; it is not overwritten")
    draft = path.with_name(path.name + ".new")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnwritable(f"{draft}: cannot be made ({error.strerror})") from error
    connection = connect(draft, "rw")
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.executescript(f"BEGIN;\n{SCHEMA}\nCOMMIT;")
        row = (identity.station_id, identity.slot, signed(identity.generation))
        connection.execute("INSERT INTO self VALUES (1, ?, ?, ?, 0, 0, 0, 0)", row)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
