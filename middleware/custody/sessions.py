"""Sessions of hosts at this station: HELLO, claim, WELCOME, confirmation.

Sources: causal-broadcast.md (b) with P10-P12; one-order.md 3.3, 3.4, O-3; overview sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.joins import Joins
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.live import Live
from roamcast.middleware.custody.log_events import log_session
from roamcast.middleware.custody.record import LOST, Record
from roamcast.middleware.custody.stream import advance, first_owed, settled, statement
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.delivery_log import ACK
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import (
    JOINED_AT,
    PROTOCOL_VERSION,
    Hello,
    Move,
    Replaced,
    Reset,
    Stale,
    Welcome,
)
from roamcast.middleware.rows import MH, SpoolItem
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, Cancel, HandoffReq, State
from roamcast.middleware.vectors import merged
from roamcast.middleware.writes import Write

EPOCH_LEAP_MAX = 1 << 32


@dataclass(slots=True)
class Pending:
    """An attempt that waits for custody from another station."""

    mh: MH
    hello: Hello
    former: int
    """Station that is asked for custody; LOST: the host itself is."""
    channel: Channel
    retry_at: int
    retry_delay: int
    wait_at: int
    since: int
    asked: int = 0
    """When the host itself was first asked, monotonic; 0: not yet."""
    state: State | None = None
    parts: dict[int, tuple[SpoolItem, ...]] = field(default_factory=dict)
    """Spool parts that came, of the cut that `state` names."""


class Sessions:
    """Attachments: who is welcome, where its session starts, and what ends it."""

    def __init__(
        self,
        ledger: Ledger,
        downlink: Downlink,
        asking: Asking,
        expiry: Expiry,
        gate: Gate,
        subscriptions: Subscriptions,
    ) -> None:
        self.ledger = ledger
        self.gate = gate
        self.subscriptions = subscriptions
        self.asking = asking
        self.downlink = downlink
        self.expiry = expiry
        self.pending: dict[MH, Pending] = {}
        self.pending_due = 0
        """No pending attempt has a timer before this."""
        self._attempts: dict[Channel, MH] = {}
        self.joins = Joins(self)
        self.ask_host: Callable[[Pending], None]
        self.opened: Callable[[Record], None]
        """Of parts that are made after this: the host of a lost station is asked; a session was opened."""
        self.live: Live
        self.takeovers = expiry.takeovers
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
        if not ledger.view.serving or ledger.view.retiring:
            ledger.tell(channel, Move(ledger.stations))
            return
        if self.takeovers.suspended(host):
            self.takeovers.refuse(channel)
            return
        if frame.last not in ledger.view.members or (frame.le == 0 and frame.last != host >> 32):
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
                self.end_session(record)
                ledger.drop(record)
        former = self.former(host, frame)
        if former != ledger.own:
            self._ask_custody(channel, mh, frame, former)
        else:
            self._own_custody(channel, mh, frame)

    def former(self, host: int, frame: Hello) -> int:
        """The station that has the host's custody now: that of its last session, or who took the place of it."""
        ledger = self.ledger
        if frame.last not in ledger.view.final:
            return frame.last
        heir = ledger.view.heir_of(frame.last)
        if heir == LOST and frame.le == 0 and ledger.bound((host, frame.incarnation)) is None:
            return min(ledger.view.living)  # it orders the joins of names whose enrolling station is lost
        return heir

    def attempt(self, channel: Channel) -> Pending | None:
        """The attempt that waits on this channel."""
        mh = self._attempts.get(channel)
        return None if mh is None else self.pending[mh]

    def call_again(self, slot: int) -> None:
        """Station `slot` has ended: attempts that wait for it go to who took its place, or ask the host."""
        for pending in [p for p in self.pending.values() if p.former == slot]:
            self.drop_pending(pending.mh)
            self.hello(pending.channel, pending.mh[0], pending.hello)

    def _own_custody(self, channel: Channel, mh: MH, frame: Hello) -> None:
        ledger = self.ledger
        record = ledger.find(mh, frame.le)
        needs_number = record.join if record is not None else frame.le == 0
        if needs_number and (self.gate.closed() is not None or not ledger.orders(mh[0])):
            self.hold(channel, mh[0], frame)
            return
        if record is None and frame.le == 0:
            record = self.joins.bind(mh)
            if record is None:
                self.joins.join(channel, mh, frame, ledger.next_join_order())
                return
        fault = "reset" if record is None else self.fault(record, frame.le, frame.c, frame.una)
        if record is None or fault == "reset":
            self.reset(channel, mh, frame.e)
            return
        if fault is not None:
            ledger.refuse(channel, fault, f"position {frame.c} was never given out here")
            return
        self.end_session(record)
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

    def remind_held(self) -> None:
        """Say again to those who wait that they do, and for what."""
        for channel, (host, frame, wait_at) in list(self.held.items()):
            if wait_at <= self.ledger.now:
                self.hold(channel, host, frame)

    def fault(self, record: Record, le: int, c: int, una: int) -> str | None:
        """Check a host's words before they meet an invariant (P10).

        Returns None, 'reset' (the host's state went back), or the code of a refusal.
        """
        ledger = self.ledger
        if una > record.lastseq + 1:
            ledger.notice("alarm", "host-knows-more", host=record.mh[0], una=una, lastseq=record.lastseq)
        if le != record.sess or record.closed:
            return None
        c -= record.shift
        if c > ledger.table.last_position:
            ledger.notice("alarm", "host-knows-more", host=record.mh[0], c=c, last=ledger.table.last_position)
            return "bad-claim"
        return None if c >= record.acked_c else "reset"

    def _ask_custody(self, channel: Channel, mh: MH, frame: Hello, former: int) -> None:
        ledger, now = self.ledger, self.ledger.now
        delay = ledger.settings.handoff_retry
        away = former == LOST or not ledger.fifo.is_live(former, now)
        pending = Pending(mh, frame, former, channel, now + delay, delay, now if away else now + delay, ledger.wall)
        self.pending[mh] = pending
        self._attempts[channel] = mh
        self.pending_due = min(self.pending_due, pending.retry_at, pending.wait_at)
        ledger.notice("info", "handoff-begun", host=ledger.names[mh[0]], epoch=frame.e, former=former)
        self.request(pending)

    def request(self, pending: Pending) -> None:
        """HANDOFF_REQ, naming the spool parts that are here."""
        if pending.former == LOST:
            self.ask_host(pending)
            return
        hello = pending.hello
        frame = HandoffReq(pending.mh, hello.e, hello.le, hello.c, hello.una, tuple(sorted(pending.parts)))
        self.ledger.ask(pending.former, frame)

    def drop_pending(self, mh: MH) -> None:
        """The attempt is over."""
        pending = self.pending.pop(mh, None)
        if pending is not None:
            del self._attempts[pending.channel]

    # ---- claim, open, confirm ----

    def claim(self, record: Record, le: int, c: int) -> None:
        """The host says how far it came in session `le` (one-order.md 3.3). The caller saves the record."""
        ledger = self.ledger
        if le == record.sess and not record.closed:
            self.confirm(record)
            anchor = c - record.shift
            if anchor > record.acked_c:
                ledger.log(ACK, *record.mh, le, c)
        else:
            anchor = c if "claim_c_old" in ledger.mutants else record.base_c
        record.acked_c = record.base_c = anchor
        if record.state == "open":
            trimmed = ledger.spools.trim(record, anchor)
            if trimmed:
                ledger.persist(*trimmed)
            exact = "claim_exact" in ledger.mutants
            before = min(anchor, ledger.table.last_position) if exact else first_owed(ledger, record) - 1
            advance(ledger, record, before)
        record.le, record.closed = le, True
        if record.link and record.confirmed and settled(ledger, record):
            record.ready = True

    def open(
        self,
        record: Record,
        channel: Channel,
        frame: Hello,
        spooled: Sequence[Write] = (),
        *,
        keep: bool = False,
        absent: tuple[int, ...] = (),
    ) -> None:
        """Open session e: renumber the spool, save, WELCOME; MSG frames follow at the end of the tick.

        keep: a gap is told although nothing that is here is skipped. absent: own numbers that no station has.
        """
        ledger = self.ledger
        writes: list[Write] = list(spooled)
        if record.state == "tomb" or (record.gap and not record.join and not keep):
            record.base = merged(record.base, ledger.vector())
            record.gap = True
            self.subscriptions.end_all(record, frame.e)
            writes += ledger.spools.trim(record, ledger.table.last_position)
        record.state = "open"
        if "strip_open" not in ledger.mutants:
            writes += self.subscriptions.denied(record, frame.e) or []
        writes += ledger.spools.renumber(record)
        at = JOINED_AT if record.join else -len(record.spool) - 1
        if record.join:
            record.base = ledger.vector()
        record.moved_to, record.succ_ok = None, False
        record.shift, record.asked = 0, False
        record.sess = record.ep = frame.e
        record.closed = False
        record.sent_before = max(record.sent_before, record.sent)
        record.base_c = record.acked_c = record.sent = at
        record.channel, record.heard = channel, ledger.now
        record.ping_us = frame.ping_s * SECOND
        record.away_since = 0
        ledger.channels[channel] = record
        if not record.join:
            log_session(ledger, record, frame.le, frame.c, record.gap)
        ledger.save(record, "open", *writes)
        settings, uncopied = ledger.settings, ledger.uncopied().get(record.mh)
        welcome = Welcome(
            PROTOCOL_VERSION,
            frame.e,
            record.lastseq if uncopied is None else uncopied.number - 1,
            record.gap,
            at,
            settings.message_bytes_max,
            settings.window_entries,
            ledger.stations,
            self._statement(record),
            absent,
            self.subscriptions.untold(record),
            self.live.core.read(ledger.wall),
        )
        ledger.tell(channel, welcome)
        self.opened(record)
        self.live.opened(record)
        record.told_wait = 0
        if self.gate.closed() is not None:
            self.gate.say(channel)
            record.told_wait = ledger.now
        if record.link and record.ready and record.prev is not None:
            ledger.ask(record.prev, Accept(record.mh, record.arr))
        self.asking.schedule(record)
        self.downlink.add(record)

    def _statement(self, record: Record) -> tuple[tuple[int, int], ...]:
        """Where a host stands whose session opens: all that was not meant for it counts as had; () = not to be said."""
        if record.spool or (record.join and not record.gap):
            return ()
        return statement(self.ledger, record.base)

    def confirm(self, record: Record) -> None:
        """The host has been welcomed in session sess: first frame of it, or a claim that names it. One write."""
        ledger = self.ledger
        if record.le == record.sess and not record.gap and not record.join:
            return
        gap_told, record.gap = record.gap, False
        record.le, record.closed = record.sess, False
        self.subscriptions.confirmed(record)
        if record.link and not record.ready and (settled(ledger, record) or "accept_early" in ledger.mutants):
            record.ready = True
        if record.join:
            self.joins.confirm(record, gap_told)
        else:
            ledger.save(record, "confirm")
        if record.link and record.ready and record.prev is not None:
            ledger.ask(record.prev, Accept(record.mh, record.arr))
        self.asking.schedule(record)

    # ---- channels ----

    def end_session(self, record: Record, *, final: bool = False) -> None:
        """Another attachment takes over: the old channel is told and dropped. final: its host may not call again."""
        channel = record.channel
        if channel is not None:
            self.forget(channel)
            self.ledger.unbind(record)
            self.ledger.tell(channel, Replaced(0 if final else record.sess))
            self.ledger.hang_up(channel, "replaced by a newer attachment")

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
