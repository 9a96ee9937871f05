"""Handoff: custody moves from the station that holds it to the one that the host calls.

A clean handoff is exactly four messages between the two: HANDOFF_REQ, STATE, ACCEPT, RELEASED (and SPOOL_PARTs if
something waits in a spool). The rest settles races: CANCEL, HANDOFF_NACK, QUERY, PROBE, NOREC; EXPIRE, XACK; SPOOLED.
The former station guards the log for the host until the new one says ACCEPT: when the host is past what the new
station had announced before custody came. Sources: causal-broadcast.md (b); one-order.md 3.6; overview section 8.
"""

from __future__ import annotations

from roamcast.middleware.custody import extras
from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import EVERYWHERE, Record
from roamcast.middleware.custody.sessions import EPOCH_LEAP_MAX, Pending, Sessions
from roamcast.middleware.custody.stream import is_unsettled
from roamcast.middleware.delivery_log import HANDOFF
from roamcast.middleware.effects import Reject, SendPeer
from roamcast.middleware.host_frames import Replaced, Stale, Wait
from roamcast.middleware.rows import MH, SpoolItem, Vector
from roamcast.middleware.station_frames import (
    Accept,
    Cancel,
    CustodyFrame,
    Expire,
    HandoffNack,
    HandoffReq,
    NoRec,
    Probe,
    Query,
    Released,
    Spooled,
    SpoolPart,
    State,
    XAck,
)
from roamcast.middleware.vectors import entry, merged
from roamcast.middleware.writes import PutClock, Write


class Handoff:
    """The wired part of custody at one station."""

    def __init__(self, ledger: Ledger, sessions: Sessions, asking: Asking, expiry: Expiry, gate: Gate) -> None:
        self.ledger = ledger
        self.gate = gate
        self.sessions = sessions
        self.asking = asking
        self.expiry = expiry

    def receive(self, station: int, frame: CustodyFrame) -> None:
        """A custody frame of a peer; unordered, lost and repeated frames are normal."""
        match frame:
            case HandoffReq():
                self._request(station, frame)
            case State():
                self._state(station, frame)
            case SpoolPart():
                self._part(station, frame)
            case Accept(mh, e):
                self._accept(station, mh, e)
            case Released(mh, e):
                self._released(station, mh, e)
            case Cancel(mh, e, highest):
                self._cancel(station, mh, e, highest)
            case HandoffNack(mh, e, order):
                self._nack(station, mh, e, order)
            case Query(mh, e):
                if self.ledger.promised(mh, (station, e)) is None:
                    self.ledger.ask(station, Cancel(mh, e, self.ledger.highest_epoch(mh)))
            case Probe(mh, e):
                pending = self.sessions.pending.get(mh)
                if self.ledger.get(mh, e) is None and (pending is None or pending.hello.e != e):
                    self.ledger.ask(station, NoRec(mh, e))
            case NoRec(mh, e):
                self._no_record(station, mh, e)
            case Expire(mh, e, bound):
                self._expire(station, mh, e, bound)
            case XAck(mh, e):
                self._expiry_acknowledged(station, mh, e)
            case Spooled(mh, e):
                self._spooled(station, mh, e)

    # ---- at the former station ----

    def _request(self, station: int, frame: HandoffReq) -> None:
        ledger, mh = self.ledger, frame.mh
        if mh[0] in ledger.revoked or mh[1] == 0:
            ledger.ask(station, HandoffNack(mh, frame.e))  # order 0: refused
            return
        if self.sessions.takeovers.suspended(mh[0]) or ledger.gone(mh[0]):
            return  # the device waits where it calls; the station that asks learns of the end from the LEAVE row
        record = ledger.find(mh, frame.le)
        if record is None and frame.le == 0 and ledger.get((mh[0], 0), 0) is not None:
            if self.gate.closed():
                return  # binding needs a new number; asked again soon
            record = self.sessions.joins.bind(mh)
        if record is None:
            self.sessions.joins.disown(station, mh, frame.e)
            return
        promise = (station, frame.e)
        if record.moved_to == promise:
            self._send_state(record, station, frame)
            return
        if frame.e > record.ep + EPOCH_LEAP_MAX:
            ledger.out.append(Reject(station, "bad-epoch", f"HANDOFF_REQ names attempt {frame.e}"))
            return
        if frame.e <= record.ep and "no_epoch" not in ledger.mutants:
            ledger.ask(station, Cancel(mh, frame.e, record.ep))
            return
        if record.join and frame.le != record.sess:
            ledger.drop(record)  # the host never saw its WELCOME: it joins where it calls
            self.sessions.joins.disown(station, mh, frame.e)
            return
        if record.join and self.gate.closed():
            return
        if (fault := self.sessions.fault(record, frame.le, frame.c, frame.una)) is not None:
            ledger.out.append(Reject(station, "bad-claim", f"HANDOFF_REQ claims position {frame.c}"))
            if fault == "reset":
                self.sessions.joins.disown(station, mh, frame.e)
            else:
                ledger.ask(station, HandoffNack(mh, frame.e))
            return
        if "late_data" not in ledger.mutants:
            self.sessions.end_session(record)
        self.sessions.claim(record, frame.le, frame.c)
        former, record.moved_to = record.moved_to, promise
        record.ep, record.succ_ok = frame.e, False
        writes: list[Write] = []
        if record.state == "open":
            record.state = "moved"
            writes = self.sessions.downlink.bodies.in_flight(record) if is_unsettled(ledger, record) else []
        ledger.log(HANDOFF, *mh, frame.e, station)
        ledger.save(record, "moved", *writes)
        self._send_state(record, station, frame)
        if former is not None and "no_cancel_push" not in ledger.mutants:
            ledger.ask(former[0], Cancel(mh, former[1], frame.e))
        if record.link and record.ready and record.prev is not None:
            ledger.ask(record.prev, Accept(mh, record.arr))
        self.asking.schedule(record)

    def _send_state(self, record: Record, station: int, request: HandoffReq) -> None:
        """STATE, and the spool parts that the asker lacks (a bounded number per answer)."""
        ledger = self.ledger
        if record.mh in ledger.uncopied():
            return  # asked again soon; what it has sent must not be left behind here alone
        parts = self._parts(record)
        sent: Vector = tuple(ledger.causal.sent)
        state = State(
            record.mh,
            request.e,
            record.base,
            () if "no_sent" in ledger.mutants else sent,
            0 if "no_lastseq" in ledger.mutants else record.lastseq,
            record.last_id,
            record.gap or record.state == "tomb",
            ledger.hlc,
            len(parts),
            {**dict(record.ext), **self.sessions.live.ext()},
        )
        ledger.ask(station, state)
        missing = [i for i in range(len(parts)) if i not in request.parts]
        for i in missing[: ledger.settings.spool_parts_per_answer]:
            ledger.out.append(SendPeer(station, SpoolPart(record.mh, request.e, i, len(parts), parts[i])))

    def _parts(self, record: Record) -> list[tuple[SpoolItem, ...]]:
        """The spool cut into parts; always the same cut, since the spool of a moved record is frozen."""
        parts: list[tuple[SpoolItem, ...]] = []
        part: list[SpoolItem] = []
        size = 0
        for spooled in record.spool:
            if part and size + spooled.item.size > self.ledger.settings.spool_part_bytes:
                parts.append(tuple(part))
                part, size = [], 0
            part.append(spooled.item)
            size += spooled.item.size
        if part:
            parts.append(tuple(part))
        return parts

    def _accept(self, station: int, mh: MH, e: int) -> None:
        ledger = self.ledger
        record = ledger.promised(mh, (station, e))
        if "moving_by_h" in ledger.mutants:
            for other in list(ledger.records.get(mh, {}).values()):
                if other.state == "moved" and other is not record:
                    ledger.drop(other)
        if record is not None:
            ledger.whereabouts.found(mh[0], station, ledger.hlc)
            if record.link:
                if record.state != "done":
                    record.state, record.ready = "done", True
                    freed = ledger.spools.trim(record, ledger.table.last_position)
                    ledger.save(record, "deletion", *freed)
                    self.asking.schedule(record)
                if record.prev is not None:
                    ledger.ask(record.prev, Accept(mh, record.arr))
            else:
                ledger.drop(record)
        ledger.ask(station, Released(mh, e))

    def _no_record(self, station: int, mh: MH, e: int) -> None:
        """The station that custody was promised to knows nothing of it: it falls back here."""
        record = self.ledger.promised(mh, (station, e))
        if record is None or record.state == "done":
            return
        record.moved_to = None
        if record.state == "moved":
            record.state = "open"
            record.away_from, record.away_since = self.ledger.now, self.ledger.wall
        self.ledger.save(record, "fallback")
        self.asking.schedule(record)

    def _expire(self, station: int, mh: MH, e: int, bound: Vector) -> None:
        record = self.ledger.promised(mh, (station, e))
        if len(bound) > self.ledger.table.width:
            self.ledger.out.append(Reject(station, "bad-bound", "EXPIRE has more slots than the configuration"))
            return
        if record is not None and record.state != "done":
            self.expiry.entomb_for(record, bound)
        self.ledger.ask(station, XAck(mh, e))

    def _spooled(self, station: int, mh: MH, e: int) -> None:
        """The successor serves the host from its own spool: this record may spool too."""
        record = self.ledger.promised(mh, (station, e))
        if record is not None and record.state == "moved" and not record.succ_ok:
            record.succ_ok = True
            self.ledger.save(record, "succ_ok")

    # ---- at the new station ----

    def _part(self, station: int, frame: SpoolPart) -> None:
        pending = self.sessions.pending.get(frame.mh)
        if pending is None or pending.hello.e != frame.e or pending.former != station:
            return
        if pending.state is None or frame.k != pending.state.parts or frame.i in pending.parts:
            return  # before its STATE, of another cut, or here already: asked for again if it is needed
        if 0 <= frame.i < frame.k:
            pending.parts[frame.i] = frame.entries
            self._arrived(pending, progress=len(pending.parts) % self.ledger.settings.spool_parts_per_answer == 0)

    def _state(self, station: int, frame: State) -> None:
        pending = self.sessions.pending.get(frame.mh)
        if pending is None or pending.hello.e != frame.e or pending.former != station:
            return
        if pending.state is None or pending.state.parts != frame.parts:
            pending.state, pending.parts = frame, {}
            if frame.parts:  # more than one answer, perhaps: the host need not look elsewhere
                self._say_wait(pending)
        self._arrived(pending, progress=False)

    def _arrived(self, pending: Pending, *, progress: bool) -> None:
        """Take over if all is here; after a full answer (`progress`) ask for more at once, else the timer does."""
        state = pending.state
        if state is None or len(pending.parts) < state.parts:
            if progress:
                self.sessions.request(pending)
                pending.retry_at = self.ledger.now + pending.retry_delay
            return
        self.sessions.drop_pending(pending.mh)
        self._take_over(pending, state)

    def _take_over(self, pending: Pending, state: State) -> None:
        """Custody is here: new record, its spool and session in one write, then WELCOME."""
        ledger, hello, view = self.ledger, pending.hello, self.ledger.view
        if ledger.replaced(pending.mh):
            ledger.tell(pending.channel, Replaced(0))
            return
        if max(len(state.base), len(state.sent)) > ledger.table.width:
            ledger.out.append(Reject(pending.former, "bad-state", "STATE has more slots than the configuration"))
            return
        stored = ledger.table.origins[ledger.own].stored
        if (known := max(entry(state.sent, ledger.own), entry(state.base, ledger.own))) > stored:
            ledger.notice("alarm", "store-went-back", peer=pending.former, peer_knows=known, stored=stored)
            return
        try:
            extras.unpack(state.ext)
            ext = self.sessions.live.inherit(state.ext)
        except ValueError as error:
            ledger.out.append(Reject(pending.former, "bad-state", str(error)))
            return
        record = Record(
            state.mh,
            state.e,
            prev=pending.former,
            link=True,
            t_vector=ledger.vector(),
            t_position=ledger.table.last_position,
            le=hello.le,
            ep=state.e,
            base=merged(view.void(state.base), ledger.vector()) if state.gap else view.void(state.base),
            lastseq=state.lastseq,
            last_id=state.last_id,
            sdep=view.void(state.sent),
            gap=state.gap,
            ephemeral=hello.ephemeral,
            ext=tuple(sorted(ext.items())),
        )
        if "no_shown" in ledger.mutants:
            record.set_shown(None)
        ledger.merge_clock(state.hlc)  # what the host sends next is later than all that it has seen
        ledger.causal.depend(record.sdep)
        entries = [item for i in range(state.parts) for item in pending.parts[i]]
        writes = ledger.spools.add(record, [(i - len(entries), item) for i, item in enumerate(entries)])
        self.sessions.open(record, pending.channel, hello, [*writes, PutClock(ledger.hlc)])
        if "accept_on_state" in ledger.mutants:
            ledger.ask(pending.former, Accept(state.mh, state.e))

    def _released(self, station: int, mh: MH, e: int) -> None:
        record = self.ledger.get(mh, e)
        if record is None or record.prev != station or not record.link:
            return
        record.link = False
        self._note("done", mh, e, station)
        if record.state == "done":
            self.ledger.drop(record)
        else:
            self.ledger.save(record, "released")

    def _cancel(self, station: int, mh: MH, e: int, highest: int) -> None:
        pending = self.sessions.pending.get(mh)
        if pending is not None and pending.hello.e == e and pending.former == station:
            self.sessions.drop_pending(mh)
            self._note("overtaken", mh, e, station)
            if highest <= e + EPOCH_LEAP_MAX:
                self.ledger.tell(pending.channel, Stale(max(highest, e)))
        self._drop_unconfirmed(station, mh, e)

    def _nack(self, station: int, mh: MH, e: int, order: int) -> None:
        pending = self.sessions.pending.get(mh)
        if pending is not None and pending.hello.e == e and pending.former == station:
            self.sessions.drop_pending(mh)
            if order == 0:
                self.ledger.refuse(pending.channel, "bad-claim", "the former station refuses this host")
            elif pending.hello.le != 0:
                self.sessions.reset(pending.channel, mh, e)
            elif self.gate.closed() is None:
                self.sessions.joins.join(pending.channel, mh, pending.hello, order)
            else:
                self.sessions.hold(pending.channel, mh[0], pending.hello)
        self._drop_unconfirmed(station, mh, e)

    def _drop_unconfirmed(self, station: int, mh: MH, e: int) -> None:
        record = self.ledger.get(mh, e)
        if (
            record is not None
            and record.prev in (station, EVERYWHERE)
            and not record.confirmed
            and record.state != "done"
        ):
            self.sessions.end_session(record)
            self.ledger.drop(record)

    def _note(self, what: str, mh: MH, e: int, former: int) -> None:
        self.ledger.notice("info", f"handoff-{what}", host=self.ledger.name_of(mh[0]), epoch=e, former=former)

    def _expiry_acknowledged(self, station: int, mh: MH, e: int) -> None:
        record = self.ledger.get(mh, e)
        if record is not None and record.prev == station and record.state == "tomb" and not record.exp_acked:
            record.exp_acked = True
            self.ledger.save(record, "exp_acked")

    # ---- timers ----

    def expire(self) -> None:
        """Ask again for custody that has not come; tell the waiting hosts."""
        ledger, settings = self.ledger, self.ledger.settings
        if ledger.now < self.sessions.pending_due:
            return
        for pending in list(self.sessions.pending.values()):
            if ledger.gone(pending.mh[0]):
                self.sessions.drop_pending(pending.mh)
                ledger.refuse(pending.channel, "gone", "this host has left")
                continue
            if pending.retry_at <= ledger.now:
                pending.retry_delay = min(2 * pending.retry_delay, settings.handoff_retry_max)
                pending.retry_at = ledger.now + pending.retry_delay
                self.sessions.request(pending)
            if pending.wait_at <= ledger.now:
                self._say_wait(pending)
        dues = (min(p.retry_at, p.wait_at) for p in self.sessions.pending.values())
        self.sessions.pending_due = min(dues, default=ledger.now + settings.handoff_retry)

    def _say_wait(self, pending: Pending) -> None:
        pending.wait_at = self.ledger.now + self.ledger.settings.wait_interval
        reason = "gathering what waited at the former station" if pending.state else "former station"
        self.ledger.tell(pending.channel, Wait(reason, pending.former, pending.since))

    def peer_is_back(self, station: int) -> None:
        """The former station is heard again: ask at once."""
        for pending in self.sessions.pending.values():
            if pending.former == station:
                pending.retry_at, pending.retry_delay = self.ledger.now, self.ledger.settings.handoff_retry
                self.sessions.pending_due = self.ledger.now

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next."""
        return self.sessions.pending_due if self.sessions.pending else None
