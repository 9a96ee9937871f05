"""The frames of a session: acknowledgements, messages, pings, goodbyes.

Sources: causal-broadcast.md (b) 'ACK, DATA' with P10, P12; hot-path.md rules 12-14; overview section 7.
"""

from __future__ import annotations

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.presence import Presence
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.sessions import Sessions
from roamcast.middleware.custody.stream import passed, statement
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.delivery_log import ACK
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import (
    JOINED_AT,
    Ack,
    Data,
    Detach,
    Heard,
    Hello,
    Leave,
    Left,
    LiveData,
    NoSession,
    Ping,
    Pong,
    TopicData,
    Uack,
    UpFrame,
)
from roamcast.middleware.rows import Kind
from roamcast.middleware.vectors import covers
from roamcast.middleware.writes import PutLastSeq


class Uplink:
    """What a host with a session may say."""

    def __init__(
        self,
        ledger: Ledger,
        downlink: Downlink,
        asking: Asking,
        expiry: Expiry,
        gate: Gate,
        sessions: Sessions,
        subscriptions: Subscriptions,
        presence: Presence,
    ) -> None:
        self.ledger = ledger
        self.presence = presence
        self.subscriptions = subscriptions
        self.downlink = downlink
        self.asking = asking
        self.expiry = expiry
        self.gate = gate
        self.sessions = sessions
        self._uack: dict[Channel, Record] = {}
        self.silence_at = 0
        """When to look for silent channels next."""
        self._partly: dict[Channel, int] = {}
        """Number told to a host whose later messages wait for a second copy."""

    def receive(self, channel: Channel, host: int, frame: UpFrame) -> None:
        """A frame of host number `host` (authenticated by the driver) on a channel."""
        if isinstance(frame, Hello):
            self.sessions.hello(channel, host, frame)
            return
        record = self.ledger.channels.get(channel)
        if record is None or record.mh[0] != host:
            self.ledger.tell(channel, NoSession())
            return
        late = "late_data" in self.ledger.mutants and isinstance(frame, (Data, TopicData))
        if (frame.e != record.sess or record.state != "open") and not late:
            self.ledger.tell(channel, NoSession())
            return
        record.heard = self.ledger.now
        match frame:
            case Ack(_, c):
                self._acknowledge(channel, record, c)
            case Data() | TopicData():
                if self._first_frame(channel, record):
                    self._data(channel, record, frame)
            case Ping(_, c):
                if self._acknowledge(channel, record, c):
                    self.ledger.tell(channel, self._pong(record))
                    self.subscriptions.tell(record)
            case LiveData():
                if self._first_frame(channel, record):
                    self.sessions.live.take(channel, record, frame)
            case Heard():
                self.subscriptions.heard(record)
            case Detach():
                self.sessions.channel_lost(channel)
            case Leave():
                if self._first_frame(channel, record):
                    self._leave(channel, record)

    def _pong(self, record: Record) -> Pong:
        """What was sent; and what the host may rely on should this station be lost (composition.md C7, L2)."""
        stable = self.ledger.fifo.stable
        slot, n = record.last_id
        told = record.asked or not self.ledger.view.lost
        safe = record.lastseq if told and stable[slot] >= n and covers(stable, record.sdep) else 0
        behind = () if record.spool else statement(self.ledger, passed(self.ledger, record))
        return Pong(self.downlink.sent_to(record), safe, behind)

    def gate_opened(self) -> None:
        """Messages are taken again: a UACK tells the hosts that were told to wait, and they send again."""
        for channel, record in self.ledger.channels.items():
            if record.told_wait:
                record.told_wait = 0
                self._uack[channel] = record

    def hang_up_silent(self) -> None:
        """Channels that have been silent for twice their ping interval and the slack."""
        ledger = self.ledger
        if ledger.now < self.silence_at:
            return
        self.silence_at = ledger.now + ledger.settings.silence_slack // 2
        for channel, record in list(ledger.channels.items()):
            if ledger.now - record.heard > 2 * record.ping_us + ledger.settings.silence_slack:
                self.sessions.channel_lost(channel)
                ledger.hang_up(channel, "silent")

    def flush(self) -> None:
        """UACKs of the tick: one per sending host, cumulative; what has no second copy yet waits for one."""
        waiting: dict[Channel, Record] = {}
        uncopied = self.ledger.uncopied() if self._uack else {}
        for channel, record in self._uack.items():
            if self.ledger.channels.get(channel) is not record:
                continue
            first = uncopied.get(record.mh)
            if first is None:
                self.ledger.tell(channel, Uack(record.sess, record.lastseq, *record.last_id))
                continue
            waiting[channel] = record
            if first.number - 1 > self._partly.get(channel, 0) and first.n > 1:
                self._partly[channel] = first.number - 1
                self.ledger.tell(channel, Uack(record.sess, first.number - 1, first.slot, first.n - 1))
        self._uack = waiting
        self._partly = {channel: number for channel, number in self._partly.items() if channel in waiting}

    def _first_frame(self, channel: Channel, record: Record) -> bool:
        """Confirm on the first frame of the session. False: the join must wait, the frame is left for later."""
        if record.join and self.gate.closed() is not None:
            self.gate.say(channel)
            return False
        self.sessions.confirm(record)
        self.presence.look(record)
        if record.gap:  # a join that has to be told of a gap first: the host attaches again
            self.sessions.channel_lost(channel)
            self.ledger.tell(channel, NoSession())
            return False
        return True

    def _acknowledge(self, channel: Channel, record: Record, c: int) -> bool:
        if c == record.acked_c and record.le == record.sess:
            self.downlink.window_opened(record)
            return True
        sent = self.downlink.sent_to(record)
        if not record.acked_c <= c <= sent:
            if c > self.ledger.table.last_position:
                self.ledger.notice("alarm", "host-knows-more", host=record.mh[0], c=c)
            self.ledger.refuse(channel, "bad-ack", f"position {c} is not in {record.acked_c}..{sent}")
            return False
        record.acked_c = c
        self.ledger.log(ACK, *record.mh, record.sess, c)
        if record.le != record.sess and not self._first_frame(channel, record):
            return False
        if record.link and not record.ready:
            self.asking.try_ready(record)
        if record.spool:
            if record.spool[-1].position <= c:
                self.ledger.persist(*self.ledger.spools.trim(record, c))
            else:
                self.ledger.trim_wanted = True
        self.downlink.window_opened(record)
        return True

    def _data(self, channel: Channel, record: Record, frame: Data | TopicData) -> None:
        ledger = self.ledger
        if self.gate.closed() is not None:
            if not record.told_wait or ledger.now - record.told_wait >= ledger.settings.wait_interval:
                self.gate.say(channel)
                record.told_wait = ledger.now
            return
        if frame.number != record.lastseq + 1:
            if frame.number < 1:
                ledger.refuse(channel, "bad-number", f"own number {frame.number}")
            self._uack[channel] = record  # a repeat, or a gap: say what is here (P12)
            return
        if not JOINED_AT <= frame.c <= self.downlink.sent_to(record):
            ledger.refuse(channel, "bad-number", f"DATA names position {frame.c}, which was not given out")
            return
        if len(frame.body) > ledger.settings.message_bytes_max:
            ledger.refuse(channel, "too-large", f"{len(frame.body)} bytes, limit {ledger.settings.message_bytes_max}")
            return
        if isinstance(frame, TopicData):
            kind, addressee, body = self._on_topic(channel, record, frame)
        else:
            kind, addressee, body = self._addressed(record, frame)
        record.lastseq += 1
        record.last_id = (ledger.own, ledger.table.origins[ledger.own].stored + 1)
        ledger.write_row(
            kind,
            *record.mh,
            PutLastSeq(record.key, record.lastseq, record.last_id),
            number=frame.number,
            taken=(record.sess, frame.c),
            addressee=addressee,
            body=body,
            topic=frame.topic if isinstance(frame, TopicData) and kind >= Kind.TOPIC else "",
        )
        self._uack[channel] = record

    def _addressed(self, record: Record, frame: Data) -> tuple[Kind, int, bytes]:
        """(kind, addressee, body) of a broadcast or mail; one that cannot be delivered is refused in the order."""
        ledger = self.ledger
        if frame.to is None:
            return Kind.BROADCAST, 0, frame.body
        addressee = ledger.numbers.get(frame.to, 0)
        if ledger.knows(addressee):
            return Kind.MAIL, addressee, frame.body
        return Kind.REFUSED, record.mh[0], f"no member host {frame.to!r}".encode()

    def _on_topic(self, channel: Channel, record: Record, frame: TopicData) -> tuple[Kind, int, bytes]:
        """The same on a topic. Rights are looked at here and nowhere else: a replay must not answer otherwise."""
        topics, host = self.ledger.topics, record.mh[0]
        number = topics.number(frame.topic, self.ledger.numbers)
        known = topics.exists(number)
        if frame.kind is Kind.UNSUB:
            return (Kind.UNSUB, number, b"") if number else (Kind.NOSUB, 0, b"no such topic")
        if frame.kind is Kind.SUB:
            if not known or not topics.may_receive(number, host):
                return Kind.NOSUB, number, b"no right to receive" if known else b"no such topic"
            if not self.subscriptions.has_room(channel, number, self.ledger.settings.topics_max):
                return Kind.NOSUB, number, f"limit of {self.ledger.settings.topics_max} topics a host".encode()
            return Kind.SUB, number, b""
        if not known or not topics.may_send(number, host):
            why = "no right to send on" if known else "no such topic:"
            return Kind.REFUSED, host, f"{why} {frame.topic!r}".encode()
        cleared = frame.kind is Kind.RETAINED and not frame.body
        return Kind.CLEAR if cleared else frame.kind, number, frame.body

    def _leave(self, channel: Channel, record: Record) -> None:
        """Membership ends: tomb and row in one write, then LEFT."""
        if self.gate.closed() is not None:
            self.gate.say(channel)
            return
        self.sessions.forget(channel)
        self.expiry.bury(record, Kind.LEAVE)
        self.ledger.tell(channel, Left())
