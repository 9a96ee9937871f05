"""How the stations of a group are split into clusters.

A station that belongs to several clusters is a gateway: it passes rows on between them. Any two clusters have exactly
one active gateway in common; a standby belongs to the clusters of an active one, and passes on what that one leaves
when it is silent. Source: paper 001 (clusters, gateways); fifo-broadcast.md (b), (f).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Layout:
    """Slots by cluster; none: one flat cluster. A slot that stands in no cluster is in the first one."""

    clusters: tuple[tuple[int, ...], ...] = ()
    standbys: frozenset[int] = frozenset()

    def of(self, slot: int) -> tuple[int, ...]:
        """Numbers of the clusters of a slot, from 0."""
        return tuple(i for i, slots in enumerate(self.clusters) if slot in slots) or (0,)

    @property
    def digest(self) -> bytes:
        """Eight bytes that tell layouts apart; none for a flat one."""
        if not self.clusters:
            return b""
        text = repr(([sorted(slots) for slots in self.clusters], sorted(self.standbys)))
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    def fault(self, name: Callable[[int], str], cluster: Callable[[int], str]) -> str | None:
        """Why this layout cannot be used, for a person; None: it can.

        Args:
            name: what a person calls a slot.
            cluster: what a person calls the cluster of a number.
        """
        if not self.clusters:
            return f"{name(min(self.standbys))} is a standby, and there are no clusters" if self.standbys else None
        if len(self.clusters) < 2:
            return "there must be at least two clusters"
        active: dict[tuple[int, ...], int] = {}
        for one, other in combinations(range(len(self.clusters)), 2):
            shared = sorted({*self.clusters[one]} & {*self.clusters[other]} - self.standbys)
            if len(shared) != 1:
                names = f": {', '.join(map(name, shared))}" if shared else ""
                wanted = f"must have exactly one active gateway in common, and have {len(shared) or 'none'}{names}"
                return f"{cluster(one)} and {cluster(other)} {wanted}"
            active[self.of(shared[0])] = shared[0]
        for slot in sorted(self.standbys):
            if self.of(slot) not in active:
                own = ", ".join(map(cluster, self.of(slot)))
                return f"{name(slot)} is a standby, but not in exactly the clusters of an active gateway: {own}"
        return None
