"""What a tick sends: in order, with item bytes read back, and never with some missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from peer_rig import unpublished

from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.effects import (
    Broadcast,
    CloseChannel,
    Deliver,
    GroupEffect,
    Halt,
    HandedOver,
    Notice,
    Persist,
    Reject,
    Renew,
    SendHost,
    SendLive,
    SendPeer,
    SlotGiven,
)
from roamcast.middleware.errors import InvariantError
from roamcast.middleware.host_frames import Left, LiveMsg, Msg, Pong
from roamcast.middleware.link_effects import Identity, Member
from roamcast.middleware.links import Links
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import Item, Kind, Row, SpoolItem
from roamcast.middleware.settings import Settings
from roamcast.middleware.station_frames import AdoptPart, Body, DataBatch, Link, Snapshot, SpoolPart
from roamcast.middleware.writes import LastValue
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.live_port import LivePort
from roamcast.mss_station.outputs import LIVE_FRAMES_MAX, Outputs
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.tally import Tally
from roamcast.transport.host_codec import decode_down
from roamcast.transport.serving_codec import encode_item
from roamcast.transport.station_codec import decode_peer, encode_peer

A, B = b"\0aaaa", b"\0bbbb"


def item(n: int) -> bytes:
    return encode_item(Item(1, n, "ann", 5, n, Kind.BROADCAST, b"body %d" % n))


def row(n: int, *, dropped: bool = False) -> Row:
    return Row(1, n, (), 9, Kind.BROADCAST, 1, 5, n, (1, 0), 0, None if dropped else item(n), len(item(n)), n)


class Bench:
    """Outputs on fake sockets; peer 2 is linked, and so are those that `link` adds; `stored` is in the store."""

    def __init__(self, router: Any, connection: tuple[Any, Any]) -> None:
        self.router, (self.dealer, _) = router, connection
        self.tally = Tally()
        self.stored = {(1, n): item(n) for n in range(1, 5)}
        members = [Member(slot, f"s{slot}", slot) for slot in (2, 3, 4)]
        links = Links(Identity("g", "s1", 1, 1, 1, 1), members, {}, lambda slot: 9, False)
        self.live = live = LivePort(links, self.tally, Clock())
        published = unpublished(links, self.tally)
        peers = PeerPort(
            router, links, self.tally, {}.get, {}.get, lambda slot, seen: None, lambda *_: None, live, published
        )
        self.peers = peers
        self.link(2, connection)
        hosts = HostPort(router, Settings(), self.tally, {}.get, lambda name, until: None, live.share)
        self.hosts = hosts
        self.reads: list[int] = []
        self.asked: list[GroupEffect] = []
        self.outputs = Outputs(hosts, peers, self.tally, KillPoint(), self.load, self.asked.append)

    def link(self, slot: int, connection: tuple[Any, Any]) -> None:
        self.peers.add(slot, *connection)
        connection[0].arrive(encode_peer(Link((1, 0), "g", f"s{slot}", slot, slot, 1, 1, 9, 0, 0, 0)))
        self.peers.drain_dealer(slot, 0, 0, lambda slot, frame: None)

    def load(self, slot: int, n: int) -> bytes | None:
        self.reads.append(n)
        return self.stored.get((slot, n))

    def perform(self, *effects: Any) -> None:
        self.outputs.perform(effects, False)


@pytest.fixture
def bench(router: Any, make_connection: Callable[[], tuple[Any, Any]]) -> Bench:
    return Bench(router, make_connection())


def test_effects_are_performed_in_order(bench: Bench) -> None:
    bench.perform(
        SendHost(A, Pong(1)),
        Persist(()),
        Deliver([A, B], 0, 2, [(1, row(1)), (2, row(2, dropped=True))]),
        SendHost(A, Left()),
        CloseChannel(A, "left"),
        Reject(B, "bad-ack", "no"),
        Notice("info", "something", {"n": 1}),
    )
    sent = [(channel, decode_down(data)) for channel, data in bench.router.sent]
    assert [(channel, type(frame)) for channel, frame in sent] == [(A, Pong), (A, Msg), (B, Msg), (A, Left)]
    message = sent[1][1]
    assert isinstance(message, Msg) and (message.prev, message.last) == (0, 2)
    assert [(position, one.body) for position, one in message.entries] == [(1, b"body 1"), (2, b"body 2")]
    assert A in bench.hosts.dropped
    assert bench.tally.counters["reject.bad-ack"] == bench.tally.counters["notice.something"] == 1
    assert bench.tally.counters["deliveries"] == 4


def test_an_owed_message_without_bytes_anywhere_is_a_fault_of_ours(bench: Bench) -> None:
    with pytest.raises(InvariantError):
        bench.perform(Deliver([A], 0, 9, [(9, row(9, dropped=True))]))


def test_rows_to_peers_are_read_back_and_stay_dropped_in_memory(bench: Bench) -> None:
    rows = (row(1), row(2, dropped=True), row(3))
    bench.perform(Broadcast(DataBatch(1, rows)))
    batch = decode_peer(bench.dealer.sent[-1])
    assert isinstance(batch, DataBatch)
    assert [one.item for one in batch.rows] == [item(1), item(2), item(3)]
    assert rows[1].item is None


def test_rows_that_everybody_has_meanwhile_are_left_out(bench: Bench) -> None:
    del bench.stored[1, 1]
    bench.perform(SendPeer(2, DataBatch(1, (row(1, dropped=True), row(2, dropped=True)))))
    batch = decode_peer(bench.dealer.sent[-1])
    assert isinstance(batch, DataBatch) and [one.n for one in batch.rows] == [2]
    del bench.stored[1, 2]
    bench.perform(SendPeer(2, DataBatch(1, (row(1, dropped=True), row(2, dropped=True)))))
    assert len(bench.dealer.sent) == 1


def test_what_is_for_some_peers_is_encoded_once_and_goes_to_them_alone(
    bench: Bench, make_connection: Callable[[], tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {slot: make_connection() for slot in (3, 4)}
    for slot, connection in others.items():
        bench.link(slot, connection)
        bench.live.add(slot, connection[0])
    bench.live.add(2, bench.dealer)
    sent = [bench.dealer.sent, others[3][0].sent, others[4][0].sent]
    encoded: list[Any] = []

    def encode(frame: Any) -> bytes:
        encoded.append(frame)
        return encode_peer(frame)

    monkeypatch.setattr("roamcast.mss_station.outputs.encode_peer", encode)
    cast = LiveCast(10**15, 500_000, Past((), 0), (), 300_000, 1 << 32 | 1, 5, Kind.BROADCAST, 0, b"live")
    for frame in (DataBatch(1, (row(1),)), cast):
        before = [len(each) for each in sent]
        for to, reached in ((None, [1, 1, 1]), ((2, 4), [1, 0, 1]), ((), [0, 0, 0]), ((3, 9), [0, 1, 0])):
            bench.perform(Broadcast(frame, to))
            assert [len(each) - count for each, count in zip(sent, before, strict=True)] == reached, (frame, to)
            before = [len(each) for each in sent]
    assert len(encoded) == 8


def test_a_spool_part_goes_whole_or_not_at_all(bench: Bench) -> None:
    part = SpoolPart((1, 5), 2, 0, 1, tuple(SpoolItem(1, n, None, len(item(n))) for n in (1, 2)))
    bench.perform(SendPeer(2, part))
    sent = decode_peer(bench.dealer.sent[-1])
    assert isinstance(sent, SpoolPart) and [entry.item for entry in sent.entries] == [item(1), item(2)]
    del bench.stored[1, 2]
    bench.perform(SendPeer(2, part))
    assert len(bench.dealer.sent) == 1


def test_a_part_for_an_heir_goes_whole_or_not_at_all(bench: Bench) -> None:
    part = AdoptPart((1, 5, 2), 0, 1, tuple((n, SpoolItem(1, n, None, len(item(n)))) for n in (1, 2)))
    bench.perform(SendPeer(2, part))
    sent = decode_peer(bench.dealer.sent[-1])
    assert isinstance(sent, AdoptPart) and [entry.item for _, entry in sent.entries] == [item(1), item(2)]
    del bench.stored[1, 2]
    bench.perform(SendPeer(2, part))
    assert len(bench.dealer.sent) == 1


def test_a_snapshot_with_a_row_that_is_gone_is_not_sent(bench: Bench) -> None:
    """It would leave a hole that nobody asks for again; the whole part is asked for again."""
    placed = ((1, row(1)), (3, row(2, dropped=True)))
    snapshot = Snapshot(0, 0, 0, placed, (), (), True, ((1, 2, 0),), 3, 9, View((1, 2)))
    bench.perform(SendPeer(2, snapshot))
    sent = decode_peer(bench.dealer.sent[-1])
    assert isinstance(sent, Snapshot) and [one.item for _, one in sent.rows] == [item(1), item(2)]
    assert placed[1][1].item is None
    del bench.stored[1, 2]
    bench.perform(SendPeer(2, snapshot))
    assert len(bench.dealer.sent) == 1


def test_a_snapshot_with_a_last_value_that_is_gone_is_not_sent(bench: Bench) -> None:
    """Items that are still with their rows are empty there."""
    values = [
        (LastValue(topic, (9, 1, 0), 1, n, n, False), SpoolItem(1, n, given, size))
        for topic, n, given, size in ((5, 4, b"", 0), (6, 3, None, len(item(3))))
    ]
    snapshot = Snapshot(0, 0, 0, (), (), tuple(values), True, ((1, 2, 0),), 3, 9, View((1, 2)))
    bench.perform(SendPeer(2, snapshot))
    sent = decode_peer(bench.dealer.sent[-1])
    assert isinstance(sent, Snapshot) and [kept.item for _, kept in sent.values] == [b"", item(3)]
    assert [value for value, _ in sent.values] == [value for value, _ in values]
    del bench.stored[1, 3]
    bench.perform(SendPeer(2, snapshot))
    assert len(bench.dealer.sent) == 1


def test_what_the_core_asks_for_in_matters_of_the_group_is_passed_on(bench: Bench) -> None:
    asked = [Renew(), SlotGiven("s3", 77, 3), HandedOver(2), Halt("over")]
    bench.perform(*asked)
    assert bench.asked == asked


def test_a_message_that_many_spools_wait_for_is_read_once_in_a_tick(bench: Bench) -> None:
    parts = [AdoptPart((1, host, 2), 0, 1, ((-1, SpoolItem(1, 1, None, len(item(1)))),)) for host in range(5)]
    bench.perform(*(SendPeer(2, part) for part in parts))
    assert (len(bench.dealer.sent), bench.reads) == (5, [1])
    bench.perform(SendPeer(2, parts[0]))
    assert bench.reads == [1, 1]


def test_what_is_lean_goes_as_it_is(bench: Bench) -> None:
    header = Row(1, 2, (), 9, Kind.MAIL, 1, 5, 2, (1, 0), 0, None, 70, 2, True)
    bench.perform(Broadcast(DataBatch(1, (row(1, dropped=True), header))))
    batch = decode_peer(bench.dealer.sent[-1])
    assert isinstance(batch, DataBatch)
    assert [(one.item, one.size, one.lean) for one in batch.rows] == [(item(1), len(item(1)), False), (None, 70, True)]
    view = View((1, 2), serving=False)
    bench.perform(SendPeer(2, Snapshot(0, 0, 0, ((2, header),), (), (), False, (), 0, 0, view)))
    part = decode_peer(bench.dealer.sent[-1])
    assert isinstance(part, Snapshot)
    assert part.rows[0][1].lean
    assert bench.reads == [1]


def test_bodies_are_read_back_and_those_that_are_gone_left_out(bench: Bench) -> None:
    there, gone, held = (SpoolItem(1, n, what, 9) for n, what in ((3, None), (7, None), (8, b"here")))
    bench.perform(SendPeer(2, Body(1, 5, (there, gone, held), (9,))))
    frame = decode_peer(bench.dealer.sent[-1])
    assert isinstance(frame, Body)
    assert [(one.n, one.item) for one in frame.bodies] == [(3, item(3)), (8, b"here")]
    assert (frame.since, frame.lacking) == (5, (9,))


def live(left: int) -> SendLive:
    frame = LiveMsg(
        last=3, id=(9, 2), sender="ann", incarnation32=5, kind=Kind.BROADCAST, topic="", left=left, at=0, body=b"here"
    )
    return SendLive([A, B], frame)


def test_what_is_live_and_has_become_over_in_the_tick_is_not_sent(bench: Bench) -> None:
    bench.live.now = lambda: 5_100
    bench.outputs.perform([live(5_000), live(4_999)], False, 100)
    assert [channel for channel, _ in bench.router.sent] == [A, B]
    assert bench.tally.counters["live_over"] == 1


def test_a_tick_leaves_room_in_the_queues_for_what_is_durable(bench: Bench) -> None:
    bench.live.now = lambda: 0
    bench.outputs.perform([live(5_000) for _ in range(LIVE_FRAMES_MAX + 2)], False)
    assert len(bench.router.sent) == 2 * LIVE_FRAMES_MAX
    assert bench.tally.counters["live_untaken"] == 4
    bench.outputs.perform([live(5_000)], False)
    assert len(bench.router.sent) == 2 * LIVE_FRAMES_MAX + 2
