"""What two stations find out about each other's clocks, whatever the way between them takes, and when one is set."""

from __future__ import annotations

import pytest

from roamcast.middleware.live_frames import LiveClock
from roamcast.middleware.peer_clocks import PeerClocks
from roamcast.middleware.settings import MS, SECOND

UTC = 1_800_000_000 * SECOND
THERE = 777_777 * SECOND
"""The monotonic clock of 2 is so far ahead of that of 1."""


class Two:
    """Stations 1 and 2; the clock of 2 is `off` ahead, and its monotonic one is that of 1, and `apart`."""

    def __init__(self, off: int = 0) -> None:
        self.one, self.two = PeerClocks(), PeerClocks()
        self.now, self.off = 5_000 * SECOND, off
        self.apart = THERE

    def exchange(self, there: int = 0, back: int = 0) -> tuple[int | None, int | None]:
        """A frame each way, which take so long. Returns what 1 and 2 find: how far the other is ahead."""
        now, off, apart = self.now, self.off, self.apart
        to_two, to_one = self.one.say(2, now, UTC + now), self.two.say(1, now + apart, UTC + now + off)
        at_two = self.two.hear(1, to_two, now + there + apart, UTC + now + there + off)
        at_one = self.one.hear(2, to_one, now + back, UTC + now + back)
        self.now += 2 * SECOND
        return at_one, at_two


@pytest.mark.parametrize("off", [0, 400 * MS, -3_600 * SECOND])
@pytest.mark.parametrize("way", [0, 30 * MS])
def test_a_difference_is_found_but_for_what_the_ways_may_differ(off: int, way: int) -> None:
    two = Two(off)
    assert two.exchange(way, way) == (None, None), "nobody has said yet how it sees the other"
    least = max(0, abs(off) - way) * (1 if off > 0 else -1)
    assert two.exchange(way, way) == (least, -least)


@pytest.mark.parametrize(("there", "back"), [(130 * MS, 0), (0, 2 * SECOND), (400 * MS, 400 * MS)])
def test_nobody_is_called_wrong_for_a_slow_way(there: int, back: int) -> None:
    two = Two()
    assert [two.exchange(there, back) for _ in range(6)][1:] == [(0, 0)] * 5


@pytest.mark.parametrize("step", [80 * MS, -80 * MS, 3_600 * SECOND])
def test_a_step_counts_whole_with_the_first_frame_and_does_not_fade(step: int) -> None:
    two = Two()
    for _ in range(3):
        two.exchange(MS, MS)
    two.off = step
    sign = 1 if step > 0 else -1
    found = [two.exchange(MS, MS) for _ in range(6)]
    assert [one for one, _ in found] == [step - sign * MS] * 6
    assert [other for _, other in found][1:] == [sign * MS - step] * 5
    assert found[0][1] == (None if step > 0 else sign * MS - step), "if it has not slept, it is told next time"
    two.off = 0
    assert two.exchange(MS, MS)[0] == 0 and two.exchange(MS, MS) == (0, 0)


@pytest.mark.parametrize("slept", [100 * MS, 140 * MS, 3 * SECOND, 3_600 * SECOND])
@pytest.mark.parametrize(("there", "back"), [(MS, MS), (75 * MS, 75 * MS), (400 * MS, MS), (MS, 400 * MS)])
def test_a_monotonic_clock_that_stood_still_accuses_nobody(slept: int, there: int, back: int) -> None:
    """The machine of 2 has slept, or its VM was paused: UTC is right, and its monotonic clock is behind."""
    two = Two()
    for _ in range(6):
        two.exchange(there, back)
    two.apart -= slept
    found = [two.exchange(there, back) for _ in range(6)]
    assert {one for pair in found for one in pair} <= {None, 0}
    assert found[2:] == [(0, 0)] * 4, "and soon it is known again"


def test_frames_of_before_a_pause_that_come_after_it_accuse_nobody() -> None:
    two = Two()
    for _ in range(3):
        two.exchange(MS, MS)
    waited = [two.one.say(2, two.now + i * SECOND, UTC + two.now + i * SECOND) for i in (0, 2)]
    now = two.now + 3 * SECOND
    assert {two.two.hear(1, frame, now - 3 * SECOND + THERE, UTC + now) for frame in waited} == {None}


def test_both_clocks_of_a_station_stood_still_and_its_utc_is_behind_since() -> None:
    two = Two()
    for _ in range(4):
        two.exchange(MS, MS)
    two.off, two.apart = -3 * SECOND, THERE - 3 * SECOND
    found = [two.exchange(MS, MS) for _ in range(3)]
    assert found[2] == (MS - 3 * SECOND, 3 * SECOND - MS), "by then nothing counts that came before"


def test_frames_that_waited_while_a_station_slept_accuse_nobody() -> None:
    two = Two()
    for _ in range(3):
        two.exchange(MS, MS)
    slept = [two.one.say(2, two.now + i * SECOND, UTC + two.now + i * SECOND) for i in (0, 2, 4, 6, 8)]
    now = two.now + 10 * SECOND
    assert {two.two.hear(1, frame, now + THERE, UTC + now) for frame in slept} == {0}


def test_of_peers_that_are_not_linked_nothing_is_kept() -> None:
    clocks = PeerClocks()
    clocks.hear(2, LiveClock(9, 1_000, None, 0), 0, 0)
    assert clocks.say(2, 5, 7) == LiveClock(7, 5, 1_000, 1_000)
    clocks.follow(frozenset({3}))
    assert clocks.say(2, 5, 7) == LiveClock(7, 5, None, 0)
