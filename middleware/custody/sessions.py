"""Sessions of hosts at this station: HELLO, claim, WELCOME, confirmation.

Sources: causal-broadcast.md (b) with P10-P12; one-order.md 3.3, 3.4, O-3; overview sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.stream import passed, settled
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import (
    JOINED_AT,
    PROTOCOL_VERSION,
    Hello,
    Replaced,
    Reset,
    Stale,
    Welcome,
)
from roamcast.middleware.rows import MH, Kind, SpoolItem
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, Cancel, HandoffReq, State
from roamcast.middleware.vectors import covers, merged
from roamcast.middleware.writes import DropRecord, PutRecord, SpoolMove, Write

EPOCH_LEAP_MAX = 1 << 32
TAKEOVER_SPAN = 60 * SECOND
TAKEOVERS_MAX = 12

JOINS_MAX = 4
"""Tentative joins of one name that are kept: nobody fills the books with incarnations."""


@dataclass(slots=True)
class Pending:
    """An attempt that waits for custody from another station."""

    mh: MH
    hello: Hello
    channel: Channel
    retry_at: int
    retry_delay: int
    wait_at: int
    since: int
    state: State | None = None
    parts: dict[int, tuple[SpoolItem, ...]] = field(default_factory=dict)
    """Spool parts that came, of the cut that `state` names."""


class Sessions:
    """Attachments: who is welcome, where its session starts, and what ends it."""

    def __init__(self, ledger: Ledger, downlink: Downlink, asking: Asking, expiry: Expiry, gate: Gate) -> None:
        self.ledger = ledger
        self.gate = gate
        self.asking = asking
        self.downlink = downlink
        self.expiry = expiry
        self.pending: dict[MH, Pending] = {}
        self.pending_due = 0
        """No pending attempt has a timer before this."""
        self._attempts: dict[Channel, MH] = {}
        self._takeovers: dict[int, tuple[int, int]] = {}
        """Per host number: (since when, how many sessions were ended by a newer attachment)."""
        self.held: dict[Channel, tuple[int, Hello, int]] = {}
        """HELLOs that need a new number while none may be given: (host, frame, next WAIT)."""

    # ---- HELLO ----

    def hello(self, channel: Channel, host: int, frame: Hello) -> None:
        """An attempt to attach: open a session, ask another station for custody, or say why not."""
        ledger = self.ledger
        mh = (host, frame.incarnation)
        self._forget_channel(channel)
        if host in ledger.revoked or host not in ledger.names:
            ledger.refuse(channel, "revoked", "this host is not enrolled here or was revoked")
            return
        if ledger.gone(host):
            ledger.refuse(channel, "gone", "this host has left; enrol it again under a new name")
            return
        if frame.last not in ledger.fifo.members or (frame.le == 0 and frame.last != host >> 32):
            ledger.refuse(channel, "bad-last", f"slot {frame.last} is no station, or did not enrol the host")
            return
        if ledger.replaced(mh):
            ledger.tell(channel, Replaced(0))
            return
        pending = self.pending.get(mh)
        highest = max(ledger.highest_epoch(mh), pending.hello.e if pending else 0)
        if frame.e <= highest and "no_epoch" not in ledger.mutants:
            ledger.tell(channel, Stale(highest))
            return
        if frame.e > highest + EPOCH_LEAP_MAX or frame.incarnation == 0:
            ledger.refuse(channel, "bad-hello", "epoch or incarnation out of range")
            return
        if pending is not None:
            self.drop_pending(mh)
            ledger.hang_up(pending.channel, "a newer attempt of the host")
        for record in list(ledger.records.get(mh, {}).values()):
            unseen = record.state == "open" and not record.confirmed and frame.le < record.arr
            if unseen or (record.join and record.sess != frame.le):  # the host never saw its WELCOME
                self.end_session(record, frame.e)
                ledger.drop(record)
        if frame.last != ledger.own:
            self._ask_custody(channel, mh, frame)
        else:
            self._own_custody(channel, mh, frame)

    def _own_custody(self, channel: Channel, mh: MH, frame: Hello) -> None:
        ledger = self.ledger
        record = ledger.find(mh, frame.le)
        needs_number = record.join if record is not None else frame.le == 0
        if needs_number and self.gate.closed() is not None:
            self.hold(channel, mh[0], frame)
            return
        if record is None and frame.le == 0:
            record = self.bind(mh)
            if record is None:
                self.join(channel, mh, frame, ledger.next_join_order())
                return
        fault = "reset" if record is None else self.fault(record, frame.le, frame.c, frame.una)
        if record is None or fault == "reset":
            self.reset(channel, mh, frame.e)
            return
        if fault is not None:
            ledger.refuse(channel, fault, f"position {frame.c} was never given out here")
            return
        self.end_session(record, frame.e)
        self.claim(record, frame.le, frame.c)
        record.ephemeral = frame.ephemeral
        former, record.moved_to = record.moved_to, None
        self.open(record, channel, frame)
        if former is not None and "no_cancel_push" not in ledger.mutants:
            ledger.ask(former[0], Cancel(mh, former[1], frame.e))

    def reset(self, channel: Channel, mh: MH, e: int) -> None:
        """The session that the host names is unknown, or its state went back (a restored or a cloned device)."""
        ledger = self.ledger
        ledger.tell(channel, Reset(e))
        ledger.notice("warning", "host-state-went-back", host=ledger.names[mh[0]], incarnation=mh[1] & 0xFFFF, epoch=e)

    def hold(self, channel: Channel, host: int, frame: Hello) -> None:
        """Keep a HELLO until numbers may be given."""
        self.held[channel] = (host, frame, self.ledger.now + self.ledger.settings.wait_interval)
        self.gate.say(channel)

    def release_held(self) -> None:
        """Numbers may be given again: take the HELLOs that waited for that."""
        held, self.held = self.held, {}
        for channel, (host, frame, _) in held.items():
            self.hello(channel, host, frame)

    def fault(self, record: Record, le: int, c: int, una: int) -> str | None:
        """Check a host's words before they meet an invariant (P10).

        Returns None, 'reset' (the host's state went back), or the code of a refusal.
        """
        ledger = self.ledger
        if una > record.lastseq + 1:
            ledger.notice("alarm", "host-knows-more", host=record.mh[0], una=una, lastseq=record.lastseq)
        if le != record.sess or record.closed:
            return None
        if c > ledger.table.last_position:
            ledger.notice("alarm", "host-knows-more", host=record.mh[0], c=c, last=ledger.table.last_position)
            return "bad-claim"
        return None if c >= record.acked_c else "reset"

    def _ask_custody(self, channel: Channel, mh: MH, frame: Hello) -> None:
        ledger, now = self.ledger, self.ledger.now
        delay = ledger.settings.handoff_retry
        away = not ledger.fifo.is_live(frame.last, now)
        pending = Pending(mh, frame, channel, now + delay, delay, now if away else now + delay, ledger.wall)
        self.pending[mh] = pending
        self._attempts[channel] = mh
        self.pending_due = min(self.pending_due, pending.retry_at, pending.wait_at)
        ledger.notice("info", "handoff-begun", host=ledger.names[mh[0]], epoch=frame.e, former=frame.last)
        self.request(pending)

    def request(self, pending: Pending) -> None:
        """HANDOFF_REQ, naming the spool parts that are here."""
        hello = pending.hello
        frame = HandoffReq(pending.mh, hello.e, hello.le, hello.c, hello.una, tuple(sorted(pending.parts)))
        self.ledger.ask(hello.last, frame)

    def drop_pending(self, mh: MH) -> None:
        """The attempt is over."""
        pending = self.pending.pop(mh, None)
        if pending is not None:
            del self._attempts[pending.channel]

    def bind(self, mh: MH) -> Record | None:
        """The record of an enrolment, not yet bound, becomes that of this incarnation (overview 8)."""
        ledger = self.ledger
        record = ledger.get((mh[0], 0), 0)
        if record is None:
            return None
        ledger.remove(record)
        old_key, record.mh = record.key, mh
        ledger.add(record)
        moved = [SpoolMove(old_key, record.key)] if record.spool else []
        ledger.write_row(Kind.BIND, *mh, PutRecord(record.image()), *moved, DropRecord(old_key))
        return record

    def join(self, channel: Channel, mh: MH, frame: Hello, order: int) -> None:
        """A new incarnation without a record anywhere: an unconfirmed record of its own (O-3).

        order: its place among the joins of the name. Clocks of stations cannot tell which of two concurrent joins is
        the newer; the enrolling station, which every first HELLO asks, can.
        """
        ledger = self.ledger
        entry = ledger.hosts.get(mh[0])
        if frame.le != 0 or (entry is not None and entry.incarnation == mh[1]):
            self.reset(channel, mh, frame.e)
            return
        joins = sorted(
            (r for r in ledger.of_host(mh[0]) if r.join), key=lambda record: (record.channel is not None, record.join)
        )
        for other in joins[: max(0, len(joins) + 1 - JOINS_MAX)]:
            self.end_session(other, frame.e)
            ledger.drop(other)
        older = self._older_record(mh, order)
        record = Record(mh, frame.e, join=order, gap=older is None, ephemeral=frame.ephemeral, base=ledger.vector())
        record.t_vector, record.t_position = record.base, ledger.table.last_position
        self.open(record, channel, frame)

    def _older_record(self, mh: MH, order: int) -> Record | None:
        """An open record of an older incarnation of the name here, with all that waits for it.

        One that another station still guards does not count: ending it frees that guard, and R here is ahead of it.
        """
        entry = self.ledger.hosts.get(mh[0])
        newer = entry.incarnation if entry is not None and entry.stamp[0] > order else mh[1]
        others = [r for r in self.ledger.of_host(mh[0]) if r.mh[1] not in (mh[1], newer)]
        records = [r for r in others if r.live and not r.gap and (r.ready or not r.link)]
        return max(records, key=lambda record: (record.channel is not None, record.away_since), default=None)

    # ---- claim, open, confirm ----

    def claim(self, record: Record, le: int, c: int) -> None:
        """The host says how far it came in session `le` (one-order.md 3.3). The caller saves the record."""
        ledger = self.ledger
        if le == record.sess and not record.closed:
            self.confirm(record)
            anchor = c
        else:
            anchor = c if "claim_c_old" in ledger.mutants else record.base_c
        record.acked_c = record.base_c = anchor
        if record.state == "open":
            trimmed = ledger.spool_trim(record, anchor)
            if trimmed:
                ledger.persist(*trimmed)
            record.base = passed(ledger, record, exact="claim_exact" in ledger.mutants)
        record.le, record.closed = le, True
        if record.link and record.confirmed and settled(ledger, record):
            record.ready = True

    def open(self, record: Record, channel: Channel, frame: Hello, spooled: Sequence[Write] = ()) -> None:
        """Open session e: renumber the spool, save, WELCOME; MSG frames follow at the end of the tick."""
        ledger = self.ledger
        writes: list[Write] = list(spooled)
        if record.state == "tomb" or (record.gap and not record.join):
            record.base = merged(record.base, ledger.vector())
            record.gap = True
            writes += ledger.spool_trim(record, ledger.table.last_position)
        writes += ledger.spool_renumber(record)
        at = JOINED_AT if record.join else -len(record.spool) - 1
        if record.join:
            record.base = ledger.vector()
        record.state, record.moved_to, record.succ_ok = "open", None, False
        record.sess = record.ep = frame.e
        record.closed = False
        record.base_c = record.acked_c = record.sent = at
        record.channel, record.heard = channel, ledger.now
        record.ping_us = frame.ping_s * SECOND
        record.away_since = 0
        ledger.channels[channel] = record
        ledger.save(record, "open", *writes)
        settings = ledger.settings
        welcome = Welcome(
            PROTOCOL_VERSION,
            frame.e,
            record.lastseq,
            record.gap,
            at,
            settings.message_bytes_max,
            settings.window_entries,
        )
        ledger.tell(channel, welcome)
        record.told_wait = 0
        if self.gate.closed() is not None:
            self.gate.say(channel)
            record.told_wait = ledger.now
        if record.link and record.ready and record.prev is not None:
            ledger.ask(record.prev, Accept(record.mh, record.arr))
        self.asking.schedule(record)
        self.downlink.add(record)

    def confirm(self, record: Record) -> None:
        """The host has been welcomed in session sess: first frame of it, or a claim that names it. One write."""
        ledger = self.ledger
        if record.le == record.sess and not record.gap and not record.join:
            return
        gap_told, record.gap = record.gap, False
        record.le, record.closed = record.sess, False
        if record.link and not record.ready and (settled(ledger, record) or "accept_early" in ledger.mutants):
            record.ready = True
        if record.join:
            self._confirm_join(record, gap_told)
        else:
            ledger.save(record, "confirm")
        if record.link and record.ready and record.prev is not None:
            ledger.ask(record.prev, Accept(record.mh, record.arr))
        self.asking.schedule(record)

    def _confirm_join(self, record: Record, gap_told: bool) -> None:
        """The joiner is a member from its WELCOME on: base, JOIN row and the older incarnation's spool in one write.

        If what came since the WELCOME may be gone (an unconfirmed join holds nothing), or what the WELCOME promised of
        the older incarnation is, `gap` is set: to be told before anything else.
        """
        ledger = self.ledger
        order, record.join = record.join, 0
        older = self._older_record(record.mh, order)
        writes: list[Write] = []
        if older is not None:
            self.expiry.name_replaced(older)
            self.end_session(older, 0)
            writes = ledger.spool_trim(older, older.acked_c)
            record.base = passed(ledger, older)  # what the older one acknowledged does not come again
            record.spool, older.spool = older.spool, []
            record.spool_bytes, older.spool_bytes = older.spool_bytes, 0
            if record.spool:
                writes += [SpoolMove(older.key, record.key), *ledger.spool_renumber(record)]
        elif not gap_told or not covers(record.base, ledger.fifo.reduce.claims[ledger.own]):
            record.base, record.gap, record.closed = ledger.vector(), True, True
        ledger.write_row(Kind.JOIN, *record.mh, PutRecord(record.image()), *writes, number=order)
        if older is not None:
            self.expiry.expire(older)
        self.downlink.add(record)

    # ---- channels ----

    def end_session(self, record: Record, e: int) -> None:
        """Another attachment takes over: the old channel is told and dropped."""
        channel = record.channel
        if channel is not None:
            if e:
                self._count_takeover(record)
            self.forget(channel)
            self.ledger.unbind(record)
            self.ledger.tell(channel, Replaced(e and record.sess))
            self.ledger.hang_up(channel, "replaced by a newer attachment")

    def _count_takeover(self, record: Record) -> None:
        """Many attachments that end one another within a minute: two devices hold one identity."""
        number, now = record.mh[0], self.ledger.now
        since, count = self._takeovers.get(number, (now, 0))
        since, count = (since, count + 1) if now - since < TAKEOVER_SPAN else (now, 1)
        self._takeovers[number] = (since, count)
        if count == TAKEOVERS_MAX:
            self.ledger.notice("alarm", "attachments-alternate", host=self.ledger.name_of(number))

    def forget(self, channel: Channel) -> None:
        """Nothing is sent to this channel any more."""
        self.downlink.remove(channel)
        self.held.pop(channel, None)

    def _forget_channel(self, channel: Channel) -> None:
        """A HELLO on a channel that already carries a session or an attempt: a new attempt on the same connection."""
        record = self.ledger.channels.get(channel)
        self.forget(channel)
        if record is not None:
            self.ledger.unbind(record)
        if channel in self._attempts:
            self.drop_pending(self._attempts[channel])

    def channel_lost(self, channel: Channel) -> None:
        """The connection ended, or the host said goodbye; custody stays."""
        self._forget_channel(channel)
