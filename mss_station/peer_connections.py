"""The DEALERs to the active peers: made, replaced and given up while the station runs, as the group's records say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import zmq

from roamcast.middleware.link_effects import Member, Seen
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.server import Server
from roamcast.transport.sockets import NOT_NOW, UNKNOWN_KEY, WRONG_KEY, LinkMonitor
from roamcast.transport.station_files import StationCard

Connect = Callable[[str, str], tuple[zmq.Socket[bytes], LinkMonitor]]
"""(endpoint, CURVE public key of the peer) -> a DEALER on its way, and its monitor."""
ConnectLive = Callable[[str, str], zmq.Socket[bytes]]
"""The same -> a DEALER on its way, for live messages."""

REFUSED: Final = (UNKNOWN_KEY, WRONG_KEY, NOT_NOW)
PAUSE: Final = 2 * SECOND
"""Until a peer that refused the connection is called again: libzmq does not do so by itself."""


@dataclass(slots=True)
class _Connection:
    id: str
    endpoint: str
    key: str
    dealer: zmq.Socket[bytes]
    monitor: LinkMonitor
    live: zmq.Socket[bytes]
    since: int


class PeerConnections:
    """Connections by slot.

    Args:
        routes: endpoints that this station uses in the place of those in the records, by station id.
        seen: newest life seen of each slot.
        keys_of: CURVE public keys of a peer, newest first.
    """

    def __init__(
        self,
        server: Server,
        peers: PeerPort,
        connect: Connect,
        connect_live: ConnectLive,
        routes: Mapping[str, str],
        seen: Mapping[int, Seen],
        keys_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._server = server
        self._peers = peers
        self._connect = connect
        self._connect_live = connect_live
        self._routes = routes
        self._seen = seen
        self._keys_of = keys_of
        self._open: dict[int, _Connection] = {}

    def follow(self, cards: Sequence[StationCard]) -> None:
        """The active peers are these: connect to new ones, and anew to those that have moved or lost their key."""
        wanted = {card.slot: card for card in cards}
        for slot in [slot for slot, open in self._open.items() if not self._holds(open, wanted.get(slot))]:
            self._close(slot)
        self._peers.links.set_members([Member(card.slot, card.id, card.generation) for card in cards], self._seen)
        for slot, card in wanted.items():
            if slot not in self._open:
                self._connect_to(slot, card.id, self._endpoint(card), card.key)
        self._peers.published.check()

    def look(self) -> None:
        """Call again who has refused the connection, or does not answer on it; to be called about once a second.

        A peer that is about to change its key has the new one in its record, and serves under the one before as yet.
        """
        now = self._server.clock.now()
        for slot, one in list(self._open.items()):
            if self._peers.reasons.get(slot) in REFUSED and now - one.since >= PAUSE:
                keys = self._keys_of(one.id)
                turn = keys.index(one.key) + 1 if one.key in keys else 0
                self._call_again(slot, one, keys[turn % len(keys)])
            elif self._peers.links.is_mute(slot):
                self._call_again(slot, one, one.key)

    def reconnect(self) -> None:
        """This station has other keys: call everybody again."""
        self._peers.published.close_publisher()
        for slot, one in list(self._open.items()):
            self._call_again(slot, one, one.key)

    def addresses(self) -> dict[str, tuple[str, str]]:
        """By id of each peer: endpoint, and the key under which it is called now."""
        return {one.id: (one.endpoint, one.key) for one in self._open.values()}

    def close(self) -> None:
        """Give all connections up."""
        for slot in list(self._open):
            self._close(slot)
        self._peers.published.close()

    def _endpoint(self, card: StationCard) -> str:
        return self._routes.get(card.id, card.stations)

    def _holds(self, open: _Connection, card: StationCard | None) -> bool:
        """Whether the connection is still one to the peer in its slot."""
        if card is None or card.id != open.id:
            return False
        return open.endpoint == self._endpoint(card) and open.key in self._keys_of(card.id)

    def _call_again(self, slot: int, one: _Connection, key: str) -> None:
        self._close(slot)
        self._connect_to(slot, one.id, one.endpoint, key)

    def _connect_to(self, slot: int, id: str, endpoint: str, key: str) -> None:
        (dealer, monitor), live = self._connect(endpoint, key), self._connect_live(endpoint, key)
        server = self._server
        self._open[slot] = _Connection(id, endpoint, key, dealer, monitor, live, server.clock.now())
        self._peers.add(slot, dealer, monitor)
        self._peers.live.add(slot, live)
        self._peers.published.add(slot, endpoint, key)
        server.watch(monitor.socket, lambda: server.watch_dealer(slot))
        server.watch(dealer, lambda: server.drain_dealer(slot))

    def _close(self, slot: int) -> None:
        closed = self._open.pop(slot)
        self._peers.links.disconnected(slot)
        self._peers.remove(slot)
        self._peers.live.remove(slot)
        self._peers.published.remove(slot)
        for polled in (closed.monitor.socket, closed.dealer):
            self._server.unwatch(polled)
        closed.monitor.close()
        closed.dealer.close(0)
        closed.live.close(0)
