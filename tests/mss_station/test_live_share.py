"""The time that live messages may take."""

from __future__ import annotations

from roamcast.mss_station.live_share import KEPT_US_MAX, PART, PEERS_US, REST_US, TAKEN_MAX, LiveShare
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

    def flood(self, us: int, until: int, *, of_peer: bool = False) -> int:
        """As many as are admitted, each of so long; one that is not costs a microsecond. Returns how many."""
        taken = 0
        while self.time < until:
            self.share.next_tick()
            if self.share.admits_peer() if of_peer else self.share.admits():
                self.work(us)
                self.share.took()
                taken += 1
            else:
                self.time += 1
        return taken


def test_a_flood_has_its_part_of_the_time() -> None:
    thread = Thread()
    taken = thread.flood(100, 1_000_000)
    fair = 1_000_000 // PART // 100
    assert fair <= taken <= fair + KEPT_US_MAX // 50
    assert not thread.tally.counters, "what is not taken waits"


def test_what_was_not_used_is_kept_for_a_burst_and_no_more() -> None:
    thread = Thread()
    thread.time = 3_600_000_000
    taken = thread.flood(100, thread.time + KEPT_US_MAX)
    assert KEPT_US_MAX // 100 - 1 <= taken <= KEPT_US_MAX // 100 + 1, "the burst fills all of its time"


def test_what_stations_have_taken_already_comes_first() -> None:
    thread = Thread()
    thread.work(KEPT_US_MAX + PEERS_US)
    thread.share.next_tick()
    assert (thread.share.admits(), thread.share.admits_peer()) == (False, True)
    thread.work(2 * PEERS_US)
    assert not thread.share.admits_peer()
    assert thread.tally.counters == {"live_shed_of_peers": 1}


def test_hosts_and_stations_together_have_one_part() -> None:
    thread = Thread()
    stations, hosts = (thread.flood(100, 1_000_000 * i, of_peer=i == 1) for i in (1, 2))
    assert 100 * (stations + hosts) <= 2_000_000 // PART + KEPT_US_MAX * 2 + PEERS_US


def test_of_hosts_no_more_is_taken_in_a_tick_than_their_queues_take() -> None:
    thread = Thread()
    taken = 0
    while thread.share.admits():
        thread.share.took()
        taken += 1
    assert taken == TAKEN_MAX and thread.share.admits(TAKEN_MAX + 1)
    assert thread.share.admits_peer()
    thread.share.next_tick()
    assert thread.share.admits()


def test_it_says_when_it_goes_on() -> None:
    thread = Thread()
    assert thread.share.admits() and thread.share.admits_at() <= thread.time
    thread.work(50_000)
    assert not thread.share.admits()
    due = thread.share.admits_at()
    assert due > thread.time
    thread.time = due
    assert thread.share.admits()
    thread.time = due - REST_US
    assert thread.share.admits_at() > thread.time


def test_one_that_takes_long_is_paid_back() -> None:
    thread = Thread()
    thread.work(50_000)
    assert thread.flood(100, 50_000 + 50_000) == 0


def test_it_counts_if_the_work_fails_too() -> None:
    thread = Thread()
    try:
        with thread.share.used():
            thread.time += 50_000
            raise ValueError
    except ValueError:
        pass
    assert not thread.share.admits()
