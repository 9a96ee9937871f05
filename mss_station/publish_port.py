"""Broadcasts over PUB/SUB where a station has many peers: its PUB socket, and a SUB socket to each peer that has one.

Only rows and CLAIMS go this way. They may be lost, doubled and overtaken: rows are numbered, what CLAIMS say is true
for ever, and the view of the group in a CLAIMS that was overtaken is put right by the next. Live messages keep
connections of their own, whose short queues must not be those of what is durable; all else is for one peer. What a SUB
socket receives is from the station whose key it has connected to, and counts while the link with that one stands.
Sockets are opened and closed in `look` and `check` alone, never while one is read.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import zmq

from roamcast.middleware.links import Links
from roamcast.middleware.publication import (
    EVERYBODY,
    Audience,
    Hearing,
    Publication,
    Publish,
    PublishFrame,
    Reception,
    deaf,
)
from roamcast.middleware.station_frames import Claims, DataBatch, StationFrame
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.many_sockets import ManySockets
from roamcast.mss_station.tally import Tally
from roamcast.transport.errors import CannotBind, DecodeError
from roamcast.transport.publish_sockets import (
    PREFIX_BYTES,
    at_port,
    bind_publisher,
    connect_subscriber,
    prefix,
    read_prefix,
)
from roamcast.transport.station_codec import decode_peer, encode_peer
from roamcast.transport.station_files import StationConfig

NOBLOCK: Final = int(zmq.NOBLOCK)
FRAMES_MAX: Final = 64
"""Taken from one peer until the others have had their turn."""

Feed = Callable[[int, Any], None]
Socket = zmq.Socket[bytes]


class Loop(Protocol):
    """What polls the sockets."""

    clock: Clock

    def watch(self, polled: Socket | int, read: Callable[[], object]) -> None:
        """Call `read` when there is something to read."""


class PublishSockets:
    """Makes the sockets.

    Args:
        config: the station as it is configured now; its keys may be others later.
    """

    def __init__(self, context: zmq.Context[Socket], config: Callable[[], StationConfig]) -> None:
        self._context = context
        self._config = config

    def bind(self) -> tuple[Socket, int]:
        """The PUB socket, and its port. Raises CannotBind."""
        config = self._config()
        return bind_publisher(self._context, at_port(config.bind_stations, config.publish_port), config.keys)

    def subscribe(self, endpoint: str, key: str, offer: Publish) -> Socket:
        """A SUB socket to the peer with this CURVE key, whose endpoint for stations is given."""
        where = at_port(endpoint, offer.port)
        return connect_subscriber(self._context, where, self._config().keys, key, offer.token, offer.audiences)


@dataclass(slots=True)
class _Subscription:
    socket: Socket
    state: Reception


@dataclass(slots=True)
class _Peer:
    endpoint: str
    key: str
    offer: Publish | None = None
    """That came since the last look."""
    open: _Subscription | None = None
    void: bool = False
    """The subscription belongs to a former life of the peer."""


class PublishPort:
    """Of one station process.

    Args:
        own: slot of this station.
        above: with more peers than this the station publishes.
        keys: CURVE keys of all active peers, those of a rotation that is under way among them.
    """

    def __init__(
        self,
        links: Links,
        tally: Tally,
        loop: Loop,
        sockets: PublishSockets,
        own: int,
        above: Callable[[], int],
        keys: Callable[[], frozenset[str]],
    ) -> None:
        self._links = links
        self._tally = tally
        self._now = loop.clock.now
        self._sockets = sockets
        self._own = own
        self._many = ManySockets()
        loop.watch(self._many.descriptor, self._many.read)
        self._above = above
        self._keys = keys
        self._peers: dict[int, _Peer] = {}
        self._publisher: Socket | None = None
        self._publication: Publication | None = None
        self._most_alone = 0
        """So many peers are sent to one by one."""
        self._fresh: set[int] = set()
        """Audiences that had a frame since the last look."""
        self._cannot = False
        self._admitted: frozenset[str] = frozenset()
        """Keys under which anybody may have connected to the PUB socket."""
        self.send: Callable[[int, bytes], bool] = lambda slot, data: False
        """Sends to one linked peer."""
        self.feed: Feed = lambda slot, frame: None
        """Takes what peers have published."""

    # ---- peers ----

    def add(self, slot: int, endpoint: str, key: str) -> None:
        """The peer is reached at this endpoint, under this key."""
        self._peers[slot] = _Peer(endpoint, key)

    def remove(self, slot: int) -> None:
        """The connection to the peer is given up."""
        self._hang_up(self._peers.pop(slot))
        self.begins_anew(slot)

    def begins_anew(self, slot: int) -> None:
        """The peer has introduced itself: it is sent all until it says what it hears."""
        if self._publication is not None:
            self._publication.forget(slot)

    def lives_anew(self, slot: int) -> None:
        """A new life of the peer: what the former one has published counts no more."""
        if slot in self._peers:
            self._peers[slot].void, self._peers[slot].offer = True, None

    # ---- out ----

    def broadcast(self, data: bytes, to: Audience, targets: Sequence[int]) -> Sequence[int]:
        """Publish a frame; returns the slots that it must be sent to one by one.

        Args:
            to: the audience; a small one is always sent to one by one.
            targets: the slots of the audience.
        """
        if self._publisher is None or self._publication is None or len(targets) <= self._most_alone:
            return targets
        number = self._publication.number(to)
        alone = deaf(targets, self._publication.hearers(number))
        if len(alone) < len(targets):
            self._tally.count("published")
            self._publisher.send(prefix(self._publication.token, number) + data, NOBLOCK)
            self._fresh.add(number)
        return alone

    # ---- in ----

    def take(self, slot: int, frame: PublishFrame) -> None:
        """What a linked peer says."""
        if isinstance(frame, Hearing):
            if self._publication is not None and self._publication.take(slot, frame, self._now()):
                self.feed(slot, Claims(False, (), (), (), 0, 0, want=(self._own,)))  # it may have missed some
        elif slot in self._peers:
            self._peers[slot].offer = frame

    def _drain(self, slot: int, peer: _Peer) -> bool:
        """Take what the peer has published; returns whether nothing is left."""
        if peer.open is None:
            return True
        for _ in range(FRAMES_MAX):
            try:
                part = peer.open.socket.recv(NOBLOCK, False)
            except zmq.Again:
                return True
            if part.more:
                while peer.open.socket.recv(0, False).more:
                    pass
                self._tally.count("reject.peer-parts")
            elif peer.void or not self._links.is_linked(slot):
                self._tally.count("published_without_link")
            else:
                self._receive(slot, peer.open.state, part.bytes)
        return False

    def _receive(self, slot: int, state: Reception, data: bytes) -> None:
        read, now = read_prefix(data), self._now()
        if read is None or read[0] != state.offer.token or not state.heard(read[1], now):
            self._tally.count("reject.peer.prefix")
            return
        self._links.heard(slot, now)
        if len(data) == PREFIX_BYTES:
            return
        frame = self._decode(slot, data[PREFIX_BYTES:])
        if isinstance(frame, DataBatch | Claims):
            self._tally.count("heard_published")
            self.feed(slot, frame)
        elif frame is not None:
            self._tally.count("reject.peer.published")

    def _decode(self, slot: int, data: bytes) -> StationFrame | None:
        try:
            return decode_peer(data)
        except DecodeError as error:
            self._tally.count(f"reject.peer.{error.code}")
            self._tally.line(30, "bad_peer_frame", f"published by slot {slot}: {error.text}", slot)
            return None

    # ---- now and then ----

    def look(self) -> None:
        """About once a second: offers, beats, subscriptions, and what is said of them."""
        now = self._now()
        self.check()
        if self._publisher is not None and self._publication is not None:
            for slot, frame in self._publication.offers(filter(self._links.is_linked, self._peers), now):
                self.send(slot, encode_peer(frame))
            for number in self._publication.numbers():
                if number not in self._fresh:
                    self._publisher.send(prefix(self._publication.token, number), NOBLOCK)
            self._fresh.clear()
        for slot, peer in self._peers.items():
            self._follow(slot, peer, now)

    def _follow(self, slot: int, peer: _Peer, now: int) -> None:
        offer, peer.offer = peer.offer, None
        if peer.open is not None and (peer.void or peer.open.state.is_over(now)):
            self._hang_up(peer)
        if offer is not None and (peer.open is None or not peer.open.state.stays(offer, now)):
            self._hang_up(peer)
            self._open(slot, peer, offer, now)
        elif offer is not None and peer.open is not None:
            peer.open.state.offer = offer
            for number in offer.audiences:
                peer.open.socket.setsockopt(zmq.SUBSCRIBE, prefix(offer.token, number))
        if peer.open is None or not self._links.is_linked(slot):
            return
        if (frame := peer.open.state.to_say(now)) is not None and self.send(slot, encode_peer(frame)):
            peer.open.state.said(frame, now)

    def _open(self, slot: int, peer: _Peer, offer: Publish, now: int) -> None:
        socket = self._sockets.subscribe(peer.endpoint, peer.key, offer)
        peer.open = _Subscription(socket, Reception(offer, now, now))
        self._many.add(socket, lambda: self._drain(slot, peer))

    def _hang_up(self, peer: _Peer) -> None:
        peer.void = False
        if peer.open is not None:
            self._many.remove(peer.open.socket)
            peer.open.socket.close(0)
            peer.open = None

    def check(self) -> None:
        """Publish or not, by the number of peers. Nobody stays connected under a key that has been withdrawn."""
        self._most_alone = self._above()
        if len(self._peers) <= self._most_alone:
            self.close_publisher()
            return
        keys = self._keys()
        if self._publisher is not None and self._admitted - keys:
            self.close_publisher()
        self._admitted = keys
        if self._publisher is None:
            try:
                self._publisher, port = self._sockets.bind()
            except CannotBind as error:
                if self._cannot:  # at first: the socket of before may not be closed yet
                    self._tally.line(30, "cannot_publish", f"{error}; peers are sent to one by one")
                self._cannot = True
                return
            self._cannot = False
            self._publication = Publication(secrets.randbits(64), port)

    def close(self) -> None:
        """Give all up; the peers have been removed."""
        self.close_publisher()
        self._many.close()

    def close_publisher(self) -> None:
        """Publish no more; all connections to the PUB socket end."""
        if self._publisher is not None:
            self._publisher.close(0)
            self._publisher = self._publication = None

    # ---- status ----

    def status(self) -> tuple[int | None, frozenset[int], frozenset[int]]:
        """The port at which this station publishes (None: it does not), who hears it, and who is heard."""
        now, publication = self._now(), self._publication
        open = {slot: peer.open.state for slot, peer in self._peers.items() if peer.open is not None and not peer.void}
        heard = frozenset(slot for slot, state in open.items() if state.hearing(now))
        if publication is None:
            return None, frozenset(), heard
        return publication.port, frozenset(publication.hearers(EVERYBODY)), heard
