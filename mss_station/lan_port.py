"""The LAN update layer at this station: its node, fed and emptied with the station's ticks.

What a tick changes of the configuration is in the same transaction as what it changes of the messages; packets and
acknowledgements go out after the commit. A packet for a peer that is not linked waits for the link, as long as the node
waits for its acknowledgement; a start would else begin with packets that fail. The answer to a peer that only its own
connection reaches (it has moved, and its new endpoint is just what it wants to tell) goes back on that connection.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.lan_update.effects import Acknowledge, Changed, Dropped, LanPersist, SendLan
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import (
    Entry,
    LanAck,
    LanFrame,
    LanImage,
    LanPacket,
    LanWrite,
    PutHistory,
    Version,
)
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.mss_station import schema
from roamcast.mss_station.directory import Change, LanDirectory
from roamcast.mss_station.signing import Signer, verify
from roamcast.mss_station.tally import Tally
from roamcast.transport.station_codec import encode_peer
from roamcast.transport.station_files import StationCard

Send = Callable[[int, bytes], bool | None]
"""(slot of the peer, frame) -> whether it went out; None: the peer is not linked."""


def make_node(own: StationCard, image: LanImage, signer: Signer) -> LanNode:
    """A node over what a store holds, in a new life."""

    def is_signed(entry: Entry, entries: Mapping[str, Entry]) -> bool:
        return verify(entry, own.group, schema.author_keys(entry, entries))

    return LanNode(own.id, image, secrets.randbits(64), LanSettings(), schema.role, signer.sign, is_signed)


class LanPort:
    """The node, and what its effects become.

    Args:
        own: this station.
        image: what the store holds of the configuration; taken over.
        directory: fed with every change.
        send: sends one frame to a peer.
    """

    def __init__(
        self, own: StationCard, image: LanImage, signer: Signer, directory: LanDirectory, tally: Tally, send: Send
    ) -> None:
        self._own = own
        self._signer = signer
        self._directory = directory
        self._tally = tally
        self._send = send
        self._started = False
        self._failed: list[tuple[str, int]] = []
        self._sends: list[SendLan | Acknowledge] = []
        self._waiting: dict[str, LanPacket] = {}
        """By peer: the packet that waits for the link."""
        self._node = make_node(own, image, signer)

    def start_again(self, image: LanImage) -> list[Change]:
        """The tick was rolled back: a new node from what is durable; returns what the directory unlearns by that."""
        self._node = make_node(self._own, image, self._signer)
        self._started = False
        self._failed, self._sends, self._waiting = [], [], {}
        return self._directory.reload(image.entries)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """What is held, by key; tombstones have value None."""
        return self._node.entries

    # ---- a tick ----

    def begin(self, now: int, wall: int) -> None:
        """Open a tick. now: monotonic, wall: UTC; microseconds."""
        self._node.begin(now, wall)
        if not self._started:
            self._started = True
            self._node.start()
        failed, self._failed = self._failed, []
        for peer, number in failed:
            self._node.failed(peer, number)

    def receive(self, slot: int, frame: LanFrame) -> None:
        """A frame of the linked peer `slot`."""
        peer = self._id_of(slot)
        if isinstance(frame, LanPacket):
            self._node.receive(peer, frame)
        else:
            self._node.acked(peer, frame.number)

    def heard(self, slot: int, ahead: int | None = None) -> None:
        """The peer `slot` has come to be linked, or is linked and was said to have lapsed."""
        peer = self._id_of(slot)
        self._node.heard(peer, ahead)
        if peer in self._waiting:
            self._sends.append(SendLan(peer, self._waiting.pop(peer)))

    def _id_of(self, slot: int) -> str:
        return next(card.id for card in self._directory.stations() if card.slot == slot)

    def put(self, key: str, value: bytes | None) -> Version:
        """Write an entry here; None deletes. Raises LanRefused: not taken, nothing has changed."""
        return self._node.put(key, value)

    def flush(self) -> tuple[list[LanWrite], list[Change]]:
        """Close the tick: what is to be made durable, and what the directory has learned. `sent` after the commit."""
        self._node.expire()
        writes: list[LanWrite] = []
        changes: list[Change] = []
        for effect in self._node.flush():
            match effect:
                case LanPersist(batch):
                    writes += batch
                    self._tell_losers(batch)
                case Changed(entry):
                    changes += self._directory.apply(entry)
                case Dropped(key):
                    changes += self._directory.drop(key)
                case SendLan() | Acknowledge():
                    self._sends.append(effect)
                case Notice():
                    self._tally.notice(effect)
                case Reject():
                    self._tally.reject(effect)
        return writes, changes

    def committed(self) -> None:
        """What the tick wanted to make durable is: send what stands behind it."""
        sends, self._sends = self._sends, []
        for effect in sends:
            frame: LanFrame = effect.packet if isinstance(effect, SendLan) else LanAck(effect.number)
            peer = self._directory.peer(effect.peer)
            sent = None if peer is None else self._send(peer.slot, encode_peer(frame))
            if not isinstance(effect, SendLan):
                continue
            if sent is None and peer is not None:
                self._waiting[effect.peer] = effect.packet
            elif not sent:
                self._failed.append((effect.peer, effect.packet.number))

    def next_deadline(self) -> int | None:
        """When the node has something to do next; 0: at once; None: nothing to wait for."""
        return 0 if self._failed or not self._started else self._node.next_deadline()

    def lapsed(self) -> list[int]:
        """Slots of the peers to which packets have failed, and which were not heard since."""
        peers = [self._directory.peer(id) for id in self._node.status()["lapsed"]]
        return [card.slot for card in peers if card is not None]

    def status(self) -> dict[str, Any]:
        """What an operator wants to know of the configuration; plain data."""
        return {**self._node.status(), "faults": self._directory.faults}

    def _tell_losers(self, writes: tuple[LanWrite, ...]) -> None:
        for write in writes:
            if isinstance(write, PutHistory) and write.lost_to is not None:
                fields = {"key": write.entry.key, "by": write.entry.version.node, "to": write.lost_to.node}
                self._tally.notice(Notice("warning", "concurrent_write_lost", fields))
