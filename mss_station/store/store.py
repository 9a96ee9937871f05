"""The durable state of a station in one SQLite file, DIR/station.db, with a write-ahead log.

One process, one thread and one connection use it, under the directory's lock. A tick is one transaction: `commit`
returns when it is durable, or raises with nothing changed. No reader of this process outlives its call, so the log is
copied back every 1000 pages and does not grow; only a reader outside can hold it, and `wal_bytes` shows that.
Position, numbers and everything else are as `DurableState.apply` says; the file's columns are in schema.sql.

A disk full: `commit` raises StoreFull; the driver gives up the reserve (`release_reserve`), takes no new messages, and
commits acknowledgements and collection in the room it gave; rows that go leave free pages in the file, which new rows
take before the file grows. `restore_reserve` makes the reserve again, for which it shrinks the file if need be.
"""

from __future__ import annotations

import gc
import sqlite3
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from roamcast.middleware.causal_unicast.records import MailImage
from roamcast.middleware.errors import Error
from roamcast.middleware.lan_update.records import LanImage, PutFound, PutHistory
from roamcast.middleware.writes import DurableState
from roamcast.mss_station.errors import StoreFull, StoreNotCommitted
from roamcast.mss_station.store import columns, opening
from roamcast.mss_station.store.batch import Batch, StoreWrite
from roamcast.mss_station.store.collection import Collection
from roamcast.mss_station.store.failures import damaged, failure
from roamcast.mss_station.store.lan import load_found, load_history, load_lan, load_past
from roamcast.mss_station.store.loading import load_state
from roamcast.mss_station.store.mail import load_mail, load_mail_lost
from roamcast.mss_station.store.opening import STORE_NAME, Durability, StationIdentity
from roamcast.mss_station.store.reserve import Reserve, free_bytes
from roamcast.mss_station.store.snapshot import SnapshotWrite, steps, write_snapshot
from roamcast.mss_station.store.tail import PutTail, load_tail

T = TypeVar("T")

ROW_ITEM: Final = f"SELECT {columns.ITEM_COLUMNS} FROM message WHERE id = ? AND checksum >= 0"
COUNT_FOUND: Final = "SELECT count(*) FROM lan_found"
SHRINK_PAGES: Final = 512
SPOOL_ITEM: Final = f"SELECT {columns.ITEM_COLUMNS} FROM spool_item WHERE id = ?"


class Store:
    """An open store. Use `create` once, then `open`."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        """Use `open`."""
        self._collection = Collection(connection)
        self._directory = directory
        self._path = directory / STORE_NAME
        self._connection = connection
        self._reserve = Reserve(directory)

    @classmethod
    def create(cls, directory: Path, identity: StationIdentity) -> None:
        """Make the empty store of a new station, and its reserve where there is room. The caller holds the lock.

        Raises:
            StoreExists: there is one already.
            StoreFull, StoreUnwritable: it cannot be made here.
        """
        path = directory / STORE_NAME
        _typed(path, lambda: opening.create(path, identity))
        Reserve(directory).restore()

    @classmethod
    def open(cls, directory: Path, identity: StationIdentity, *, durability: Durability = "power") -> Self:
        """Open the store of this station, after a check of the whole file. The caller holds the directory's lock.

        On a full disk the reserve is given up at once, so that a station can start.

        Raises:
            StoreMissing, StoreForeign, StoreVersion, StoreIdentity, StoreDamaged: refused, the file is unchanged.
            StoreFull, StoreUnwritable, StoreBusy: not now.
        """
        path = directory / STORE_NAME

        def attempt() -> sqlite3.Connection:
            opening.examine(path, identity)
            return opening.connect_for_writing(path, durability)

        try:
            connection = _typed(path, attempt)
        except StoreFull:
            if not Reserve(directory).release():
                raise
            connection = _typed(path, attempt)
        return _typed(path, lambda: cls(directory, connection))

    def set_durability(self, durability: Durability) -> None:
        """From the next commit on. Raises StoreUnwritable, StoreBusy."""
        _typed(self._path, lambda: opening.set_durability(self._connection, durability))

    def load(self) -> DurableState:
        """Everything that was committed. Items that are not empty stay in the store: `item` is None (see `load_item`).

        Raises:
            StoreDamaged: the content is not what was written.
        """
        collecting = gc.isenabled()
        gc.disable()  # a million new objects, none of them garbage: its scans would take a third of the time
        try:
            return _typed(self._path, lambda: load_state(self._connection))
        finally:
            if collecting:
                gc.freeze()  # what was loaded lives long: later scans pass it by
                gc.enable()

    def load_tail(self) -> list[PutTail]:
        """Events of the delivery log that no synced block may hold yet. Raises as `load`."""
        return _typed(self._path, lambda: load_tail(self._connection))

    def load_mail(self, own: int) -> MailImage:
        """All station mail, bodies too. own: slot of this station. Raises as `load`."""
        return _typed(self._path, lambda: load_mail(self._connection, own))

    def load_mail_lost(self) -> dict[int, tuple[int, ...]]:
        """By addressee: mail that was given up, of which the station's program was not told yet. Raises as `load`."""
        return _typed(self._path, lambda: load_mail_lost(self._connection))

    def load_item(self, slot: int, n: int) -> bytes | None:
        """Bytes of the item of message (slot, n), from the log or the spools; None if it is in neither (any more).

        A row that was dropped with many others may still give its item for some ticks.

        Raises:
            StoreDamaged: the item is not the one that was written; it may go to nobody, and the process must end.
            StoreUnwritable, StoreBusy: it could not be read.
        """
        key = (columns.message_key(slot, n),)
        execute = self._connection.execute
        try:
            found = execute(ROW_ITEM, key).fetchone() or execute(SPOOL_ITEM, key).fetchone()
        except sqlite3.Error as error:
            raise failure(error, self._path) from error
        return _typed(self._path, lambda: columns.item(slot, n, *found)) if found else None

    def commit(self, writes: Sequence[StoreWrite]) -> None:
        """Make all writes of a tick durable in one transaction.

        Raises:
            StoreFull, StoreUnwritable, StoreBusy: rolled back as a whole; may be tried again.
            StoreDamaged: the file contradicts itself; the process must end.
            InvariantError: the writes contradict the store: a bug. Rolled back.
        """
        if writes:
            self._commit(steps(writes))

    def remove_dropped(self) -> bool:
        """Remove some more rows that `DropRows` took away: `commit` does so too, but at most 1000 rows a call.

        For a driver without other writes, above all on a full disk: the room comes free with the removal.

        Returns:
            Whether there are still some.

        Raises:
            As `commit`.
        """
        if self._collection.is_behind():
            self._commit([Batch(())])
        return self._collection.is_behind()

    def _commit(self, parts: Sequence[Batch | SnapshotWrite]) -> None:
        connection, collection = self._connection, self._collection
        floors: dict[int, int] = {}
        gone: dict[int, int] = {}
        try:
            connection.execute("BEGIN IMMEDIATE")
            for part in parts:
                if isinstance(part, Batch):
                    part.execute(connection)
                    floors |= part.floors()
                else:
                    write_snapshot(connection, part)
            if len(parts) > 1:  # rows and floors are others now
                collection, floors = Collection(connection), {}
            elif floors or collection.is_behind():
                gone = collection.remove(connection, floors)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise failure(error, self._path) from error
            raise
        self._collection = collection
        if floors or gone:
            collection.accept(floors, gone)

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and cut it to nothing, without waiting for anybody.

        Returns:
            False if a reader or writer outside holds it; as much as possible is copied.

        Raises:
            StoreFull, StoreUnwritable: it could not be copied; the log stays.
        """
        return _typed(self._path, self._checkpoint)

    def _checkpoint(self) -> bool:
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            busy: int = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {opening.BUSY_TIMEOUT_MS}")
        return busy == 0

    def has_reserve(self) -> bool:
        """Whether the reserve is held."""
        return self._reserve.is_held()

    def release_reserve(self) -> bool:
        """Give the reserve's room to the store. Returns False if there was none to give."""
        return self._reserve.release()

    def restore_reserve(self) -> bool:
        """Make the reserve again if there is room for it and some more; to be called now and then, about once a second.

        Where only the store's own file fills the volume and rows have left enough room in it, each call gives 2 MiB of
        it back to the volume (about 10 ms).

        Returns:
            Whether it is held now.
        """
        if self._reserve.restore():
            return True
        if self._reserve.missing_bytes() <= self.unused_bytes():
            try:
                _typed(self._path, self._shrink)
            except StoreNotCommitted:
                return False
        return self._reserve.restore()

    def _shrink(self) -> None:
        # A script, for `execute` stops this pragma after its first page.
        self._connection.executescript(f"PRAGMA incremental_vacuum({SHRINK_PAGES})")
        self._checkpoint()

    def found_count(self) -> int:
        """Configuration entries that were set aside; `read_found` shows them."""
        return _typed(self._path, lambda: int(self._connection.execute(COUNT_FOUND).fetchone()[0]))

    def free_space(self) -> int:
        """Bytes that may still be written on the store's volume. Free pages in the file are in `unused_bytes`."""
        return free_bytes(self._directory)

    def log_bytes(self) -> int:
        """Size of the file in bytes, without the write-ahead log."""
        return self._size_of(STORE_NAME)

    def wal_bytes(self) -> int:
        """Size of the write-ahead log in bytes: about 4 MiB, and at most 64 MiB soon after a reader outside ended."""
        return self._size_of(STORE_NAME + "-wal")

    def unused_bytes(self) -> int:
        """Bytes of the file that dropped rows have left; new rows use them first."""
        return _typed(self._path, lambda: self._pragma("freelist_count") * self._pragma("page_size"))

    def close(self) -> None:
        """Copy the log back and close. Every commit is already durable without it."""
        self._connection.close()

    def _pragma(self, name: str) -> int:
        value: int = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _size_of(self, name: str) -> int:
        try:
            return (self._directory / name).stat().st_size
        except FileNotFoundError:
            return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_lan(directory: Path) -> LanImage:
    """The configuration in a station's store, for a look at it: needs no lock, changes nothing.

    The station may run: then it is what its last commit left. History and lost+found are read by the functions below.

    Raises:
        StoreMissing, StoreForeign, StoreVersion, StoreDamaged: there is nothing to be read here.
        StoreUnwritable, StoreBusy: not now.
    """
    return _look(directory, load_lan)


def read_tail(directory: Path) -> list[PutTail]:
    """Events of the delivery log that no synced block may hold yet, and how far it had come then. As `read_lan`."""
    return _look(directory, load_tail)


def read_history(directory: Path, key: str) -> list[PutHistory]:
    """All that a station's store knows of the writes of one key, versions ascending. As `read_lan`."""
    return _look(directory, lambda connection: load_history(connection, key))


def read_past(directory: Path, prefix: str) -> list[PutHistory]:
    """The history of all keys that are `prefix` (it ends with a slash) and a word. As `read_lan`."""
    return _look(directory, lambda connection: load_past(connection, prefix))


def read_found(directory: Path) -> list[PutFound]:
    """What was set aside at a station, in the order in which it came. As `read_lan`."""
    return _look(directory, load_found)


def _look(directory: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    path = directory / STORE_NAME

    def attempt() -> T:
        with opening.reading(path) as connection:
            return read(connection)

    return _typed(path, attempt)


def _typed(path: Path, work: Callable[[], T]) -> T:
    """Result of `work`; its errors become those of the store."""
    try:
        return work()
    except Error:
        raise
    except sqlite3.Error as error:
        raise failure(error, path) from error
    except (ValueError, TypeError, struct.error) as error:
        raise damaged(path, str(error)) from error
