"""A station is retired in order: its hosts move, and for those that sleep an heir takes its place.

While it drains, attached hosts are told MOVE and go by ordinary handoffs. What is left then (open records, spooled to
the end of the log; moved ones whose successor has said SPOOLED; tombs) is handed to the heir as it stands: the heir
holds the records until the end of the retired station is final, then it is the one that every `last`, `prev` and
`moved_to` of the retired station means. While it hands over, R stays where it is, so that nothing is dropped that the
heir still has to spool. Sources: the product decisions of lan-update.md ('Orderly retirement'); its reasons are told in
docs/protocols/membership.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from roamcast.middleware.custody import extras
from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.bodies import NUMBERS_MAX, Bodies
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.presence import Presence
from roamcast.middleware.custody.record import EVERYWHERE, Record
from roamcast.middleware.custody.retention import Retention
from roamcast.middleware.custody.sessions import Sessions
from roamcast.middleware.custody.stream import advance, first_owed
from roamcast.middleware.effects import HandedOver, Reject, SendPeer
from roamcast.middleware.host_frames import Move
from roamcast.middleware.rows import MH, Kind, SpoolItem
from roamcast.middleware.settings import MIB, SECOND
from roamcast.middleware.spool_writes import RecordKey
from roamcast.middleware.station_frames import Adopt, Adopted, AdoptPart, Keep
from roamcast.middleware.vectors import entry, merged
from roamcast.middleware.writes import DropHeld, PutHeld, PutRecord, Write

RETRY = SECOND
PARTS_AT_ONCE = 8
RECORDS_AT_ONCE = 64
"""Records that are offered together, and so many may be on their way here."""
BYTES_AT_ONCE = 64 * MIB


def _unready(record: Record) -> bool:
    """Whether its former station still guards for it, and will know nothing of an heir."""
    return record.link and record.confirmed and not record.ready


@dataclass(slots=True)
class _Arriving:
    """A record on its way to this heir."""

    frame: Adopt
    parts: dict[int, tuple[tuple[int, SpoolItem], ...]] = field(default_factory=dict)


class Heir:
    """Both ends of an orderly retirement at one station."""

    def __init__(
        self,
        ledger: Ledger,
        sessions: Sessions,
        asking: Asking,
        retention: Retention,
        presence: Presence,
        bodies: Bodies,
    ) -> None:
        self.ledger = ledger
        self._bodies = bodies
        bodies.heir_has = self._go_on
        self.presence = presence
        self.sessions = sessions
        self.asking = asking
        self.retention = retention
        self._had = ledger.table.vector("stored")
        """What was stored here a while ago; when the handing over began, once it has."""
        self._due = 0
        self._elsewhere: tuple[str, ...] = ()
        self._said = False
        self._keep_at = 0
        self._adopted: set[RecordKey] = set()
        self._sent_parts: dict[RecordKey, int] = {}
        self._offer_at: dict[RecordKey, int] = {}
        """When a record is offered again, unless the heir has acknowledged it."""
        self._arriving: dict[RecordKey, _Arriving] = {}

    # ---- the retiring station ----

    def retire(self, heir: int) -> None:
        """This station is to be retired; `heir` is to take its place."""
        ledger = self.ledger
        if not self._said and ledger.view.retiring != heir and heir in ledger.fifo.peers:
            self._adopted.clear()
            self._bodies.kept.clear()
            self._keep_at = 0
            self._offer_at.clear()
            ledger.follow(replace(ledger.view, retiring=heir))
            ledger.notice("warning", "retiring", heir=heir)
            self._due = ledger.now

    def set_elsewhere(self, obstacles: tuple[str, ...]) -> None:
        """What the driver still waits for before this station may end: nothing is handed over before there is none."""
        if self._elsewhere and not obstacles:
            self._due = self.ledger.now
        self._elsewhere = obstacles

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return self._due if self.ledger.view.retiring else None

    def expire(self) -> None:
        """Send the hosts away; hand over what is left."""
        ledger = self.ledger
        if not ledger.view.retiring or ledger.now < self._due:
            return
        self._due = ledger.now + RETRY
        if not ledger.view.handing:
            self._drain()
        if ledger.view.handing:
            self._hand_over()

    def _drain(self) -> None:
        ledger = self.ledger
        for channel in list(ledger.channels):
            ledger.tell(channel, Move(ledger.stations))
            self.sessions.channel_lost(channel)
            ledger.hang_up(channel, "this station is being retired")
        if not self._hindrances() and all(self.retention.is_absent(record) for record in self._unspooled()):
            for record in self._unspooled():
                self.retention.spool(record)
            if not self._unspooled():
                self.presence.farewell()
                self._checkpoint()
                ledger.follow(replace(ledger.view, handing=True, serving=False))
                ledger.notice("info", "handing-over", records=len(list(ledger.all_records())))
        self._had = ledger.table.vector("stored")

    def _checkpoint(self) -> None:
        """What hosts have acknowledged since the last collection must not come again from the heir; and what they send
        next, anywhere, must follow all that they may have had from here.
        """
        ledger = self.ledger
        sent = tuple(ledger.causal.sent)
        for record in ledger.all_records():
            record.sdep = merged(record.sdep, sent)
            trimmed: list[Write] = []
            if record.live:
                trimmed = ledger.spools.trim(record, record.acked_c)
                advance(ledger, record, ledger.table.last_position)
                record.base_c = record.acked_c
            ledger.persist(*trimmed, PutRecord(record.image()))

    def obstacles(self) -> list[str]:
        """What still has to happen before this station can end, as far as it is known yet; empty: nothing."""
        if self.ledger.view.handing:
            missing, bodies = len(self._missing()), sum(map(len, self._unkept().values()))
            left = [f"hosts not handed over yet: {missing}"] if missing else []
            return left + self._lacking() + ([f"bodies of mail not handed over yet: {bodies}"] if bodies else [])
        names = [self.ledger.name_of(record.mh[0]) for record in self._unspooled()]
        return [*(f"{name} is not spooled yet" for name in names), *self._hindrances()]

    def _unspooled(self) -> list[Record]:
        """Records that cannot be handed over as they stand."""
        ledger, end = self.ledger, self.ledger.table.last_position
        return [r for r in ledger.all_records() if r.live and (_unready(r) or first_owed(ledger, r) <= end)]

    def _hindrances(self) -> list[str]:
        """What else has to happen before custody can be handed over."""
        ledger = self.ledger
        left = []
        if ledger.channels or self.sessions.pending:
            left.append(f"{len(ledger.channels) + len(self.sessions.pending)} hosts are attached or arrive")
        for record in ledger.all_records():
            if record.state == "moved" and not record.succ_ok and record.moved_to is not None:
                left.append(f"{ledger.name_of(record.mh[0])} is on its way to station {record.moved_to[0]}")
        for peer in ledger.fifo.peers:
            view = ledger.fifo.words.views.get(peer)
            if view is None or not view.serving:
                left.append(f"station {peer} is not heard, or has not joined completely")
        for origin in dict.fromkeys(origin for origin, _ in ledger.held.values()):
            left.append(f"the end of station {origin}, whose heir this one is, is not settled")
        return [*left, *self._elsewhere, *self._lacking()]

    def _lacking(self) -> list[str]:
        """Who claims a message from here on says that this station does not serve: its copy counts no more."""
        stable, own = self.ledger.fifo.stable, self.ledger.own
        here = enumerate(self._had)
        if all(stable[slot] >= n for slot, n in here) and stable[own] >= self.ledger.table.origins[own].stored:
            return []
        return ["some station lacks messages that this one has"]

    def _missing(self) -> list[Record]:
        """Records that the heir has not acknowledged."""
        return [record for record in self.ledger.all_records() if record.key not in self._adopted]

    def _hand_over(self) -> None:
        """Say ADOPT for what the heir has not acknowledged; when it has all, retirement may be told to everybody."""
        ledger = self.ledger
        missing = self._missing()
        room = BYTES_AT_ONCE
        for record in missing[:RECORDS_AT_ONCE]:
            if room > 0 and self._offer_at.get(record.key, 0) <= ledger.now:
                self._offer_at[record.key] = ledger.now + RETRY
                room -= self._offer(record)
        self._hand_over_bodies()
        if not missing and not self._said and not self._lacking() and not self._unkept():
            self._said = True
            ledger.out.append(HandedOver(ledger.view.retiring))

    def _unkept(self) -> dict[int, list[int]]:
        """Numbers, by stream, of mail whose body is here, and perhaps nowhere else. What came later its origin has."""
        table, view = self.ledger.table, self.ledger.view
        left: dict[int, list[int]] = {}
        for slot in self.ledger.fifo.origins:
            upto = table.origins[slot].stored if slot in view.closed else entry(self._had, slot)
            for row in table.rows(slot, table.origins[slot].floor + 1, upto):
                if row.kind is Kind.MAIL and not row.lean and row.id not in self._bodies.kept:
                    left.setdefault(slot, []).append(row.n)
        return left if "no_keep" not in self.ledger.mutants else {}

    def _hand_over_bodies(self) -> None:
        """Say KEEP for bodies that the heir is not known to have."""
        ledger = self.ledger
        if self._keep_at > ledger.now:
            return
        self._keep_at = ledger.now + RETRY
        for slot, numbers in self._unkept().items():
            for first in range(0, len(numbers), NUMBERS_MAX):
                ledger.ask(ledger.view.retiring, Keep(slot, tuple(numbers[first : first + NUMBERS_MAX])))

    def _offer(self, record: Record) -> int:
        """ADOPT, and the next parts of its spool; returns their bytes."""
        ledger = self.ledger
        parts = self._parts(record)
        image = record.image()
        ledger.ask(ledger.view.retiring, Adopt(image, len(parts), ledger.table.last_position + 1, ledger.hlc))
        first = self._sent_parts.get(record.key, 0)
        for i in range(first, min(first + PARTS_AT_ONCE, len(parts))):
            ledger.out.append(SendPeer(ledger.view.retiring, AdoptPart(record.key, i, len(parts), parts[i])))
        self._sent_parts[record.key] = first + PARTS_AT_ONCE if first + PARTS_AT_ONCE < len(parts) else 0
        return sum(item.size for part in parts[first : first + PARTS_AT_ONCE] for _, item in part)

    def _parts(self, record: Record) -> list[tuple[tuple[int, SpoolItem], ...]]:
        parts: list[list[tuple[int, SpoolItem]]] = []
        size = 0
        for spooled in record.spool:
            if not parts or size + spooled.item.size > self.ledger.settings.spool_part_bytes:
                parts.append([])
                size = 0
            parts[-1].append((spooled.position, spooled.item))
            size += spooled.item.size
        return [tuple(part) for part in parts]

    def adopted(self, station: int, frame: Adopted) -> None:
        """The heir holds a record."""
        if self.ledger.view.handing and station == self.ledger.view.retiring:
            self._adopted.add(frame.key)
            self._go_on()

    def _go_on(self) -> None:
        self._due = self.ledger.now

    # ---- the heir ----

    def holds(self, mh: MH) -> bool:
        """Whether the answer to a question about this host must wait for the end of a retiring station."""
        return any(number == mh[0] for number, _, _ in self.ledger.held)

    def adopt(self, station: int, frame: Adopt) -> None:
        """A record of a retiring station comes; its spool may follow."""
        ledger, key = self.ledger, frame.image.key
        if key in ledger.held or ledger.get(frame.image.mh, frame.image.arr) is not None:
            ledger.ask(station, Adopted(key))
            return
        if ledger.view.retiring:
            return  # no heir: the retiring station is told of another one
        image = frame.image
        if max(len(v) for v in (image.base, image.sdep, image.t_vector)) > ledger.table.width:
            ledger.out.append(Reject(station, "bad-adopt", "ADOPT has more slots than the configuration"))
            return
        try:
            extras.unpack(dict(image.ext))
        except ValueError as error:
            ledger.out.append(Reject(station, "bad-adopt", str(error)))
            return
        arriving = self._arriving.get(key)
        if arriving is None or arriving.frame != frame:
            while len(self._arriving) >= RECORDS_AT_ONCE:
                del self._arriving[next(iter(self._arriving))]  # it is offered again
            arriving = self._arriving[key] = _Arriving(frame)
        self._arrived(station, key, arriving)

    def adopt_part(self, station: int, frame: AdoptPart) -> None:
        """A part of such a spool."""
        arriving = self._arriving.get(frame.key)
        if arriving is not None and frame.k == arriving.frame.parts and 0 <= frame.i < frame.k:
            arriving.parts[frame.i] = frame.entries
            self._arrived(station, frame.key, arriving)

    def _arrived(self, station: int, key: RecordKey, arriving: _Arriving) -> None:
        """All is here: hold it, in one write, and say so."""
        ledger, shift = self.ledger, arriving.frame.shift
        if len(arriving.parts) < arriving.frame.parts:
            return
        image = arriving.frame.image
        if image.state in ("open", "moved") and self._bodies.lacks(image.mh[0], image.base):
            return  # it is offered again
        del self._arriving[key]
        spool = [entry for i in range(arriving.frame.parts) for entry in arriving.parts[i]]
        if any(a[0] >= b[0] for a, b in pairwise(spool)):
            ledger.out.append(Reject(station, "bad-spool", "positions of an adopted spool do not ascend"))
            return
        ledger.raise_join_order(arriving.frame.join_order)
        record = Record.of(replace(image, base_c=image.base_c - shift, shift=image.shift + shift))
        if "no_shift" in ledger.mutants:
            record.shift = 0
        entries = [(position - shift, item) for position, item in spool]
        writes = ledger.spools.add(record, entries)
        ledger.held[key] = (station, record)
        ledger.persist(PutHeld(station, record.image()), *writes)
        ledger.ask(station, Adopted(key))

    # ---- its end is final ----

    def take_place(self, slot: int, heir: int) -> None:
        """The retired station `slot` has ended: its heir is meant wherever it is named; here that may be this one."""
        ledger = self.ledger
        for key, (origin, record) in list(ledger.held.items()):
            if origin == slot:
                del ledger.held[key]
                if heir == ledger.own:
                    self._activate(record)
                else:
                    ledger.persist(DropHeld(key, False), *ledger.spools.trim(record, ledger.table.last_position))
        for record in ledger.all_records():
            before = record.image()
            if record.moved_to is not None and record.moved_to[0] == slot:
                record.moved_to = (heir, record.moved_to[1])
            if record.prev == slot:
                record.prev = heir
            if record.prev == EVERYWHERE:
                record.noted.discard(heir)  # it may have got an older record of the host since
                self.asking.schedule(record)
            if record.image() != before:
                ledger.save(record, "heir")
                self.asking.schedule(record)

    def forget(self, slot: int) -> None:
        """The retiring station is lost before it had handed over all: its hosts are asked themselves."""
        ledger = self.ledger
        for key, (origin, record) in list(ledger.held.items()):
            if origin == slot:
                del ledger.held[key]
                ledger.persist(DropHeld(key, False), *ledger.spools.trim(record, ledger.table.last_position))

    def _activate(self, record: Record) -> None:
        """A held record is ours: spooled on to the end of the log here, before R counts it."""
        ledger = self.ledger
        joined = record.join and ledger.bound(record.mh) is not None  # elsewhere, since it was handed over
        if joined or record.mh[0] in ledger.revoked or ledger.gone(record.mh[0]):
            ledger.persist(DropHeld(record.key, False), *ledger.spools.trim(record, ledger.table.last_position))
            return
        writes: list[Write] = [DropHeld(record.key, True)]
        if record.live or record.state == "moved":
            waiting, end = self._bodies.ready(record, 0)
            writes += ledger.spools.add(record, [] if "held_not_spooled" in ledger.mutants else waiting)
            advance(ledger, record, end)
            record.t_vector, record.t_position = ledger.vector(), ledger.table.last_position
        heir_of = ledger.view.heir_of  # of a lost one: as it stands, `Admission.lost` follows
        if record.moved_to is not None:
            record.moved_to = (heir_of(record.moved_to[0]) or record.moved_to[0], record.moved_to[1])
        if record.prev is not None:
            record.prev = heir_of(record.prev) or record.prev
        if record.state == "open" and record.prev == EVERYWHERE and "held_not_claimed" not in ledger.mutants:
            record.link = True  # a later claim went past the retiring station, and its claimant may be lost since
        record.away_from, record.away_since = ledger.now, record.away_since or ledger.wall
        ledger.add(record)
        ledger.left.append(record)
        ledger.causal.depend(record.sdep)
        ledger.persist(*writes, PutRecord(record.image()))
        self.asking.schedule(record)
