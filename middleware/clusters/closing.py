"""How the end of an element is agreed on, without a coordinator, and how a newcomer becomes known.

An element that has ended is closed at whoever hears of it: nothing is taken from it any more. Everybody says how far it
has the streams of the closed itself, and asks holders for what others have. Once all living have said so, and the
farthest of it is here, the end is complete here. Source: fifo-broadcast.md (f) 'Removal', 'Addition'.
"""

from __future__ import annotations

from collections.abc import Callable

from roamcast.middleware.clusters.frames import Added, Claims, Counts
from roamcast.middleware.clusters.table import Roster, StreamTable


class Closings:
    """What the elements of a cluster have said of those that have ended or joined."""

    def __init__(self, roster: Roster, table: StreamTable, mutants: frozenset[str]) -> None:
        self._roster = roster
        self._table = table
        self._mutants = mutants
        self._ends: dict[int, dict[int, int]] = {}
        """Closed element -> living element -> how far it has the stream itself."""
        self._counted: dict[int, set[int]] = {}
        """By element: the added that it has shown to count."""

    def hear(self, sender: int, claims: Claims) -> None:
        """What the sender says of the closed and the added."""
        for element, stored in claims.closed:
            ends = self._ends.setdefault(element, {})
            ends[sender] = max(ends.get(sender, 0), stored)
        self._counted[sender] = set(claims.elements)

    def say(self, ack: Callable[[int], int]) -> Counts:
        """The own word: what is here, not what is withheld (scenario (d) 15)."""
        streams = self._table.streams
        if "closed_uses_ack" in self._mutants:
            return tuple((element, ack(element)) for element in sorted(self._roster.closed))
        return tuple((element, streams[element].stored) for element in sorted(self._roster.closed))

    def end_of(self, element: int, known: int) -> int:
        """How far the stream of a closed element goes, as far as the living have said."""
        told = self._ends.get(element, {})
        end = max([self._table.streams[element].stored, *(told.get(i, 0) for i in self._roster.peers)])
        return max(known, end) if "closed_frozen" in self._mutants else end

    def holders(self, element: int, number: int) -> list[int]:
        """Who has that number of a closed element's stream."""
        told = self._ends.get(element, {})
        return [i for i in self._roster.peers if told.get(i, 0) >= number]

    def is_complete(self) -> bool:
        """Whether everything is settled about all that have ended."""
        return all(self.has_ended(element) for element in self._roster.closed)

    def has_ended(self, element: int) -> bool:
        """Whether all living have closed it, and closed all else that has ended, and the farthest of it is here."""
        peers = self._roster.peers
        known = all(i in self._ends.get(other, {}) for other in self._roster.closed for i in peers)
        return known and self._table.streams[element].stored >= self.end_of(element, 0)

    def is_everywhere(self, element: int) -> bool:
        """Whether it has ended, and all living, gateways too, have its stream up to the end: it is over."""
        told, end = self._ends.get(element, {}), self.end_of(element, 0)
        return (
            element in self._roster.closed
            and self.has_ended(element)
            and all(told.get(i, 0) >= end for i in self._roster.peers)
        )

    def misses(self, peer: int) -> bool:
        """Whether something that matters was not heard of the peer."""
        return any(peer not in self._ends.get(element, {}) for element in self._roster.closed) or (
            self._roster.added.keys() - self._counted.get(peer, set()) != set()
        )

    def newcomers(self, is_full: bool) -> tuple[Added, ...]:
        """The added that not all living have shown to count: their tag goes with every claim."""
        roster = self._roster
        if "untagged_claims" in self._mutants and not is_full:
            return ()
        return tuple(
            Added(element, element in roster.gateways, base)
            for element, base in sorted(roster.added.items())
            if any(element not in self._counted.get(i, set()) for i in roster.peers)
        )
