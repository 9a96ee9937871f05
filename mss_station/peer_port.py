"""The sockets between stations: one ROUTER that all peers speak to, one DEALER to each peer (overview section 8).

Frames go out on the DEALERs and come in on the ROUTER; the answer to a Link, WentBack, NoLink and Refusal come back on
a DEALER, and frames of the LAN update layer do so where the other side's own DEALER does not reach us: that layer is
what tells it where we are now. Every send is DONTWAIT: EAGAIN means "not sent", is counted, and the cores repeat what
matters. Connections under the one-time key of an invitation come in on the same ROUTER, and say Join alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final, TypeGuard

import zmq

from roamcast.middleware.causal_unicast.frames import MailLinkFrame
from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.lan_update.records import LanAck, LanPacket
from roamcast.middleware.link_effects import Answer, Linked, LinkEffect, Remember, SayLink, Seen, Stop
from roamcast.middleware.links import Links
from roamcast.middleware.live_frames import LiveCast, LiveClock
from roamcast.middleware.publication import Audience, PublishFrame
from roamcast.middleware.station_frames import (
    Link,
    LinkFrame,
    NoLink,
    PeerFrame,
    Refusal,
    StationFrame,
    WentBack,
)
from roamcast.mss_station.join_port import JoinPort, Take
from roamcast.mss_station.live_port import LIVE_CAST, LivePort
from roamcast.mss_station.publish_port import PublishPort
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.user_id import brought_id, kind_and_name
from roamcast.transport.errors import DecodeError, OtherVersion
from roamcast.transport.sockets import UP, LinkMonitor
from roamcast.transport.station_codec import decode_peer, encode_peer

NOBLOCK: Final = int(zmq.NOBLOCK)
SNDMORE_NOBLOCK: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
LINK_FRAMES: Final = (Link, WentBack, NoLink, Refusal)
RETIRED: Final = "retired"
"""Code of the Refusal that tells a station that the group has ended its membership."""

Feed = Callable[[int, PeerFrame | MailLinkFrame], None]
"""(slot of the peer, frame) from a linked channel."""


class PeerPort:
    """Everything that goes between this station and its peers.

    Args:
        router: bound ROUTER with ROUTER_MANDATORY.
        slot_of: slot of an active peer by its id; None if there is none.
        retired: by the id of a station whose membership has ended: what to tell it; else None.
        remember: keeps the newest life seen of a peer.
        join: takes what newcomers say.
        live: what goes over the connections for live messages.
        published: what goes by PUB/SUB.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        links: Links,
        tally: Tally,
        slot_of: Callable[[str], int | None],
        retired: Callable[[str], str | None],
        remember: Callable[[int, Seen], None],
        join: Take,
        live: LivePort,
        published: PublishPort,
    ) -> None:
        self._router = router
        self._dealers: dict[int, zmq.Socket[bytes]] = {}
        self._monitors: dict[int, LinkMonitor] = {}
        self._channels: dict[int, bytes] = {}
        """By slot: the channel on which the peer has last said Link."""
        self.reasons: dict[int, str] = {}
        """By slot: why the DEALER's connection ended or does not come about; absent while it stands."""
        self.links = links
        self.live = live
        self.published = published
        self.joins = JoinPort(tally, join, self._send_on)
        self._tally = tally
        self._slot_of = slot_of
        self._retired = retired
        self._remember = remember
        self.newly_linked: list[int] = []
        """Peers that have come to be linked since the server last looked."""
        published.send = self.send
        self.stop_text: str | None = None
        """Why this process must end, once a peer has shown that the store went back."""
        self.retired_text: str | None = None
        """Why this process must end, once a peer has said that the group does not know this station any more."""

    def add(self, slot: int, dealer: zmq.Socket[bytes], monitor: LinkMonitor) -> None:
        """Speak to the peer `slot` on this DEALER (IMMEDIATE = 1). `links` must know the slot too."""
        self._dealers[slot], self._monitors[slot] = dealer, monitor

    def remove(self, slot: int) -> None:
        """Do not use the DEALER to `slot` any more."""
        del self._dealers[slot], self._monitors[slot]
        self.reasons.pop(slot, None)

    def dismiss(self, slot: int, station: str) -> None:
        """Tell a station whose membership has ended so on its own connection: it need not ask."""
        over = self._retired(station)
        if over is not None and slot in self._channels:
            self._answer(self._channels.pop(slot), Refusal(RETIRED, over))

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
            surplus = part.more
            while surplus and recv(0, False).more:
                pass
            kind, name = kind_and_name(part)
            if kind == "join":
                self.joins.receive(channel, name, part, surplus, now)
                continue
            if surplus:
                self._tally.count("reject.peer-parts")
                continue
            station = name if kind == "station" else None
            slot, user = self.links.slot_of(channel), None if station is None else self._slot_of(station)
            if brought_id(channel, part) if slot is None else user != slot:  # see host_port
                self._tally.reject(Reject(channel, "routing-id", "a routing id that is not this connection's own"))
                continue
            data = part.bytes
            if data.startswith(LIVE_CAST, 1):
                self._take_cast(user, data, feed)
                continue
            frame = self._decode(data, slot, channel)
            if frame is None:
                continue
            if isinstance(frame, LiveClock):
                if self._may_be_live(user):
                    self.live.hear(user, frame)
            elif type(frame) is Link:
                self._introduce(channel, station, user, frame, now, wall)
            elif slot is None:
                self._tally.count("frames_without_link")
                self._perform(self.links.stray(channel, now), now)
            elif isinstance(frame, LINK_FRAMES):
                self._tally.reject(Reject(slot, "unexpected", f"{type(frame).__name__} on the ROUTER"))
            else:
                self.links.heard(slot, now)
                if isinstance(frame, PublishFrame):
                    self.published.take(slot, frame)
                else:
                    feed(slot, frame)
        return limit

    def _take_cast(self, user: int | None, data: bytes, feed: Feed) -> None:
        if self.live.share.admits_peer():
            with self.live.share.used():
                frame = self._decode(data, user, None)
                if isinstance(frame, LiveCast) and self._may_be_live(user):
                    feed(user, frame)

    def _may_be_live(self, user: int | None) -> TypeGuard[int]:
        """On a connection of its own, which says no Link: the one beside it counts."""
        if user is None or not self.links.is_linked(user):
            self._tally.count("live_without_link")
            return False
        return True

    def _introduce(
        self, channel: bytes, station: str | None, user: int | None, frame: Link, now: int, wall: int
    ) -> None:
        over = None if station is None or user is not None else self._retired(station)
        if over is not None:
            self._tally.count("links_of_retired_stations")
            self._answer(channel, Refusal(RETIRED, over))
            return
        is_new = self.links.slot_of(channel) is None
        self._perform(self.links.introduced(channel, user, frame, now, wall), now)
        if is_new and (slot := self.links.slot_of(channel)) is not None:
            self._channels[slot] = channel
            self.published.begins_anew(slot)

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

    def drain_dealer(self, slot: int, now: int, wall: int, feed: Feed) -> None:
        """Take all answers off the DEALER to `slot`; frames of the LAN update layer are fed."""
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
            if isinstance(frame, LanPacket | LanAck):
                if self.links.is_linked(slot):
                    feed(slot, frame)
            elif isinstance(frame, Refusal) and frame.code == RETIRED:
                self.retired_text = frame.text
            elif frame is not None:
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

    def broadcast(self, data: bytes, to: Audience = None) -> None:
        """Send the same bytes to every linked peer of the audience that takes them now, by PUB/SUB to who hears it."""
        targets = tuple(self._dealers) if to is None else [slot for slot in to if slot in self._dealers]
        for slot in self.published.broadcast(data, to, targets):
            self.send(slot, data)

    def send(self, slot: int, data: bytes) -> bool:
        """Send to one peer, if it is linked and takes it now; returns whether it did."""
        if not self.links.is_linked(slot):
            self._tally.count("unsent.unlinked")
            return False
        try:
            self._dealers[slot].send(data, NOBLOCK)
        except zmq.Again:
            self._tally.count("eagain.stations")
            return False
        return True

    def send_lan(self, slot: int, data: bytes) -> bool | None:
        """The same for a frame of the LAN update layer; a peer that is not linked gets it on its own connection.

        None: there is no such connection.
        """
        if self.links.is_linked(slot):
            return self.send(slot, data)
        channel = self._channels.get(slot)
        if channel is None or self.links.slot_of(channel) != slot:
            return None
        return self._send_on(channel, data) or None

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
                    self.published.lives_anew(slot)
                case Linked(slot):
                    self.newly_linked.append(slot)
                case Stop(text):
                    self.stop_text = text
                case Notice():
                    self._tally.notice(effect)
                case Reject():
                    self._tally.reject(effect)

    def _answer(self, channel: Any, frame: LinkFrame) -> None:
        self._send_on(channel, encode_peer(frame))

    def _send_on(self, channel: Any, data: bytes) -> bool:
        try:
            self._router.send(channel, SNDMORE_NOBLOCK)
            self._router.send(data, 0)
        except zmq.ZMQError as error:
            if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                raise
            self._tally.count("eagain.answers")
            return False
        return True
