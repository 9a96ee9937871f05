"""What a station tells its delivery log of rows and sessions. Source: audit.md R2, docs/protocols/delivery-log.md."""

from __future__ import annotations

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.delivery_log import BEFORE, ENDED, ENROLLED, MEMBER, ORDER, SESSION, SUBSCRIBED
from roamcast.middleware.rows import MessageId, Row


def log_order(ledger: Ledger, row: Row) -> None:
    """The row has its position. What its stamp says is told by its origin alone."""
    stamp = [number for pair in row.stamp for number in pair] if row.slot == ledger.own else ()
    ledger.log(
        ORDER, row.position, row.slot, row.n, row.kind, row.host, row.incarnation, row.number, row.hlc, *row.taken,
        row.addressee, row.size, stamp,
    )  # fmt: skip


def log_enrolled(ledger: Ledger, record: Record) -> None:
    """The host is a member, and is owed what the record's base does not cover."""
    ledger.log(MEMBER, *record.mh, ENROLLED, record.base)


def log_session(ledger: Ledger, record: Record, le: int, c: int, gap: bool) -> None:
    """From here on the host is served in session `record.sess`, and has so far what `base` covers.

    gap: it is told that messages up to there may have been given up.
    """
    spool = [number for entry in record.spool for number in (entry.item.slot, entry.item.n)]
    ledger.log(SESSION, *record.mh, record.sess, record.base_c, le, c, gap, record.base, spool)


def log_ended(ledger: Ledger, record: Record, topic: int, sub: MessageId, opening: int) -> None:
    """The SUB, or (0, 0) all of them, has ended. opening: the session that is about to begin; 0: none."""
    if opening:
        ledger.log(ENDED, *record.mh, topic, *sub, opening, BEFORE, BEFORE)
        return
    acked, last = record.acked_c + record.shift, ledger.table.last_position + record.shift
    ledger.log(ENDED, *record.mh, topic, *sub, record.sess, acked, last)


def begin_log(ledger: Ledger) -> None:
    """The log is new: it begins with the rows that have a position, and with where every host stands."""
    for position in range(ledger.table.first_logged, ledger.table.last_position + 1):
        row = ledger.table.row_at(position)
        if row is not None:
            log_order(ledger, row)
    for record in ledger.all_records():
        for topic, sub in sorted(record.subs.items()):
            ledger.log(SUBSCRIBED, *record.mh, topic, *sub)
        if record.sess:
            log_session(ledger, record, 0, 0, record.gap)
        else:
            log_enrolled(ledger, record)
