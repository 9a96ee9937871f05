"""The sockets between stations: links on channels, frames of linked peers only, sends that never block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.link_effects import Identity, Member, Seen
from roamcast.middleware.links import RETRY_MIN, UNSENT_RETRY, Links
from roamcast.middleware.station_frames import Claims, Link, Nack, NoLink, PeerFrame, Refusal, StationFrame, WentBack
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.tally import Tally
from roamcast.transport.sockets import UNKNOWN_KEY, UP
from roamcast.transport.station_codec import decode_peer, encode_peer

CHANNEL = b"\0peer"
CLAIMS = Claims(False, (), (), (), 3, 0)


class Port:
    """The PeerPort of slot 1, with the peer s2 in slot 2."""

    def __init__(self, router: Any, connection: tuple[Any, Any]) -> None:
        self.router = router
        self.dealer, self.monitor = connection
        self.tally = Tally()
        self.kept: dict[int, Seen] = {}
        self.fed: list[tuple[int, PeerFrame]] = []
        me = Identity("g", "s1", 1, 101, 7, 1)
        links = Links(me, [Member(2, "s2", 102)], {}, lambda slot: 0, False)
        slots = {"s2": 2}
        self.port = PeerPort(
            router, {2: connection}, links, self.tally, slots.get, lambda slot, seen: self.kept.update({slot: seen})
        )

    def drain(self, now: int = 0) -> list[tuple[int, PeerFrame]]:
        self.fed.clear()
        self.port.drain(100, now, 0, lambda slot, frame: self.fed.append((slot, frame)))
        return list(self.fed)

    def arrive(self, frame: StationFrame, user: str = "station:s2", channel: bytes = CHANNEL) -> None:
        self.router.arrive(channel, user, encode_peer(frame))

    def answers(self) -> list[StationFrame]:
        return [decode_peer(data) for _, data in self.router.sent]

    def link(self) -> None:
        self.port.expire(0, 0)
        self.dealer.arrive(encode_peer(their_link()))
        self.port.drain_dealer(2, 0, 0)


def their_link(version: tuple[int, int] = (1, 0)) -> Link:
    return Link(version, "g", "s2", 2, 102, 9, 4, 0, 0, 0, 0)


@pytest.fixture
def port(router: Any, make_connection: Callable[[], tuple[Any, Any]]) -> Port:
    return Port(router, make_connection())


def test_frames_count_after_a_link_on_their_channel(port: Port) -> None:
    port.arrive(CLAIMS)
    assert port.drain() == [] and port.answers() == [NoLink()]
    port.arrive(their_link())
    port.arrive(CLAIMS)
    port.arrive(Nack(1, 1, 2), channel=b"\0othr")
    assert port.drain() == [(2, CLAIMS)]
    assert isinstance(port.answers()[1], Link) and port.answers()[2:] == [NoLink()]
    assert port.kept == {2: Seen(4, 9)}


def test_a_link_by_another_key_is_refused(port: Port) -> None:
    port.arrive(their_link(), user="station:s3")
    port.arrive(their_link(), user="host:s2")
    assert port.drain() == []
    assert [type(answer) for answer in port.answers()] == [Refusal, Refusal]


def test_a_linked_channel_speaks_for_the_key_that_linked_it(port: Port) -> None:
    """Another member's key under the routing id of the first, and one under an id of its own choice."""
    port.arrive(their_link())
    port.arrive(CLAIMS, user="station:s3")
    port.arrive(their_link(), user="station:s3")
    port.arrive(their_link(), channel=b"chosen")
    assert port.drain() == [] and len(port.answers()) == 1
    assert port.tally.counters["reject.routing-id"] == 3
    port.arrive(CLAIMS)
    assert port.drain() == [(2, CLAIMS)]


def test_a_link_of_another_major_version_is_told_so_even_if_its_layout_is_unknown(port: Port) -> None:
    port.router.arrive(CHANNEL, "station:s2", b"\x83\x18\x20\x82\x02\x00\x61x")
    port.drain()
    (refusal,) = port.answers()
    assert isinstance(refusal, Refusal) and refusal.code == "version" and "2.0" in refusal.text


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x82\x18\x63\x00"])
def test_what_is_no_frame_is_counted_and_the_next_one_counts(port: Port, data: bytes) -> None:
    port.arrive(their_link())
    port.router.arrive(CHANNEL, "station:s2", data)
    port.router.arrive(CHANNEL, "station:s2", b"x", CHANNEL, encode_peer(CLAIMS))
    port.arrive(CLAIMS)
    assert port.drain() == [(2, CLAIMS)]
    assert sum(count for name, count in port.tally.counters.items() if name.startswith("reject.peer")) == 2


def test_link_frames_do_not_belong_on_a_linked_channel(port: Port) -> None:
    port.arrive(their_link())
    port.arrive(WentBack(9, 9))
    assert port.drain() == [] and port.port.stop_text is None
    assert port.tally.counters["reject.unexpected"] == 1


def test_nothing_is_sent_to_a_peer_that_is_not_linked(port: Port) -> None:
    port.port.broadcast(b"data")
    assert port.dealer.sent == [] and port.tally.counters == {"unsent.unlinked": 1}
    port.link()
    assert port.port.newly_linked == [2]
    port.port.broadcast(b"data")
    assert port.dealer.sent[1:] == [b"data"]
    port.dealer.full = True
    port.port.send(2, b"more")
    assert port.tally.counters["eagain.stations"] == 1


def test_a_link_that_cannot_be_sent_is_said_soon_again(port: Port) -> None:
    port.dealer.full = True
    port.port.expire(0, 0)
    assert port.port.links.next_deadline() == UNSENT_RETRY < RETRY_MIN


def test_connections_are_watched_and_a_new_reason_is_told_once(port: Port) -> None:
    port.link()
    port.monitor.told = [UNKNOWN_KEY, UNKNOWN_KEY]
    port.port.watch_dealer(2, 0)
    assert port.port.reasons == {2: UNKNOWN_KEY} and not port.port.links.is_linked(2)
    assert port.tally.counters["notice.no_connection"] == 1
    port.monitor.told = [UP]
    port.port.watch_dealer(2, 5)
    assert port.port.reasons == {} and port.port.links.next_deadline() == 5


def test_being_told_that_the_store_went_back_is_the_end(port: Port) -> None:
    port.port.expire(0, 0)
    port.dealer.arrive(encode_peer(WentBack(8, 0)))
    port.port.drain_dealer(2, 0, 0)
    assert port.port.stop_text is not None and "newer directory" in port.port.stop_text
