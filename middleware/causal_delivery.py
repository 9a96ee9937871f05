"""Causal delivery at a station: rows accepted in FIFO order take their place in the log after all they follow.

A row carries S as the entries that changed against the row before it of the same origin. That row was delivered first,
so the unchanged entries hold already: a blocked head waits for exactly one (origin, n), and a delivery wakes exactly
the heads that wait for it. Source: paper 000 (rules of DELIV and SENT); hot-path.md rule 18; overview section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Kind, Row, Vector
from roamcast.middleware.vectors import raise_to

Stamp = tuple[tuple[int, int], ...]


class CausalDelivery:
    """DELIV lives in the table; here are SENT, the stamps of own rows and who waits for what."""

    def __init__(
        self, own: int, view: View, table: MessageTable, floors: Iterable[Vector], mutants: frozenset[str]
    ) -> None:
        """`floors`: Sdep of every custody record, what the next own row must follow at least."""
        self.own = own
        self.view = view
        self.table = table
        self.sent = table.vector("delivered")
        for floor in floors:
            raise_to(self.sent, floor)
        if "own_stamps" not in mutants:
            for row in table.origins[own].rows:
                for slot, value in row.stamp:
                    self.sent[slot] = max(self.sent[slot], value)
        self.sent[own] = table.origins[own].stored
        self._stamped = [0] * table.width
        self._mutants = mutants
        self._mail_apart = "mail_apart" in mutants
        self._waiting: dict[tuple[int, int], list[int]] = {}
        self.before: Callable[[Row], None] = lambda row: None
        """Called when a row is about to take its place."""
        self._skip_past()

    def _skip_past(self) -> None:
        """Stamps do not name a stream that has ended and was dropped everywhere."""
        for slot, ending in self.view.final.items():
            if self.view.is_past(slot, self.table.origins[slot].floor):
                self._stamped[slot] = ending.cut

    def follow(self, view: View) -> list[int]:
        """The group has changed. Returns the origins whose heads may have become deliverable."""
        self.view = view
        for vector in (self.sent, self._stamped):
            vector += [0] * (self.table.width - len(vector))
        self._skip_past()
        freed = [key for key in self._waiting if key[1] > view.cut_of(*key)]
        return [origin for key in freed for origin in self._waiting.pop(key)]

    def stamp(self) -> Stamp:
        """Number the next own row: raises SENT[own], returns the changed entries of S (after a start: all of them)."""
        self.sent[self.own] += 1
        changed = []
        for slot, value in enumerate(self.view.void(self.sent)):
            if value != self._stamped[slot] and slot != self.own:
                changed.append((slot, value))
                self._stamped[slot] = value
        return tuple(changed)

    def depend(self, floor: Vector) -> None:
        """A host came whose past is `floor`: own rows from now on follow it."""
        own = self.sent[self.own]
        raise_to(self.sent, floor)
        self.sent[self.own] = own

    def deliver(self, origin: int, copied: int) -> Iterator[Row]:
        """Place every row that can be delivered, beginning with the head of `origin`. Rows come out in log order.

        copied: own rows above this wait until another station has them.
        """
        ready = [origin]
        while ready:
            slot = ready.pop()
            stream = self.table.origins[slot]
            while (row := stream.get(stream.delivered + 1)) is not None and (slot != self.own or row.n <= copied):
                blocker = next((x for x in row.stamp if self.table.origins[x[0]].delivered < x[1]), None)
                if blocker is not None and self.view.final and "no_void" not in self._mutants:
                    blocker = self._blocker(row)
                if self._mail_apart and row.kind is Kind.MAIL:
                    blocker = None
                if blocker is not None:
                    waiting = self._waiting.setdefault(blocker, [])
                    if slot not in waiting:
                        waiting.append(slot)
                    break
                self.before(row)
                self.table.place(row)
                self.sent[slot] = max(self.sent[slot], row.n)
                ready.extend(self._waiting.pop((slot, row.n), ()))
                yield row

    def _blocker(self, row: Row) -> tuple[int, int] | None:
        """As in `deliver`, but what exists nowhere any more holds nobody up (the void rule)."""
        entries = ((slot, self.view.cut_of(slot, n)) for slot, n in row.stamp)
        return next((entry for entry in entries if self.table.origins[entry[0]].delivered < entry[1]), None)

    def blocked(self) -> dict[int, tuple[int, int]]:
        """Per origin whose head waits: the (slot, n) it waits for."""
        return {origin: what for what, origins in sorted(self._waiting.items()) for origin in origins}
