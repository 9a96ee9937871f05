"""Broadcasts by PUB/SUB on real sockets: who hears them, who gets them otherwise, and who gets nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from peer_rig import Rig, introduce

from roamcast.middleware.publication import EVERYBODY, Publication
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.station_frames import DataBatch, Nack
from roamcast.mss_station import publish_port
from roamcast.mss_station.many_sockets import ManySockets
from roamcast.transport.curve import generate
from roamcast.transport.publish_sockets import bind_publisher, connect_subscriber, prefix
from roamcast.transport.sockets import new_context
from roamcast.transport.station_codec import encode_peer


def rows(n: int) -> bytes:
    row = Row(1, n, (), 1, Kind.BROADCAST, 1, 1, 1, (1, 1), 0, b"x", 1)
    return encode_peer(DataBatch(1, (row,)))


class World:
    """Stations' sockets, all turned until something holds."""

    def __init__(self) -> None:
        self.rigs: list[Rig] = []

    def make(self, slot: int, **options: Any) -> Rig:
        self.rigs.append(Rig(slot, **options))
        return self.rigs[-1]

    def until(self, condition: Callable[[], Any], timeout_s: float = 15.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            for rig in self.rigs:
                rig.turn(2)
            assert time.monotonic() < end

    def linked(self, *rigs: Rig) -> None:
        introduce(*rigs)
        self.until(lambda: all(link["linked"] for rig in rigs for link in rig.links.status(0)))

    def heard(self, *rigs: Rig) -> None:
        self.until(lambda: all(len(set(rig.published.status()[1])) == len(rigs) - 1 for rig in rigs))

    def end(self, rig: Rig) -> None:
        self.rigs.remove(rig)
        rig.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for rig in made.rigs:
        rig.close()


def publication(rig: Rig) -> Publication:
    found = rig.published._publication
    assert found is not None
    return found


def counted(rig: Rig, name: str) -> int:
    return rig.tally.counters.get(name, 0)


def numbers(rig: Rig) -> list[int]:
    return [row.n for _, frame in rig.fed for row in frame.rows]


def test_a_frame_is_published_once_for_all_who_hear_it(world: World) -> None:
    one, two, three = (world.make(slot) for slot in (1, 2, 3))
    world.linked(one, two, three)
    one.port.broadcast(rows(1))
    world.until(lambda: two.fed and three.fed)
    assert counted(one, "published") == 0, "nobody has said yet that it hears"
    world.heard(one, two, three)
    assert one.published.status()[1:] == ({2, 3}, {2, 3})
    one.port.broadcast(rows(2))
    world.until(lambda: numbers(two) == numbers(three) == [1, 2])
    assert counted(one, "published") == 1 and counted(two, "heard_published") == counted(three, "heard_published") == 1


def test_a_beat_goes_out_where_no_frame_has(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    world.rigs.remove(two)  # it reads no more
    subscription = two.published._peers[1].open
    assert subscription is not None
    while subscription.socket.poll(50):
        subscription.socket.recv()
    lengths = []
    for frames in (0, 2, 0):
        for n in range(frames):
            one.port.broadcast(rows(n + 1))
        one.published.look()
        while subscription.socket.poll(200):
            lengths.append(len(subscription.socket.recv()))
    beat, frame = len(prefix(0, 0)), len(prefix(0, 0)) + len(rows(1))
    assert lengths == [beat, frame, frame, beat]
    two.close()


def test_a_small_audience_is_sent_to_one_by_one_and_a_larger_one_has_its_own_subscription(world: World) -> None:
    one, two, three, four = everybody = [world.make(slot, above=1) for slot in (1, 2, 3, 4)]
    world.linked(*everybody)
    world.heard(*everybody)
    one.port.broadcast(rows(1), (2,))
    one.port.broadcast(rows(2), (2, 3))
    world.until(lambda: numbers(two) == [1, 2] and numbers(three) == [2])
    number = publication(one).number((2, 3))
    world.until(lambda: {2, 3} == set(publication(one).hearers(number)))
    assert counted(one, "published") == 0
    one.port.broadcast(rows(3), (2, 3))
    one.port.broadcast(rows(4))
    world.until(lambda: numbers(two)[2:] == numbers(three)[1:] == [3, 4] and numbers(four) == [4])
    assert counted(one, "published") == 2 and counted(three, "heard_published") == 2
    one.port.broadcast(rows(5), (2,))
    assert publication(one).numbers() == [EVERYBODY, number], "there is no audience of one"


def test_few_peers_are_published_to_by_nobody_and_the_setting_counts_at_once(world: World) -> None:
    one, two = (world.make(slot, above=1) for slot in (1, 2))
    world.linked(one, two)
    assert one.published.status()[0] is None
    for rig in (one, two):
        rig.above = 0
    world.heard(one, two)
    one.above = 1
    one.published.check()
    one.port.broadcast(rows(1))
    world.until(lambda: numbers(two) == [1])
    assert counted(two, "heard_published") == 0


def test_who_falls_silent_is_not_heard_and_gets_all_otherwise(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    one.published.look = lambda: None  # type: ignore[method-assign]  # no beat any more
    world.until(lambda: not one.published.status()[1])
    asked = [frame.want for slot, frame in one.fed if slot == 2]
    assert asked == [(1,)], "the core is asked for all claims: some may have been missed"
    one.port.broadcast(rows(1))
    world.until(lambda: any(isinstance(frame, DataBatch) for _, frame in two.fed))
    assert counted(one, "published") == 0


def test_a_blocked_port_leaves_all_as_it_was(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    publish = one.published._sockets.subscribe
    one.published._sockets.subscribe = lambda endpoint, key, offer: publish("tcp://127.0.0.1:1", key, offer)  # type: ignore[method-assign]
    two.published._sockets.bind = lambda: (two.context.socket(zmq.PUB), 1)  # type: ignore[method-assign]
    world.linked(one, two)
    world.until(lambda: two.published.status()[2] == {1})
    two.port.broadcast(rows(1))
    world.until(lambda: one.fed)
    assert two.published.status() == (1, frozenset(), {1}) and counted(two, "published") == 0


def test_a_killed_publisher_comes_back_with_another_token(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    token, keys, endpoint = publication(one).token, one.keys, one.endpoint
    world.end(one)
    again = world.make(1, keys=keys, starts=2, endpoint=endpoint)
    again.meet({2: (two.endpoint, two.keys.public)})
    world.until(lambda: two.links.status(0)[0]["starts"] == 2)
    assert not two.published.status()[2], "what the former life has published counts no more"
    world.until(lambda: again.published.status()[1] == {2} and two.published.status()[2] == {1})
    assert publication(again).token != token
    again.port.broadcast(rows(7))
    world.until(lambda: numbers(two) == [7])
    assert counted(two, "heard_published") == 1


def test_a_killed_subscriber_is_sent_all_as_soon_as_it_is_back(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    keys, endpoint = two.keys, two.endpoint
    world.end(two)
    again = world.make(2, keys=keys, starts=2, endpoint=endpoint)
    again.meet({1: (one.endpoint, one.keys.public)})
    world.until(lambda: one.links.status(0)[0]["starts"] == 2 and one.links.is_linked(2) and again.links.is_linked(1))
    one.port.broadcast(rows(1))
    world.until(lambda: numbers(again) == [1], 3)


def test_what_a_former_life_has_published_is_not_taken_in_the_next(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    two.published.lives_anew(1)
    one.port.broadcast(rows(1))
    two_sees = two.published._peers[1]
    world.until(lambda: counted(two, "published_without_link") or two_sees.open is None)
    assert numbers(two) == []
    one.published.begins_anew(2)
    world.until(lambda: two.published.status()[2] == {1})
    one.port.broadcast(rows(2))
    world.until(lambda: 2 in numbers(two))
    assert numbers(two) == [2]


def test_a_link_that_is_asked_after_forgets_nothing(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    asked = two.links._peers[1]
    asked.due = 0
    world.until(lambda: asked.due and not asked.unanswered)
    assert set(one.published.status()[1]) == {2}


def test_nothing_counts_without_the_link(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    two.links.disconnected(1)
    one.port.broadcast(rows(1))
    world.until(lambda: counted(two, "published_without_link"))
    assert two.fed == []


def test_only_rows_and_claims_are_published_and_only_under_the_token(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    one.port.broadcast(encode_peer(Nack(1, 1, 1)))
    one.port.broadcast(b"\xff")
    world.until(lambda: counted(two, "reject.peer.published") and counted(two, "reject.peer.bad-frame"))
    assert two.fed == []


def test_more_frames_than_one_turn_takes_all_come(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system's poller sees of a socket is an edge: what was left there must be remembered."""
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    many = 200
    monkeypatch.setattr(publish_port, "FRAMES_MAX", 3)
    for n in range(1, many + 1):
        one.port.broadcast(rows(n))
    two.published.look = lambda: None  # type: ignore[method-assign]
    world.until(lambda: len(two.fed) == many)
    assert numbers(two) == list(range(1, many + 1))


@pytest.mark.parametrize("who", ["stranger", "member under another station's key", "former member"])
def test_outsiders_get_nothing(world: World, who: str) -> None:
    one, two, three = (world.make(slot) for slot in (1, 2, 3))
    world.linked(one, two, three)
    world.heard(one, two, three)
    made = publication(one)
    keys = generate() if who == "stranger" else three.keys
    asked = two.keys.public if who.startswith("member") else one.keys.public
    context = new_context()
    spy = connect_subscriber(context, f"tcp://127.0.0.1:{made.port}", keys, asked, made.token, [EVERYBODY])
    spy.setsockopt(zmq.SUBSCRIBE, b"")
    if who == "former member":
        world.until(lambda: spy.poll(0))
        one.leave(three.keys.public)
        while spy.poll(50):
            spy.recv()
        assert publication(one) is not made
    for n in range(1, 20):
        one.port.broadcast(rows(n))
        for rig in world.rigs:
            rig.turn(5)
    world.until(lambda: 19 in numbers(two))
    assert spy.poll(100) == 0
    context.destroy(0)


def test_where_nobody_checks_keys_nobody_gets_anything() -> None:
    context, keys = new_context(), generate()
    socket, port = bind_publisher(context, "tcp://127.0.0.1:*", keys)
    spy = connect_subscriber(context, f"tcp://127.0.0.1:{port}", generate(), keys.public, 1, [EVERYBODY])
    for _ in range(20):
        socket.send(prefix(1, EVERYBODY))
        assert spy.poll(20) == 0
    context.destroy(0)


def test_a_withdrawn_key_is_cut_off_and_a_new_one_is_in(world: World) -> None:
    one, two = (world.make(slot) for slot in (1, 2))
    world.linked(one, two)
    world.heard(one, two)
    token, new = publication(one).token, generate()
    one.members = {new.public: 2}
    two.rekey(new)
    one.published.check()
    assert publication(one).token != token and not one.published.status()[1]


def test_a_port_in_use_is_told_and_all_goes_one_by_one(world: World, caplog: pytest.LogCaptureFixture) -> None:
    context = new_context()
    taken, port = bind_publisher(context, "tcp://127.0.0.1:*", generate())
    one, two = (world.make(slot, publish_port=port if slot == 1 else None) for slot in (1, 2))
    world.linked(one, two)
    world.until(lambda: "cannot_publish" in caplog.text)
    one.port.broadcast(rows(1))
    world.until(lambda: numbers(two) == [1])
    taken.close(0)
    world.until(lambda: one.published.status()[:2] == (port, {2}))
    context.destroy(0)


def test_many_sockets_cost_one(world: World) -> None:
    """A beat is a frame of its prefix alone; a socket that is given up is read no more."""
    context = new_context()
    pub, sub = context.socket(zmq.PUB), context.socket(zmq.SUB)
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    sub.setsockopt(zmq.SUBSCRIBE, prefix(1, 0))
    sub.connect(f"tcp://127.0.0.1:{port}")
    read: list[bytes] = []

    def drain() -> bool:
        try:
            read.append(sub.recv(zmq.NOBLOCK))
        except zmq.Again:
            return True
        return False

    many = ManySockets()
    many.add(sub, drain)
    poller = zmq.Poller()
    poller.register(many.descriptor, zmq.POLLIN)
    end = time.monotonic() + 10
    while not read:
        pub.send(prefix(1, 0))
        if poller.poll(20):
            many.read()
        assert time.monotonic() < end
    for _ in range(5):
        pub.send(prefix(1, 0))
    count = len(read) + 5
    while len(read) < count:
        assert poller.poll(5_000)
        many.read()
    many.remove(sub)
    many.read()  # it had been left in the midst
    pub.send(prefix(1, 0))
    assert poller.poll(50) == [] and len(read) == count
    many.close()
    context.destroy(0)
