"""What a station has between itself and its peers, on real sockets with CURVE and ZAP, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import zmq

from roamcast.middleware.link_effects import Identity, Member
from roamcast.middleware.links import Links
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.live_port import LivePort
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.publish_port import PublishPort, PublishSockets
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import CurveKeys, generate
from roamcast.transport.publish_sockets import PUBLISH
from roamcast.transport.sockets import new_context
from roamcast.transport.station_files import StationCard, StationConfig
from roamcast.transport.station_sockets import STATIONS, bind_stations, connect_live, connect_peer
from roamcast.transport.zap import ZapResponder


def unpublished(links: Links, tally: Tally) -> PublishPort:
    """Of a station that never publishes and has nobody to subscribe to."""
    loop: Any = SimpleNamespace(clock=Clock(), watch=lambda *_: None)
    return PublishPort(links, tally, loop, cast(PublishSockets, None), 1, lambda: 1_000, frozenset)


LOOK_S = 0.1
"""Ten times as often as a station does."""


class Rig:
    """One end: a ROUTER, a PublishPort, DEALERs to the peers that `meet` names.

    Args:
        slot: its id is "s" and the slot.
        above: with more peers than this it publishes.
        starts: counts its lives.
        endpoint: where its ROUTER is bound.
    """

    def __init__(
        self,
        slot: int,
        above: int = 0,
        keys: CurveKeys | None = None,
        starts: int = 1,
        endpoint: str = "tcp://127.0.0.1:*",
        publish_port: int | None = None,
    ) -> None:
        self.slot, self.above = slot, above
        self.keys = keys or generate()
        self.context = new_context()
        self.members: dict[str, int] = {}
        """CURVE keys that are let in, with their slots."""
        self.zap = ZapResponder(self.context, self._allow, lambda *_: None)
        self.router = bind_stations(self.context, endpoint, self.keys)
        self.endpoint = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        card = StationCard(f"s{slot}", slot, "g", 100 + slot, "tcp://127.0.0.1:1", self.endpoint, self.keys.public, "")
        self.config = StationConfig(card, self.keys, card.hosts, self.endpoint, None, None, {}, None, publish_port)
        self.clock, self.tally = Clock(), Tally()
        self._read: dict[Any, Callable[[], object]] = {}
        self.poller = zmq.Poller()
        self.fed: list[tuple[int, Any]] = []
        me = Identity("g", card.id, slot, card.generation, 1_000 * starts + slot, starts)
        self.links = Links(me, [], {}, lambda slot: 0, False)
        sockets = PublishSockets(self.context, lambda: self.config)
        keys_of_peers = lambda: frozenset(self.members)  # noqa: E731
        self.published = PublishPort(self.links, self.tally, self, sockets, slot, lambda: self.above, keys_of_peers)
        live = LivePort(self.links, self.tally, self.clock)
        self.port = PeerPort(
            self.router,
            self.links,
            self.tally,
            lambda id: int(id[1:]) if int(id[1:]) in self.members.values() else None,
            lambda id: None,
            lambda slot, seen: None,
            lambda *_: None,
            live,
            self.published,
        )
        self.published.feed = self.feed
        self.watch(self.zap.socket, self.zap.answer)
        self.watch(self.router, self._drain)
        self._looked = 0.0
        self._open: list[tuple[Any, Any, Any]] = []

    def watch(self, polled: Any, read: Callable[[], object]) -> None:
        self._read[polled] = read
        self.poller.register(polled, zmq.POLLIN)

    def _allow(self, domain: str, key: str, address: str) -> str | None:
        return f"station:s{self.members[key]}" if domain in (STATIONS, PUBLISH) and key in self.members else None

    def feed(self, slot: int, frame: Any) -> None:
        """A frame of a linked peer."""
        self.fed.append((slot, frame))

    def _drain(self) -> None:
        self.port.drain(200, self.clock.now(), self.clock.wall(), self.feed)

    def meet(self, peers: Mapping[int, tuple[str, str]]) -> None:
        """Connect to these peers: (endpoint, CURVE key) by slot."""
        self.members |= {key: slot for slot, (_, key) in peers.items()}
        old = [Member(slot, f"s{slot}", 100 + slot) for slot in self.members.values()]
        self.links.set_members(old, {})
        for slot, (endpoint, key) in peers.items():
            dealer, monitor = connect_peer(self.context, endpoint, self.keys, key)
            live = connect_live(self.context, endpoint, self.keys, key)
            self._open.append((monitor, dealer, live))
            self.port.add(slot, dealer, monitor)
            self.port.live.add(slot, live)
            self.published.add(slot, endpoint, key)
            self.watch(monitor.socket, lambda slot=slot: self.port.watch_dealer(slot, self.clock.now()))  # type: ignore[misc]
            self.watch(dealer, lambda slot=slot: self._drain_dealer(slot))  # type: ignore[misc]

    def _drain_dealer(self, slot: int) -> None:
        self.port.drain_dealer(slot, self.clock.now(), self.clock.wall(), self.feed)

    def leave(self, key: str) -> None:
        """The peer with this key is no member any more."""
        self.published.remove(self.members.pop(key))
        self.published.check()

    def rekey(self, keys: CurveKeys) -> None:
        """Other keys from now on, for what is opened next."""
        self.keys, self.config = keys, replace(self.config, keys=keys)

    def turn(self, timeout_ms: int = 5) -> None:
        """One round of the loop."""
        ready = dict(self.poller.poll(timeout_ms))
        for polled, read in list(self._read.items()):
            if polled in ready:
                read()
        self.port.expire(self.clock.now(), self.clock.wall())
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self.published.look()

    def close(self) -> None:
        """End it at once, as a killed process ends."""
        for slot in list(self.members.values()):
            self.published.remove(slot)
        self.published.close()
        for monitor, dealer, live in self._open:
            monitor.close()
            dealer.close(0)
            live.close(0)
        self.zap.close()
        self.router.close(0)
        self.context.destroy(0)


def introduce(*rigs: Rig) -> None:
    """All of these know each other."""
    for rig in rigs:
        rig.meet({other.slot: (other.endpoint, other.keys.public) for other in rigs if other is not rig})
