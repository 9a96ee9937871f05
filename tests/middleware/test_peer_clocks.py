"""What two stations find out about each other's clocks, whatever the way between them takes."""

from __future__ import annotations

import pytest

from roamcast.middleware.live_frames import LiveClock
from roamcast.middleware.peer_clocks import KEPT, PeerClocks
from roamcast.middleware.settings import MS, SECOND


def exchange(off: int, there: list[int], back: list[int]) -> list[tuple[int | None, int | None]]:
    """What 1 and 2 find in each round; the clock of 2 is `off` ahead, frames take so long there and back."""
    one, two, time = PeerClocks(), PeerClocks(), 1_800_000_000 * SECOND
    found = []
    for slow, slower in zip(there, back, strict=True):
        at_two = two.hear(1, one.say(2, time), time + slow + off)
        at_one = one.hear(2, two.say(1, time + off), time + slower)
        found.append((at_one, at_two))
        time += 2 * SECOND
    return found


@pytest.mark.parametrize("off", [0, 40 * MS, -3_600 * SECOND])
@pytest.mark.parametrize("way", [0, 90 * MS])
def test_the_way_is_not_taken_for_a_difference(off: int, way: int) -> None:
    found = exchange(off, [way] * 4, [way] * 4)
    assert found[0][1] is None, "nobody has said yet how it sees the other"
    assert found[1:] == [(off, -off)] * 3


def test_one_slow_frame_does_not_count() -> None:
    found = exchange(0, [MS, MS, 2 * SECOND, MS], [MS, 400 * MS, MS, MS])
    assert found[1:] == [(0, 0)] * 3


def test_a_step_of_a_clock_is_seen_with_the_first_frame_and_whole_after_a_few() -> None:
    one, two, time = PeerClocks(), PeerClocks(), 1_800_000_000 * SECOND
    off, found = 0, []
    for i in range(2 + KEPT):
        off = -SECOND if i > 1 else 0
        one.hear(2, two.say(1, time + off), time)
        found.append(two.hear(1, one.say(2, time), time + off))
        time += 2 * SECOND
    assert found[1] == 0
    assert found[2] == SECOND // 2
    assert found[-1] == SECOND


def test_of_peers_that_are_not_linked_nothing_is_kept() -> None:
    clocks = PeerClocks()
    clocks.hear(2, LiveClock(1_000, None), 0)
    assert clocks.say(2, 5) == LiveClock(5, 1_000)
    clocks.follow(frozenset({3}))
    assert clocks.say(2, 5) == LiveClock(5, None)
