"""Bodies of mail that are not here: whoever owes one to a host pulls it, and its stream waits; the log never does.

A lean row (`Row.lean`) is a header whose body went to other stations. R of a station does not pass it as long as a
record here owes it: so its origin, and whoever else has the body, still has the row. That holds for custody that nobody
guards for too, since it is taken only once no body is missing that R here has passed (`lacks`). If the origin is lost,
every living station is asked; a body that none of them has is given up, and the operator is told.

Source: one-order.md 3.7 and scenario 15; docs/protocols/causal-broadcast.md 'Lean bodies'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.stream import Owed, fold, owed
from roamcast.middleware.effects import Reject
from roamcast.middleware.rows import Kind, MessageId, Row, SpoolItem, Vector
from roamcast.middleware.settings import MIB, SECOND
from roamcast.middleware.station_frames import Body, BodyFrame, Keep, Kept, Pull
from roamcast.middleware.vectors import entry
from roamcast.middleware.writes import PutBody, Write

AHEAD = 64
"""Bodies that are asked for at once for one host."""
WANTED_MAX = 1_024
"""Bodies that are waited for in all; the first of each stream is asked for beyond that too."""
ROUND_BYTES = 4 * MIB
"""Bodies that one station is asked for in one round, in frames of PULL_BYTES."""
PULL_BYTES = MIB
NUMBERS_MAX = 1_024
LEASE = 10 * SECOND
"""A body that no record here owes yet is wanted for so long; whoever wants it says it again."""


@dataclass(slots=True)
class _Wanted:
    """A body that is waited for."""

    row: Row
    due: int
    delay: int
    records: list[Record] = field(default_factory=list)
    until: int = 0
    """Wanted until then, whether a record owes it or not."""
    tries: int = 0
    lacking: set[int] = field(default_factory=set)
    """Stations that do not have it either, of those that live now; asked only if its origin has ended."""


class Bodies:
    """Both sides of PULL and BODY at one station."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.came: Callable[[Record], None]
        """The stream of a record can go on. Set by `Downlink`."""
        self.heir_has: Callable[[], None]
        """The heir of this station, which ends in order, has more bodies. Set by `Heir`."""
        self.kept: set[MessageId] = set()
        """Of a station that ends in order: mail of which its heir has the body, or that nobody needs any more."""
        self._wanted: dict[MessageId, _Wanted] = {}
        self._due = 0
        self._living = ledger.view.living
        self._since = 0

    def __len__(self) -> int:
        return len(self._wanted)

    # ---- what is missing ----

    def missing(self, host: int, base: Vector, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(position, row) in the log, behind `after` and beyond `base`: mail to the host whose body is not here."""
        given_up = self.ledger.given_up
        return (one for one in self.ledger.table.lean_mail(host, base, after) if one[1].id not in given_up)

    def in_flight(self, record: Record) -> list[Write]:
        """What was sent of the log here, in any session, and the host has not acknowledged goes into the spool.

        So it comes elsewhere as it came here: among it nothing that was passed here, before a SUB or behind its end.
        """
        entries, end = self.ready(record, record.acked_c)
        end = min(end, max(record.sent, record.sent_before))
        taken = [one for one in entries if one[0] <= end]
        if not taken or "order_anew" in self.ledger.mutants:
            return []
        return fold(self.ledger, record, taken, end, self.ledger.table.vector_at(end))

    def first(self, record: Record, after: int) -> int:
        """Position of the first entry of the log that is owed and whose body is not here; last position + 1 if none.

        It is asked for, and some that follow it.
        """
        found = 0
        for count, (position, row) in enumerate(self.missing(record.mh[0], record.base, after)):
            if found and (count >= AHEAD or len(self._wanted) >= WANTED_MAX):
                break
            found = found or position
            wanted = self._want(row)
            if record not in wanted.records:
                wanted.records.append(record)
        return found or self.ledger.table.last_position + 1

    def ready(self, record: Record, after: int) -> tuple[list[Owed], int]:
        """What a spool can take of the stream behind `after`: all before the first body that is not here. And up to
        where that covers the log.
        """
        stream = owed(self.ledger, record, after)
        if "hole" in self.ledger.mutants:
            return [one for one in stream if not one[1].lean], self.ledger.table.last_position
        end = self.first(record, after) - 1
        return list(takewhile(lambda one: one[0] <= end, stream)), end

    def lacks(self, host: int, base: Vector) -> bool:
        """Whether custody of a host with this base cannot be taken yet: a body is not here, and nothing here keeps it.

        R as announced may have passed its row, so that it can be dropped everywhere.
        """
        ledger = self.ledger
        passed = ledger.fifo.reduce.claims[ledger.own]
        unguarded = [row for _, row in self.missing(host, base) if row.n <= entry(passed, row.slot)]
        for row in unguarded[:AHEAD]:
            self._want(row).until = ledger.now + LEASE
        return bool(unguarded) and "lean_unguarded" not in ledger.mutants

    def _want(self, row: Row) -> _Wanted:
        wanted = self._wanted.get(row.id)
        if wanted is None:
            now = self.ledger.now
            wanted = self._wanted[row.id] = _Wanted(row, now, self.ledger.settings.pull_retry)
            self._due = now
        return wanted

    def _is_needed(self, wanted: _Wanted) -> bool:
        row = wanted.row
        if not row.lean or self.ledger.table.origins[row.slot].get(row.n) is not row:
            return False
        return wanted.until > self.ledger.now or any(self._owes(record, row) for record in wanted.records)

    def _owes(self, record: Record, row: Row) -> bool:
        held = self.ledger.held.get(record.key)
        in_books = self.ledger.get(record.mh, record.arr) is record or (held is not None and held[1] is record)
        return in_books and record.state in ("open", "moved") and row.n > entry(record.base, row.slot)

    # ---- asking ----

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return self._due if self._wanted else None

    def expire(self, *, giving_up: bool = True) -> None:
        """Ask for what is due; give up what nobody has (that changes what streams are owed, so not in mid-output)."""
        ledger, now = self.ledger, self.ledger.now
        if not self._wanted or now < self._due:
            return
        if ledger.view.living != self._living or not self._since:
            self._ask_anew()
        rounds: dict[tuple[int, int], list[Row]] = {}
        sizes: dict[int, int] = {}
        for ident, wanted in list(self._wanted.items()):
            if wanted.due > now:
                continue
            if not self._is_needed(wanted):
                del self._wanted[ident]
                continue
            target = self._target(wanted)
            if target is None and self._is_hopeless(wanted):
                if giving_up:
                    self._give_up(wanted)
                continue
            asked = sizes.get(target or 0, 0)
            if target is not None and asked < ROUND_BYTES:
                sizes[target] = asked + wanted.row.size
                rounds.setdefault((target, ident[0]), []).append(wanted.row)
                wanted.tries += 1
                wanted.due = now + wanted.delay
                wanted.delay = min(2 * wanted.delay, ledger.settings.pull_retry_max)
            else:
                wanted.due = now + ledger.settings.pull_retry
        for (target, origin), rows in rounds.items():
            self._pull(target, origin, rows)
        self._due = min((wanted.due for wanted in self._wanted.values()), default=now)

    def _ask_anew(self) -> None:
        """The group has changed: who has what is asked again, and older answers do not count."""
        self._living, self._since = self.ledger.view.living, self.ledger.now
        for wanted in self._wanted.values():
            wanted.lacking.clear()
            wanted.due, wanted.tries, wanted.delay = self.ledger.now, 0, self.ledger.settings.pull_retry

    def _target(self, wanted: _Wanted) -> int | None:
        """The origin; after two tries whoever lives in turn, for any may have it. None: nobody is left to be asked."""
        fifo, origin = self.ledger.fifo, wanted.row.slot
        if origin in fifo.peers:
            others = [i for i in fifo.peers if i != origin and fifo.is_live(i, self.ledger.now)]
            ring = [origin, *others] if wanted.tries >= 2 and "origin_alone" not in self.ledger.mutants else [origin]
        else:
            left = [i for i in fifo.peers if i not in wanted.lacking]
            ring = [i for i in left if fifo.is_live(i, self.ledger.now)] or left
        return ring[wanted.tries % len(ring)] if ring else None

    def _pull(self, target: int, origin: int, rows: list[Row]) -> None:
        numbers: list[int] = []
        size = 0
        for row in sorted(rows, key=lambda row: row.n):
            if numbers and (size + row.size > PULL_BYTES or len(numbers) >= NUMBERS_MAX):
                self.ledger.ask(target, Pull(origin, self._since, tuple(numbers)))
                numbers, size = [], 0
            numbers.append(row.n)
            size += row.size
        self.ledger.ask(target, Pull(origin, self._since, tuple(numbers)))

    # ---- answering ----

    def receive(self, station: int, frame: BodyFrame) -> None:
        """What stations say to each other of bodies."""
        ledger = self.ledger
        if frame.origin not in ledger.fifo.origins:
            ledger.out.append(Reject(station, "bad-origin", f"bodies of stream {frame.origin}"))
            return
        match frame:
            case Pull():
                self._pulled(station, frame)
            case Body():
                self._body(station, frame)
            case Keep():
                self._keep(station, frame)
            case Kept():
                if ledger.view.handing and station == ledger.view.retiring:
                    self.kept.update((frame.origin, n) for n in frame.numbers)
                    self.heir_has()

    def _pulled(self, station: int, frame: Pull) -> None:
        """Send what is here; of a stream that has ended also say what is not, since nothing more comes of it."""
        ledger, rows = self.ledger, self.ledger.table.origins[frame.origin]
        ended = frame.origin not in ledger.view.living
        bodies: list[SpoolItem] = []
        lacking: list[int] = []
        size = 0
        for n in frame.numbers:
            row = rows.get(n)
            if row is not None and row.kind is Kind.MAIL and not row.lean:
                if bodies and size + row.size > ledger.settings.nack_bytes_max:
                    break
                bodies.append(SpoolItem(row.slot, n, row.item, row.size))
                size += row.size
                if frame.origin == ledger.own:
                    ledger.whereabouts.found(row.addressee, station, ledger.hlc)
            elif ended and n <= rows.stored:
                lacking.append(n)
        if bodies or lacking:
            ledger.ask(station, Body(frame.origin, frame.since, tuple(bodies), tuple(lacking)))

    def _body(self, station: int, frame: Body) -> None:
        ledger = self.ledger
        writes: list[PutBody] = []
        waiting: list[Record] = []
        for one in frame.bodies:
            wanted = self._wanted.get((frame.origin, one.n))
            if wanted is None or ledger.table.origins[frame.origin].get(one.n) is not wanted.row:
                continue  # a late copy
            if one.item is None or one.size != wanted.row.size:
                ledger.out.append(Reject(station, "bad-body", f"{one.size} bytes for row {wanted.row.id}"))
                continue
            del self._wanted[wanted.row.id]
            ledger.table.fill(wanted.row, one.item)
            writes.append(PutBody(wanted.row, one.item))
            waiting += [record for record in wanted.records if record not in waiting]
        if writes:
            ledger.persist(*writes)
            self._go_on(waiting)
        for n in frame.lacking if frame.since == self._since and frame.origin not in ledger.view.living else ():
            wanted = self._wanted.get((frame.origin, n))
            if wanted is not None:
                wanted.lacking |= set(ledger.fifo.peers) if "one_lacks" in ledger.mutants else {station}
                wanted.due = self._due = ledger.now

    def _go_on(self, records: list[Record]) -> None:
        """Streams that waited go on, those of absent hosts at the next collection; what they lack next is wanted."""
        for record in records:
            if record.channel is not None:
                self.came(record)
            elif not any(record in wanted.records for wanted in self._wanted.values()):
                self.first(record, record.acked_c)
        for wanted in self._wanted.values():
            if not wanted.tries:
                wanted.due = self._due = self.ledger.now

    # ---- the end of a body ----

    def _is_hopeless(self, wanted: _Wanted) -> bool:
        """Whether no living station has it: its origin has ended, and all have said so of the group as it is now."""
        view = self.ledger.view
        return wanted.row.slot not in view.living and view.closed.keys() == view.final.keys()

    def _give_up(self, wanted: _Wanted) -> None:
        """It went with lost stations: streams pass it, and the operator is told."""
        ledger, row = self.ledger, wanted.row
        del self._wanted[row.id]
        ledger.given_up.add(row.id)
        ledger.notice(
            "alarm", "body-lost", message=row.id, sender=ledger.name_of(row.host),
            host=ledger.name_of(row.addressee), bytes=row.size,
        )  # fmt: skip
        for record in wanted.records:
            self.came(record)

    def forget(self) -> None:
        """Rows were dropped."""
        origins = self.ledger.table.origins
        self.ledger.given_up = {(slot, n) for slot, n in self.ledger.given_up if origins[slot].get(n) is not None}

    def _keep(self, station: int, frame: Keep) -> None:
        """A station that ends in order has these: they are pulled here, for whoever will need them."""
        ledger, rows = self.ledger, self.ledger.table.origins[frame.origin]
        have: list[int] = []
        for n in frame.numbers:
            row = rows.get(n)
            if row is not None and row.lean:
                self._want(row).until = ledger.now + LEASE
            elif n <= rows.stored:
                have.append(n)
        if have and not ledger.view.retiring:
            ledger.ask(station, Kept(frame.origin, tuple(have)))
