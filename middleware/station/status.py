"""The core's part of `mss-station status`: plain data, no host bodies, no keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roamcast.middleware.custody.record import Record
    from roamcast.middleware.station.core import StationCore


def _record(core: StationCore, record: Record) -> dict[str, Any]:
    return {
        "host": core.ledger.name_of(record.mh[0]),
        "number": record.mh[0],
        "state": record.state,
        "epoch": record.ep,
        "arrived": record.arr,
        "attached": record.channel is not None,
        "confirmed": record.confirmed,
        "link": record.link,
        "ready": record.ready,
        "former": record.prev,
        "moved_to": record.moved_to,
        "join": bool(record.join),
        "acknowledged": record.acked_c,
        "sent": core.downlink.sent_to(record),
        "spooled": len(record.spool),
        "spool_bytes": record.spool_bytes,
        "away_since": record.away_since,
    }


def status(core: StationCore) -> dict[str, Any]:
    """Attached hosts, custody records, queues per origin, what the oldest undelivered message waits for, collection."""
    ledger, table, fifo = core.ledger, core.ledger.table, core.ledger.fifo
    records = sorted(ledger.all_records(), key=lambda record: record.key)
    blocked = ledger.causal.blocked()
    waiting = [(table.origins[k].get(table.origins[k].delivered + 1), what) for k, what in blocked.items()]
    oldest = min((w for w in waiting if w[0] is not None), key=lambda w: w[0].hlc if w[0] else 0, default=None)
    return {
        "slot": ledger.own,
        "position": table.last_position,
        "hlc": ledger.hlc,
        "uplinks": core.gate.closed() or "open",
        "attached": [ledger.name_of(r.mh[0]) for r in records if r.channel is not None],
        "records": [_record(core, record) for record in records],
        "pending": [
            {"host": ledger.name_of(mh[0]), "epoch": p.hello.e, "former": p.hello.last, "since": p.since}
            for mh, p in sorted(core.sessions.pending.items())
        ],
        "streams": [
            {
                "origin": k,
                "stored": table.origins[k].stored,
                "delivered": table.origins[k].delivered,
                "floor": table.origins[k].floor,
                "known": fifo.known[k],
                "stable": fifo.stable[k],
                "rows": len(table.origins[k].rows),
                "waiting": table.origins[k].stored - table.origins[k].delivered,
            }
            for k in fifo.origins
        ],
        "oldest_undelivered": None
        if oldest is None or oldest[0] is None
        else {"message": oldest[0].id, "waits_for": oldest[1]},
        "rows": table.rows_total,
        "row_bytes": table.bytes_total,
        "spool_items": len(ledger.spools),
        "lean_rows": table.lean_total,
        "bodies_awaited": len(core.bodies),
        "collection_held_by": core.retention.holder() if table.rows_total else 0,
        "live": dict(sorted(core.live.counts.items())),
        "live_refused": core.live.refuses(),
        "peers": [{"slot": i, "live": fifo.is_live(i, ledger.now)} for i in fifo.peers],
    }
