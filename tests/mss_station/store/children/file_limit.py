"""Meets the limit of the size of its files, then has it lifted; prints "fine" if all was as it must be."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.writes import PutRow
from roamcast.mss_station.errors import StoreUnwritable
from roamcast.mss_station.store import StationIdentity, Store

directory = Path(sys.argv[1])
store = Store.open(directory, StationIdentity("north", 1, 0xF00D_F00D_F00D_F00D))


def put(n: int) -> None:
    store.commit([PutRow(Row(1, n, (), n, Kind.BROADCAST, 1, 1, n, (0, 0), 0, bytes(20_000), 20_000), n)])


put(1)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
n = 1
try:
    while True:
        put(n + 1)
        n += 1
except StoreUnwritable:
    pass
assert 1 < n < 100
assert store.load().streams[1].stored == n == len(store.load().rows)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
put(n + 1)
assert store.load().streams[1].stored == n + 1 == len(store.load().rows)
print("fine")
