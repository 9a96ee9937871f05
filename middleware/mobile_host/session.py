"""What host and station say to each other while a session is open, and what outlives it: inbox and outbox.

Nothing is repaired inside a session. `receive` and `expire` return the reason when the session is over; the owner
attaches again. A frame is taken iff its `prev` is the position in hand: anything else means that one was lost.

Source: overview section 7, causal-broadcast.md 'MH rules' 2-5, P3, P4.
"""

from __future__ import annotations

from collections.abc import Container, Set

from roamcast.middleware.host_frames import (
    LIVE_BYTES_MAX,
    Ack,
    Data,
    Fates,
    Heard,
    Leave,
    LiveData,
    LiveMsg,
    LiveRefused,
    Msg,
    Ping,
    Pong,
    Seen,
    TopicData,
    Uack,
    Unsubscribed,
    Wait,
    Welcome,
)
from roamcast.middleware.mobile_host.effects import LiveDelivered, Receipt, StateLost
from roamcast.middleware.mobile_host.inbox import Inbox
from roamcast.middleware.mobile_host.journal import Journal
from roamcast.middleware.mobile_host.liveness import FAR, Liveness
from roamcast.middleware.mobile_host.outbox import Outbox, OutEntry
from roamcast.middleware.mobile_host.settings import AgentSettings
from roamcast.middleware.mobile_host.state import Acked, AgentImage, OutboxTrimmed, Queued, Sent, Welcomed
from roamcast.middleware.rows import PRESENCE_KINDS, VALUE_KINDS, Item, Kind

LIVE_KINDS = (Kind.BROADCAST, Kind.MAIL, Kind.TOPIC)


class Session:
    """The open session, or the last one. `now` is set by the owner at the beginning of a tick."""

    def __init__(
        self, name: str, image: AgentImage, settings: AgentSettings, journal: Journal, mutants: Set[str]
    ) -> None:
        self.now = 0
        self.incarnation = image.incarnation
        self.inbox = Inbox(image, settings, mutants)
        self.outbox = Outbox(image, settings)
        self.live = Liveness(settings)
        self.is_open = False
        self.opened_at = 0
        self.quiet = 0
        """Answers in a row that said that nothing more was owed."""
        self.live_sent = self.live_dropped = 0
        """Own live messages."""
        self._live_number = 0
        self._name = name
        self._settings = settings
        self._journal = journal
        self._mutants = mutants
        self._epoch = 0
        self._window = settings.window_entries
        self._saved_c = image.c
        self._c_dirty = False
        self._sent_data = False

    # ---- begin and end ----

    def claim(self) -> tuple[int, int]:
        """(le, c) for a HELLO; c is frozen from here on."""
        self.inbox.freeze()
        self._said()
        return self.inbox.le, self.inbox.c

    def open(self, frame: Welcome, station: int, leaving: bool, lost: bool) -> None:
        """WELCOME: save what it says, answer ACK(e, at), send the whole outbox. `lost`: tell StateLost first.

        Own numbers that no station has any more are lost if a station had acknowledged them; of the others none goes
        out again, for a host of the lost station may have them.
        """
        self.is_open = True
        self.opened_at = self.now
        self.quiet = 0
        self._epoch = frame.e
        self._window = frame.window_entries
        self._saved_c, self._c_dirty = frame.at, False
        self._journal.save(Welcomed(station, frame.e, frame.at, frame.gap, frame.lastseq, lost))
        if lost:
            self.inbox.notify(StateLost(0))
        self.outbox.message_bytes_max = frame.message_bytes_max
        absent = frozenset(frame.absent)
        self._lost(absent)
        self._stored(frame.lastseq, None, absent)
        self.inbox.open(frame.e, frame.at, frame.gap, self.now, frame.reading)
        self.inbox.end(frame.ended, welcome=True)
        self._passed(frame.passed)
        self.live.open(self.now)
        self.live.stir(self.now)
        self.live.progress(self.now, bool(self.outbox))
        self._journal.send(Ack(frame.e, frame.at))
        if self.outbox.highest > self.outbox.tx:
            self.outbox.tx = self.outbox.highest
            self._journal.save(Sent(self.outbox.tx))
        for number, entry in self.outbox.entries.items():
            entry.c = frame.at
            self._send_data(number, entry)
        if leaving:
            self.say_leave()

    def close(self) -> None:
        """The session is over; what is in hand and not given will come again."""
        self.is_open = False
        self.live.stop_waiting()
        self.inbox.drop_hand()

    def renew(self, incarnation: int) -> None:
        """Nothing holds any more but what was given and what never was on a link."""
        self.incarnation = incarnation
        self.inbox.renew()
        self._saved_c, self._c_dirty = 0, False

    # ---- frames ----

    def receive(self, frame: Msg | Uack | Pong | Wait | Fates | Unsubscribed | LiveMsg | LiveRefused) -> str | None:
        """A frame of the station. Returns why the session is over, or None."""
        match frame:
            case Msg():
                return self.take_frame(frame)
            case Uack():
                return self._uack(frame)
            case Pong(sent, safe, passed):
                self.live.ponged()
                self.outbox.safe(safe)
                self._passed(passed)
                if sent > self.inbox.position:
                    return "frame lost"
                self.quiet = 0 if self.inbox.unacknowledged else self.quiet + 1
            case Wait():
                self.live.wait(frame, self.now)
            case Fates(e, absent):
                if e == self._epoch:
                    self._lost(frozenset(absent))
            case LiveMsg():
                return self._take_live(frame)
            case LiveRefused(code, text, tag):
                self._journal.report("live-refused", code=code, text=text)
                self._journal.emit(self.drop_live(-tag, code))
            case Unsubscribed(e, ended):
                if e == self._epoch:
                    self.inbox.end(ended, welcome=False)
                    self._journal.send(Heard(e))
        return None

    def take_frame(self, frame: Msg) -> str | None:
        """The entries in (prev, last]. Returns why the session is over, or None."""
        inbox = self.inbox
        if frame.prev != inbox.position and "prev_ignored" not in self._mutants:
            return "frame lost"
        before, sub = frame.prev, None
        for pos, item in frame.entries:
            own = self._is_own(item)
            if pos == before and sub is not None:
                if item.kind not in VALUE_KINDS or item.topic != sub.topic:
                    return "bad frame"
                if self._is_own(sub):
                    inbox.put_value(item, own)
                sub = None
                continue
            if not before < pos <= frame.last or (own and item.number > self.outbox.highest):
                return "bad frame"
            before, sub = pos, item if item.kind is Kind.SUB else None
            if own:
                self._came_back(item)
            inbox.put(pos, item, own)
        if frame.last < before:
            return "bad frame"
        inbox.position = frame.last
        inbox.advance()
        self.live.stir(self.now)
        self.quiet = 0
        if inbox.unacknowledged > self._window * self._settings.window_excess:
            return "window exceeded"
        return None

    def _take_live(self, frame: LiveMsg) -> str | None:
        """Behind all that came before it. Returns why the session is over: some of that was lost."""
        if frame.last != self.inbox.position and "live_last" not in self._mutants:
            return "frame lost"
        sender = frame.sender, frame.incarnation32
        live = LiveDelivered(0, frame.id, *sender, frame.kind, frame.topic, frame.body)
        self.inbox.put_live(live, self.now, frame.at, frame.left)
        return None

    def _is_own(self, item: Item) -> bool:
        """Sent by this host in its present incarnation; what a station says of its presence is not."""
        mine = item.incarnation32 == self.incarnation & 0xFFFFFFFF and item.sender == self._name
        return mine and item.kind not in PRESENCE_KINDS

    def _came_back(self, item: Item) -> None:
        """An own message in the host's stream: it and all before it are stored, whatever became of the UACKs."""
        if "own_not_dropped" not in self._mutants:
            self._taken(item.number, (item.slot, item.n))
        if item.kind in (Kind.REFUSED, Kind.NOSUB):
            why = item.body.decode(errors="replace")
            self._journal.emit(Receipt(item.number, "refused", (item.slot, item.n), reason=why))

    def _uack(self, frame: Uack) -> str | None:
        if frame.e != self._epoch:
            return None
        if frame.lastseq > self.outbox.highest:
            return "bad frame"
        self.live.stir(self.now)
        self._taken(frame.lastseq, (frame.slot, frame.n) if frame.n else None)
        if self.live.waiting is not None:  # messages are taken again: what was sent meanwhile was not
            self.live.stop_waiting()
            self.live.progress(self.now, bool(self.outbox))
            for number, entry in self.outbox.entries.items():
                self._send_data(number, entry)
        return None

    def _taken(self, lastseq: int, last_id: tuple[int, int] | None) -> None:
        """Own numbers up to `lastseq` are stored, as the station of the session says."""
        if self._stored(lastseq, last_id):
            self._journal.save_lazily(OutboxTrimmed(lastseq))
            self.live.progress(self.now, bool(self.outbox))

    def _stored(self, lastseq: int, last_id: tuple[int, int] | None, absent: Container[int] = ()) -> bool:
        """Own numbers up to `lastseq` are stored, or else in `absent`; returns whether that is news."""
        gone = self.outbox.stored(lastseq, absent)
        for number in gone:
            state = "unknown" if number in absent else "stored"
            self._journal.emit(Receipt(number, state, last_id if number == lastseq else None))
        return bool(gone)

    def _lost(self, absent: Container[int]) -> None:
        """No living station has the numbers in `absent`."""
        for number in self.outbox.lost(absent):
            self._journal.emit(Receipt(number, "lost"))

    def _passed(self, passed: tuple[tuple[int, int], ...]) -> None:
        """The station's word for what the host is not owed; durable before a SEEN says it."""
        self.inbox.pass_over(passed)
        self._c_dirty = True

    # ---- what the host says ----

    def submit(self, body: bytes, to: str | None, kind: int) -> int:
        """Queue a message and, in an open session, send it. Raises as `AgentCore.submit`."""
        number = self.outbox.append(to, body, self.inbox.given_position, kind)
        self._journal.save(Queued(number, to, body, self.is_open, self.outbox.entries[number].kind))
        if self.is_open:
            self.outbox.tx = number
            if len(self.outbox) == 1:
                self.live.progress(self.now, outstanding=True)
            self._send_data(number, self.outbox.entries[number])
        return number

    def send_live(self, body: bytes, to: str | None, kind: Kind, deadline: float, room: bool) -> Receipt:
        """Send a live message. As `AgentCore.send_live`."""
        if kind not in LIVE_KINDS:
            raise ValueError("what is retained has no deadline")
        if not 0 < deadline < FAR:
            raise ValueError("a deadline is more than 0, and finite")
        is_topic = kind is Kind.TOPIC
        self.outbox.check(to, body, kind, LIVE_BYTES_MAX)
        self._live_number -= 1
        number = self._live_number
        if not self.is_open or not room:
            return self.drop_live(number, "congested" if self.is_open else "not-attached")
        frame = LiveData(self._epoch, self.outbox.highest, to, is_topic, max(1, int(deadline)), body, -number)
        self._journal.send_live(frame)
        self.live.stir(self.now)
        self.live_sent += 1
        return Receipt(number, "sent")

    def drop_live(self, number: int, reason: str) -> Receipt:
        """An own live message was dropped. Returns what the application is to be told."""
        self.live_dropped += 1
        return Receipt(number, "dropped", reason=reason)

    @property
    def live_counts(self) -> dict[str, int]:
        """Own messages: sent, dropped. Those of others: given, expired."""
        given, expired = self.inbox.live_given, self.inbox.live_expired
        return {"sent": self.live_sent, "given": given, "dropped": self.live_dropped, "expired": expired}

    def ack(self, token: int) -> None:
        """The application has everything up to `token`. Raises LocalProtocolError."""
        self.inbox.ack(token)
        self._c_dirty = True

    def ping(self, timeout: int | None = None) -> None:
        """Send PING; `timeout` (microseconds) in place of the usual one."""
        self._said()
        self._journal.send(Ping(self._epoch, self.inbox.c))
        self.live.pinged(self.now, bool(self.outbox) or self.inbox.unacknowledged > 0, timeout)

    def say_ack(self) -> None:
        """Send ACK."""
        self._said()
        self._journal.send(Ack(self._epoch, self.inbox.c))
        self.live.stir(self.now)

    def say_seen(self, e: int) -> None:
        """Answer ASK in attempt or session `e`."""
        self._c_dirty = True
        seen = tuple(sorted(self.inbox.seen.items()))
        self._journal.send(Seen(e, seen, self.outbox.una - 1, self.outbox.tx, tuple(self.outbox.doubtful)))

    def say_leave(self) -> None:
        """Send LEAVE."""
        self._journal.send(Leave(self._epoch))
        self.live.leaving(self.now)

    def expire(self) -> str | None:
        """Do what is due. Returns why the session is over, or None."""
        reason = self.live.overdue(self.now)
        if reason is None and self.live.ping_due(self.now):
            self.ping()
        return reason

    def flush(self) -> None:
        """Before the tick closes: say acknowledgements that are due, save c."""
        inbox = self.inbox
        if self.is_open and inbox.unsaid:
            enough = min(self._settings.ack_entries, max(1, self._window // 4))
            if (
                inbox.unsaid >= enough
                or inbox.unsaid_bytes >= self._settings.ack_bytes
                or self._sent_data
                or self.now >= self.live.ack_at
            ):
                self.say_ack()
            elif self.live.ack_at == FAR:
                self.live.ack_at = self.now + self._settings.ack_delay
        self._sent_data = False
        if inbox.facts:
            self._journal.save(*inbox.facts)
            inbox.facts = []
        if self._c_dirty:
            self._c_dirty = False
            c, seen = inbox.c, tuple(inbox.fresh.items())
            if c != self._saved_c or seen:
                self._saved_c = c
                kept = () if "seen_not_saved" in self._mutants else seen
                self._journal.save(Acked(inbox.le, c, tuple(inbox.forget), kept))
                inbox.forget, inbox.fresh = [], {}

    def _said(self) -> None:
        """A frame says c: it must be saved before."""
        self.inbox.unsaid = self.inbox.unsaid_bytes = 0
        self.live.ack_at = FAR
        self._c_dirty = True

    def _send_data(self, number: int, entry: OutEntry) -> None:
        self._sent_data = True
        if entry.kind:
            frame = TopicData(self._epoch, number, entry.c, Kind(entry.kind), entry.to or "", entry.body)
            self._journal.send(frame)
        else:
            self._journal.send(Data(self._epoch, number, entry.c, entry.to, entry.body))
        self.live.stir(self.now)
