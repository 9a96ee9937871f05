"""Hosts of a station that is lost for good: what it knew of them only they themselves can tell.

HELLO names the lost station; the host is asked (ASK) and says what it has (SEEN). It is owed what is in the log here
and above that, as a spool, so that nobody has to guard for it any more; it is told of a gap if rows that it may not
have were dropped already (they may have waited in the lost station's spool). Its own messages that no station has are
named to it: those acknowledged are lost, the fate of the others is unknown. Then all are told (CLAIMED) that what is
left of it elsewhere can go.

Sources: composition.md section 6 (L1-L8, R3), with the spool of one-order.md 3.6; docs/protocols/membership.md.
"""

from __future__ import annotations

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.bodies import Bodies
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import EVERYWHERE, LOST, Record
from roamcast.middleware.custody.sessions import Pending, Sessions
from roamcast.middleware.custody.stream import advance
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import Ask, Fates, Replaced, Seen, Wait
from roamcast.middleware.rows import MH, PRESENCE, STATION_KINDS, Kind, Vector
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, Cancel, Claimed, GroupQuery, Noted
from roamcast.middleware.vectors import covers, merged

ASK_INTERVAL = SECOND
OWN_NUMBERS_MAX = 7_000
"""Own messages that a host may have under way; more are not believed (WELCOME could not name them all)."""


def _covers(ranges: tuple[tuple[int, int], ...], number: int) -> bool:
    return any(first <= number <= last for first, last in ranges)


class Admission:
    """Everything that a lost station's end changes for hosts, at one of those that stay."""

    def __init__(self, ledger: Ledger, sessions: Sessions, asking: Asking, gate: Gate, bodies: Bodies) -> None:
        self.ledger = ledger
        self._bodies = bodies
        self.gate = gate
        self.sessions = sessions
        self.asking = asking
        self._ask_at: int | None = None
        """When attached hosts are asked for what they have sent, unless they have told it."""
        self._unbound: set[MH] = set()
        """Hosts here that no row said to be bound when they came: it may have gone with the lost station."""
        self._came: dict[MH, Record] = {}
        """Of hosts in `_claims` who came here since."""
        self._tell_at: int | None = None
        """When stations are told again that their claims of those are out of date."""
        self._claims: dict[MH, tuple[int, int]] = {}
        """(station, arr) of a claim that this station has noted: a later custody may be on its way here."""
        self._own_numbers: dict[MH, set[int]] = {}
        self._indexed: list[int] = []

    # ---- a station is final ----

    def _lost(self, slot: int) -> None:
        """R3: what was promised to the lost station is open again, what came from it is nobody's but everybody's."""
        ledger = self.ledger
        for record in ledger.all_records():
            before = record.image()
            if record.state == "done" and record.prev == slot:
                ledger.drop(record)  # it only waited for the lost station's RELEASED
                continue
            if record.moved_to is not None and record.moved_to[0] == slot:
                self._orphan(record)
            if record.link and record.prev == slot:
                record.prev = EVERYWHERE
                if record.state == "tomb":
                    record.exp_acked = True
            record.base, record.t_vector = ledger.view.void(record.base), ledger.view.void(record.t_vector)
            record.sdep = ledger.view.void(record.sdep)
            if record.image() != before:
                ledger.save(record, "orphan")
                self.asking.schedule(record)
        self.expect_fates()

    def _orphan(self, record: Record) -> None:
        """Custody that was promised to the lost station falls back, and is claimed: the host may be elsewhere since."""
        record.moved_to, record.succ_ok = None, False
        if record.state == "moved":
            record.state = "open"
            record.away_from, record.away_since = self.ledger.now, self.ledger.wall
            record.ready = record.ready or not record.link
            record.link, record.prev, record.noted = True, EVERYWHERE, set()

    def vouch(self) -> None:
        """Say again who is bound to what, with the place among the joins of its name that it has."""
        ledger = self.ledger
        if not self._unbound or self.gate.closed() is not None or not self._all_here(self._floor()):
            return
        for mh in list(self._unbound):
            stays = [r for r in ledger.records.get(mh, {}).values() if r.state in ("open", "moved") and not r.join]
            if not stays or ledger.bound(mh) is not None or ledger.gone(mh[0]):
                self._unbound.discard(mh)
            elif newest := next((r for r in stays if r.live and r.confirmed), None):
                ledger.write_row(Kind.JOIN, *mh, number=newest.order)

    def expect_fates(self) -> None:
        """Every session is asked once for the host's own messages: some may be lost."""
        for record in self.ledger.all_records():
            record.asked = False
        self._ask_at = self.ledger.now

    # ---- the host is asked ----

    def request(self, pending: Pending) -> None:
        """ASK, once all that may follow from the lost station's hosts is here (L1); one that is silent is given up."""
        ledger = self.ledger
        patience = 2 * pending.hello.ping_s * SECOND + ledger.settings.silence_slack
        if pending.asked and ledger.now - pending.asked > patience:
            self.sessions.drop_pending(pending.mh)
            ledger.hang_up(pending.channel, "silent")
        elif self._all_here(self._floor()):
            pending.asked = pending.asked or ledger.now
            ledger.tell(pending.channel, Ask(pending.hello.e))
        else:
            ledger.tell(pending.channel, Wait("the station before is lost; its last messages are gathered", 0, 0))

    def _floor(self) -> Vector:
        """F of all lost stations: what a message of one of their hosts must follow."""
        ledger = self.ledger
        floor: Vector = ()
        for ending in ledger.view.final.values():
            if not ending.heir:
                floor = merged(floor, ending.floor)
        return ledger.view.void(floor)

    def _all_here(self, floor: Vector) -> bool:
        origins = self.ledger.table.origins
        if "f_not_awaited" in self.ledger.mutants:
            return True
        return all(slot < len(origins) and origins[slot].stored >= n for slot, n in enumerate(floor) if n)

    def seen(self, channel: Channel, host: int, frame: Seen) -> None:
        """The host's answer, in an attempt or in a session."""
        ledger = self.ledger
        record = ledger.channels.get(channel)
        if frame.tx - frame.ack > OWN_NUMBERS_MAX or any(not 0 < q <= frame.ack for q in frame.stored):
            ledger.refuse(channel, "bad-seen", "own numbers out of range")
        elif record is not None and record.mh[0] == host and record.sess == frame.e:
            self._fates(channel, record, frame)
        else:
            pending = self.sessions.attempt(channel)
            wanted = pending is not None and pending.former == LOST and pending.hello.e == frame.e
            if pending is not None and wanted and self._all_here(self._floor()):
                self._admit(pending, frame)

    def _admit(self, pending: Pending, frame: Seen) -> None:
        """L2-L6: a record of what the host has itself said, its spool and session in one write, then WELCOME."""
        ledger, mh, hello = self.ledger, pending.mh, pending.hello
        order = ledger.bound(mh)  # None: the row that said it went with the lost station
        if mh in ledger.uncopied() or (order is None and self.gate.closed() is not None):
            return  # asked again soon
        seen, floor = self._told(frame), tuple(ledger.table.vector("floor"))
        known = bool(frame.seen)
        base = merged(seen, floor) if known else ledger.vector()
        if self._bodies.lacks(mh[0], base):
            pending.asked = 0
            ledger.tell(pending.channel, Wait("bodies of messages for this host are gathered", 0, 0))
            return
        self.sessions.drop_pending(mh)
        if ledger.replaced(mh):
            ledger.tell(pending.channel, Replaced(0))
            return
        if not self._believable(seen):
            ledger.refuse(pending.channel, "bad-seen", "it names messages that do not exist")
            return
        gap = not known or not covers(seen, floor)
        highest, absent = self._own(mh, frame)
        record = Record(
            mh, hello.e, prev=EVERYWHERE, link=True, t_vector=ledger.vector(), t_position=ledger.table.last_position,
            le=hello.le, ep=hello.e, base=base, lastseq=highest,
            sdep=seen if "f_not_followed" in ledger.mutants else merged(self._floor(), seen),
            gap=gap, ephemeral=hello.ephemeral,
        )  # fmt: skip
        ledger.causal.depend(record.sdep)
        self.sessions.subscriptions.end_all(record, hello.e)
        waiting, end = self._bodies.ready(record, 0)
        spooled = ledger.spools.add(record, [(i - len(waiting), holder) for i, (_, holder) in enumerate(waiting)])
        advance(ledger, record, end)
        record.set_order(ledger.next_join_order() if order is None else order)
        told = ledger.last.get(PRESENCE | mh[0])
        if told is not None and told.order[0] == record.order and not told.order[2]:
            record.set_shown((told.order[1], True))  # by the lost station; nobody else would take it back
        if order is None:
            ledger.write_row(Kind.JOIN, *mh, number=record.order)
        ledger.notice("warning" if gap else "info", "host-of-lost-station", host=ledger.name_of(mh[0]), gap=gap)
        self.sessions.open(record, pending.channel, hello, spooled, keep=True, absent=absent)

    def _told(self, frame: Seen) -> Vector:
        told = [0] * self.ledger.table.width
        for slot, n in frame.seen:
            if slot < len(told):
                told[slot] = n
        return self.ledger.view.void(told)

    def _believable(self, seen: Vector) -> bool:
        """Nothing is acknowledged that was never given to anybody: numbers beyond all that is known here."""
        known = self.ledger.fifo.known
        return all(n <= known[slot] for slot, n in enumerate(seen) if slot < len(known))

    # ---- the host's own messages ----

    def _own(self, mh: MH, frame: Seen) -> tuple[int, tuple[int, ...]]:
        """(lastseq, absent): all that was on a link counts as sent, and what no station has is named (L3, L4)."""
        here = self._own_rows(mh)
        taken = self._taken(mh)
        highest = max([frame.ack, frame.tx, *here, *(last for _, last in taken)])
        listed = [*frame.stored, *range(frame.ack + 1, highest + 1)]
        return highest, tuple(q for q in listed if q not in here and not _covers(taken, q))

    def _fates(self, channel: Channel, record: Record, frame: Seen) -> None:
        """L8: an attached host learns which of its acknowledged messages went with the lost station."""
        if self._all_here(self.ledger.view.void(record.sdep)):
            here, taken = self._own_rows(record.mh), self._taken(record.mh)
            absent = tuple(q for q in frame.stored if q not in here and not _covers(taken, q))
            record.asked = not absent  # asked once more, in case this answer is lost
            self.ledger.tell(channel, Fates(frame.e, absent))

    def _taken(self, mh: MH) -> tuple[tuple[int, int], ...]:
        """Own numbers of mh whose rows were here and were dropped."""
        entry = self.ledger.hosts.get(mh[0])
        return entry.taken if entry is not None and entry.incarnation in (0, mh[1]) else ()

    def _own_rows(self, mh: MH) -> set[int]:
        """Own numbers of mh in the table (and some that have left it since)."""
        table = self.ledger.table
        self._indexed += [0] * (table.width - len(self._indexed))
        for slot, origin in enumerate(table.origins):
            for row in table.rows(slot, self._indexed[slot] + 1, origin.stored):
                if row.number and row.kind not in STATION_KINDS:
                    self._own_numbers.setdefault((row.host, row.incarnation), set()).add(row.number)
            self._indexed[slot] = origin.stored
        return self._own_numbers.get(mh, set())

    # ---- the rest of the group ----

    def receive(self, station: int, frame: Claimed | Noted | GroupQuery) -> None:
        """What the stations say to each other of hosts of lost ones."""
        ledger = self.ledger
        match frame:
            case Claimed(mh, e):
                self._claimed(station, mh, e)
            case Noted(mh, e):
                if mh in self._came and self._claims[mh][0] == station and self._claims[mh][1] < e:
                    del self._came[mh], self._claims[mh]
                record = ledger.get(mh, e)
                if record is not None and record.link and record.prev == EVERYWHERE and record.ready:
                    record.noted.add(station)
                    self._settle(record)
            case GroupQuery(mh, e):
                highest = ledger.highest_epoch(mh)
                if highest > e:
                    ledger.ask(station, Cancel(mh, e, highest))

    def _claimed(self, station: int, mh: MH, e: int) -> None:
        """Of two that claim a host the later attempt has it, also while it is promised to another station."""
        ledger = self.ledger
        stays = [r for r in ledger.records.get(mh, {}).values() if r.state in ("open", "moved") and not r.join]
        newer = [r for r in stays if r.confirmed and r.arr > e]
        if newer:
            newest = max(newer, key=lambda record: record.arr)
            if (newest.ready or not newest.link) and self._let_go(mh, newest.arr):
                ledger.ask(station, Claimed(mh, newest.arr))
        elif self._let_go(mh, e):
            self._claims[mh] = (station, e)
            ledger.ask(station, Noted(mh, e))

    def settle(self) -> None:
        """A station has ended. Its heir may hold records that a lost one was to have, or had; and of those that have to
        note whose custody is here none may be left.
        """
        ledger = self.ledger
        lost = [slot for slot in ledger.view.final if not ledger.view.heir_of(slot)]
        for slot in lost:
            self._lost(slot)
        if lost:
            self._unbound |= {
                r.mh for r in ledger.all_records() if r.mh[1] and not r.join and ledger.bound(r.mh) is None
            }
        for record in list(ledger.all_records()):
            if record.link and record.prev == EVERYWHERE and record.ready:
                self._settle(record)

    def _settle(self, record: Record) -> None:
        if not record.noted >= set(self.ledger.view.living):
            return
        record.link = False
        if record.state == "done":
            self.ledger.drop(record)
        else:
            self.ledger.save(record, "released")

    def _let_go(self, mh: MH, e: int) -> bool:
        """L6: older records of the host end. False: one still points to a station whose end is not settled."""
        ledger = self.ledger
        old = [record for record in ledger.records.get(mh, {}).values() if record.arr < e and record.ep <= e]
        closing = ledger.view.closed.keys() - ledger.view.final.keys()
        if any((r.moved_to is not None and r.moved_to[0] in closing) or r.prev in closing for r in old):
            return False
        pending = self.sessions.pending.get(mh)
        if pending is not None and pending.hello.e < e:
            self.sessions.drop_pending(mh)
            ledger.hang_up(pending.channel, "the host is at another station")
        for record in old:
            self.sessions.end_session(record)
            if record.link and record.prev is not None and record.prev != EVERYWHERE:
                if record.state != "done":
                    record.state, record.ready, record.moved_to = "done", True, None
                    ledger.save(record, "deletion", *ledger.spools.trim(record, ledger.table.last_position))
                    ledger.ask(record.prev, Accept(mh, record.arr))
                    self.asking.schedule(record)
            else:
                ledger.drop(record)
        return True

    # ---- time ----

    def expire(self) -> None:
        """Ask attached hosts that have not told it yet; tell stations whose claim of a host is out of date."""
        ledger = self.ledger
        if self._came and (self._tell_at is None or self._tell_at <= ledger.now):
            self._tell()
        if self._ask_at is None or ledger.now < self._ask_at:
            return
        left = [(c, r) for c, r in ledger.channels.items() if not r.asked and r.state == "open" and not r.join]
        for channel, record in left:
            ledger.tell(channel, Ask(record.sess))
        self._ask_at = ledger.now + ASK_INTERVAL if left else None
        if self._ask_at is None:
            self._own_numbers.clear()
            self._indexed.clear()

    def _tell(self) -> None:
        """Say to those whose claim of a host is out of date where it is, until they have noted it."""
        ledger = self.ledger
        told = False
        for mh, record in list(self._came.items()):
            station, e = self._claims[mh]
            if record.state != "open" or ledger.get(mh, record.arr) is not record:
                del self._came[mh]
            elif record.le > e and (record.ready or not record.link):  # before, the other one may guard for it
                if station == ledger.own or station not in ledger.view.living:
                    del self._came[mh], self._claims[mh]
                else:
                    told = True
                    ledger.ask(station, Claimed(mh, record.le))
        self._tell_at = ledger.now + ASK_INTERVAL if told else None

    def opened(self, record: Record) -> None:
        """A session was opened: its host is asked too, as long as there are lost stations."""
        if record.mh in self._claims:
            self._came[record.mh] = record
        if self.ledger.view.lost:
            if not record.join and self.ledger.bound(record.mh) is None:
                self._unbound.add(record.mh)
            self._ask_at = self.ledger.now if self._ask_at is None else min(self._ask_at, self.ledger.now)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        tell_at = self._tell_at if self._came else None
        return min((at for at in (self._ask_at, tell_at) if at is not None), default=None)
