"""The cards of all hosts: who may come with which key, and what a change of one card changes. O(1) for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roamcast.mss_station.schema import HostCard, host_key, key_hash


@dataclass(frozen=True, slots=True)
class HostKnown:
    """A host that was not known before, or whose number or key is another one now."""

    card: HostCard


@dataclass(frozen=True, slots=True)
class HostShut:
    """The host may not come with this card any more: its connections end. Its custody stays."""

    card: HostCard


@dataclass(frozen=True, slots=True)
class HostRevoked:
    """The host may not come any more, and custody of its number ends."""

    card: HostCard


@dataclass(frozen=True, slots=True)
class Fault:
    """An entry cannot be used; `text` names its key and says why."""

    text: str


HostChange = HostKnown | HostShut | HostRevoked | Fault


class HostCards:
    """Cards by name, with the revocations.

    A card holds if no name before its own, in the order of the alphabet, claims its number or its key.
    """

    def __init__(self) -> None:
        self.live: dict[str, HostCard] = {}
        """By name: may come."""
        self.out: dict[str, HostCard] = {}
        """By name: revoked."""
        self.by_key: dict[str, HostCard] = {}
        """Of those that may come."""
        self.shadowed: dict[str, str] = {}
        """By name: why the card does not hold."""
        self._cards: dict[str, HostCard] = {}
        self._claims: dict[int | str, set[str]] = {}
        self._revoked: dict[str, set[str]] = {}
        """Key hash -> names in whose revocations it stands: the key counts nowhere any more."""

    def put(self, name: str, card: HostCard | None) -> list[HostChange]:
        """The card of `name` is now this one; None: it has none."""
        affected = {name}
        before = self._cards.pop(name, None)
        for claim in () if before is None else _claims(before):
            self._claims[claim].discard(name)
            affected |= self._claims[claim]
            if not self._claims[claim]:
                del self._claims[claim]
        if card is not None:
            self._cards[name] = card
            for claim in _claims(card):
                self._claims.setdefault(claim, set()).add(name)
                affected |= self._claims[claim]
        return self._settle(affected)

    def revoke(self, name: str, digest: str, revoked: bool) -> list[HostChange]:
        """There is, or is not any more, a revocation of the key with this hash, made for host `name`."""
        names = self._revoked.setdefault(digest, set())
        (names.add if revoked else names.discard)(name)
        if not names:
            del self._revoked[digest]
        return self._settle(self._claims.get(digest, ()))

    def _settle(self, names: Iterable[str]) -> list[HostChange]:
        changes: list[HostChange] = []
        for name in sorted(names):
            changes += self._settle_one(name)
        return changes

    def _settle_one(self, name: str) -> list[HostChange]:
        card, before, was_out = self._cards.get(name), self.live.pop(name, None), self.out.pop(name, None)
        if before is not None and self.by_key.get(before.key) == before:
            del self.by_key[before.key]
        rival = None if card is None else self._rival(card)
        told = self.shadowed.pop(name, None)
        if card is None or rival is not None:
            changes: list[HostChange] = [] if before is None else [HostShut(before)]
            if rival is not None:
                text = f"{host_key(name)} claims the number or the key of {host_key(rival)}, which keeps it"
                self.shadowed[name] = text
                changes += [Fault(text)] if text != told else []
            return changes
        changes = self._left(before, card)
        if key_hash(card.key) not in self._revoked:
            self.live[name] = self.by_key[card.key] = card
            return [*changes, *([HostKnown(card)] if card != before else [])]
        self.out[name] = card
        if card != was_out:
            changes += [HostRevoked(card)] if card == before else [HostKnown(card), HostRevoked(card)]
        return changes

    def _rival(self, card: HostCard) -> str | None:
        first = min(name for claim in _claims(card) for name in self._claims[claim])
        return first if first < card.name else None

    def _left(self, before: HostCard | None, card: HostCard) -> list[HostChange]:
        """What becomes of the card whose place `card` takes; of two enrolments of one name the later one holds."""
        if before is None or before == card:
            return []
        replaced = before.number != card.number and before.number not in self._claims
        return [HostRevoked(before) if replaced else HostShut(before)]


def _claims(card: HostCard) -> tuple[int, str]:
    """What no two hosts may have: the number, and the key by its hash."""
    return card.number, key_hash(card.key)
