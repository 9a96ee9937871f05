"""A group that is founded by several stations at once: each knows the records of all before its first start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from roamcast.middleware.lan_update.records import PutEntry, PutHistory
from roamcast.mss_station.lock import DirectoryLock
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.schema import STATIONS
from roamcast.mss_station.store import read_lan
from roamcast.transport.station_files import read_station


def found_group(directories: Sequence[Path]) -> None:
    """Put into the store of each station what the others say of themselves. `mss-station init` has made all of them."""
    wall = time.time_ns() // 1_000
    told = [read_lan(directory).entries[STATIONS + read_station(directory).card.id] for directory in directories]
    for directory in directories:
        with DirectoryLock(directory), open_store(directory, read_station(directory)) as opened:
            news = [entry for entry in told if entry.key not in opened.image.lan.entries]
            opened.store.commit([write for entry in news for write in (PutEntry(entry), PutHistory(entry, wall))])
