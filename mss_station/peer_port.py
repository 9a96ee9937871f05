"""The sockets between stations: one ROUTER that all peers speak to, one DEALER to each peer (overview section 8).

Frames go out on the DEALERs and come in on the ROUTER; the answer to a Link, WentBack, NoLink and Refusal come back on
a DEALER. Every send is DONTWAIT: EAGAIN means "not sent", is counted, and the cores repeat what matters.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any, Final

import zmq

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.link_effects import Answer, Linked, LinkEffect, Remember, SayLink, Seen, Stop
from roamcast.middleware.links import Links
from roamcast.middleware.station_frames import (
    Link,
    LinkFrame,
    NoLink,
    PeerFrame,
    Refusal,
    StationFrame,
    WentBack,
)
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.user_id import brought_id, user_of
from roamcast.transport.errors import DecodeError, OtherVersion
from roamcast.transport.sockets import UP, LinkMonitor
from roamcast.transport.station_codec import decode_peer, encode_peer

NOBLOCK: Final = int(zmq.NOBLOCK)
SNDMORE_NOBLOCK: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
LINK_FRAMES: Final = (Link, WentBack, NoLink, Refusal)

Feed = Callable[[int, PeerFrame], None]
"""(slot of the peer, frame) from a linked channel."""


class PeerPort:
    """Everything that goes between this station and its peers.

    Args:
        router: bound ROUTER with ROUTER_MANDATORY.
        connections: by slot a DEALER to the peer, IMMEDIATE = 1, and its monitor.
        slot_of: slot of a configured station id; None if there is none.
        remember: keeps the newest life seen of a peer.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        connections: Mapping[int, tuple[zmq.Socket[bytes], LinkMonitor]],
        links: Links,
        tally: Tally,
        slot_of: Callable[[str], int | None],
        remember: Callable[[int, Seen], None],
    ) -> None:
        self._router = router
        self._dealers = {slot: dealer for slot, (dealer, _) in connections.items()}
        self._monitors = {slot: monitor for slot, (_, monitor) in connections.items()}
        self.reasons: dict[int, str] = {}
        """By slot: why the DEALER's connection ended or does not come about; absent while it stands."""
        self.links = links
        self._tally = tally
        self._slot_of = slot_of
        self._remember = remember
        self.newly_linked: list[int] = []
        """Peers that have come to be linked since the server last looked."""
        self.stop_text: str | None = None
        """Why this process must end, once a peer has shown that the store went back."""

    # ---- in ----

    def drain(self, limit: int, now: int, wall: int, feed: Feed) -> int:
        """Take at most `limit` messages off the ROUTER and feed those of linked peers; returns how many were taken."""
        recv = self._router.recv
        for taken in range(limit):
            try:
                channel = recv(NOBLOCK)
            except zmq.Again:
                return taken
            part = recv(0, False)
            if part.more:
                while recv(0, False).more:
                    pass
                self._tally.count("reject.peer-parts")
                continue
            slot, user = self.links.slot_of(channel), self._user(part)
            if brought_id(channel, part) if slot is None else user != slot:  # see host_port
                self._tally.reject(Reject(channel, "routing-id", "a routing id that is not this connection's own"))
                continue
            frame = self._decode(part.bytes, slot, channel)
            if frame is None:
                continue
            if type(frame) is Link:
                self._perform(self.links.introduced(channel, user, frame, now, wall), now)
            elif slot is None:
                self._tally.count("frames_without_link")
                self._perform(self.links.stray(channel, now), now)
            elif isinstance(frame, LINK_FRAMES):
                self._tally.reject(Reject(slot, "unexpected", f"{type(frame).__name__} on the ROUTER"))
            else:
                self.links.heard(slot, now)
                feed(slot, frame)
        return limit

    def _user(self, part: zmq.Frame) -> int | None:
        station = user_of(part, "station")
        return None if station is None else self._slot_of(station)

    def _decode(self, data: bytes, slot: int | None, channel: bytes | None) -> StationFrame | None:
        """The frame, or None. A handshake that only another major version can read is told so on its `channel`."""
        try:
            return decode_peer(data)
        except DecodeError as error:
            if isinstance(error, OtherVersion) and channel is not None:
                self._answer(channel, Refusal(error.code, error.text))
            self._tally.count(f"reject.peer.{error.code}")
            self._tally.line(30, "bad_peer_frame", f"from slot {slot}: {error.text}", slot)
            return None

    def drain_dealer(self, slot: int, now: int, wall: int) -> None:
        """Take all answers off the DEALER to `slot`."""
        dealer = self._dealers[slot]
        while True:
            try:
                part = dealer.recv(NOBLOCK, False)
            except zmq.Again:
                return
            if part.more:
                while dealer.recv(0, False).more:
                    pass
                self._tally.count("reject.peer-parts")
                continue
            frame = self._decode(part.bytes, slot, None)
            if frame is not None:
                self._perform(self.links.answered(slot, frame, now, wall), now)

    def watch_dealer(self, slot: int, now: int) -> None:
        """See what became of the connection of the DEALER to `slot`; a reason that is new is told."""
        for change in self._monitors[slot].changes():
            if change == UP:
                self.reasons.pop(slot, None)
                self.links.connected(slot, now)
                continue
            self.links.disconnected(slot)
            if self.reasons.get(slot) != change:
                self.reasons[slot] = change
                self._tally.notice(Notice("warning", "no_connection", {"slot": slot, "reason": change}))

    def expire(self, now: int, wall: int) -> None:
        """Say the Links that are due."""
        self._perform(self.links.expire(now, wall), now)

    # ---- out ----

    def broadcast(self, data: bytes) -> None:
        """Send the same bytes to every linked peer that takes them now."""
        for slot in self._dealers:
            self.send(slot, data)

    def send(self, slot: int, data: bytes) -> None:
        """Send to one peer, if it is linked and takes it now."""
        if not self.links.is_linked(slot):
            self._tally.count("unsent.unlinked")
            return
        try:
            self._dealers[slot].send(data, NOBLOCK)
        except zmq.Again:
            self._tally.count("eagain.stations")

    def _perform(self, effects: list[LinkEffect], now: int) -> None:
        for effect in effects:
            match effect:
                case SayLink(slot, frame):
                    try:
                        self._dealers[slot].send(encode_peer(frame), NOBLOCK)
                    except zmq.Again:
                        self.links.unsent(slot, now)
                case Answer(channel, answer):
                    self._answer(channel, answer)
                case Remember(slot, seen):
                    self._remember(slot, seen)
                case Linked(slot):
                    self.newly_linked.append(slot)
                case Stop(text):
                    self.stop_text = text
                case Notice():
                    self._tally.notice(effect)
                case Reject():
                    self._tally.reject(effect)

    def _answer(self, channel: Any, frame: LinkFrame) -> None:
        try:
            self._router.send(channel, SNDMORE_NOBLOCK)
            self._router.send(encode_peer(frame), 0)
        except zmq.ZMQError as error:
            if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                raise
            self._tally.count("eagain.answers")
