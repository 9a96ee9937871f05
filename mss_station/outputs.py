"""What a tick sends once its writes are durable: every effect behind the `Persist`, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from roamcast.middleware.delivery_log import Logged
from roamcast.middleware.effects import (
    Broadcast,
    CloseChannel,
    Deliver,
    Effect,
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
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.station_frames import AdoptPart, Body, DataBatch, PeerFrame, Snapshot, SpoolPart
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.kill_points import KillPoint
from roamcast.mss_station.peer_port import PeerPort
from roamcast.mss_station.tally import Tally
from roamcast.transport.host_codec import encode_down
from roamcast.transport.serving_codec import encode_msg
from roamcast.transport.station_codec import encode_peer

LIVE_FRAMES_MAX: Final = 32
"""Of one tick: half of a host's queue. The other half is for what is durable."""


class Outputs:
    """Performs effects on the sockets.

    Args:
        load_item: bytes of the item of a stored message (slot, n), None if the store has dropped it.
        group: takes what the core asks for in matters of the group.
    """

    def __init__(
        self,
        hosts: HostPort,
        peers: PeerPort,
        tally: Tally,
        kill: KillPoint,
        load_item: Callable[[int, int], bytes | None],
        group: Callable[[GroupEffect], None],
    ) -> None:
        self._hosts = hosts
        self._peers = peers
        self._tally = tally
        self._kill = kill
        self._read_item = load_item
        self._items_read: dict[tuple[int, int], bytes | None] = {}
        """In this tick: many spools wait for the same message."""
        self._read_at = self._live_frames = 0
        self.store_went_back = False
        """A peer's rows or claims have shown what LINK could not: this store is older than what was sent from it."""
        self._perform: dict[type, Callable[[Any], None]] = {
            Deliver: self._deliver,
            SendHost: self._send_host,
            SendLive: self._send_live,
            SendPeer: self._send_peer,
            Broadcast: self._broadcast,
            CloseChannel: self._close,
            Reject: tally.reject,
            Notice: self._notice,
            **dict.fromkeys((Renew, Halt, SlotGiven, HandedOver), group),
        }

    def perform(self, effects: Sequence[Effect], persisted: bool, read_at: int = 0) -> None:
        """Perform all effects but `Persist`, which the caller has made durable.

        Args:
            read_at: when the core was told what time it is, monotonic: what was live then may be over.

        Raises:
            StoreDamaged: an item is not the one that was stored; the process must end.
            StoreNotCommitted: an item cannot be read now.
        """
        sends = [effect for effect in effects if type(effect) is not Persist and type(effect) is not Logged]
        self._items_read.clear()
        self._read_at, self._live_frames = read_at, 0
        for i, effect in enumerate(sends):
            if persisted and i == (len(sends) + 1) // 2:
                self._kill.reached("mid-send")
            self._perform[type(effect)](effect)
        if persisted:
            self._kill.reached("after-send")

    def _notice(self, effect: Notice) -> None:
        self._tally.notice(effect)
        self.store_went_back = self.store_went_back or effect.event == "store-went-back"

    def _deliver(self, effect: Deliver) -> None:
        entries = []
        for position, holder in effect.entries:
            item = self._item(holder) if holder.item is None else holder.item
            if item is None:
                raise InvariantError(f"({holder.slot}, {holder.n}) is owed to a host and the store has dropped it")
            entries.append((position, item))
        self._tally.count("frames_to_hosts")
        self._tally.count("deliveries", len(entries) * len(effect.channels))
        channels = cast(Sequence[bytes], effect.channels)
        self._hosts.deliver(channels, encode_msg(effect.prev, effect.last, entries), effect.prev)

    def _send_host(self, effect: SendHost) -> None:
        self._hosts.deliver((cast(bytes, effect.channel),), encode_down(effect.frame))

    def _send_live(self, effect: SendLive) -> None:
        self._live_frames += 1
        if effect.frame.left < self._peers.live.now() - self._read_at:
            self._tally.count("live_over")
            return
        if self._live_frames > LIVE_FRAMES_MAX:
            self._tally.count("live_untaken", len(effect.channels))
            return
        with self._peers.live.share.used():
            self._hosts.deliver_live(cast(Sequence[bytes], effect.channels), encode_down(effect.frame))

    def _send_peer(self, effect: SendPeer) -> None:
        frame = self._with_items(effect.frame)
        if frame is not None:
            self._peers.send(effect.slot, encode_peer(frame))

    def _broadcast(self, effect: Broadcast) -> None:
        if isinstance(effect.frame, LiveCast):
            with self._peers.live.share.used():
                self._peers.live.broadcast(encode_peer(effect.frame), effect.to)
            return
        frame = self._with_items(effect.frame)
        if frame is not None:
            self._peers.broadcast(encode_peer(frame), effect.to)

    def _close(self, effect: CloseChannel) -> None:
        self._tally.count("channels_closed")
        self._hosts.close(cast(bytes, effect.channel), answer=True)

    def _with_items(self, frame: PeerFrame) -> PeerFrame | None:
        """The frame with the bytes that memory gave up; its rows are not changed. None: the tick that made the frame
        has also dropped them, for everybody has them or their record has gone."""
        match frame:
            case DataBatch(rows=rows) if any(row.item is None and not row.lean for row in rows):
                loaded = [row if row.lean else replace(row, item=self._item(row)) for row in rows]
                kept = tuple(row for row in loaded if row.lean or row.item is not None)
                return replace(frame, rows=kept) if kept else None
            case Body(bodies=bodies) if any(body.item is None for body in bodies):
                read = (replace(body, item=self._item(body)) for body in bodies)
                return replace(frame, bodies=tuple(body for body in read if body.item is not None))
            case SpoolPart(_, _, _, _, entries) if any(entry.item is None for entry in entries):
                items = tuple(replace(entry, item=self._item(entry)) for entry in entries)
                return None if any(entry.item is None for entry in items) else replace(frame, entries=items)
            case AdoptPart(entries=spool) if any(entry.item is None for _, entry in spool):
                filled = tuple((position, replace(entry, item=self._item(entry))) for position, entry in spool)
                return None if any(entry.item is None for _, entry in filled) else replace(frame, entries=filled)
            case Snapshot(rows=placed, values=values):
                full = tuple((at, row if row.lean else replace(row, item=self._item(row))) for at, row in placed)
                kept_values = tuple((value, replace(entry, item=self._item(entry))) for value, entry in values)
                bare = any(row.item is None and not row.lean for _, row in full)
                lacking = bare or any(kept.item is None for _, kept in kept_values)
                return None if lacking else replace(frame, rows=full, values=kept_values)
            case _:
                return frame

    def _item(self, holder: Row | SpoolItem) -> bytes | None:
        if holder.item is not None:
            return holder.item
        if not holder.size:
            return b""
        ident = (holder.slot, holder.n)
        if ident not in self._items_read:
            self._items_read[ident] = self._read_item(*ident)
        return self._items_read[ident]
