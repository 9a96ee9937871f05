"""Connections of their own to peers, for live messages: these wait for nothing durable, and nothing durable for them.

A DEALER each, to the ROUTER that the peer has for stations; short queues, so that what cannot go out at once is dropped
here, where it costs nothing. Whether a peer is linked is told by the connection beside it. Clocks are told here too: a
station whose own is off has no live service (docs/protocols/delta-causal.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import zmq

from roamcast.middleware.links import Links
from roamcast.middleware.live_frames import LiveCast, LiveClock
from roamcast.middleware.peer_clocks import INTERVAL, PeerClocks
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.live_share import LiveShare
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_codec import PEER, encode_peer

NOBLOCK: Final = int(zmq.NOBLOCK)
LIVE_CAST: Final = PEER.mark(LiveCast)


class LivePort:
    """What goes to peers, and what is known of their clocks."""

    def __init__(self, links: Links, tally: Tally, clock: Clock) -> None:
        self.share = LiveShare(clock.now, tally)
        self.now = clock.now
        self.compared: Callable[[int, int], None] = lambda slot, ahead: None
        """Told of the slot of a peer, and by how much its clock is ahead of the own one, microseconds."""
        self._links = links
        self._tally = tally
        self._clock = clock
        self._dealers: dict[int, zmq.Socket[bytes]] = {}
        self._clocks = PeerClocks()
        self._due = 0

    def add(self, slot: int, dealer: zmq.Socket[bytes]) -> None:
        """Live messages go to the peer on this DEALER (IMMEDIATE = 1)."""
        self._dealers[slot] = dealer

    def remove(self, slot: int) -> None:
        """The DEALER is about to be closed."""
        del self._dealers[slot]

    def broadcast(self, data: bytes, to: Iterable[int] | None = None) -> None:
        """Send to these peers, None: to all; for those that are not linked or take nothing now it is lost."""
        for slot in self._dealers if to is None else [slot for slot in to if slot in self._dealers]:
            self._send(slot, data)

    def _send(self, slot: int, data: bytes) -> None:
        if self._links.is_linked(slot):
            try:
                self._dealers[slot].send(data, NOBLOCK)
            except zmq.Again:
                self._tally.count("live_unsent")

    def hear(self, slot: int, frame: LiveClock) -> None:
        """What a linked peer says of its clock."""
        ahead = self._clocks.hear(slot, frame, *self._clock.both())
        if ahead is not None:
            self.compared(slot, ahead)

    def look(self) -> None:
        """Say the clock when it is due; to be called about once a second."""
        if (now := self._clock.now()) >= self._due:
            self._due = now + INTERVAL
            self._clocks.follow(frozenset(filter(self._links.is_linked, self._dealers)))
            for slot in self._dealers:
                self._send(slot, encode_peer(self._clocks.say(slot, *self._clock.both())))
