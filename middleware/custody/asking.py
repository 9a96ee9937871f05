"""What records ask of other stations, and when they ask again.

A confirmed record past its arrival says ACCEPT until RELEASED; an unconfirmed one asks QUERY, a moved one PROBE, an
expired unconfirmed one says EXPIRE until XACK, and SPOOLED frees a former station that guards for an absent host.
Tombs do not ask. Source: causal-broadcast.md 'Timer', one-order.md 3.6, overview section 10 (custody timers).
"""

from __future__ import annotations

import heapq

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import EVERYWHERE, Record
from roamcast.middleware.custody.stream import settled
from roamcast.middleware.station_frames import Accept, Claimed, CustodyFrame, Expire, GroupQuery, Probe, Query, Spooled
from roamcast.middleware.vectors import covers


class Asking:
    """Timers of all records that wait for another station."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._heap: list[tuple[int, int, Record]] = []
        self._count = 0

    def schedule(self, record: Record) -> None:
        """The record changed: ask from the first interval on, if it has anything to ask."""
        settings = self.ledger.settings
        record.retry_delay = settings.handoff_retry if record.link and record.ready else settings.custody_retry
        self._push(record)

    def _push(self, record: Record) -> None:
        record.retry_at = self.ledger.now + record.retry_delay
        self._count += 1
        heapq.heappush(self._heap, (record.retry_at, self._count, record))

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        while self._heap and not self._valid(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _valid(self, slot: tuple[int, int, Record]) -> bool:
        due, _, record = slot
        known = due == record.retry_at and self.ledger.get(record.mh, record.arr) is record
        return known and bool(self.questions(record))

    def expire(self) -> None:
        """Ask whatever is due, and again after twice the interval."""
        ledger, settings = self.ledger, self.ledger.settings
        while self._heap and self._heap[0][0] <= ledger.now:
            slot = heapq.heappop(self._heap)
            record = slot[2]
            if not self._valid(slot):
                continue
            for station, frame in self.questions(record):
                ledger.ask(station, frame)
            most = settings.handoff_retry_max if record.link and record.ready else settings.custody_retry_max
            record.retry_delay = min(2 * record.retry_delay, most)
            self._push(record)

    def peer_is_back(self, station: int) -> None:
        """A silent station is heard: ask it from the first interval again."""
        for record in self.ledger.all_records():
            if record.prev in (station, EVERYWHERE) or (record.moved_to is not None and station == record.moved_to[0]):
                self.schedule(record)

    def questions(self, record: Record) -> list[tuple[int, CustodyFrame]]:
        """(station, frame) of everything the record has to ask now."""
        asked: list[tuple[int, CustodyFrame]] = []
        mh, mutants = record.mh, self.ledger.mutants
        if record.link and record.prev == EVERYWHERE:
            asked += self._of_lost(record)
        elif record.link and record.prev is not None:
            if record.ready:
                asked.append((record.prev, Accept(mh, record.arr)))
            elif record.state == "tomb" and not record.confirmed:
                if not record.exp_acked:
                    asked.append((record.prev, Expire(mh, record.arr, record.base)))
            elif self._may_say_spooled(record):
                asked.append((record.prev, Spooled(mh, record.arr)))
            if record.state == "open" and not record.confirmed and "no_query" not in mutants:
                asked.append((record.prev, Query(mh, record.arr)))
        if record.state == "moved" and record.moved_to is not None and "no_probe" not in mutants:
            asked.append((record.moved_to[0], Probe(mh, record.moved_to[1])))
        return asked

    def _of_lost(self, record: Record) -> list[tuple[int, CustodyFrame]]:
        """Its former station is lost: all are told that the host is here, or asked whether it has been elsewhere."""
        if record.ready and "no_claimed" not in self.ledger.mutants:
            told = [slot for slot in self.ledger.view.living if slot not in record.noted]
            return [(slot, Claimed(record.mh, record.arr)) for slot in told]
        if record.state == "open" and not record.confirmed and "no_group_query" not in self.ledger.mutants:
            return [(slot, GroupQuery(record.mh, record.arr)) for slot in self.ledger.view.living]
        return []

    def _may_say_spooled(self, record: Record) -> bool:
        """Its own spool covers all that this station had announced when custody came."""
        if "no_spooled" in self.ledger.mutants or not covers(record.base, record.t_vector):
            return False
        return (record.state == "open" and not record.confirmed) or (record.state == "moved" and record.succ_ok)

    def try_ready(self, record: Record) -> None:
        """After an acknowledgement or a spooling: accept custody for good once the host is past its arrival."""
        if record.link and not record.ready and record.confirmed and settled(self.ledger, record):
            record.ready = True
            self.ledger.save(record, "ready")
            if record.prev is not None:
                self.ledger.ask(record.prev, Accept(record.mh, record.arr))
            self.schedule(record)
