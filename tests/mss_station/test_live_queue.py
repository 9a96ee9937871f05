"""Live messages that wait at a station: turns, order, bounds."""

from __future__ import annotations

import pytest

from roamcast.mss_station.live_queue import BYTES_MAX, FRAME_BYTES, HOST_FRAMES_MAX, LiveQueue, Waiting
from roamcast.mss_station.live_share import PART, LiveShare
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.user_id import Owner


def message(host: int, data: bytes = b"", channel: bytes = b"", since: int = 0) -> Waiting:
    name = f"host{host}"
    return Waiting(channel or name.encode(), Owner(host, name, f"host:{name}"), data, since)


def taken(queue: LiveQueue) -> list[tuple[int, bytes]]:
    """All, in the order in which they are taken."""
    found = []
    while (waiting := queue.take()) is not None:
        found.append((waiting.owner.number, waiting.data))
    assert queue.size == 0 and not queue._lines and not queue._new and not queue._old, "nothing is left of them"
    return found


def test_hosts_take_turns_and_the_messages_of_each_keep_their_order() -> None:
    queue = LiveQueue()
    for host, data in ((1, b"a"), (1, b"b"), (1, b"c"), (2, b"d"), (3, b"e"), (3, b"f")):
        assert queue.put(message(host, data)) == 0
    assert taken(queue) == [(1, b"a"), (2, b"d"), (3, b"e"), (1, b"b"), (3, b"f"), (1, b"c")]


def test_who_has_had_no_turn_goes_first() -> None:
    queue = LiveQueue()
    for host in (1, 1, 2, 2):
        queue.put(message(host))
    assert [queue.take().owner.number for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
    queue.put(message(3))
    assert [host for host, _ in taken(queue)] == [3, 1, 2]


def test_of_a_full_queue_the_oldest_goes() -> None:
    queue = LiveQueue()
    dropped = [queue.put(message(1, bytes([i]))) for i in range(HOST_FRAMES_MAX + 3)]
    assert sum(dropped) == 3
    assert queue.put(message(2)) == 0, "another host has a queue of its own"
    assert queue.take_of(1) == message(1, bytes([3]))


def test_bytes_are_bounded_and_no_host_has_them_all() -> None:
    queue, body = LiveQueue(), bytes(1 << 20)
    for host in range(1, 4):
        for _ in range(HOST_FRAMES_MAX):
            queue.put(message(host, body))
    assert queue.size <= BYTES_MAX
    hosts = [host for host, _ in taken(queue)]
    assert set(hosts) == {1, 2, 3} and hosts.count(1) <= BYTES_MAX // len(body) // 2
    assert queue.put(message(4, bytes(BYTES_MAX))) == 1, "one that never fits is dropped itself"


def test_what_small_messages_take_is_counted_too() -> None:
    queue = LiveQueue()
    for host in range(2 * BYTES_MAX // FRAME_BYTES):
        queue.put(message(host))
    assert queue.size <= BYTES_MAX


def test_a_host_goes_with_its_messages_or_those_of_one_channel() -> None:
    queue = LiveQueue()
    for channel in (b"old", b"new", b"old"):
        queue.put(message(1, channel, channel))
    queue.put(message(2, b"two"))
    assert (queue.drop(1, b"old"), queue.drop(3)) == (2, 0)
    assert (queue.take_of(1), queue.take_of(1)) == (message(1, b"new", b"new"), None)
    assert queue.drop(2) == 1
    assert taken(queue) == []


@pytest.mark.parametrize("flooding", [1, 3, 10, 50])
@pytest.mark.parametrize("cost", [200, 500, 1_000])
def test_who_asks_for_less_than_a_fair_share_is_given_all(flooding: int, cost: int) -> None:
    """`flooding` hosts whose messages never end, beside one that sends some; a message takes `cost` microseconds."""
    now, sent, given, end = 0, 0, 0, 5_000_000
    share, queue = LiveShare(lambda: now, Tally()), LiveQueue()
    fair = end // PART // cost // (flooding + 1)
    period = max(113_331, end // max(1, fair // 2))
    while now < end:
        if sent * period <= now:
            sent += 1
            queue.put(message(0, since=now))
        for host in range(1, flooding + 1):
            queue.put(message(host))
        while share.admits() and (waiting := queue.take()) is not None:
            with share.used():
                now += cost
            share.took()
            given += waiting.owner.number == 0
        share.next_tick()
        now += 1_000
    assert sent > 5 and given >= sent - 1
