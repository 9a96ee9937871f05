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
from roamcast.middleware.writes import PutRecord, Write

RETRY = SECOND


class Presence:
    """What one station says of the hosts in its custody; nothing unless the configuration wants it."""

    def __init__(self, ledger: Ledger, gate: Gate) -> None:
        self.ledger = ledger
        self.gate = gate
        self._heap: list[tuple[int, int, Record]] = []
        self._count = count()
        self._ended: dict[int, int] = {}
        """Station that has ended -> when to look whose presence nobody else tells."""

    def start(self) -> None:
        """After a start everybody is away."""
        self.ledger.left += [record for record in self.ledger.all_records() if record.shown]

    def configured(self) -> None:
        """Presence may be wanted from now on: who is attached, and who is not any more, has not been told."""
        if not self.ledger.topics.presence:
            shown = [record for record in self.ledger.all_records() if record.shown]
            for record in shown:
                record.set_shown(None)  # the values have gone: all is said again if it is wanted again
            if shown:
                self.ledger.persist(*(PutRecord(record.image()) for record in shown))
        else:
            self._ended.setdefault(self.ledger.own, self.ledger.now + RETRY)
            self.ledger.left += [r for r in self.ledger.all_records() if r.shown and r.channel is None]
            for record in list(self.ledger.channels.values()):
                self.look(record)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return min([*self._ended.values(), *(due for due, _, _ in self._heap[:1])], default=None)

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
        for slot in [slot for slot, due in self._ended.items() if due <= ledger.now]:
            del self._ended[slot]
            if self.gate.closed() is not None:
                self._ended[slot] = ledger.now + RETRY
            elif ledger.topics.presence and not self._say_of_ended(slot):
                self._ended[slot] = ledger.now + 10 * RETRY

    def _watch(self, record: Record, due: int) -> None:
        heapq.heappush(self._heap, (due, next(self._count), record))

    def farewell(self) -> None:
        """This station is about to hand over its records: whoever is left is away, and its heir may forget some."""
        for record in self.ledger.all_records():
            if record.shown is not None and record.shown[1] and self.ledger.topics.presence:
                self._say(record, record.shown[0], False)

    def ended(self, slot: int) -> None:
        """Station `slot` is no more: who was attached there, or on the way, is away as far as is known.

        Every living station says so, one after the other, unless another one has; and of the hosts that it gave away
        itself. One that is attached somewhere has had a word about a later attempt, or will have; so will one whose
        join is not confirmed yet.
        """
        rank = self.ledger.view.living.index(self.ledger.own) if self.ledger.own in self.ledger.view.living else 0
        self._ended[slot] = self.ledger.now + (1 + rank) * RETRY

    def _say_of_ended(self, slot: int) -> bool:
        """False: of some host it is not certain yet, since its custody here is on the move."""
        ledger, settled = self.ledger, True
        for topic in ledger.last.topics():
            value, host = ledger.last.get(topic), topic & ~PRESENCE
            if value is None or topic < PRESENCE or value.slot not in (slot, ledger.own) or value.order[2]:
                continue
            known, records = ledger.hosts.get(host), [r for r in ledger.of_host(host) if not r.join]
            if "p_older" not in ledger.mutants:  # what is left of an attempt before that one says nothing of it
                records = [r for r in records if r.channel is not None or (r.order, r.ep) >= value.order[:2]]
            if any(r.shown is not None and (r.shown[1] or r.shown[0] >= value.order[1]) for r in records):
                continue  # it tells by itself, or has just done so
            if any(not self._is_away(record, value.order[:2]) for record in records):
                settled = False
            elif host in ledger.names and known is not None:
                self._write(host, known.incarnation, (value.order[0], 0), value.order[1], False)
        return settled

    def _is_away(self, record: Record, attempt: tuple[int, ...]) -> bool:
        """Whether custody is here, of no older attempt than this one, and nobody is attached by it.

        Of an incarnation that is no more it is certain wherever custody is.
        """
        if attempt[0] < record.order and record.channel is None and "p_of_former" not in self.ledger.mutants:
            return True
        here = record.live and record.confirmed and record.channel is None
        return here and attempt <= (record.order, record.ep)

    def look(self, record: Record) -> None:
        """Say what is true of the host if it is not what was said; what cannot be said now is looked at again."""
        if not self._said(record):
            self._watch(record, self.ledger.now + RETRY)

    def _said(self, record: Record) -> bool:
        ledger = self.ledger
        if not ledger.topics.presence or record.mh[0] not in ledger.names or record.join:
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
        self._say(record, *truth)
        return True

    def _say(self, record: Record, epoch: int, attached: bool) -> None:
        ledger = self.ledger
        newest = ledger.last.get(PRESENCE | record.mh[0])
        record.set_shown((epoch, attached))
        late = newest is not None and newest.order >= (record.order, epoch, not attached)
        if late and "p_stale" not in ledger.mutants:  # a newer attempt has spoken, elsewhere
            ledger.persist(PutRecord(record.image()))
            return
        self._write(*record.mh, (record.order, 0), epoch, attached, PutRecord(record.image()))

    def _write(
        self, host: int, incarnation: int, order: tuple[int, int], epoch: int, attached: bool, *more: Write
    ) -> None:
        kind, name = Kind.ONLINE if attached else Kind.OFFLINE, f"{PRESENCE_PREFIX}{self.ledger.names[host]}"
        topic = PRESENCE | host
        self.ledger.write_row(kind, host, incarnation, *more, number=epoch, taken=order, addressee=topic, topic=name)
