"""Slots for newcomers: given once, to one generation, confirmed by every station that is counted.

The sponsor proposes the next slot; each station notes it durably and confirms, or refuses because it has noted the
slot for another generation, and says the highest that it knows; then the sponsor goes above that. A slot that was
refused is nobody's for ever. All must confirm, also one that is down now: two halves that do not hear each other would
else give one slot twice. Source: the product decisions of lan-update.md (ADDED); composition.md section 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.effects import SlotGiven
from roamcast.middleware.errors import ensure
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Reserve, Reserved
from roamcast.middleware.writes import PutReservation

OPEN_MAX = 16
"""Newcomers in preparation at one sponsor."""
RETRY = SECOND
SLOT_MAX = 1_023
"""What the wire and the store can name."""


@dataclass(slots=True)
class _Proposal:
    id: str
    slot: int
    confirmed: set[int] = field(default_factory=set)
    due: int = 0
    refused: int = 0


class Reservation:
    """Both sides of the agreement on a slot, at one station."""

    def __init__(self, ledger: Ledger, reserved: dict[int, int]) -> None:
        self.ledger = ledger
        self.reserved = reserved
        """Slot -> generation that it is meant for, as far as is known here; durable."""
        self._open: dict[int, _Proposal] = {}

    def propose(self, id: str, generation: int) -> None:
        """Find a slot for a newcomer; `SlotGiven` follows. Asked again for the same generation it goes on."""
        if generation in self._open or self.ledger.view.retiring:
            return
        if self._highest(0) >= SLOT_MAX:
            self.ledger.notice("alarm", "no-slot-left", highest=self._highest(0), most=SLOT_MAX)
            return
        view = self.ledger.view
        noted = [s for s, g in self.reserved.items() if g == generation and s not in view.closed]
        slot = max(noted, key=lambda s: (s in view.members, s), default=None)
        if len(self._open) >= OPEN_MAX:
            self._open.pop(next(iter(self._open)))
        self._open[generation] = _Proposal(id, slot or self._highest(0) + 1, due=self.ledger.now)
        self.expire()

    def waits_for(self, generation: int) -> list[int]:
        """Slots of the stations that have not confirmed yet."""
        proposal = self._open.get(generation)
        if proposal is None:
            return []
        return [i for i in self.ledger.fifo.peers if i not in proposal.confirmed and i != proposal.slot]

    def _highest(self, above: int) -> int:
        proposed = (proposal.slot for proposal in self._open.values())
        return max(above, 0, *self.ledger.view.members, *self.reserved, *proposed)

    def expire(self) -> None:
        """Ask those that have not confirmed; tell of what all have."""
        ledger = self.ledger
        for generation, proposal in list(self._open.items()):
            if proposal.due > ledger.now:
                continue
            proposal.due = ledger.now + RETRY
            if proposal.slot in ledger.view.members:  # its answer was lost
                proposal.confirmed = set(ledger.fifo.peers)
            if self.reserved.get(proposal.slot) != generation:
                if proposal.slot in self.reserved:  # confirmed to another sponsor meanwhile
                    proposal.slot = self._highest(0) + 1
                self._note(proposal.slot, generation)
            for peer in self.waits_for(generation):
                ledger.ask(peer, Reserve(proposal.slot, generation))
            self._complete(generation, proposal)

    def _complete(self, generation: int, proposal: _Proposal) -> None:
        if not self.waits_for(generation) and not self.ledger.view.retiring:
            del self._open[generation]
            self.ledger.out.append(SlotGiven(proposal.id, generation, proposal.slot))

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return min((proposal.due for proposal in self._open.values()), default=None)

    def reserve(self, sender: int, frame: Reserve) -> None:
        """A sponsor proposes a slot."""
        known = self.reserved.get(frame.slot)
        taken = frame.slot in self.ledger.view.members or frame.slot < 1
        fine = known == frame.generation or (known is None and not taken)
        if fine and known is None:
            self._note(frame.slot, frame.generation)
        self.ledger.ask(sender, Reserved(frame.slot, frame.generation, fine, self._highest(0)))

    def reserved_by(self, sender: int, frame: Reserved) -> None:
        """A station's answer."""
        proposal = self._open.get(frame.generation)
        if proposal is None or proposal.slot != frame.slot:
            return
        if frame.fine:
            proposal.confirmed.add(sender)
            self._complete(frame.generation, proposal)
        else:
            proposal.refused += 1  # two sponsors at once: the next try is farther apart, by what differs
            apart = frame.generation % (1 << min(proposal.refused, 5))
            proposal.slot, proposal.confirmed = min(self._highest(frame.highest) + 1 + apart, SLOT_MAX), set()
            proposal.due = self.ledger.now

    def _note(self, slot: int, generation: int) -> None:
        ensure(slot not in self.reserved, f"slot {slot} is reserved for another station")
        self.reserved[slot] = generation
        self.ledger.persist(PutReservation(slot, generation))
