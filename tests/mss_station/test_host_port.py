"""The ROUTER for hosts: identity by key, strict frames, attach rate, sends that never block."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from host_rig import A, B, C, Port, hello

from roamcast.middleware.host_frames import Ack, Hello, NoSession, Refused
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.host_port import BAD_FRAMES_MAX, Failure
from roamcast.transport.host_codec import encode_up


@pytest.fixture
def make_port(router: Any) -> Callable[..., Port]:
    return lambda **settings: Port(router, **settings)


def test_a_channel_speaks_for_the_host_of_its_key(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", hello("ann"))
    port.router.arrive(B, "host:bob", encode_up(Ack(1, 7)))
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 2)))
    assert [(channel, number, type(frame)) for channel, number, frame in port.drain()] == [
        (A, 11, Hello),
        (B, 12, Ack),
        (A, 11, Ack),
    ]


def test_another_hosts_name_is_refused_and_counted(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", hello("bob"))
    assert port.drain() == []
    assert port.told() == [(A, Refused("name", "the name of HELLO is not that of the key"))]
    assert port.tally.counters["reject.name"] == 1


def test_a_second_part_cannot_speak_on_another_channel(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(B, "host:bob", encode_up(Ack(1, 1)))
    port.router.arrive(A, "host:ann", b"x", B, encode_up(Ack(1, 99)))
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 3)))
    assert [(channel, frame) for channel, _, frame in port.drain()] == [(B, Ack(1, 1)), (A, Ack(1, 3))]


@pytest.mark.parametrize("user", [None, "host:eve", "station:ann"])
def test_a_connection_without_an_enrolled_host_is_ignored(user: str | None, make_port: Callable[..., Port]) -> None:
    port = make_port()
    for _ in range(3):
        port.router.arrive(A, user, hello("ann"))
    assert port.drain() == [] and port.router.sent == []
    assert port.tally.counters == {"frames_of_unknown_hosts": 1, "frames_dropped": 2}


def test_a_former_channel_does_not_speak_for_its_former_host(make_port: Callable[..., Port]) -> None:
    """A second enrolled key under the routing id of the first."""
    port = make_port()
    port.router.arrive(A, "host:ann", hello("ann"))
    assert len(port.drain()) == 1
    port.router.arrive(A, "host:bob", encode_up(Ack(1, 99)))
    port.router.arrive(A, "host:bob", hello("ann", 2))
    assert port.drain(now=5) == [] and port.router.sent == []
    assert port.port.failed == {A: Failure(True, None)}, "ann's session has ended"
    assert port.tally.counters["reject.routing-id"] == 1
    assert [name for name, until in port.bans] == ["bob"]
    port.router.arrive(B, "host:ann", hello("ann", 2))
    assert [(channel, number) for channel, number, _ in port.drain()] == [(B, 11)]


def test_a_routing_id_is_given_and_not_brought(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(b"0123456789abcdef", "host:ann", hello("ann"), identity="0123456789abcdef")
    port.router.arrive(b"fedcba9876543210", "host:bob", hello("bob"), identity="0000000000000000")
    assert [number for _, number, _ in port.drain()] == [11]
    assert [name for name, _ in port.bans] == ["bob"] and port.tally.counters["reject.routing-id"] == 1


def test_messages_of_more_parts_are_counted_and_shut_out_their_sender_alone(make_port: Callable[..., Port]) -> None:
    """Before any frame that says who it is: the name comes from the key."""
    port = make_port()
    port.hosts["unknown"] = 13
    for _ in range(BAD_FRAMES_MAX):
        assert port.bans == []
        port.router.arrive(A, "host:ann", b"x", b"y")
        port.drain()
    assert port.tally.counters["reject.parts"] == BAD_FRAMES_MAX
    assert [name for name, _ in port.bans] == ["ann"]
    port.router.arrive(B, "host:unknown", hello("unknown"))
    assert [number for _, number, _ in port.drain()] == [13]


def test_another_major_version_is_told_both_versions(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", hello("ann", version=(2, 0)))
    port.router.arrive(B, "host:bob", b"\x83\x01\x82\x09\x00\x61x")
    assert port.drain() == []
    for _, frame in port.told():
        assert isinstance(frame, Refused) and frame.code == "version" and "1.1 here" in frame.text
    assert "2.0" in port.told()[0][1].text and "9.0" in port.told()[1][1].text  # type: ignore[union-attr]


def test_an_unknown_kind_is_told_and_other_frames_still_count(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", b"\x82\x18\x63\x00")
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 3)))
    assert [frame for _, _, frame in port.drain()] == [Ack(1, 3)]
    assert port.told()[0][1].code == "unknown-kind"  # type: ignore[union-attr]


def test_bad_frames_close_the_channel_after_a_limit_and_ban_the_host(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for _ in range(BAD_FRAMES_MAX):
        assert port.bans == []
        port.router.arrive(A, "host:ann", b"\xff")
        port.drain(now=5)
    assert [name for name, _ in port.bans] == ["ann"] and port.bans[0][1] > 5
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 3)))
    port.router.arrive(B, "host:bob", encode_up(Ack(1, 4)))
    assert [channel for channel, _, _ in port.drain()] == [B]


def test_attachments_are_limited_by_a_bucket_for_each_host(make_port: Callable[..., Port]) -> None:
    port = make_port(attach_burst=3, attach_interval=SECOND)
    for e in range(1, 6):
        port.router.arrive(A, "host:ann", hello("ann", e))
    port.router.arrive(B, "host:bob", hello("bob"))
    assert [frame.e for channel, _, frame in port.drain() if channel == A] == [1, 2, 3]  # type: ignore[union-attr]
    assert [(frame.code) for _, frame in port.told()] == ["rate", "rate"]  # type: ignore[union-attr]
    port.router.arrive(A, "host:ann", hello("ann", 9))
    assert port.drain(now=SECOND - 1) == []
    port.router.arrive(A, "host:ann", hello("ann", 10))
    assert len(port.drain(now=SECOND)) == 1


def test_a_shared_frame_reaches_all_but_those_that_cannot_take_it(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.full, port.router.gone = {A}, {C}
    port.port.deliver([A, B, C, b"\0dddd"], b"one")
    assert [channel for channel, _ in port.router.sent] == [B, b"\0dddd"]
    assert port.port.failed == {A: Failure(False, None), C: Failure(True, None)}
    port.router.full.clear()
    port.port.deliver([A, B], b"two", prev=7)
    port.port.deliver([A], b"later", prev=8)
    assert port.port.failed[A] == Failure(False, 7), "the first MSG it did not take"
    assert port.router.sent[2:] == [(B, b"two")], "a frame after a lost one would break the host's sequence"
    port.port.failed.clear()
    port.port.deliver([A], b"three")
    assert port.router.sent[3:] == [(A, b"three")]


def test_a_host_that_was_hung_up_is_told_once(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.port.close(A, answer=True)
    for _ in range(3):
        port.router.arrive(A, "host:ann", encode_up(Ack(1, 1)))
    assert port.drain() == [] and port.told() == [(A, NoSession())]


def test_a_revoked_host_is_looked_up_again(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 1)))
    assert len(port.drain()) == 1
    del port.hosts["ann"]
    port.port.forget(11)
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 2)))
    assert port.drain() == []


def test_a_drain_stops_at_its_limit(make_port: Callable[..., Port]) -> None:
    port = make_port()
    for c in range(10):
        port.router.arrive(A, "host:ann", encode_up(Ack(1, c)))
    assert len(port.drain(limit=4)) == 4
    assert len(port.drain(limit=100)) == 6


def test_a_host_that_is_shut_out_is_hung_up_and_the_core_is_told(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.arrive(A, "host:ann", hello("ann"))
    port.router.arrive(B, "host:bob", hello("bob"))
    port.drain()
    port.port.hang_up(11)
    assert port.port.failed == {A: Failure(True, None)}
    port.router.arrive(A, "host:ann", encode_up(Ack(1, 1)))
    port.router.arrive(B, "host:bob", encode_up(Ack(1, 2)))
    assert port.drain() == [(B, 12, Ack(1, 2))]


class Core:
    """What a port reports to."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.ledger = self.downlink = self
        self.channels = {A: "ann's", B: "bob's"}

    def channel_full(self, channel: bytes, prev: int | None) -> None:
        self.heard.append(("full", channel, prev))

    def channel_lost(self, channel: bytes) -> None:
        self.heard.append(("lost", channel))

    def window_opened(self, record: str) -> None:
        self.heard.append(("again", record))


def test_who_does_not_take_a_live_message_is_not_given_it_and_all_else_goes_on(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.full, port.router.gone = {A}, {C}
    port.port.deliver_live([A, B, C], b"live")
    assert port.router.sent == [(B, b"live")]
    assert port.port.failed == {C: Failure(True, None)}
    port.router.full.clear()
    port.port.deliver_live([A, B, C], b"more")
    port.port.deliver([A, B], b"row", prev=7)
    assert port.router.sent[1:] == [(B, b"more"), (A, b"row"), (B, b"row")], "A gets nothing live until the next tick"
    assert port.tally.counters["live_untaken"] == 3
    port.port.report(Core(), 0)  # type: ignore[arg-type]
    port.port.deliver_live([A], b"again")
    assert port.router.sent[4:] == [(A, b"again")]


def test_nothing_live_goes_to_a_host_that_lacks_a_row(make_port: Callable[..., Port]) -> None:
    port = make_port()
    port.router.full = {A}
    port.port.deliver([A], b"row", prev=7)
    port.router.full.clear()
    port.port.deliver_live([A, B], b"live")
    assert port.router.sent == [(B, b"live")]


def test_a_full_queue_is_tried_again_soon_and_then_ever_less_often(make_port: Callable[..., Port]) -> None:
    port, core, times = make_port(), Core(), []
    port.router.full = {A}
    now, tries = 1_000, 0
    while True:
        port.port.deliver([A], b"row", prev=7)
        assert port.port.next_report(now) == now
        port.port.report(core, now)  # type: ignore[arg-type]
        due = port.port.next_report(now)
        if due is None:
            break
        times.append(due - now)
        port.port.report(core, due - 1)  # type: ignore[arg-type]
        assert core.heard.count(("again", "ann's")) == tries
        now, tries = due, tries + 1
        port.port.report(core, now)  # type: ignore[arg-type]
        assert core.heard.count(("again", "ann's")) == tries
    assert times[0] == 2_000 and all(later == 2 * one for one, later in pairwise(times)) and times[-1] < SECOND
    port.port.deliver([A], b"row", prev=7)
    port.port.report(core, now)  # type: ignore[arg-type]
    assert port.port.next_report(now) == now + 2_000, "it has given a sign of life since"
