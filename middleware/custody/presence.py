"""Presence: the station that has a host's custody says in the order whether the host is attached.

Level-triggered: what was said last (`record.shown`, which travels with custody) is compared with what is true, and said
anew if it differs. Attached: by a confirmed session, before anything that the host says in it. Away: after a grace.
Values compare by attempt, away after attached, so a late word about an old session changes nothing (one-order.md 4.5).
"""

from __future__ import annotations

import heapq
from itertools import count

from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.rows import PRESENCE, Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.topics import PRESENCE_PREFIX
from roamcast.middleware.writes import PutRecord

RETRY = SECOND


class Presence:
    """What one station says of the hosts in its custody; nothing unless the configuration wants it."""

    def __init__(self, ledger: Ledger, gate: Gate) -> None:
        self.ledger = ledger
        self.gate = gate
        self._heap: list[tuple[int, int, Record]] = []
        self._count = count()

    def start(self) -> None:
        """After a start everybody is away."""
        self.ledger.left += [record for record in self.ledger.all_records() if record.shown]

    def configured(self) -> None:
        """Presence may be wanted from now on: who is attached has not been told."""
        for record in list(self.ledger.channels.values()):
            self.look(record)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return self._heap[0][0] if self._heap else None

    def expire(self) -> None:
        """Hosts whose grace is over."""
        ledger = self.ledger
        left, ledger.left = ledger.left, []
        for record in left:
            self._watch(record, record.away_from + ledger.settings.presence_grace)
        while self._heap and self._heap[0][0] <= ledger.now:
            record = heapq.heappop(self._heap)[2]
            if ledger.get(record.mh, record.arr) is record:
                self.look(record)

    def _watch(self, record: Record, due: int) -> None:
        heapq.heappush(self._heap, (due, next(self._count), record))

    def look(self, record: Record) -> None:
        """Say what is true of the record's host if it is not what was said; what cannot be said now is looked at again."""
        if not self._said(record):
            self._watch(record, self.ledger.now + RETRY)

    def _said(self, record: Record) -> bool:
        ledger = self.ledger
        name = ledger.names.get(record.mh[0])
        if not ledger.topics.presence or name is None or record.join:
            return True
        attached = record.channel is not None and record.state == "open" and record.le == record.sess
        shown = record.shown
        if attached:
            truth = (record.sess, True)
        elif shown is None or not shown[1] or record.channel is not None:
            return True
        elif record.state == "moved" and not record.succ_ok:
            return False
        else:
            truth = (shown[0], False)
        if truth == shown:
            return True
        if self.gate.closed() is not None:
            return False
        self._say(record, name, *truth)
        return True

    def _say(self, record: Record, name: str, epoch: int, attached: bool) -> None:
        ledger, topic = self.ledger, PRESENCE | record.mh[0]
        newest = ledger.last.get(topic)
        record.set_shown((epoch, attached))
        late = newest is not None and newest.order >= (record.order, epoch, not attached)
        if late and "p_stale" not in ledger.mutants:  # a newer attempt has spoken, elsewhere
            ledger.persist(PutRecord(record.image()))
            return
        ledger.write_row(
            Kind.ONLINE if attached else Kind.OFFLINE,
            *record.mh,
            PutRecord(record.image()),
            number=epoch,
            taken=(record.order, 0),
            addressee=topic,
            topic=f"{PRESENCE_PREFIX}{name}",
        )
