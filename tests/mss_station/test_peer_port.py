"""The sockets between stations: links on channels, frames of linked peers only, sends that never block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from peer_rig import unpublished

from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.lan_update.records import LanAck
from roamcast.middleware.link_effects import Identity, Member, Seen
from roamcast.middleware.link_peer import RETRY_MIN, UNSENT_RETRY
from roamcast.middleware.links import Links
from roamcast.middleware.live_frames import LiveCast, LiveClock
from roamcast.middleware.membership.frames import Join, JoinRefused
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Link, Nack, NoLink, PeerFrame, Refusal, StationFrame, WentBack
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.join_port import BAD_FRAMES_MAX, JOINS_BURST
from roamcast.mss_station.live_port import LivePort
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.tally import Tally
from roamcast.transport.join_codec import decode_join_answer, encode_join
from roamcast.transport.sockets import UNKNOWN_KEY, UP
from roamcast.transport.station_codec import decode_peer, encode_peer

CHANNEL = b"\0peer"
FRAME = Nack(1, 1, 2)


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
        over = self.over = {"s9": "the group has retired s9"}
        self.joins: list[tuple[bytes, str, Join]] = []
        self.port = PeerPort(
            router,
            links,
            self.tally,
            slots.get,
            over.get,
            lambda slot, seen: self.kept.update({slot: seen}),
            lambda *join: self.joins.append(join),
            LivePort(links, self.tally, Clock()),
            unpublished(links, self.tally),
        )
        self.port.add(2, *connection)

    def drain(self, now: int = 0) -> list[tuple[int, PeerFrame]]:
        self.fed.clear()
        self.port.drain(100, now, 0, lambda slot, frame: self.fed.append((slot, frame)))
        return list(self.fed)

    def arrive(self, frame: StationFrame, user: str = "station:s2", channel: bytes = CHANNEL) -> None:
        self.router.arrive(channel, user, encode_peer(frame))

    def answered(self, frame: StationFrame) -> list[tuple[int, PeerFrame]]:
        """What is fed of a frame that comes back on the DEALER."""
        self.fed.clear()
        self.dealer.arrive(encode_peer(frame))
        self.port.drain_dealer(2, 0, 0, lambda slot, frame: self.fed.append((slot, frame)))
        return list(self.fed)

    def answers(self) -> list[StationFrame]:
        return [decode_peer(data) for _, data in self.router.sent]

    def link(self) -> None:
        self.port.expire(0, 0)
        assert self.answered(their_link()) == []


def their_link(version: tuple[int, int] = (1, 0)) -> Link:
    return Link(version, "g", "s2", 2, 102, 9, 4, 0, 0, 0, 0)


@pytest.fixture
def port(router: Any, make_connection: Callable[[], tuple[Any, Any]]) -> Port:
    return Port(router, make_connection())


def test_frames_count_after_a_link_on_their_channel(port: Port) -> None:
    port.arrive(FRAME)
    assert port.drain() == [] and port.answers() == [NoLink()]
    port.arrive(their_link())
    port.arrive(FRAME)
    port.arrive(Nack(1, 3, 4), channel=b"\0othr")
    assert port.drain() == [(2, FRAME)]
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
    port.arrive(FRAME, user="station:s3")
    port.arrive(their_link(), user="station:s3")
    port.arrive(their_link(), channel=b"chosen")
    assert port.drain() == [] and len(port.answers()) == 1
    assert port.tally.counters["reject.routing-id"] == 3
    port.arrive(FRAME)
    assert port.drain() == [(2, FRAME)]


def test_a_link_of_another_major_version_is_told_so_even_if_its_layout_is_unknown(port: Port) -> None:
    port.router.arrive(CHANNEL, "station:s2", b"\x83\x18\x20\x82\x02\x00\x61x")
    port.drain()
    (refusal,) = port.answers()
    assert isinstance(refusal, Refusal) and refusal.code == "version" and "2.0" in refusal.text


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x82\x18\x63\x00"])
def test_what_is_no_frame_is_counted_and_the_next_one_counts(port: Port, data: bytes) -> None:
    port.arrive(their_link())
    port.router.arrive(CHANNEL, "station:s2", data)
    port.router.arrive(CHANNEL, "station:s2", b"x", CHANNEL, encode_peer(FRAME))
    port.arrive(FRAME)
    assert port.drain() == [(2, FRAME)]
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
    assert port.answered(WentBack(8, 0)) == []
    assert port.port.stop_text is not None and "newer directory" in port.port.stop_text


def test_a_retired_station_is_told_so_and_counts_no_more(port: Port) -> None:
    port.arrive(Link((1, 0), "g", "s9", 9, 109, 9, 4, 0, 0, 0, 0), user="station:s9")
    port.arrive(FRAME, user="station:s9")
    assert port.drain() == []
    assert port.answers() == [Refusal("retired", "the group has retired s9"), NoLink()]


def test_a_linked_station_that_is_retired_is_told_at_once_and_once(port: Port) -> None:
    port.arrive(their_link())
    port.drain()
    port.port.dismiss(2, "s2")
    assert len(port.answers()) == 1, "it is a member"
    port.over["s2"] = "the group has retired s2"
    port.port.dismiss(2, "s2")
    port.port.dismiss(2, "s2")
    assert port.answers()[1:] == [Refusal("retired", "the group has retired s2")]


def test_being_told_that_the_group_has_retired_this_station_is_the_end(port: Port) -> None:
    assert port.answered(Refusal("retired", "the group has retired s1")) == []
    assert port.port.retired_text == "the group has retired s1"


def test_the_configuration_reaches_a_peer_that_cannot_be_reached(port: Port) -> None:
    """It has moved: it reaches us, and what it tells us is where it is; our own DEALER is at its former endpoint."""
    assert port.port.send_lan(2, b"packet") is None
    port.arrive(their_link())
    port.arrive(LanAck(7))
    assert port.drain() == [(2, LanAck(7))]
    assert port.port.send_lan(2, encode_peer(LanAck(8))) is True
    assert port.answers()[-1] == LanAck(8) and port.router.sent[-1][0] == CHANNEL
    assert port.port.send(2, b"rows") is False, "nothing else goes there"
    port.router.gone.add(CHANNEL)
    assert port.port.send_lan(2, b"packet") is None
    port.link()
    assert port.port.send_lan(2, b"packet") is True and port.dealer.sent[-1] == b"packet"


def test_only_the_configuration_is_fed_from_a_dealer_and_only_once_it_is_linked(port: Port) -> None:
    assert port.answered(LanAck(7)) == []
    port.link()
    assert port.answered(LanAck(7)) == [(2, LanAck(7))]
    assert port.answered(FRAME) == []
    assert port.tally.counters["reject.unexpected"] == 1


def test_a_dealer_that_was_given_up_is_used_no_more(port: Port) -> None:
    port.link()
    port.port.remove(2)
    port.port.links.set_members([], {})
    port.port.broadcast(b"data")
    assert port.port.send(2, b"data") is False and port.dealer.sent[1:] == []


# ---- newcomers ----

KEY, NEW = "k" * 40, b"\0newc"
JOIN = Join((1, 0), "s4", 77, "tcp://10.0.0.4:1", "tcp://10.0.0.4:2", KEY, KEY, "a" * 64)


def newcomer_says(port: Port, *parts: bytes, channel: bytes = NEW, key: str = KEY, now: int = 0) -> int:
    """How many Joins are taken of a message under a one-time key."""
    port.joins.clear()
    port.router.arrive(channel, f"join:{key}", *parts)
    assert port.drain(now) == []
    return len(port.joins)


def test_a_newcomer_says_join_and_is_answered_where_it_asked(port: Port) -> None:
    assert newcomer_says(port, encode_join(JOIN)) == 1
    assert port.joins == [(NEW, KEY, JOIN)] and port.router.sent == []
    refused = JoinRefused("confirming", "waiting for s3", True)
    port.port.joins.answer(NEW, refused)
    ((channel, data),) = port.router.sent
    assert (channel, decode_join_answer(data)) == (NEW, refused)
    port.router.gone.add(NEW)
    port.port.joins.answer(NEW, refused)


def test_nothing_else_counts_under_a_one_time_key_and_after_a_few_tries_nothing_at_all(port: Port) -> None:
    port.arrive(their_link())
    link = their_link()
    for data in (encode_peer(link), encode_peer(FRAME), b"\xff"):
        assert newcomer_says(port, data) == 0
    assert len(port.answers()) == 1, "only the peer was answered"
    assert newcomer_says(port, encode_join(JOIN)) == 1
    assert newcomer_says(port, encode_join(JOIN), b"more") == 0
    assert port.tally.counters["reject.bad-join"] == BAD_FRAMES_MAX
    assert newcomer_says(port, encode_join(JOIN)) == 0
    assert newcomer_says(port, encode_join(JOIN), channel=b"\0last") == 1
    assert newcomer_says(port, encode_join(JOIN), channel=b"chosen") == 0


def test_a_one_time_key_on_the_channel_of_a_peer_speaks_for_nobody(port: Port) -> None:
    port.arrive(their_link())
    port.arrive(FRAME, user=f"join:{KEY}")
    assert port.drain() == []


def test_a_newcomer_of_another_major_version_is_told_so(port: Port) -> None:
    assert newcomer_says(port, b"\x83\x18\x50\x82\x02\x00\x61x") == 0
    refused = decode_join_answer(port.router.sent[-1][1])
    assert isinstance(refused, JoinRefused) and (refused.code, refused.wait) == ("version", False)
    assert "2.0" in refused.text


def test_joins_under_one_key_are_taken_at_the_pace_of_a_newcomer(port: Port) -> None:
    taken = [newcomer_says(port, encode_join(JOIN)) for _ in range(JOINS_BURST + 2)]
    assert taken == [1] * JOINS_BURST + [0, 0]
    assert newcomer_says(port, encode_join(JOIN), key="o" * 40) == 1
    assert newcomer_says(port, encode_join(JOIN), now=SECOND) == 1


# ---- live messages, on a connection of their own ----

LIVE_CHANNEL = b"\0live"
CAST = LiveCast(9, 5, Past((), 0), (), 5, 1 << 32 | 1, 7, Kind.BROADCAST, 0, b"here")


@pytest.fixture
def live(port: Port, make_connection: Callable[[], tuple[Any, Any]]) -> Any:
    """The DEALER for live messages to the peer."""
    dealer = make_connection()[0]
    port.port.live.add(2, dealer)
    return dealer


def test_a_live_message_counts_on_a_connection_that_has_said_no_link(port: Port) -> None:
    port.link()
    port.arrive(CAST, channel=LIVE_CHANNEL)
    assert port.drain() == [(2, CAST)] and port.answers() == []


@pytest.mark.parametrize("user", ["station:s2", "station:s3", "host:s2"])
def test_but_not_of_one_that_is_no_linked_peer(port: Port, user: str) -> None:
    if user != "station:s2":
        port.link()
    port.arrive(CAST, user=user, channel=LIVE_CHANNEL)
    port.arrive(LiveClock(5, 5, None, 0), user=user, channel=LIVE_CHANNEL)
    assert port.drain() == []
    assert port.tally.counters["live_without_link"] == 2


def test_nothing_else_counts_there(port: Port) -> None:
    port.link()
    port.arrive(FRAME, channel=LIVE_CHANNEL)
    assert port.drain() == [] and port.answers() == [NoLink()]


def test_live_messages_go_out_there_to_linked_peers_and_are_dropped_if_it_is_full(port: Port, live: Any) -> None:
    port.port.live.broadcast(b"early")
    port.link()
    before = list(port.dealer.sent)
    port.port.live.broadcast(b"one")
    live.full = True
    port.port.live.broadcast(b"two")
    assert live.sent == [b"one"] and port.dealer.sent == before
    assert port.tally.counters["live_unsent"] == 1


def test_when_the_share_is_used_up_they_are_dropped_unread(port: Port) -> None:
    port.link()
    share = port.port.live.share
    share._left = -1_000_000_000
    for _ in range(3):
        port.router.arrive(LIVE_CHANNEL, "station:s2", encode_peer(CAST) + b"no frame")
    port.arrive(FRAME)
    port.arrive(their_link())
    port.arrive(FRAME)
    assert port.drain() == [(2, FRAME)], "all else is taken"
    assert port.tally.counters["live_shed_of_peers"] == 3
    assert not any(name.startswith("reject.peer") for name in port.tally.counters)


def test_clocks_are_told_and_compared(port: Port, live: Any) -> None:
    found: list[tuple[int, int]] = []
    port.port.live.compared = lambda slot, ahead: found.append((slot, ahead))
    port.link()
    port.port.live.look()
    port.port.live.look()
    told = [decode_peer(data) for data in live.sent]
    assert [type(frame) for frame in told] == [LiveClock], "not twice within a moment"
    clock, hour = Clock(), 3_600 * SECOND
    for yours in (None, 0):
        port.arrive(LiveClock(clock.wall() + hour, clock.now(), yours, clock.now()), channel=LIVE_CHANNEL)
        port.drain()
    (((slot, ahead)),) = found
    assert slot == 2 and hour - SECOND < ahead < hour + SECOND
