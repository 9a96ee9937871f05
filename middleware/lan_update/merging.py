"""What a packet changes: entries, versions, wants and sums, in this order (lan-update.md C.b, RECEIVE 2-5).

Comparing and storing is one step here, so nothing can come between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from roamcast.middleware.effects import Reject
from roamcast.middleware.lan_update.freshness import Freshness
from roamcast.middleware.lan_update.records import BUCKETS, Entry, LanPacket, Version
from roamcast.middleware.lan_update.replica import Replica
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.middleware.lan_update.talk import Talk
from roamcast.middleware.lan_update.talks import Talks

Verify = Callable[[Entry, Mapping[str, Entry]], bool]
"""Whether the signature of the entry is its author's, by the membership entries among those given."""

REFUSALS = {
    "bad-signature": "the signature is not the author's",
    "bad-entry": "the entry is too large, or has holders though it is not deleted",
    "unknown-author": "no membership entry of the author is known",
}


class Merging:
    """Takes packets for one node."""

    def __init__(
        self,
        replica: Replica,
        talks: Talks,
        freshness: Freshness,
        settings: LanSettings,
        verify: Verify,
        mutants: frozenset[str],
    ) -> None:
        self.dropped: dict[str, int] = {}
        """Entries refused, by code."""
        self._replica = replica
        self._talks = talks
        self._freshness = freshness
        self._settings = settings
        self._verify = verify
        self._mutants = mutants

    # ---- entries ----

    def take_entries(self, peer: str, talk: Talk, entries: tuple[Entry, ...]) -> None:
        """Membership entries first, each after that of its author."""
        replica = self._replica
        refused: dict[str, list[str]] = {}
        waiting = [entry for entry in entries if replica.role(entry.key, entry.value) is not None]
        while ready := [entry for entry in waiting if self._knows_author(entry)]:
            waiting = [entry for entry in waiting if not self._knows_author(entry)]
            for entry in ready:
                self._check(talk, entry, refused)
        for entry in (*waiting, *(e for e in entries if replica.role(e.key, e.value) is None)):
            self._check(talk, entry, refused)
        for code, keys in refused.items():
            self._refuse(peer, code, keys)
        talk.missed = talk.missed or "unknown-author" in refused

    def _knows_author(self, entry: Entry) -> bool:
        author = entry.version.node
        role = self._replica.role(entry.key, entry.value)
        return author in self._replica.members or (role is not None and role[0] == author)

    def _check(self, talk: Talk, entry: Entry, refused: dict[str, list[str]]) -> None:
        held = self._replica.entries.get(entry.key)
        if held is not None and held.version == entry.version:
            self._unite(talk, held, entry.holders)
        elif not self._is_well_formed(entry):
            refused.setdefault("bad-entry", []).append(entry.key)
        elif not self._knows_author(entry):
            refused.setdefault("unknown-author", []).append(entry.key)
        elif not self._verify(entry, self._replica.entries):
            refused.setdefault("bad-signature", []).append(entry.key)
        else:
            self._take(talk, entry, held)

    def _is_well_formed(self, entry: Entry) -> bool:
        settings = self._settings
        if len(entry.key.encode()) > settings.key_bytes_max:
            return False
        return entry.value is None or (len(entry.value) <= settings.value_bytes_max and not entry.holders)

    def _refuse(self, peer: str, code: str, keys: list[str]) -> None:
        self.dropped[code] = self.dropped.get(code, 0) + len(keys)
        text = f"{REFUSALS[code]}: {len(keys)} of a packet, the first is {keys[0]!r}"
        self._replica.out.append(Reject(peer, code, text))
        self._replica.notice("warning", "lan-entries-refused", peer=peer, code=code, text=text)

    def _take(self, talk: Talk, entry: Entry, held: Entry | None) -> None:
        replica = self._replica
        if held is not None and entry.version < held.version:
            replica.note_loser(entry)
            if "no_older_answer" not in self._mutants:
                self._talks.owe(talk, entry.key)
            return
        if held is None and self._was_purged(entry.key, entry.version):
            return
        stored = replace(entry, holders=entry.holders | {replica.own}) if entry.value is None else entry
        replica.store(stored)
        self._freshness.prove(entry.key, talk)
        talk.has(entry.key)
        if replica.role(entry.key, entry.value) is not None:
            self._talks.follow_members()
        self._pass_on(talk, stored, entry.holders)

    def _was_purged(self, key: str, version: Version) -> bool:
        """Whether it is a tombstone that was held, and purged, here.

        It is not taken back: nodes that purge one after the other would return it to each other for ever.
        """
        line = self._replica.image.history.get(key, {}).get(version)
        was_held = line is not None and line.entry.value is None and "purged_retaken" not in self._mutants
        return was_held and self._freshness.has_authority

    def _pass_on(self, talk: Talk, entry: Entry, told: frozenset[str]) -> None:
        """To all others; to the peer as well if there are holders that it did not tell. Not while stale."""
        if not self._freshness.stale or "stale_relays" in self._mutants:
            self._talks.owe_all(entry.key, but=talk)
        if entry.holders != told:
            self._talks.owe(talk, entry.key)

    def _unite(self, talk: Talk, held: Entry, holders: frozenset[str]) -> None:
        """The peer has the same version as this node, as a tombstone perhaps with other holders."""
        talk.has(held.key)
        self._freshness.prove(held.key, talk)
        if held.value is not None:
            return
        union = held.holders | holders
        if union != held.holders:
            self._replica.add_holders(held, union)
            self._pass_on(talk, replace(held, holders=union), holders)
        elif union != holders:
            self._talks.owe(talk, held.key)

    # ---- versions ----

    def take_versions(self, peer: str, talk: Talk, packet: LanPacket) -> None:
        """Lines of described buckets: what is newer there is wanted, what is newer here, or lacking there, is owed."""
        listed: dict[str, None] = {}
        for key, version, holders in packet.versions:
            listed[key] = None
            self._compare(talk, key, version, holders)
        for bucket in packet.described:
            for key in list(self._replica.digest.keys[bucket]):
                if key not in listed:
                    self._lacking_there(peer, talk, self._replica.entries[key])

    def _compare(self, talk: Talk, key: str, version: Version, holders: frozenset[str]) -> None:
        replica = self._replica
        held = replica.entries.get(key)
        if held is None:
            if not self._was_purged(key, version):
                self._talks.ask(talk, key, version)
        elif version > held.version:
            talk.has(key)
            self._talks.ask(talk, key, version)
        elif version < held.version:
            self._talks.owe(talk, key)
        else:
            self._unite(talk, held, holders)

    def _lacking_there(self, peer: str, talk: Talk, entry: Entry) -> None:
        """The peer has no entry of the key: it never had one, or it has purged it, or was made to drop it."""
        replica, freshness = self._replica, self._freshness
        trusted = not talk.says_stale and not freshness.has_authority
        if peer in entry.holders and replica.is_settled(entry) and "purged_retaken" not in self._mutants:
            if trusted:
                replica.drop(entry.key)
        elif not freshness.stale or replica.role(entry.key, entry.value) is not None:
            self._talks.owe(talk, entry.key)
        elif trusted and freshness.lacks_proof(entry):
            replica.set_aside(entry)
            replica.notice("warning", "lan-set-aside", key=entry.key, peer=peer)

    # ---- wants and sums ----

    def take_wants(self, talk: Talk, want: tuple[str, ...]) -> None:
        """What is asked for is owed; a stale node does not answer, for it cannot know whether the key still exists."""
        if not self._freshness.stale:
            for key in want:
                if key in self._replica.entries:
                    self._talks.owe(talk, key)

    def take_sums(self, talk: Talk, sums: tuple[int, ...]) -> bool:
        """Buckets that differ are to be described. Returns whether the stores are equal."""
        own = self._replica.digest.sums
        differing = [bucket for bucket in range(BUCKETS) if sums[bucket] != own[bucket]]
        for bucket in differing:
            talk.describe[bucket] = None
        return not differing


def is_sound(packet: LanPacket) -> bool:
    """Whether the packet speaks of buckets that exist."""
    return len(packet.sums) in (0, BUCKETS) and all(0 <= bucket < BUCKETS for bucket in packet.described)
