"""Fills a volume of 24 MiB, its own alone, with a store; prints "fine" if all was as it must be."""

from __future__ import annotations

import sys
from pathlib import Path

from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.writes import DropRows, PutRow, PutStart
from roamcast.mss_station.errors import StoreFull
from roamcast.mss_station.store import RESERVE_BYTES, StationIdentity, Store

directory, identity = Path(sys.argv[1]), StationIdentity("north", 1, 7)


def row(n: int) -> Row:
    return Row(1, n, (), n, Kind.BROADCAST, 1, 1, n, (0, 0), 0, bytes([n % 251]) * 2000, 2000)


def fill(store: Store, n: int) -> int:
    """Commit rows until the disk is full; the last one committed."""
    while True:
        try:
            store.commit([PutRow(row(i), i) for i in range(n + 1, n + 11)])
        except StoreFull as error:
            assert "free space" in str(error)
            return n
        n += 10


def check(store: Store, floor: int, n: int) -> None:
    image = store.load()
    assert sorted(image.rows) == [(1, i) for i in range(floor + 1, n + 1)], (len(image.rows), floor, n)
    assert image.streams[1].stored == image.last_position == n
    assert all(store.load_item(1, i) == row(i).item for i in range(floor + 1, n + 1))


def fill_volume() -> None:
    try:
        with (directory / "hole").open("ab", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass


Store.create(directory, identity)
ballast = directory / "ballast"
ballast.write_bytes(bytes(4 << 20))
store = Store.open(directory, identity)
assert store.has_reserve() and store.free_space() < 8 << 20
n = fill(store, 0)
assert n > 100
check(store, 0, n)
assert fill(store, n) == n

# The reserve carries what frees room; then new rows go into the pages that came free.
assert store.release_reserve() and not store.has_reserve() and not store.release_reserve()
assert store.free_space() >= RESERVE_BYTES - (1 << 20)
store.commit([PutStart(1), DropRows(1, n - 50)])
check(store, n - 50, n)
assert store.unused_bytes() > 1 << 20
floor, n = n - 50, fill(store, n)
check(store, floor, n)

# A start on a full disk: all is there, and it works again as soon as there is room.
store.close()
store = Store.open(directory, identity)
check(store, floor, n)
n = fill(store, n)
ballast.unlink()
store.commit([PutRow(row(n + 1), n + 1), DropRows(1, n)])
assert not store.restore_reserve()
while store.remove_dropped():
    pass
assert store.log_bytes() > 12 << 20
tries = 1
while not store.restore_reserve():
    tries += 1
assert 3 < tries < 20 and store.has_reserve()
check(store, n, n + 1)
store.close()

# With not a byte free, not even for the index of the log, the start gives up the reserve by itself ...
fill_volume()
with Store.open(directory, identity) as store:
    check(store, n, n + 1)
    assert not store.has_reserve()
    store.commit([PutStart(2)])

# ... and says so when there is none.
fill_volume()
try:
    Store.open(directory, identity)
except StoreFull as error:
    assert "free space" in str(error)
else:
    sys.exit("opened without room")
(directory / "hole").unlink()
with Store.open(directory, identity) as store:
    check(store, n, n + 1)
print("fine")
