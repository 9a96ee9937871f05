"""A newcomer takes the sponsor's table: rows with their positions, counters, members, hosts, last values, in parts.

The sponsor keeps no state of it: once it counts the newcomer nothing that the newcomer may need is dropped, so every
part can be made anew from its store, after any crash on either side. The last part holds the counters of the same
instant as its rows. Source: composition.md section 7 (N1, N4).
"""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.effects import Halt, Renew, SendPeer
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.settings import MIB, SECOND
from roamcast.middleware.spool_writes import PutItems
from roamcast.middleware.station_frames import Claims, Snapshot, SnapshotReq
from roamcast.middleware.writes import (
    DropSnapshot,
    HostEntry,
    LastValue,
    PutHost,
    PutLast,
    PutRow,
    PutStreams,
    PutView,
    Write,
)

PART_BYTES = MIB
PART_ROWS = 4_000
PART_HOSTS = 4_000
ROW_BYTES, STAMP_BYTES, HOST_BYTES = 100, 12, 600
"""What a row has beside its item at most, and for each entry of its stamp; and a host with all that is kept of it."""
RETRY = SECOND


class Sponsor:
    """Answers a newcomer's requests."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def receive(self, sender: int, request: SnapshotReq) -> None:
        """One part: rows behind position `after`; once there are none left, hosts behind number `host`."""
        ledger, table = self.ledger, self.ledger.table
        if ledger.view.sponsor:
            return
        rows: list[tuple[int, Row]] = []
        size = 0
        for position in range(max(request.after + 1, table.first_logged), table.last_position + 1):
            row = table.row_at(position)
            if row is None:
                continue
            if rows and (len(rows) >= PART_ROWS or size + row.held > PART_BYTES):
                break
            rows.append((position, row))
            size += row.held + ROW_BYTES + STAMP_BYTES * len(row.stamp)
        reached = rows[-1][0] if rows else table.last_position
        complete = reached >= table.last_position
        hosts: list[HostEntry] = []
        if complete:
            for number in sorted(number for number in ledger.hosts if number > request.host):
                if size > PART_BYTES or len(hosts) >= PART_HOSTS:
                    complete = False
                    break
                hosts.append(ledger.hosts[number])
                size += HOST_BYTES
        values: list[tuple[LastValue, SpoolItem]] = []
        for value, kept in ledger.last.all(request.topic) if complete else ():
            if size > PART_BYTES or len(values) >= PART_HOSTS:
                complete = False
                break
            values.append((value, kept))
            size += kept.size + HOST_BYTES
        counters = [(k, table.origins[k].delivered, table.origins[k].floor) for k in ledger.fifo.origins]
        view = replace(ledger.view, serving=False, retiring=0, handing=False)
        ledger.out.append(
            SendPeer(
                sender,
                Snapshot(
                    request.after,
                    request.host,
                    request.topic,
                    tuple(rows),
                    tuple(hosts),
                    tuple(values),
                    complete,
                    tuple(counters),
                    table.last_position,
                    ledger.hlc,
                    view,
                ),
            )
        )


class Newcomer:
    """Asks its sponsor until it has all; `done` then makes a station of what the store holds."""

    def __init__(self, ledger: Ledger, after: int, rows: int) -> None:
        """`after`: the last position that came in an earlier life; `rows`: how many did."""
        self.ledger = ledger
        self.rows = rows
        """Taken so far."""
        self.ended: set[int] = set()
        """Stations that have ended, as far as the configuration says so here."""
        self._due = 0
        self._after = after
        self._host = max(ledger.hosts, default=0)
        self._topic = 0

    def next_deadline(self) -> int:
        """When `expire` asks again."""
        return self._due

    def expire(self) -> None:
        """Ask for the next part, if none came lately."""
        ledger = self.ledger
        if ledger.view.sponsor in self.ended:
            others = [slot for _, slot, _, _ in ledger.stations if slot not in (ledger.own, *self.ended)]
            if others:
                self._turn_to(others[0])
        if ledger.now >= self._due:
            self._due = ledger.now + RETRY
            ledger.out.append(SendPeer(ledger.view.sponsor, SnapshotReq(self._after, self._host, self._topic)))

    def _turn_to(self, sponsor: int) -> None:
        """The sponsor has ended: another station is asked, from the beginning."""
        ledger = self.ledger
        self._after = self._host = self._topic = self.rows = 0
        self._due = ledger.now
        ledger.view = replace(ledger.view, sponsor=sponsor)
        ledger.persist(DropSnapshot(), PutView(ledger.view))

    def told(self, claims: Claims) -> None:
        """The sponsor answers that it does not count this station: whoever let it in is lost, and nobody else knows."""
        view, own = claims.view, self.ledger.own
        if view is not None and (own not in view.members or own in view.closed):
            text = "this station is no member (any more), and never took hosts: join again, in a new directory"
            self.ledger.out.append(Halt(text))

    def receive(self, sender: int, part: Snapshot) -> None:
        """Take a part, in one write; the last one makes this a member with a store of its own."""
        ledger, own = self.ledger, self.ledger.own
        if sender != ledger.view.sponsor or own not in part.view.members:
            return
        if (part.after, part.host, part.topic) != (self._after, self._host, self._topic):
            return  # a late copy
        writes: list[Write] = [PutRow(row, position) for position, row in part.rows]
        writes += [PutHost(entry) for entry in part.hosts]
        self.rows += len(part.rows)
        self._after = max([self._after, *(position for position, _ in part.rows)])
        self._host = max([self._host, *(entry.number for entry in part.hosts)])
        self._topic = max([self._topic, *(value.topic for value, _ in part.values)])
        for value, kept in part.values:
            writes += [PutLast(value), *([PutItems((kept,))] if kept.size else [])]
        if part.complete:
            streams = tuple((k, delivered, delivered, floor) for k, delivered, floor in part.streams if k != own)
            writes += [PutStreams(streams, part.last_position, part.hlc), PutView(replace(part.view, sponsor=0))]
        ledger.persist(*writes)
        self._due = ledger.now
        if part.complete:
            ledger.out.append(Renew())
