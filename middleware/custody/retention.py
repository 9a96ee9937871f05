"""What is kept and for how long: spools of absent hosts, R, checkpoints and the collection of rows.

Collection runs every 5 s or 10,000 rows (O-2): spool who is absent, compute R, checkpoint every record, drop what all
stations have passed. Sources: one-order.md 3.5, 3.6, 3.8; causal-broadcast.md 'collect'; overview sections 6, 10.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.bodies import Bodies
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.stream import advance, first_owed, fold
from roamcast.middleware.fifo_broadcast.core import GUARD
from roamcast.middleware.rows import MH, STATION_KINDS, Row, Vector
from roamcast.middleware.spool_writes import RecordKey
from roamcast.middleware.vectors import entry, merged, minimum, raised
from roamcast.middleware.writes import DropRows, HostEntry, PutHost, PutRecord, Write

PAIR_TIMES = 12
"""A tomb of a pair is kept for so many times away_max."""

Ranges = tuple[tuple[int, int], ...]
RANGES_MAX = 16
"""Ranges of own numbers kept per host: a hole is a message that is still here, or that a lost station took along."""

IDLE_ROUNDS = 12
"""With nothing to collect a round is as many times rarer: it only looks at who has been away too long."""


def with_numbers(ranges: Ranges, numbers: Iterable[int]) -> Ranges:
    """`ranges` and `numbers` together. Of more than RANGES_MAX the lowest are taken for one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted([*ranges, *((n, n) for n in numbers)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    surplus = len(joined) - RANGES_MAX
    return ((joined[0][0], joined[surplus][1]), *joined[surplus + 1 :]) if surplus > 0 else tuple(joined)


class Retention:
    """Spooling, REDUCE and garbage collection of one station."""

    def __init__(self, ledger: Ledger, downlink: Downlink, asking: Asking, expiry: Expiry, bodies: Bodies) -> None:
        self.ledger = ledger
        self._bodies = bodies
        self.downlink = downlink
        self.asking = asking
        self.expiry = expiry
        self._collected_at = 0
        self._collected_to = ledger.table.last_position
        floor = ledger.table.vector("floor")
        self._announced: Vector = tuple(floor)
        """R as announced: a running maximum."""
        self._marks: deque[tuple[int, int]] = deque()
        """(time, last position) of the collections within spool_behind_time."""
        self._old = 0
        """Positions up to here are older than spool_behind_time, at the grain of collections."""

    def due(self) -> int | None:
        """When the next collection runs; None if nobody is in custody here and nothing is kept."""
        table = self.ledger.table
        if not table.rows_total and not self.ledger.trim_wanted:
            idle = IDLE_ROUNDS * self.ledger.settings.collect_interval  # who is away too long is away by time alone
            return self._collected_at + idle if self.ledger.records else None
        if table.last_position - self._collected_to >= self.ledger.settings.collect_rows:
            return self.ledger.now
        return self._collected_at + self.ledger.settings.collect_interval

    def collect(self) -> None:
        """One round, whole."""
        ledger = self.ledger
        self._collected_at = ledger.now
        self._collected_to = ledger.table.last_position
        ledger.trim_wanted = False
        self._marks.append((ledger.now, ledger.table.last_position))
        while self._marks[0][0] <= ledger.now - ledger.settings.spool_behind_time:
            self._old = self._marks.popleft()[1]
        for record in ledger.all_records():
            if record.state == "open" and ledger.outlived(record):
                self.expiry.end_replaced(record.mh[0])
            elif record.state == "open" and ledger.gone(record.mh[0]):  # custody was on its way when the host left
                self.expiry.end_gone(record.mh[0])
            elif record.join and record.channel is None and ledger.bound(record.mh) is not None:
                ledger.drop(record)  # its host has joined elsewhere: a crash came between the row that says so and this
            elif self._overdue(record):
                if record.join:
                    ledger.drop(record)
                else:
                    self.expiry.expire(record)
            elif self.is_absent(record):
                self.spool(record)
            elif self._purgeable(record):
                ledger.drop(record)
            elif record.live and "ready_by_ack" not in ledger.mutants:
                self.asking.try_ready(record)  # a right that went may have taken what was owed last
        firsts = {r.key: first_owed(ledger, r) for r in ledger.all_records() if r.live}
        if "skip_holds" in ledger.mutants:
            firsts = {r.key: min(firsts[r.key], max(r.acked_c, 0) + 1) for r in ledger.all_records() if r.live}
        held = [self._bodies.first(r, 0) for _, r in ledger.held.values() if "lean_held" not in ledger.mutants]
        self._announce(min([*firsts.values(), *held], default=ledger.table.last_position + 1))
        floors = self._floors()
        if "ckpt" not in ledger.mutants:
            self._checkpoint(firsts)
        drops: list[Write] = [*ledger.last.dropping(self._rows_below(floors))]
        drops += [DropRows(slot, floor) for slot, floor in floors]
        drops += [] if "no_taken" in ledger.mutants else self._taken(floors)
        if drops:
            if ledger.settings.lean_bytes:
                ledger.whereabouts.read()
            ledger.persist(*drops)
            for slot, floor in floors:
                ledger.table.drop(slot, floor)
            ledger.table.trim()
            if ledger.given_up:
                self._bodies.forget()

    # ---- spool ----

    def is_absent(self, record: Record) -> bool:
        """Whether the record is to be served from a spool now (one-order.md 3.6)."""
        ledger, settings = self.ledger, self.ledger.settings
        if "no_spool" in ledger.mutants:
            return False
        if record.state == "moved":
            return record.succ_ok or "moved_spool" in ledger.mutants
        if not record.live:
            return False
        if record.channel is None:
            return ledger.now - record.away_from >= settings.spool_grace
        first, last = first_owed(ledger, record), ledger.table.last_position
        return first <= last and (last - first >= settings.spool_behind_rows or first <= self._old)

    def spool(self, record: Record) -> None:
        """Copy every owed entry that is not acknowledged; base := end of log; one write, before R is computed again.

        Up to the first whose body is not here: the rest follows, and is held in the log meanwhile.
        """
        ledger = self.ledger
        entries, end = self._bodies.ready(record, record.acked_c)
        vector = ledger.table.vector_at(end)
        if entries or raised(record.base, vector) != record.base:
            if "front_kept" not in ledger.mutants:
                self.downlink.stand_apart(record)
            writes = fold(ledger, record, entries, end, vector)
            if "spool" in ledger.mutants:
                ledger.persist(PutRecord(record.image()))
                ledger.persist(*writes)
            else:
                ledger.persist(*writes, PutRecord(record.image()))
            if record.link and not record.ready:
                self.asking.schedule(record)
        self.asking.try_ready(record)

    def _overdue(self, record: Record) -> bool:
        """Whether an absent host's custody ends: away too long, or its spool is full."""
        settings = self.ledger.settings
        if record.state != "open" or record.channel is not None:
            return False
        away = self.ledger.now - record.away_from
        if record.ephemeral and away >= settings.ephemeral_away_max:
            return True
        return record.spool_bytes > settings.spool_bytes_max or self._away_too_long(record)

    def _purgeable(self, record: Record) -> bool:
        """A tomb goes with its name, or after as long again: a later HELLO of it is a RESET.

        One of a pair, left by an expiry in the middle of a handoff, stays longer: its host may name either.
        """
        if record.state != "tomb" or (record.link and not record.exp_acked):
            return False
        told = self.ledger.topics.presence or not self.ledger.configured
        if told and record.shown is not None and record.shown[1]:
            return False  # that the host is away is still to be said
        ended = self.ledger.outlived(record) or self.ledger.gone(record.mh[0])
        pair = record.link or record.moved_to is not None
        return ended or self._away_too_long(record, PAIR_TIMES if pair else 2)

    def _away_too_long(self, record: Record, times: int = 1) -> bool:
        """By wall time, and only after an hour without a jump of the wall clock (overview section 5)."""
        ledger = self.ledger
        settled = ledger.now - ledger.clock_jumped_at >= ledger.settings.clock_settle
        return settled and record.away_since > 0 and ledger.wall - record.away_since >= times * ledger.settings.away_max

    # ---- R and collection ----

    def _announce(self, first: int) -> None:
        """R := DELIV before the first owed entry of anybody, and below the bases of moved records; it never falls."""
        ledger = self.ledger
        if "no_acked" in ledger.mutants:
            first = ledger.table.last_position + 1
        reduce = ledger.table.vector_at(first - 1)
        for record in ledger.all_records():
            if record.state == "moved":
                reduce = minimum(reduce, record.base)
        self._announced = merged(self._announced, reduce)
        ledger.fifo.announce_reduce(self._announced)

    def _floors(self) -> list[tuple[int, int]]:
        """(slot, floor) of origins whose rows all stations have passed."""
        ledger = self.ledger
        floors = []
        for slot in ledger.fifo.origins:
            origin = ledger.table.origins[slot]
            floor = min(ledger.fifo.reduce.minima[slot], origin.delivered)
            if floor > origin.floor:
                floors.append((slot, floor))
        return floors

    def _checkpoint(self, firsts: dict[RecordKey, int]) -> None:
        """base, base_c := passed, acked_c for every open record that moved, also one that only skipped."""
        ledger = self.ledger
        vectors: dict[int, Vector] = {}
        writes: list[Write] = []
        for record in ledger.all_records():
            first = firsts.get(record.key)
            if first is None or not record.live:
                continue
            if "ckpt_acked_only" in ledger.mutants and record.acked_c == record.base_c:
                continue
            if first not in vectors:
                vectors[first] = ledger.table.vector_at(first - 1)
            moved = raised(record.base, vectors[first]) != record.base
            trimmed = ledger.spools.trim(record, record.acked_c)
            if moved or trimmed:
                advance(ledger, record, first - 1, vectors[first])
                record.base_c = record.acked_c
                writes += [*trimmed, PutRecord(record.image())]
        if writes:
            ledger.persist(*writes)

    def _taken(self, floors: Sequence[tuple[int, int]]) -> list[Write]:
        """What is about to be dropped was taken from its senders: a host of a lost station must not send it again."""
        ledger = self.ledger
        numbers: dict[MH, list[int]] = {}
        for row in self._rows_below(floors):
            if row.number and row.kind not in STATION_KINDS:
                numbers.setdefault((row.host, row.incarnation), []).append(row.number)
        writes: list[Write] = []
        for (number, incarnation), dropped in numbers.items():
            known = ledger.hosts.get(number) or HostEntry(number, 0, (0, 0, 0), False)
            if known.incarnation in (0, incarnation):  # 0: the row that binds it is to come, or is said again soon
                ledger.hosts[number] = replace(known, taken=with_numbers(known.taken, dropped))
                writes.append(PutHost(ledger.hosts[number]))
        return writes

    def _rows_below(self, floors: Sequence[tuple[int, int]]) -> list[Row]:
        """The rows that go when the floors are raised to these."""
        table = self.ledger.table
        return [row for slot, floor in floors for row in table.rows(slot, table.origins[slot].floor + 1, floor)]

    def full(self) -> bool:
        """Whether the log has reached its bound: uplinks wait."""
        table, settings = self.ledger.table, self.ledger.settings
        return table.bytes_total >= settings.retain_bytes or table.rows_total >= settings.retain_rows

    def holder(self) -> int:
        """The station whose R holds back the most rows; 0 if none does."""
        fifo, table = self.ledger.fifo, self.ledger.table
        behind = {
            i: sum(max(0, table.origins[k].delivered - entry(claims, k)) for k in fifo.origins)
            for i, claims in fifo.reduce.claims.items()
        }
        worst = max(sorted(behind), key=lambda slot: behind[slot])
        return (worst if worst > 0 else GUARD - worst) if behind[worst] else 0
