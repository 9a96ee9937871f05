"""The time that live messages may take."""

from __future__ import annotations

from roamcast.mss_station.live_share import KEPT_US_MAX, LiveShare
from roamcast.mss_station.tally import Tally


class Thread:
    """A share, and the clock of its thread."""

    def __init__(self) -> None:
        self.time = 0
        self.tally = Tally()
        self.share = LiveShare(lambda: self.time, self.tally)

    def work(self, us: int) -> None:
        """A live message that takes so long."""
        with self.share.used():
            self.time += us

    def flood(self, us: int, until: int) -> int:
        """As many as are admitted, each of so long; one that is not costs a microsecond. Returns how many."""
        taken = 0
        while self.time < until:
            if self.share.admits():
                self.work(us)
                taken += 1
            else:
                self.time += 1
        return taken


def test_a_flood_has_half_of_the_time() -> None:
    thread = Thread()
    taken = thread.flood(100, 1_000_000)
    assert 5_000 <= taken <= 5_000 + KEPT_US_MAX // 50
    assert thread.tally.counters["live_shed"] == 1_000_000 - taken * 100


def test_what_was_not_used_is_kept_for_a_burst_and_no_more() -> None:
    thread = Thread()
    thread.time = 3_600_000_000
    taken = thread.flood(100, thread.time + KEPT_US_MAX)
    assert KEPT_US_MAX // 100 - 1 <= taken <= KEPT_US_MAX // 100 + 1, "the burst fills all of its time"


def test_one_that_takes_long_is_paid_back() -> None:
    thread = Thread()
    thread.work(50_000)
    assert thread.flood(100, 50_000 + 40_000) == 0


def test_it_counts_if_the_work_fails_too() -> None:
    thread = Thread()
    try:
        with thread.share.used():
            thread.time += 50_000
            raise ValueError
    except ValueError:
        pass
    assert not thread.share.admits()
