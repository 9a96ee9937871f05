"""Live messages of hosts at the ROUTER: they wait for time, in turns and in order, and nothing else waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from host_rig import A, B, Port, hello

from roamcast.middleware.host_frames import Ack, Data, LiveData, LiveRefused, UpFrame
from roamcast.middleware.settings import SECOND, Settings
from roamcast.mss_station.host_port import SHED_MAX, TAKEN_BEFORE_MAX
from roamcast.mss_station.live_queue import HOST_FRAMES_MAX
from roamcast.mss_station.live_share import TAKEN_MAX
from roamcast.transport.host_codec import encode_up


@pytest.fixture
def make_port(router: Any) -> Callable[..., Port]:
    return lambda **settings: Port(router, **settings)


LIVE = encode_up(LiveData(1, 0, None, False, 500_000, b"here"))


def use_up(port: Port) -> None:
    """All the time there is for live messages, and more."""
    with port.port._share.used():
        port.time += SECOND


def live(body: bytes, deadline: int = 500_000) -> bytes:
    return encode_up(LiveData(1, 0, None, False, deadline, body))


def bodies(fed: list[tuple[bytes, int, UpFrame]]) -> list[bytes | str]:
    """Of live messages the body, of others the kind."""
    return [frame.body if isinstance(frame, LiveData) else type(frame).__name__ for _, _, frame in fed]


def test_live_messages_wait_for_time_and_nothing_else_waits_for_them(make_port: Callable[..., Port]) -> None:
    port = make_port()
    use_up(port)
    port.router.arrive(A, "host:ann", LIVE)
    port.router.arrive(B, "host:bob", hello("bob"))
    assert bodies(port.drain()) == ["Hello"]
    assert port.live() == []
    due = port.port.next_report(port.time)
    assert due is not None and due > port.time
    port.time = due
    assert bodies(port.live()) == [b"here"]
    assert port.port.next_report(port.time) is None and not port.tally.counters


def test_a_burst_is_taken_in_the_next_ticks_by_turns(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for i in range(20):
        port.router.arrive(A, "host:ann", live(b"%d" % i))
    port.router.arrive(B, "host:bob", live(b"bob"))
    assert port.drain() == []
    ticks = []
    while told := bodies(port.live()):
        ticks.append(told)
        port.port._share.next_tick()
    assert max(map(len, ticks)) <= TAKEN_MAX and b"bob" in ticks[0]
    assert [body for tick in ticks for body in tick if body != b"bob"] == [b"%d" % i for i in range(20)]


def test_of_a_flood_the_oldest_are_dropped_and_its_host_is_told_once_a_second(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for now in (1, 2, SECOND, SECOND + 2):
        for _ in range(HOST_FRAMES_MAX):
            port.router.arrive(A, "host:ann", LIVE)
        while port.router.waiting:
            port.drain(now)
    assert port.tally.counters["live_shed"] == 3 * HOST_FRAMES_MAX
    told = port.told()
    assert [(channel, frame.code) for channel, frame in told if isinstance(frame, LiveRefused)] == [(A, "busy")] * 2


def test_a_drain_ends_where_much_was_dropped_in_it(make_port: Callable[..., Port]) -> None:
    """Then the station goes on to what has come besides."""
    port = make_port()
    for _ in range(HOST_FRAMES_MAX + SHED_MAX + 1):
        port.router.arrive(A, "host:ann", LIVE)
    port.drain()
    assert port.port.is_flooded and len(port.router.waiting) == 2, "of one message"
    while port.live():
        port.port._share.next_tick()
    port.drain()
    assert not port.port.is_flooded


def test_what_a_host_sent_before_something_durable_goes_first_or_never(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for i in range(TAKEN_BEFORE_MAX + 2):
        port.router.arrive(A, "host:ann", live(b"%d" % i))
    port.router.arrive(B, "host:bob", live(b"bob"))
    port.router.arrive(A, "host:ann", encode_up(Data(1, 1, 0, None, b"durable")))
    first = [b"%d" % i for i in range(TAKEN_BEFORE_MAX)]
    assert bodies(port.drain()) == [*first, "Data"]
    assert port.tally.counters["live_shed"] == 2
    assert bodies(port.live()) == [b"bob"]


def test_what_says_only_what_a_host_has_received_drops_nothing(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for i in range(TAKEN_BEFORE_MAX + 2):
        port.router.arrive(A, "host:ann", live(b"%d" % i))
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 7)))
    assert bodies(port.drain()) == ["Ack"]
    assert len(port.live()) == TAKEN_BEFORE_MAX + 2


def test_the_wait_counts(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for body, deadline in ((b"short", 30_000), (b"long", 400_000), (b"endless", 86_400 * SECOND)):
        port.router.arrive(A, "host:ann", live(body, deadline))
    port.drain(now=0)
    left = [(frame.body, frame.deadline) for _, _, frame in port.live(now=30_000) if isinstance(frame, LiveData)]
    assert left == [(b"long", 370_000), (b"endless", Settings().live_delta - 30_000)]
    assert port.tally.counters["live_over"] == 1


def test_a_closed_channel_leaves_nothing_behind(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", LIVE)
    port.router.arrive(B, "host:bob", LIVE)
    port.drain()
    port.port.close(A, answer=False)
    assert [channel for channel, _, _ in port.live()] == [B]


def test_what_claims_to_be_live_and_is_no_frame_is_a_bad_one(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for data in (LIVE[:3], LIVE[:-1], LIVE + b"x"):
        port.router.arrive(A, "host:ann", data)
    assert port.drain() == [] and port.live() == []
    assert port.tally.counters["reject.bad-frame"] == 3
