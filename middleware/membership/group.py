"""How one station's view of the group grows: members added, stations closed, their cut made final, guards given up.

No coordinator and no vote: everything spreads by the view in CLAIMS. A station that has ended is first *closed* here
(nothing of it is taken any more, its rows stay in all minima), then, once every living station has claimed how far it
has its stream, *final*: what is beyond the highest claim exists nowhere, the same at every station.

Sources: composition.md 6 (R1-R4, L9) and 7 (N2, N3); fifo-broadcast.md (f) 'Removal', 'Addition'.
"""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import EVERYWHERE, Record
from roamcast.middleware.custody.stream import settled
from roamcast.middleware.delivery_log import CLOSED
from roamcast.middleware.effects import Halt, SendPeer
from roamcast.middleware.membership.view import Closing, Ending, GroupView, View
from roamcast.middleware.station_frames import Claims
from roamcast.middleware.vectors import merged


class Group:
    """The rules by which `ledger.view` grows."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._deliverable: list[int] = []
        self._told: dict[int, int] = {}
        """When a station that is not counted was last told the view."""

    # ---- commands ----

    def add(self, slot: int) -> None:
        """`slot` belongs to the group from now on; nothing is known of what it has. A retiring station adds nobody."""
        if not self.ledger.view.retiring and slot not in self.ledger.view.members:
            self._set(replace(self.ledger.view, members=tuple(sorted((*self.ledger.view.members, slot)))))

    def close(self, slot: int, heir: int) -> None:
        """The station has ended: lost for good (heir 0), or retired in order, with an heir."""
        self._set(self._closed(self.ledger.view, slot, heir, ()))

    def release(self, slot: int) -> None:
        """The hosts of a lost station are not waited for any more."""
        view = self.ledger.view
        if slot in view.closed and slot not in view.released:
            self._set(replace(view, released=view.released | {slot}))

    # ---- what others say ----

    def stranger(self, slot: int) -> None:
        """A frame of a station that is not counted here, or not any more: nobody else tells it the view."""
        ledger = self.ledger
        if ledger.now - self._told.get(slot, -ledger.settings.heartbeat) >= ledger.settings.heartbeat:
            self._told[slot] = ledger.now
            ledger.out.append(SendPeer(slot, ledger.fifo.full_claims(ledger.hlc)))

    def learn(self, sender: int, claims: Claims) -> bool:
        """Take over what a member says of the group, durably, before anything else in its CLAIMS is used.

        False: nothing else in it may be used.
        """
        told, view = claims.view, self.ledger.view
        if told is None:
            return True
        if self._ended(told):
            return False
        if "late_member" not in self.ledger.mutants:
            view = replace(view, members=tuple(sorted({*view.members, *told.members})))
        for closing in told.closings:
            if closing.slot != self.ledger.own:
                view = self._closed(view, closing.slot, closing.heir, closing.guard)
        released = view.released | (set(told.released) & view.closed.keys())
        if released != view.released:
            view = replace(view, released=released)
        self._set(view)
        return sender not in self.ledger.view.closed

    def _ended(self, told: GroupView) -> bool:
        """R4: whether this station is out of the group."""
        ledger = self.ledger
        if ledger.own in told.closed:
            ledger.out.append(Halt("this station has been retired; its slot is never used again"))
            return True
        return False

    def _closed(self, view: View, slot: int, heir: int, guard: tuple[int, ...]) -> View:
        """`view` with `slot` closed; heirs and guards of all that claim a closing are merged."""
        if slot in view.final or slot not in view.members:
            return view
        old_heir, old_guard = view.closed.get(slot, (0, tuple(self.ledger.fifo.reduce.claims.get(slot, ()))))
        closed = (max(heir, old_heir), merged(old_guard, guard))
        if view.closed.get(slot) == closed:
            return view
        return replace(view, closed={**view.closed, slot: closed})

    def _set(self, view: View) -> None:
        if view != self.ledger.view:
            self._deliverable += self.ledger.follow(view)

    def take_deliverable(self) -> list[int]:
        """Origins whose heads may have become deliverable since this was last asked."""
        origins, self._deliverable = self._deliverable, []
        return origins

    # ---- progress ----

    def advance(self) -> list[int]:
        """Whatever can be settled now. Returns the stations whose end has become final; `give_up` follows."""
        fresh = [slot for slot in self.ledger.view.closed if slot not in self.ledger.view.final and self._settle(slot)]
        self._serve()
        return fresh

    def _settle(self, slot: int) -> bool:
        """R2: every living station has claimed how far it has the stream, and all of that is here."""
        ledger, view = self.ledger, self.ledger.view
        claims: dict[int, Closing] = {}
        for peer in ledger.fifo.peers:
            told = ledger.fifo.words.views.get(peer)
            closing = next((c for c in told.closings if c.slot == slot), None) if told is not None else None
            if closing is None:
                return False
            claims[peer] = closing
        stored = ledger.table.origins[slot].stored
        cut = max([stored, *(closing.stored for closing in claims.values())])
        if stored < cut and "no_third_party" not in ledger.mutants:
            return False
        cut = stored
        floor = [0] * ledger.table.width
        floor[ledger.own], floor[slot] = ledger.table.origins[ledger.own].stored, cut
        for peer, closing in claims.items():
            floor[peer] = closing.given
        heir = max([view.closed[slot][0], *(closing.heir for closing in claims.values())])
        view = replace(view, final={**view.final, slot: Ending(heir, cut, tuple(floor))})
        if heir or "no_guard" in ledger.mutants:  # its hosts need no guard: the heir has their custody
            view = replace(view, dropped=view.dropped | {slot})
        ledger.log(CLOSED, slot, heir, cut)
        self._set(view)
        return True

    def _serve(self) -> None:
        """N3: hosts are taken once every living station counts this one and all that it counts."""
        ledger, view = self.ledger, self.ledger.view
        if view.serving or view.sponsor:
            return
        views = [ledger.fifo.words.views.get(peer) for peer in ledger.fifo.peers]
        if views and all(told is not None and ledger.own not in told.members for told in views):  # N4
            ledger.out.append(Halt("the station that let this one in is lost, and no other knows of it: join again"))
            return
        known = set(view.members)
        if all(told is not None and known <= set(told.members) for told in views) or "serve_early" in ledger.mutants:
            self._set(replace(view, serving=True))

    def _needs_guard(self, record: Record) -> bool:
        """Whether the record came from a lost station, and its host is not past what was announced here before."""
        return record.state in ("open", "moved") and not record.ready and not settled(self.ledger, record)

    def give_up(self) -> None:
        """L9: guards of lost stations go together, when every one is off at every living station.

        Only after all that the end of a station changes here: until then it does not show whose guard is needed.
        """
        ledger, view = self.ledger, self.ledger.view
        if not view.closed:
            return
        alone = "release_alone" in ledger.mutants
        guarded_for = any(r.prev == EVERYWHERE and r.link and self._needs_guard(r) for r in ledger.all_records())
        off = () if guarded_for and not alone else tuple(sorted(slot for slot in view.released if slot in view.final))
        if off != ledger.fifo.words.off:
            ledger.fifo.words.off = off
            ledger.fifo.changed()
        guarded = set(view.guards())
        waiting = (view.closed.keys() - view.dropped) - set(off)
        views = [ledger.fifo.words.views.get(peer) for peer in ledger.fifo.peers]
        if guarded and not waiting and (alone or all(told is not None and guarded <= set(told.off) for told in views)):
            self._set(replace(view, dropped=view.dropped | guarded))
