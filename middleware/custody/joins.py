"""New incarnations of a name: the first one binds the enrolled record, later ones join.

Sources: overview section 8 (enrolment); one-order.md O-3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roamcast.middleware.custody.log_events import log_session
from roamcast.middleware.custody.record import LOST, Record
from roamcast.middleware.custody.stream import passed
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import Hello
from roamcast.middleware.rows import MH, Kind
from roamcast.middleware.spool_writes import SpoolMove
from roamcast.middleware.station_frames import HandoffNack
from roamcast.middleware.vectors import covers
from roamcast.middleware.writes import DropRecord, PutRecord, Write

if TYPE_CHECKING:
    from roamcast.middleware.custody.sessions import Sessions

JOINS_MAX = 4
"""Tentative joins of one name that are kept: nobody fills the books with incarnations."""


class Joins:
    """Who a host becomes that has no session anywhere. A part of `Sessions`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def bind(self, mh: MH) -> Record | None:
        """The record of an enrolment, not yet bound, becomes that of this incarnation (overview 8)."""
        ledger = self._sessions.ledger
        record = ledger.get((mh[0], 0), 0)
        if record is None:
            return None
        ledger.remove(record)
        old_key, record.mh = record.key, mh
        ledger.add(record)
        moved = [SpoolMove(old_key, record.key)] if record.spool else []
        ledger.write_row(Kind.BIND, *mh, PutRecord(record.image()), *moved, DropRecord(old_key))
        return record

    def disown(self, station: int, mh: MH, e: int) -> None:
        """No such session here: the host joins at the station that asks, in the place that it is given here."""
        ledger = self._sessions.ledger
        if ledger.orders(mh[0]):  # else it is asked again soon
            ledger.ask(station, HandoffNack(mh, e, ledger.next_join_order()))

    def join(self, channel: Channel, mh: MH, frame: Hello, order: int) -> None:
        """A new incarnation without a record anywhere: an unconfirmed record of its own (O-3).

        order: its place among the joins of the name. Clocks of stations cannot tell which of two concurrent joins is
        the newer; the enrolling station, which every first HELLO asks, can.
        """
        ledger = self._sessions.ledger
        if frame.le != 0 or ledger.bound(mh) is not None:
            if frame.le == 0 and self._sessions.former(mh[0], frame) == LOST:
                self._sessions.hello(channel, mh[0], frame)  # the row that binds it has come from the lost station
                return
            self._sessions.reset(channel, mh, frame.e)
            return
        joins = sorted(
            (r for r in ledger.of_host(mh[0]) if r.join), key=lambda record: (record.channel is not None, record.join)
        )
        for other in joins[: max(0, len(joins) + 1 - JOINS_MAX)]:
            self._sessions.end_session(other)
            ledger.drop(other)
        older = self._older_record(mh, order)
        record = Record(mh, frame.e, join=order, gap=older is None, ephemeral=frame.ephemeral, base=ledger.vector())
        record.t_vector, record.t_position = record.base, ledger.table.last_position
        self._sessions.open(record, channel, frame)

    def _older_record(self, mh: MH, order: int) -> Record | None:
        """An open record of an older incarnation of the name here, with all that waits for it.

        One that another station still guards does not count: ending it frees that guard, and R here is ahead of it.
        """
        others = [r for r in self._sessions.ledger.of_host(mh[0]) if r.mh[1] != mh[1] and r.order < order]
        records = [r for r in others if r.live and not r.gap and (r.ready or not r.link)]
        return max(records, key=lambda record: (record.channel is not None, record.away_since), default=None)

    def confirm(self, record: Record, gap_told: bool) -> None:
        """The joiner is a member from its WELCOME on: base, JOIN row and the older incarnation's spool in one write.

        If what came since the WELCOME may be gone (an unconfirmed join holds nothing), or what the WELCOME promised of
        the older incarnation is, `gap` is set: to be told before anything else.
        """
        ledger = self._sessions.ledger
        order, record.join = record.join, 0
        record.set_order(order)
        older = self._older_record(record.mh, order)
        writes: list[Write] = []
        if older is not None:
            self._sessions.expiry.name_replaced(older)
            self._sessions.end_session(older, final=True)
            writes = ledger.spools.trim(older, older.acked_c)
            writes += ledger.spools.drop(older, lambda item: item.topic > 0)  # a new incarnation subscribes by itself
            record.base = passed(ledger, older)  # what the older one acknowledged does not come again
            record.spool, older.spool = older.spool, []
            record.spool_bytes, older.spool_bytes = older.spool_bytes, 0
            if record.spool:
                writes += [SpoolMove(older.key, record.key), *ledger.spools.renumber(record)]
        elif not gap_told or not covers(record.base, ledger.fifo.reduce.claims[ledger.own]):
            record.base, record.gap, record.closed = ledger.vector(), True, True
        if not record.gap:
            log_session(ledger, record, 0, 0, gap_told and older is None)
        ledger.write_row(Kind.JOIN, *record.mh, PutRecord(record.image()), *writes, number=order)
        if older is not None:
            self._sessions.expiry.expire(older)
        self._sessions.downlink.add(record)
