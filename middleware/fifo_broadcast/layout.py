"""Who belongs to which cluster, and which stations are gateways: plain data, the same at every station.

Any two clusters share one gateway, and perhaps standbys of it: so all that a station does not see itself is seen by a
gateway that it sees. Source: paper 001 (composite clusters); docs/protocols/clusters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import combinations

DIGEST_BYTES = 6


@dataclass(frozen=True)
class Layout:
    """The clusters of a group. Without any it is flat: one cluster of all members."""

    clusters: tuple[tuple[int, ...], ...] = ()
    """Slots of the members, by cluster. A slot that is in none counts as a member of cluster 0."""
    standbys: frozenset[int] = frozenset()
    """Gateways that forward only while those before them are silent."""

    @cached_property
    def _of(self) -> dict[int, tuple[int, ...]]:
        slots = {slot for cluster in self.clusters for slot in cluster}
        return {slot: tuple(k for k, cluster in enumerate(self.clusters) if slot in cluster) for slot in slots}

    def of(self, slot: int) -> tuple[int, ...]:
        """Indices of the clusters of `slot`, ascending; the first one is its home."""
        return self._of.get(slot, (0,))

    def members(self, cluster: int, members: Iterable[int]) -> tuple[int, ...]:
        """Those of `members` that belong to the cluster."""
        return tuple(slot for slot in members if cluster in self.of(slot))

    def near(self, slot: int, members: Iterable[int]) -> tuple[int, ...]:
        """Those of `members` that share a cluster with `slot`, itself included."""
        own = set(self.of(slot))
        return tuple(other for other in members if not own.isdisjoint(self.of(other)))

    def is_gateway(self, slot: int) -> bool:
        """Whether the station is in several clusters."""
        return len(self.of(slot)) > 1

    def group(self, one: int, other: int) -> tuple[int, ...]:
        """The gateways that two clusters share, in rank: the active one, then its standbys by slot."""
        shared = (slot for slot, clusters in self._of.items() if one in clusters and other in clusters)
        return tuple(sorted(shared, key=lambda slot: (slot in self.standbys, slot)))

    def parted(self, living: Collection[int]) -> bool:
        """Whether two clusters in which somebody lives share nobody who does."""
        inhabited = [k for k in range(len(self.clusters)) if self.members(k, living)]
        return any(not set(self.group(*pair)) & set(living) for pair in combinations(inhabited, 2))

    @cached_property
    def digest(self) -> int:
        """The same for equal layouts in every process: 0 if flat, else 48 bits that are not all 0."""
        return _digest(self._plain()) if self.clusters else 0

    def mark(self, members: tuple[int, ...]) -> int:
        """A digest of the layout and of the stations that it is for; 0 if flat."""
        return _digest((*self._plain(), members)) if self.clusters else 0

    def _plain(self) -> tuple[object, ...]:
        return tuple(tuple(sorted(cluster)) for cluster in self.clusters), tuple(sorted(self.standbys))

    def fault(self, name: Callable[[int], str] = str, cluster: Callable[[int], str] = str) -> str | None:
        """Why this is no layout, in words; None if it is one. `name` of a slot, `cluster` of an index, for people."""
        if not self.clusters:
            return "standbys without clusters" if self.standbys else None
        if len(self.clusters) < 2:
            return "there is only one cluster: name two or more, or none"
        for k, slots in enumerate(self.clusters):
            if twice := [slot for slot in slots if slots.count(slot) > 1]:
                return f"station {name(twice[0])} is named twice in cluster {cluster(k)}"
        for one, other in combinations(range(len(self.clusters)), 2):
            active = [slot for slot in self.group(one, other) if slot not in self.standbys]
            if len(active) != 1:
                words = " and ".join(name(slot) for slot in active) or "no station"
                both = f"clusters {cluster(one)} and {cluster(other)}"
                return f"{words} in both of {both}: any two share exactly one gateway that is no standby"
        gateways = {self.of(slot) for slot in self._of if self.is_gateway(slot) and slot not in self.standbys}
        for slot in sorted(self.standbys):
            if self.of(slot) not in gateways:
                return f"standby {name(slot)} is not in exactly the clusters of a gateway"
        return None


FLAT = Layout()


def _digest(plain: object) -> int:
    data = blake2b(repr(plain).encode(), digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(data, "big") or 1
