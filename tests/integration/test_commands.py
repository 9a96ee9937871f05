"""Commands beside a station that starts, and after it was damaged: what is said is what helps."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Bench

from roamcast.mss_station.lock import DirectoryLock


def test_a_station_starts_although_a_command_is_at_work_there_for_a_moment(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    station = bench.station("s1")
    with DirectoryLock(station.directory):
        station.start()
        time.sleep(1.0)
        assert station.running
    station.wait_ready()
    again = type(station)(bench.home, 1)  # another process on the same directory
    again.start()
    assert again.wait_end() == 3 and "is in use by process" in again.text()
    assert station.running
