"""The DEALERs to the peers: new when a peer moves, kept while it announces a key, tried again when refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from peer_rig import unpublished

from roamcast.middleware.link_effects import Identity, Member, SayLink
from roamcast.middleware.link_peer import PROBE, PROBES_MAX
from roamcast.middleware.links import Links
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.live_port import LivePort
from roamcast.mss_station.peer_connections import PAUSE, PeerConnections
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.tally import Tally
from roamcast.transport.sockets import UNKNOWN_KEY, UNREACHABLE, UP, WRONG_KEY
from roamcast.transport.station_files import StationCard

DALE = StationCard("dale", 4, "g", 104, "tcp://dale:1", "tcp://dale:2", "key-1", "")
CREEK = StationCard("creek", 5, "g", 105, "tcp://creek:1", "tcp://creek:2", "key-c", "")


class Loop:
    """What the server is to the connections: a clock, and sockets that are polled."""

    def __init__(self) -> None:
        self.time = 0
        self.watched: list[Any] = []
        self.clock = SimpleNamespace(now=lambda: self.time)

    def watch(self, polled: Any, read: Callable[[], object]) -> None:
        self.watched.append(polled)

    def unwatch(self, polled: Any) -> None:
        self.watched.remove(polled)


class Wires:
    """Connections of a station with their surroundings; every connection made is in `made`."""

    def __init__(self, router: Any, make_connection: Callable[[], tuple[Any, Any]], routes: dict[str, str]) -> None:
        self._make = make_connection
        self.loop = Loop()
        links = Links(Identity("g", "hill", 3, 1, 1, 1), [], {}, lambda slot: 0, False)
        tally = Tally()
        live = LivePort(links, tally, Clock())
        published = unpublished(links, tally)
        self.peers = PeerPort(
            router, links, tally, {}.get, {}.get, lambda slot, seen: None, lambda *_: None, live, published
        )
        self.keys = {"dale": ("key-1",), "creek": ("key-c",)}
        self.made: list[tuple[str, str, Any, Any]] = []
        self.live: list[tuple[str, str, Any]] = []
        self.connections = PeerConnections(
            self.loop,  # type: ignore[arg-type]
            self.peers,
            self.connect,
            self.connect_live,
            routes,
            {},
            lambda id: self.keys[id],
        )

    def connect(self, endpoint: str, key: str) -> tuple[Any, Any]:
        dealer, monitor = self._make()
        self.made.append((endpoint, key, dealer, monitor))
        return dealer, monitor

    def connect_live(self, endpoint: str, key: str) -> Any:
        self.live.append((endpoint, key, self._make()[0]))
        return self.live[-1][2]

    def hear(self, slot: int, what: str) -> None:
        """The monitor of the newest connection tells something."""
        self.made[-1][3].told = [what]
        self.peers.watch_dealer(slot, self.loop.time)

    def where(self) -> list[tuple[str, str]]:
        return [(endpoint, key) for endpoint, key, _, _ in self.made]

    def closed(self) -> list[bool]:
        assert [made[:2] for made in self.live] == [made[:2] for made in self.made]
        assert [live.closed for *_, live in self.live] == [dealer.closed for _, _, dealer, _ in self.made]
        return [dealer.closed and monitor.closed for _, _, dealer, monitor in self.made]


@pytest.fixture
def make_wires(router: Any, make_connection: Callable[[], tuple[Any, Any]]) -> Callable[..., Wires]:
    return lambda **routes: Wires(router, make_connection, routes)


def test_peers_come_and_go(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.connections.follow([DALE])
    wires.connections.follow([DALE, CREEK])
    assert wires.where() == [("tcp://dale:2", "key-1"), ("tcp://creek:2", "key-c")] and len(wires.loop.watched) == 4
    assert [link["id"] for link in wires.peers.links.status(0)] == ["dale", "creek"]
    wires.connections.follow([CREEK])
    assert wires.closed() == [True, False] and len(wires.loop.watched) == 2
    assert [link["id"] for link in wires.peers.links.status(0)] == ["creek"]
    wires.connections.close()
    assert wires.closed() == [True, True] and wires.loop.watched == []


def test_a_peer_that_has_moved_is_connected_anew(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.connections.follow([DALE, CREEK])
    wires.connections.follow([replace(DALE, stations="tcp://new:2"), CREEK])
    assert wires.where()[2:] == [("tcp://new:2", "key-1")] and wires.closed() == [True, False, False]


def test_another_station_in_its_slot_is_connected_anew(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.connections.follow([DALE])
    wires.keys["glen"] = ("key-1",)
    wires.connections.follow([replace(DALE, id="glen")])
    assert len(wires.made) == 2 and wires.closed() == [True, False]


def test_an_announced_key_breaks_no_link(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.connections.follow([DALE])
    wires.keys["dale"] = ("key-2", "key-1")
    wires.connections.follow([replace(DALE, key="key-2")])
    wires.hear(4, UP)
    wires.loop.time = 10 * PAUSE
    wires.connections.look()
    assert len(wires.made) == 1
    wires.keys["dale"] = ("key-2",)
    wires.connections.follow([replace(DALE, key="key-2")])
    assert wires.where()[1:] == [("tcp://dale:2", "key-2")]


def test_a_peer_under_another_key_is_tried_with_its_other_keys(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.keys["dale"] = ("key-2", "key-1")
    wires.connections.follow([replace(DALE, key="key-2")])
    for _ in range(2):
        wires.hear(4, WRONG_KEY)
        wires.loop.time += PAUSE
        wires.connections.look()
    assert [key for _, key in wires.where()] == ["key-2", "key-1", "key-2"]


def test_a_linked_peer_that_answers_no_more_is_called_anew(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires()
    wires.connections.follow([DALE])
    wires.hear(4, UP)
    (said,) = Links(Identity("g", "dale", 4, 104, 1, 1), [Member(3, "hill", 1)], {}, lambda slot: 0, False).expire(0, 0)
    assert isinstance(said, SayLink)
    wires.peers.links.answered(4, said.frame, 0, 0)
    for i in range(1, PROBES_MAX + 2):
        wires.connections.look()
        assert len(wires.made) == 1 and wires.peers.links.is_linked(4)
        wires.peers.expire(i * PROBE, 0)
    wires.connections.look()
    assert wires.where() == [("tcp://dale:2", "key-1")] * 2 and wires.closed() == [True, False]
    wires.connections.look()
    assert len(wires.made) == 2


def test_a_peer_that_refuses_is_called_again_and_one_that_is_away_calls_itself(
    make_wires: Callable[..., Wires],
) -> None:
    """libzmq connects again by itself, but never after its key was refused."""
    wires = make_wires()
    wires.connections.follow([DALE])
    wires.hear(4, UNREACHABLE)
    wires.loop.time = PAUSE
    wires.connections.look()
    assert len(wires.made) == 1
    wires.hear(4, UNKNOWN_KEY)
    wires.connections.look()
    assert len(wires.made) == 2 and wires.closed() == [True, False]
    wires.hear(4, UNKNOWN_KEY)
    wires.connections.look()
    assert len(wires.made) == 2, "not at once"


def test_a_route_of_this_station_goes_before_the_record(make_wires: Callable[..., Wires]) -> None:
    wires = make_wires(dale="tcp://127.0.0.1:7999")
    wires.connections.follow([DALE])
    wires.connections.follow([replace(DALE, stations="tcp://new:2")])
    assert wires.where() == [("tcp://127.0.0.1:7999", "key-1")]
