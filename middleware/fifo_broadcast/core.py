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
from dataclasses import dataclass

from roamcast.middleware.effects import Broadcast, Effect, Notice, Reject, SendPeer
from roamcast.middleware.fifo_broadcast.batches import batches, first_sends
from roamcast.middleware.fifo_broadcast.claims import ClaimMatrix
from roamcast.middleware.fifo_broadcast.group_words import GroupWords
from roamcast.middleware.fifo_broadcast.stamps import UNKNOWN_BASE, Stamps, is_stamp
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import CONTROL_KINDS, Kind, Row, Vector
from roamcast.middleware.settings import Settings
from roamcast.middleware.station_frames import Claims, DataBatch, Nack

GUARD = -1
"""Row GUARD - r of the R matrix stands for the hosts of the lost station r."""


@dataclass(slots=True)
class _Request:
    """What is missing of one origin and when it is asked for next."""

    due: int
    tries: int = 0
    asked_to: int = 0


class FifoEntity:
    """One station's entity of the broadcast. Rows go to and come from the message table it shares with its parent."""

    def __init__(self, own: int, view: View, settings: Settings, table: MessageTable, mutants: frozenset[str]) -> None:
        self.own = own
        self.words = GroupWords(own, view, table)
        self.settings = settings
        self.table = table
        self._mutants = mutants
        floor = table.vector("floor")
        self.accepted = ClaimMatrix(view.counted, floor)
        self.stable_claims = ClaimMatrix(view.counted, floor)
        self.reduce = ClaimMatrix(view.counted, floor)
        self.known = table.vector("stored")
        self.sent = self.known[own]
        self.body_to: Callable[[Row], frozenset[int] | None] = lambda row: None
        """Peers that get an own row whole, the others its header; None: all get it whole."""
        self.last_heard: dict[int, int] = {}
        self.stamps = Stamps(own, table)
        self._early: dict[int, dict[int, Row]] = {}
        self._requests: dict[int, _Request] = {}
        self._asked_third: dict[int, int] = {}
        self._said_stored = [0] * table.width
        self._said_stable = [0] * table.width
        self._said_reduce = [0] * table.width
        self._said_sent = 0
        self._dirty = True
        self._owe_full = True
        self._want_all = True
        self._claims_at = 0
        self._full_at = 0
        self._progress = 0
        self._patience = settings.poll_timeout
        self.follow(view)

    # ---- who is there ----

    def follow(self, view: View) -> None:
        """The group has changed: a member more, one closed, one final, a guard given up."""
        self.words.follow(view)
        self.origins = view.members
        self.peers = tuple(slot for slot in view.living if slot != self.own)
        width = self.table.width
        self._early = {slot: self._early.get(slot, {}) for slot in self.origins}
        for vector in (self.known, self._said_stored, self._said_stable, self._said_reduce):
            vector += [0] * (width - len(vector))
        self.accepted.reshape(view.counted, width, {})
        self.stable_claims.reshape(view.counted, width, {})
        guards = view.guards()
        rows = (*view.counted, *(GUARD - slot for slot in guards))
        self.reduce.reshape(rows, width, {GUARD - slot: guard for slot, guard in guards.items()})
        for slot in self.origins:
            self._claim(self.own, slot, self.table.origins[slot].stored)
        for slot in view.closed:
            self._early[slot].clear()
            claims = (row[slot] for i, row in self.accepted.claims.items() if i not in view.closed)
            self.known[slot] = view.final[slot].cut if slot in view.final else max(claims)
            self._update_request(slot, self._progress, False)
        self._dirty = True

    def hear(self, station: int, now: int) -> bool:
        """A frame of `station` came. Returns whether it had been silent (not live) before."""
        silent = not self.is_live(station, now)
        self.last_heard[station] = now
        return silent

    def is_live(self, station: int, now: int) -> bool:
        """Whether the station was heard within down_after."""
        heard = self.last_heard.get(station)
        return station == self.own or (heard is not None and now - heard < self.settings.down_after)

    @property
    def stable(self) -> list[int]:
        """Level 2: every station has stored up to here, per origin."""
        return self.accepted.minima

    @property
    def known_stable(self) -> list[int]:
        """Level 3: every station knows level 2 up to here."""
        return self.stable_claims.minima

    @property
    def copied(self) -> int:
        """Own rows up to here are at as many stations as the settings ask for (C6); all, if alone."""
        stored = self.table.origins[self.own].stored
        if self.settings.copies < 2 or not self.peers or "no_copies" in self._mutants:
            return stored
        serving = [i for i in self.peers if (view := self.words.views.get(i)) is not None and view.serving]
        return max((self.accepted.claims[i][self.own] for i in serving), default=0)

    def _claim(self, station: int, stream: int, value: int) -> None:
        if self.accepted.merge(station, stream, value):
            self.stable_claims.merge(self.own, stream, self.accepted.minima[stream])
            self._dirty = True

    # ---- rows ----

    def accept_own(self, row: Row, now: int) -> None:
        """A row of our own stream was made: it is stored here first, then sent by `pump`."""
        self.table.append(row)
        self.known[self.own] = row.n
        self._stored(self.own, now)

    def _stored(self, origin: int, now: int) -> None:
        self._claim(self.own, origin, self.table.origins[origin].stored)
        self._dirty = True
        self._progress, self._patience = now, self.settings.poll_timeout

    def receive_data(self, sender: int, batch: DataBatch, now: int) -> tuple[list[Row], list[Effect]]:
        """Rows of one origin came. Returns the rows newly accepted, in order, and effects for faults."""
        origin = batch.origin
        if origin == self.own or origin not in self._early:
            if origin == self.own and batch.rows and batch.rows[-1].n > self.table.origins[origin].stored:
                return [], [self._went_back(sender, batch.rows[-1].n)]
            return [], [Reject(sender, "bad-origin", f"DATA of stream {origin}")]
        if origin != sender and self._asked_third.get(origin) != sender:
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
            if "base_newest" in self._mutants:
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
        self._update_request(origin, now, bool(accepted))
        request = self._requests.get(origin)
        if built_on_nothing and request is not None and not request.tries:
            request.due = now  # it is not on its way
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
        if claims.view is not None:
            self.words.views[sender] = claims.view
        for vector in (claims.stored, claims.stable, claims.reduce):
            for slot, value in vector:
                if slot not in self._early:
                    return [Reject(sender, "bad-slot", f"CLAIMS name slot {slot}")]
                if slot == self.own and value > own_stored:
                    return [self._went_back(sender, value)]
        for slot, value in claims.stored:
            if value > self.accepted.claims[sender][slot]:
                self._progress, self._patience = now, self.settings.poll_timeout
            self._claim(sender, slot, value)
            ended = slot in self.words.view.final
            if slot != sender and not ended:  # of its own it has more than its window has let it send
                self.known[slot] = max(self.known[slot], value)
        for slot, value in claims.stable:
            self.stable_claims.merge(sender, slot, value)
        for slot, value in claims.reduce:
            self.reduce.merge(sender, slot, value)
        self.known[sender] = max(self.known[sender], claims.sent)
        if self.own in claims.want:
            self._owe_full = True
            if claims.full:  # as after a start
                self.stamps.start_anew()
        for slot in self.origins:
            self._update_request(slot, now, False)
        return []

    def announce_reduce(self, vector: Vector) -> None:
        """R of this station rose: it goes with the next CLAIMS."""
        for slot in self.origins:
            if self.reduce.claims[self.own][slot] < vector[slot]:
                self.reduce.merge(self.own, slot, vector[slot])
                self._dirty = True

    # ---- repair ----

    def _update_request(self, origin: int, now: int, progress: bool) -> None:
        stored = self.table.origins[origin].stored
        if origin == self.own or stored >= self.known[origin]:
            self._requests.pop(origin, None)
            self._asked_third.pop(origin, None)
            return
        request = self._requests.get(origin)
        if request is None:
            self._requests[origin] = _Request(now + self.settings.nack_timeout)
        elif progress:
            answered = request.tries > 0 and stored >= request.asked_to
            self._requests[origin] = _Request(now if answered else now + self.settings.nack_timeout)

    def receive_nack(self, sender: int, nack: Nack) -> list[Effect]:
        """Answer from the table, at most nack_rows_max rows or nack_bytes_max bytes."""
        if nack.origin not in self._early or not 1 <= nack.first <= nack.last:
            return [Reject(sender, "bad-nack", f"NACK {nack.origin} {nack.first}..{nack.last}")]
        if nack.first <= self.table.origins[nack.origin].floor:
            return []  # a late copy: the asker has claimed these rows since, else they would still be here
        rows = self.table.rows(nack.origin, nack.first, min(nack.last, nack.first + self.settings.nack_rows_max - 1))
        for batch in batches(nack.origin, rows, self.settings):
            return [SendPeer(sender, batch)]
        return []

    def _ask(self, origin: int, request: _Request, now: int) -> Effect | None:
        first = self.table.origins[origin].stored + 1
        last = min(self.known[origin], first + self.settings.nack_rows_max - 1)
        if self._early[origin]:
            last = min(last, max(first, min(self._early[origin]) - 1))
        closed = origin in self.words.view.closed
        target = self.own if closed else origin
        if (closed or request.tries >= 2) and "no_third_party" not in self._mutants:
            holders = [origin] * (not closed) + [
                i
                for i in self.peers
                if i != origin and (closed or self.is_live(i, now)) and self.accepted.claims[i][origin] >= first
            ]
            target = holders[request.tries % len(holders)] if holders else target
        if target != origin:
            self._asked_third[origin] = target
        delay = min(self.settings.nack_timeout << min(request.tries, 16), self.settings.poll_timeout_max)
        self._requests[origin] = _Request(now + delay, request.tries + 1, last)
        return None if target == self.own else SendPeer(target, Nack(origin, first, last))

    # ---- output ----

    def pump(self, now: int) -> list[Effect]:
        """First sends of own rows within W above the lowest claim among live peers (Q3 b)."""
        stored = self.table.origins[self.own].stored
        if self.sent >= stored:
            return []
        counted = self.peers if "window_down" in self._mutants else [i for i in self.peers if self.is_live(i, now)]
        limit = min((self.accepted.claims[i][self.own] for i in counted), default=stored) + self.settings.send_window
        rows = self.table.rows(self.own, self.sent + 1, min(limit, stored))
        if not rows:
            return []
        self.sent = rows[-1].n
        self._dirty = True
        short = self.stamps.shorten(rows)
        return first_sends(batches(self.own, short, self.settings), self.peers, self.settings, self.body_to)

    def tick(self, now: int, hlc: int) -> list[Effect]:
        """NACKs and CLAIMS that are due at `now`."""
        due_requests = [item for item in sorted(self._requests.items()) if item[1].due <= now]
        asked = [self._ask(origin, request, now) for origin, request in due_requests]
        out = [effect for effect in asked if effect is not None]
        want = self._poll(now)
        owed = self._dirty or self._owe_full or bool(want)
        due = (owed and now >= self._claims_at + self.settings.claims_tick) or now >= self._full_due
        if not self.peers or not due:
            return out
        out.append(Broadcast(self._claims(now, hlc, want)))
        return out

    @property
    def _full_due(self) -> int:
        return self._full_at + self.settings.heartbeat

    def _lagging(self, now: int) -> list[int]:
        """Live peers that have not claimed everything stored here, or see another group."""
        stored = self.table.vector("stored")
        return [
            i
            for i in self.peers
            if self.is_live(i, now)
            and (any(self.accepted.claims[i][k] < stored[k] for k in self.origins) or not self.words.agrees(i))
        ]

    def _poll(self, now: int) -> tuple[int, ...]:
        if self._want_all:
            return self.peers
        if now < self._progress + self._patience or "no_poll" in self._mutants:
            return ()
        want = tuple(self._lagging(now))
        if want:
            self._progress = now
            self._patience = min(2 * self._patience, self.settings.poll_timeout_max)
        return want

    def _claims(self, now: int, hlc: int, want: tuple[int, ...]) -> Claims:
        full = self._owe_full or now >= self._full_due
        own_stable, own_reduce = self.stable_claims.claims[self.own], self.reduce.claims[self.own]
        own_stored = self.table.vector("stored")

        def changed(vector: list[int], said: list[int]) -> tuple[tuple[int, int], ...]:
            entries = tuple((k, vector[k]) for k in self.origins if full or vector[k] != said[k])
            for k, value in entries:
                said[k] = value
            return entries

        frame = Claims(
            full,
            changed(own_stored, self._said_stored),
            changed(own_stable, self._said_stable),
            changed(own_reduce, self._said_reduce),
            self.sent,
            hlc,
            want,
            self.words.say(),
        )
        self._dirty = self._owe_full = self._want_all = False
        self._claims_at = now
        if full:
            self._full_at = now
        return frame

    def full_claims(self, hlc: int) -> Claims:
        """Everything for one station alone, one that is not counted (any more); what was said to all stays so."""
        own = self.own
        vectors = (self.table.vector("stored"), self.stable_claims.claims[own], self.reduce.claims[own])
        stored, stable, reduce = (tuple((k, vector[k]) for k in self.origins) for vector in vectors)
        return Claims(True, stored, stable, reduce, self.sent, hlc, (), self.words.say())

    def changed(self) -> None:
        """Something that CLAIMS says has changed: say it with the next tick."""
        self._dirty = True

    def owe_full(self) -> None:
        """Say everything with the next CLAIMS."""
        self._owe_full = True

    def next_deadline(self, now: int) -> int | None:
        """When `tick` has something to do next."""
        if not self.peers:
            return None
        due = [self._full_due, *(request.due for request in self._requests.values())]
        if self._dirty or self._owe_full or self._want_all:
            due.append(self._claims_at + self.settings.claims_tick)
        if "no_poll" not in self._mutants and self._lagging(now):
            due.append(self._progress + self._patience)
        return min(due)
