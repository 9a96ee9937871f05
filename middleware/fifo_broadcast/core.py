"""Reliable FIFO broadcast among the stations: flat OP with PACK.

Promise: rows of each origin are accepted at every station in order, once, without loss, over links that lose,
duplicate, delay and reorder; `stable` says what every station has accepted (level 2), `known_stable` what every
station knows to be stable (level 3). Nothing waits for level 3.

No claim rides in DATA. Once per claims tick one CLAIMS frame says stored (ACK), stable (PACK) and R of the causal
layer. Losses are found by gaps and by `sent` of CLAIMS, and repaired point to point by NACK.

Sources: paper 001; fifo-broadcast.md Q1-Q6 and (b). Deviations from the paper: docs/protocols/fifo-broadcast.md.
"""

from __future__ import annotations

from collections.abc import Callable

from roamcast.middleware.effects import Effect, Notice, Reject
from roamcast.middleware.fifo_broadcast.announcing import Announcing
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.fifo_broadcast.forwarding import Forwarding
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.fifo_broadcast.repair import Repair
from roamcast.middleware.fifo_broadcast.stamps import UNKNOWN_BASE, is_stamp
from roamcast.middleware.fifo_broadcast.standing import GUARD, Standing
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import CONTROL_KINDS, Kind, Row, Vector
from roamcast.middleware.settings import Settings
from roamcast.middleware.station_frames import Claims, DataBatch, Nack

__all__ = ["GUARD", "FifoEntity"]


class FifoEntity(Standing):
    """One station's entity of the broadcast. Rows go to and come from the message table it shares with its parent."""

    def __init__(
        self,
        own: int,
        view: View,
        settings: Settings,
        table: MessageTable,
        mutants: frozenset[str],
        layout: Layout = FLAT,
    ) -> None:
        super().__init__(own, view, settings, table, mutants, layout)
        self._early: dict[int, dict[int, Row]] = {}
        self._repair = Repair(self)
        self._forwarding = Forwarding(self)
        self._announcing = Announcing(self)
        self.follow(view)

    # ---- who is there ----

    def follow(self, view: View) -> None:
        """The group has changed: a member more, one closed, one final, a guard given up."""
        self._follow(view, self.layout)

    def set_layout(self, layout: Layout) -> None:
        """Other clusters from now on."""
        if layout != self.layout:
            self._follow(self.words.view, layout)

    def _follow(self, view: View, layout: Layout) -> None:
        before = self.place.mark
        self.settle_in(view, layout)
        if self.place.mark != before:
            self._announcing.begin_anew()
        self._early = {slot: self._early.get(slot, {}) for slot in self.origins}
        for slot in self.origins:
            self.claim(self.own, slot, self.table.origins[slot].stored)
            self.stable_claims.merge(self.own, slot, self.accepted.minima[slot])
        for slot in view.closed:
            self._early[slot].clear()
            claims = (row[slot] for i, row in self.accepted.claims.items() if i not in view.closed)
            self.known[slot] = view.final[slot].cut if slot in view.final else max(claims)
            self._repair.update(slot, self.progress, False)

    @property
    def sent(self) -> int:
        """Highest own number that was sent for the first time."""
        return self._forwarding.sent

    @property
    def body_to(self) -> Callable[[Row], frozenset[int] | None]:
        """Peers that get a row whole, the others its header; None: all get it whole."""
        return self._forwarding.body_to

    @body_to.setter
    def body_to(self, targets: Callable[[Row], frozenset[int] | None]) -> None:
        self._forwarding.body_to = targets

    # ---- rows ----

    def accept_own(self, row: Row, now: int) -> None:
        """A row of our own stream was made: it is stored here first, then sent by `pump`."""
        self.table.append(row)
        self.known[self.own] = row.n
        self._stored(self.own, now)

    def _stored(self, origin: int, now: int) -> None:
        self.claim(self.own, origin, self.table.origins[origin].stored)
        self.dirty = True
        self.moved(now)

    def receive_data(self, sender: int, batch: DataBatch, now: int) -> tuple[list[Row], list[Effect]]:
        """Rows of one origin came. Returns the rows newly accepted, in order, and effects for faults."""
        origin = batch.origin
        if origin == self.own or origin not in self._early:
            if origin == self.own and batch.rows and batch.rows[-1].n > self.table.origins[origin].stored:
                return [], [self._went_back(sender, batch.rows[-1].n)]
            return [], [Reject(sender, "bad-origin", f"DATA of stream {origin}")]
        if origin != sender and not (self._repair.was_asked(sender, origin) or self.place.may_bring(sender, origin)):
            return [], [Reject(sender, "bad-origin", f"station {sender} sent rows of {origin} unasked")]
        rows, early = self.table.origins[origin], self._early[origin]
        accepted: list[Row] = []
        faults: list[Effect] = []
        built_on_nothing = False
        for row in batch.rows:
            if (fault := self._fault(row, origin)) is not None:
                faults.append(Reject(sender, "bad-row", fault))
                break
            if row.n > self.known[origin]:
                if origin in self.words.view.closed:
                    continue
                self.known[origin] = row.n
            if not 0 < row.n - rows.stored <= self.settings.out_of_order_max:
                continue
            if row.steps is None or row.n not in early:
                early[row.n] = row
            if "base_newest" in self.mutants:
                self.stamps.resolve(row)
            while (head := early.pop(rows.stored + 1, None)) is not None:
                if (gap := self.stamps.resolve(head)) is not None:
                    built_on_nothing = True
                    faults += [] if gap == UNKNOWN_BASE else [Reject(sender, "bad-row", f"row {head.id}: {gap}")]
                    break
                self.stamps.stored(head)
                self.table.append(head)
                accepted.append(head)
        if accepted:
            self._stored(origin, now)
        self._repair.update(origin, now, bool(accepted))
        if built_on_nothing:
            self._repair.hurry(origin, now)
        return accepted, faults

    def _fault(self, row: Row, origin: int) -> str | None:
        if row.slot != origin or row.n < 1 or row.position is not None:
            return f"row ({row.slot}, {row.n}) in a batch of {origin}"
        if (row.kind in CONTROL_KINDS) == bool(row.size) or (row.lean and row.kind is not Kind.MAIL):
            return f"item of row ({row.slot}, {row.n})"
        return None if is_stamp(row, self._early) else f"stamp of row ({row.slot}, {row.n})"

    def _went_back(self, peer: int, number: int) -> Effect:
        stored = self.table.origins[self.own].stored
        return Notice("alarm", "store-went-back", {"peer": peer, "peer_knows": number, "stored": stored})

    # ---- claims ----

    def receive_claims(self, sender: int, claims: Claims, now: int) -> list[Effect]:
        """Merge what a peer has; learn what exists; note what it wants."""
        own_stored = self.table.origins[self.own].stored
        beyond = claims.beyond
        if claims.view is not None:
            self.words.views[sender] = claims.view
        told = () if beyond is None else (beyond.stored, beyond.stable, beyond.reduce)
        for vector in (claims.stored, claims.stable, claims.reduce, *told):
            for slot, value in vector:
                if slot not in self._early:
                    return [Reject(sender, "bad-slot", f"CLAIMS name slot {slot}")]
                if slot == self.own and value > own_stored:
                    return [self._went_back(sender, value)]
        if near := sender in self.accepted.claims:
            self._merge(sender, claims, now)
        for slot, value in claims.stored:
            ended = slot in self.words.view.final
            if slot != sender and not ended:  # of its own it has more than its window has let it send
                self.known[slot] = max(self.known[slot], value)
        self.known[sender] = max(self.known[sender], claims.sent)
        if near and beyond is not None and sender in self.accepted.beyond:
            self._merge_beyond(sender, beyond)
        elif beyond is not None and sender in self.place.far:
            self.deaf[sender] = now, beyond.down
        if self.own in claims.want:
            self._announcing.wanted_by(sender)
            if claims.full:  # as after a start
                self.stamps.start_anew()
        for slot in self.origins:
            self._repair.update(slot, now, False)
        return []

    def _merge(self, sender: int, claims: Claims, now: int) -> None:
        """What a station near claims itself is true in any layout."""
        for slot, value in claims.stored:
            if value > self.accepted.claims[sender][slot]:
                self.moved(now)
            self.claim(sender, slot, value)
        for level, vector in ((self.stable_claims, claims.stable), (self.reduce, claims.reduce)):
            for slot, value in vector:
                if level.merge(sender, slot, value) and self.place.is_gateway:
                    self.dirty = True

    def _merge_beyond(self, sender: int, beyond: Beyond) -> None:
        """What a gateway claims for all that it sees counts if it sees the same group in the same clusters."""
        self.down[sender] = beyond.down
        if beyond.mark != self.place.mark and "any_mark" not in self.mutants:
            return
        for slot, value in beyond.stored:
            if self.accepted.merge_beyond(sender, slot, value):
                self.stable_rose(slot)
        for slot, value in beyond.stable:
            self.stable_claims.merge_beyond(sender, slot, value)
        for slot, value in beyond.reduce:
            self.reduce.merge_beyond(sender, slot, value)

    def announce_reduce(self, vector: Vector) -> None:
        """R of this station rose: it goes with the next CLAIMS."""
        for slot in self.origins:
            if self.reduce.claims[self.own][slot] < vector[slot]:
                self.reduce.merge(self.own, slot, vector[slot])
                self.dirty = True

    def receive_nack(self, sender: int, nack: Nack) -> list[Effect]:
        """Answer from the table, at most nack_rows_max rows or nack_bytes_max bytes."""
        return self._repair.answer(sender, nack)

    # ---- output ----

    def pump(self, now: int) -> list[Effect]:
        """First sends of rows (Q3 b): own ones, and as a gateway those that others wait for."""
        return self._forwarding.pump(now)

    def tick(self, now: int, hlc: int) -> list[Effect]:
        """NACKs and CLAIMS that are due at `now`."""
        out, self.notices = self.notices, []
        out += self._repair.ask(now, self._early)
        return out + self._announcing.tick(now, hlc, self.sent)

    def full_claims(self, hlc: int) -> Claims:
        """Everything for one station alone, one that is not counted (any more); what was said to all stays so."""
        return self._announcing.full(hlc, self.sent)

    def changed(self) -> None:
        """Something that CLAIMS says has changed: say it with the next tick."""
        self.dirty = True

    def owe_full(self) -> None:
        """Say everything with the next CLAIMS."""
        self._announcing.owe_full = True

    def next_deadline(self, now: int) -> int | None:
        """When `tick` has something to do next."""
        if not self.peers:
            return None
        return min([self._announcing.next_deadline(now), *self._repair.deadlines()])
