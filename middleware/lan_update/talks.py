"""Who is talked to, what is owed to whom, and which packets are under way (lan-update.md C.b, PUMP and SENT).

One packet at most is under way to a peer. A stranger (no member that is known here) is answered and then forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roamcast.middleware.lan_update.effects import SendLan
from roamcast.middleware.lan_update.records import LanPacket, Version
from roamcast.middleware.lan_update.replica import Replica
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.lan_update.talk import Flight, Talk, make_packet


class Talks:
    """The talks of one node with its peers."""

    def __init__(self, replica: Replica, settings: LanSettings, boot: int, mutants: frozenset[str]) -> None:
        self.talks: dict[str, Talk] = {peer: Talk() for peer in replica.peers}
        self._members = replica.peers
        self._replica = replica
        self._settings = settings
        self._mutants = mutants
        self._number = boot >> 2
        """Begins anywhere, so that a LanAck for the process before fits nothing here."""

    def of(self, peer: str) -> Talk:
        """The talk with a peer, a new one if there is none."""
        return self.talks.setdefault(peer, Talk())

    def members(self) -> list[Talk]:
        """The talks with all active members."""
        return [self.talks[peer] for peer in self._replica.peers]

    # ---- what is owed ----

    def owe(self, talk: Talk, key: str) -> None:
        """The peer is to be told the entry of the key."""
        if self._has_room(talk, key, talk.dirty):
            talk.dirty[key] = None

    def ask(self, talk: Talk, key: str, version: Version) -> None:
        """The peer has this version of the key, which is newer than what is here."""
        if self._has_room(talk, key, talk.want):
            talk.want[key] = version

    def _has_room(self, talk: Talk, key: str, keys: Mapping[str, Any]) -> bool:
        """Whether one more key may be remembered; if not, the digests will find it. Membership entries are few."""
        room = len(keys) < self._settings.kept_max or key in keys or self._replica.role(key, None) is not None
        talk.left_out = talk.left_out or not room
        return room

    def owe_all(self, key: str, but: Talk | None = None) -> None:
        """All members are, `but` one."""
        for talk in self.members():
            if talk is not but:
                self.owe(talk, key)

    def sync_all(self) -> None:
        """All members are told the sums."""
        for talk in self.members():
            talk.sync = True

    def follow_members(self) -> None:
        """A membership entry was stored: new members are told the sums, and who had sent what could not be verified.

        Who is no member any more is told so, unless it said so itself.
        """
        replica = self._replica
        for peer in self._members:
            if peer not in replica.peers:
                entry = replica.entries[replica.members[peer].key]
                dirty = {} if entry.version.node == peer else {entry.key: None}
                self.talks[peer] = Talk(dirty=dirty, flight=self.talks[peer].flight)
        for peer in replica.peers:
            if peer not in self._members:
                self.of(peer).sync = True
        self._members = replica.peers
        for talk in self.members():
            talk.sync, talk.missed = talk.sync or talk.missed, False

    def repeat(self, everybody: bool) -> None:
        """Peers that lapsed, or had sent what could not be verified, are told the sums; or all are."""
        for talk in self.members():
            if self._replica.removed:
                self._wake(talk)
            elif talk.lapsed or talk.missed or everybody:
                talk.sync, talk.missed = True, False

    def ask_clocks(self) -> None:
        """Ask all members for what they have anyway: any packet brings its sender's clock."""
        member = self._replica.members.get(self._replica.own)
        if member is None:
            return
        version = self._replica.entries[member.key].version
        for talk in self.members():
            talk.want[member.key] = version._replace(count=version.count + 1)

    # ---- removed nodes ----

    def fall_silent(self) -> None:
        """This node was removed. If it said so itself, the others must hear it; nothing else is said any more."""
        replica = self._replica
        self.talks = {peer: Talk() for peer in replica.peers}
        key = replica.members[replica.own].key
        if replica.entries[key].version.node == replica.own:
            self.owe_all(key)

    def answer_with_membership(self, peer: str, node: str, packet: LanPacket) -> bool:
        """A packet from, or at, the removed `node`: only its membership entry is said. Returns if it is known there."""
        replica = self._replica
        held = replica.entries[replica.members[node].key]
        told = any(entry.key == held.key and entry.version >= held.version for entry in packet.entries)
        flight = self.of(peer).flight
        self.talks[peer] = Talk() if told else Talk(dirty={held.key: None}, flight=flight)
        return told

    # ---- what is under way ----

    def pump(self, stale: bool) -> None:
        """A packet to every peer that has none under way and is to be told something."""
        replica = self._replica
        for peer, talk in list(self.talks.items()):
            if talk.flight is not None:
                continue
            packet = make_packet(talk, replica, self._settings, self._number + 1, stale)
            if packet is not None:
                self._number += 1
                keys = tuple(entry.key for entry in packet.entries)
                due = replica.now + self._settings.packet_timeout
                talk.flight = Flight(packet.number, due, bool(packet.sums), keys)
                replica.out.append(SendLan(peer, packet))
            elif peer not in replica.peers:
                del self.talks[peer]

    def acked(self, peer: str, number: int) -> None:
        """The peer has taken packet `number`. One that was given up counts as a sign of life."""
        talk = self.talks.get(peer)
        if talk is None or talk.flight is None or talk.flight.number != number:
            self.heard(peer)
            return
        flight, talk.flight = talk.flight, None
        self.spoke(talk, flight.sums)

    def failed(self, peer: str, number: int) -> None:
        """Packet `number` has not arrived, as far as is known."""
        talk = self.talks.get(peer)
        if talk is None or talk.flight is None or talk.flight.number != number:
            return
        flight, talk.flight = talk.flight, None
        if peer not in self._replica.peers:
            del self.talks[peer]
            return
        talk.lapsed = True
        talk.retry_at = self._replica.now + self._settings.packet_timeout
        for key in flight.keys if "kept_forgotten" not in self._mutants else ():
            if self._has_room(talk, key, talk.kept):
                talk.kept[key] = None

    def heard(self, peer: str) -> None:
        """A sign of life of a peer, no packet: a lapsed one is told the sums, at most once in a packet's time-out."""
        talk = self.talks.get(peer)
        if talk is not None and self._replica.now >= talk.retry_at:
            self.spoke(talk, False)

    def spoke(self, talk: Talk, sums: bool) -> None:
        """The peer was heard; if it had lapsed, what failed is said again. sums: they need not be told anew."""
        if talk.lapsed:
            talk.sync = talk.sync or not sums
            self._wake(talk)

    def _wake(self, talk: Talk) -> None:
        """What failed is said again."""
        talk.lapsed = False
        keys, talk.kept = tuple(talk.kept), {}
        for key in keys:
            self.owe(talk, key)

    def expire(self) -> None:
        """Packets that are not acknowledged in time have failed."""
        for peer, talk in list(self.talks.items()):
            if talk.flight is not None and talk.flight.due <= self._replica.now:
                self.failed(peer, talk.flight.number)

    def next_deadline(self) -> int | None:
        """When the next packet will have failed."""
        return min((talk.flight.due for talk in self.talks.values() if talk.flight is not None), default=None)
