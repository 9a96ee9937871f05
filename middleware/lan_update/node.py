"""One node of the LAN update layer: many keys, each with its last writer's entry, the same at every member.

Promise: an update that is durable at one node reaches every member along any path of nodes that run together for some
packet times each, whoever halts and recovers when. It never goes back, and two nodes that have the same keys and
versions have the same values. Deleted keys do not come back.

Sans-IO. The driver works in ticks: `begin`, any inputs, `expire`, `flush`. The effects of `flush` are ordered; every
LanPersist must be durable before anything behind it leaves the process. Ground: paper 004 and lan-update.md C.b;
where it differs: docs/protocols/lan-update.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roamcast.middleware.effects import Reject
from roamcast.middleware.lan_update.clock_guard import ClockGuard
from roamcast.middleware.lan_update.effects import Acknowledge, LanEffect
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.freshness import Freshness
from roamcast.middleware.lan_update.merging import Merging, Verify, is_sound
from roamcast.middleware.lan_update.purging import purge
from roamcast.middleware.lan_update.records import Entry, LanImage, LanPacket, Version
from roamcast.middleware.lan_update.replica import Replica, Role
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.lan_update.talk import Talk
from roamcast.middleware.lan_update.talks import Talks
from roamcast.middleware.settings import SECOND

Sign = Callable[[Entry], bytes]
"""The own signature over key, version, value and `after` of an entry."""


class LanNode:
    """One life of one node. Every method but `status`, `peers` and `next_deadline` belongs between `begin` and `flush`.

    Args:
        own: id of this node; never that of a removed one.
        image: what the store holds; taken over. A newcomer's has its sponsor's membership entry in it.
        boot: 64 random bits of this start.
        role: which keys are membership entries, and what they say.
        sign: makes the own signature. verify: judges others'.
        mutants: rules switched off, for tests that show that the rules are needed.
    """

    def __init__(
        self,
        own: str,
        image: LanImage,
        boot: int,
        settings: LanSettings,
        role: Role,
        sign: Sign,
        verify: Verify,
        mutants: frozenset[str] = frozenset(),
    ) -> None:
        self._own = own
        self._boot = 0 if "no_boot" in mutants else boot
        self._settings = settings
        self._sign = sign
        self._mutants = mutants
        self._replica = Replica(own, image, role)
        self._talks = Talks(self._replica, settings, boot, mutants)
        self._freshness = Freshness(self._replica, self._talks, settings, mutants)
        self._clock = ClockGuard(self._replica, self._talks, settings)
        self._merging = Merging(self._replica, self._talks, self._freshness, settings, verify, mutants)
        self._repeat_at: int | None = None

    @property
    def entries(self) -> Mapping[str, Entry]:
        """What is held, by key; it changes with the node. Tombstones have value None."""
        return self._replica.entries

    def peers(self) -> tuple[str, ...]:
        """Ids of the active members but this node, in order."""
        return self._replica.peers

    # ---- a tick ----

    def begin(self, now: int, wall: int) -> None:
        """Open a tick. now: monotonic, wall: UTC; microseconds."""
        self._replica.now, self._replica.wall = now, wall

    def start(self) -> None:
        """First tick of a life: everybody is told the sums."""
        replica = self._replica
        self._repeat_at = replica.now + self._settings.exchange_interval
        if replica.removed:
            self._talks.fall_silent()
            return
        self._freshness.start()
        if "no_start_exchange" not in self._mutants:
            self._talks.sync_all()
        replica.commit()

    def flush(self) -> list[LanEffect]:
        """Close the tick: the ordered effects of everything since `begin`."""
        self._talks.pump(self._freshness.says_stale())
        out, self._replica.out = self._replica.out, []
        return out

    # ---- local updates ----

    def put(self, key: str, value: bytes | None) -> Version:
        """Set a key here, or delete it (value None). Returns the entry's version.

        Raises LanRefused, with a text for the operator, if this node may not take local updates now.
        """
        self._check_local(key, value)
        replica = self._replica
        held = replica.entries.get(key)
        holders = frozenset({self._own}) if value is None else frozenset()
        entry = Entry(key, self._version(held), value, held.version if held else None, holders=holders)
        entry = replace(entry, signature=self._sign(entry))
        replica.store(entry)
        if replica.removed:
            self._fall_silent(self._own)
        else:
            if replica.role(key, value) is not None:
                self._talks.follow_members()
            self._talks.owe_all(key)
        replica.commit()
        return entry.version

    def _version(self, held: Entry | None) -> Version:
        """Above what is held of the key, whatever the clock says."""
        wall = self._replica.wall
        if held is None or wall > held.version.time or "raw_clock" in self._mutants:
            return Version(wall, 0, self._own, self._boot)
        return Version(held.version.time, held.version.count + 1, self._own, self._boot)

    def _check_local(self, key: str, value: bytes | None) -> None:
        settings = self._settings
        if self._replica.removed:
            raise LanRefused(f"station {self._own} was removed from the group; it can only join again under a new id")
        if not self._freshness.takes_updates:
            raise LanRefused(
                "this station was away for so long that deletions may have been forgotten meanwhile; it takes no "
                "updates until it has compared its configuration with a station that was not"
            )
        if self._clock.is_off():
            skew = self._clock.skew() or 0
            off = f"{abs(skew) // SECOND} s {'ahead of' if skew > 0 else 'behind'}"
            raise LanRefused(
                f"the clock of this station is {off} those of the others; set it right, or make the update elsewhere"
            )
        if len(key.encode()) > settings.key_bytes_max:
            raise LanRefused(f"the key is longer than {settings.key_bytes_max} bytes")
        if value is not None and len(value) > settings.value_bytes_max:
            raise LanRefused(f"the value of {key!r} is larger than {settings.value_bytes_max} bytes")

    def declare_fresh(self) -> None:
        """The operator's word that no member is left that was not away as long as this node: it need not wait."""
        self._freshness.declare()
        self._replica.commit()

    # ---- peers ----

    def receive(self, peer: str, packet: LanPacket) -> None:
        """A packet of `peer`, which the driver has authenticated; a stranger is answered like a member."""
        replica = self._replica
        if not is_sound(packet):
            replica.out.append(Reject(peer, "bad-packet", "no such bucket, or not all sums"))
        elif replica.removed or replica.is_removed(peer):
            if self._talks.answer_with_membership(peer, self._own if replica.removed else peer, packet):
                replica.out.append(Acknowledge(peer, packet.number))
        else:
            self._merge(peer, self._talks.of(peer), packet)
            replica.commit()
            replica.out.append(Acknowledge(peer, packet.number))

    def _merge(self, peer: str, talk: Talk, packet: LanPacket) -> None:
        replica, merging, freshness = self._replica, self._merging, self._freshness
        changes = replica.changes
        talk.clock, talk.says_stale = packet.wall - replica.now, packet.stale
        self._talks.spoke(talk, bool(packet.sums))
        merging.take_entries(peer, talk, packet.entries)
        if replica.removed:
            self._fall_silent(peer)
            return
        if replica.is_removed(peer):
            return
        merging.take_versions(peer, talk, packet)
        merging.take_wants(talk, packet.want)
        if packet.described and not packet.stale and "fresh_on_list" in self._mutants:
            freshness.end_early()
        if packet.sums and merging.take_sums(talk, packet.sums):
            talk.sync = talk.sync or (packet.stale and not freshness.says_stale())
            freshness.judge_equal(talk)
        freshness.judge()
        if freshness.stale and replica.changes > changes:
            talk.sync = True
        self._clock.watch()

    def _fall_silent(self, teller: str) -> None:
        self._talks.fall_silent()
        level = "info" if teller == self._own else "alarm"
        self._replica.notice(level, "lan-removed", station=self._own, told_by=teller)

    def acked(self, peer: str, number: int) -> None:
        """A LanAck of `peer`."""
        self._talks.acked(peer, number)

    def failed(self, peer: str, number: int) -> None:
        """The packet could not be sent. (One that is not acknowledged in time fails by itself.)"""
        self._talks.failed(peer, number)

    def heard(self, peer: str, ahead: int | None = None) -> None:
        """Any other sign of life of a linked peer: if packets to it had failed, the exchange begins again.

        ahead: how far its clock is ahead of the own one, microseconds, if it has just told it.
        """
        if ahead is not None:
            self._talks.of(peer).clock = self._replica.wall + ahead - self._replica.now
        self._talks.heard(peer)

    # ---- time ----

    def expire(self) -> None:
        """Every timer that is due."""
        replica = self._replica
        self._talks.expire()
        if self._repeat_at is not None and self._repeat_at <= replica.now:
            self._repeat_at = replica.now + self._settings.exchange_interval
            self._repeat()
            replica.commit()

    def _repeat(self) -> None:
        """Every T_ae: exchanges that failed begin again; a fresh node notes the time, and purges."""
        replica, freshness = self._replica, self._freshness
        if "no_repeat" not in self._mutants:
            self._talks.repeat(everybody=freshness.says_stale())
        if replica.removed:
            return
        freshness.judge()
        self._clock.watch()
        if self._clock.is_off():
            self._talks.ask_clocks()
        elif not freshness.says_stale():
            replica.note_alive()
            purge(replica, self._settings.purge_after, self._mutants)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next; None: not before `start`."""
        candidates = (self._repeat_at, self._talks.next_deadline())
        return min((due for due in candidates if due is not None), default=None)

    # ---- status ----

    def status(self) -> dict[str, Any]:
        """What an operator wants to know; plain data.

        `skew_s`: own clock ahead of the peers' median, seconds, or None; `lapsed`: peers to which packets failed, not
        heard since; `unsent`: per peer, keys that it is still to be told; `dropped`: entries refused, by code.
        """
        replica, talks, skew = self._replica, self._talks.talks, self._clock.skew()
        return {
            "stale": self._freshness.stale,
            "former": self._freshness.former,
            "removed": replica.removed,
            "skew_s": None if skew is None else skew / SECOND,
            "lapsed": [peer for peer in replica.peers if talks[peer].lapsed],
            "unsent": {peer: count for peer in replica.peers if (count := talks[peer].unsent())},
            "entries": len(replica.entries),
            "tombstones": len(replica.tombstones),
            "dropped": dict(self._merging.dropped),
        }
