"""What one station knows of the group: who belongs to it, who has ended, and how far the streams of the ended go.

Source: composition.md section 2 (members, closed, final, released, dropped), sections 6 and 7; the reasons are told in
docs/protocols/membership.md. All of it is durable; a view only grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roamcast.middleware.rows import Vector


@dataclass(slots=True, frozen=True)
class Closing:
    """A station that has ended, as one of those that stay sees it. Claimed to all until it is final everywhere."""

    slot: int
    heir: int
    """Slot of the station that took over its hosts in an orderly retirement; 0: it is lost."""
    stored: int
    """Highest number of its stream that is stored here."""
    given: int
    """Highest own number of the station that claims, once it takes nothing more from the ended one."""
    guard: Vector
    """Of its hosts: R as it was announced last. No row above it is dropped before they are elsewhere."""


@dataclass(slots=True, frozen=True)
class Ending:
    """A closing that is settled: the same at every station."""

    heir: int
    cut: int
    """Numbers above it exist nowhere any more."""
    floor: Vector
    """What every message may follow that a host of the ended station had sent elsewhere before."""


@dataclass(slots=True, frozen=True)
class GroupView:
    """What CLAIMS says of the group. Slots, ascending."""

    members: tuple[int, ...]
    closed: tuple[int, ...] = ()
    final: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    off: tuple[int, ...] = ()
    """Released, and no host of them is on its way into the sender's custody any more."""
    serving: bool = True
    closings: tuple[Closing, ...] = ()


@dataclass(slots=True, frozen=True)
class View:
    """The durable view of one station. Members stay members for ever: a slot is never used again."""

    members: tuple[int, ...]
    """Ascending, the own slot included."""
    closed: Mapping[int, tuple[int, Vector]] = field(default_factory=dict)
    """Slot -> (heir, guard)."""
    final: Mapping[int, Ending] = field(default_factory=dict)
    released: frozenset[int] = frozenset()
    """Lost stations whose hosts are not waited for any more."""
    dropped: frozenset[int] = frozenset()
    """Ended stations whose guard is given up (an orderly one has none)."""
    serving: bool = True
    """Every station counts this one: it may take hosts."""
    sponsor: int = 0
    """Slot of the station whose snapshot this one still waits for; 0: it has it."""
    retiring: int = 0
    """Slot of the heir, once this station is being retired."""
    handing: bool = False
    """Nothing is served any more: custody as it stands goes to the heir."""

    @property
    def living(self) -> tuple[int, ...]:
        """Members that have not ended, the own slot included."""
        return tuple(slot for slot in self.members if slot not in self.closed)

    @property
    def counted(self) -> tuple[int, ...]:
        """Members whose claims count in every minimum: until their end is settled."""
        return tuple(slot for slot in self.members if slot not in self.final)

    @property
    def lost(self) -> tuple[int, ...]:
        """Stations that have ended without an heir, all settled."""
        return tuple(slot for slot, ending in self.final.items() if not ending.heir)

    def cut_of(self, slot: int, value: int) -> int:
        """`value` of an entry of a vector, as far as it means something that still exists (the void rule)."""
        ending = self.final.get(slot)
        return value if ending is None or value <= ending.cut else ending.cut

    def void(self, vector: Sequence[int]) -> Vector:
        """`vector` without what exists nowhere any more."""
        values = tuple(vector)
        if not self.final:
            return values
        return tuple(self.cut_of(slot, value) for slot, value in enumerate(values))

    def is_past(self, slot: int, floor: int) -> bool:
        """Whether a stream has ended and all of it has been dropped (`floor`): no stamp need name it."""
        ending = self.final.get(slot)
        return ending is not None and floor >= ending.cut

    def guards(self) -> dict[int, Vector]:
        """Guards that still hold back the collection, by slot of the lost station."""
        return {slot: self.closed[slot][1] for slot in self.final if slot not in self.dropped}

    def heir_of(self, slot: int) -> int:
        """The station that answers for the hosts of `slot`, or is to when its own end is settled; 0: it is lost."""
        for _ in self.final:
            ending = self.final.get(slot)
            slot = slot if ending is None else ending.heir
        return 0 if slot in self.final else slot
