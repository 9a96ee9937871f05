"""Live messages of hosts, in the one order or not at all: the desk of one station.

A live message comes after the rows that its host may have seen (its floor) and after older live messages (the core of
`delta_causal`). Here it waits for its floor first, then for these, and goes to those hosts only that have been sent all
they are owed: it never overtakes a row. No row waits for it: a row has the live messages that it follows (its tag), and
before it takes its place what of them is here goes out; what comes later is dropped. Tags are in memory only, until
what they name is over; a station that does not know a tag any more says what is certain. Custody brings along what
its host may have been given. So nothing is given twice, and nothing after what follows it, wherever the host goes.

Source: one-order.md section 5; docs/protocols/delta-causal.md, section 'In the one order', has the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.live_floors import LiveFloors
from roamcast.middleware.custody.live_gate import LiveGate
from roamcast.middleware.custody.live_log import LiveLog
from roamcast.middleware.custody.live_own import DROPPED, LiveOwn, Own
from roamcast.middleware.custody.live_tags import LiveTagBook, newest_of, pack, unpack
from roamcast.middleware.custody.record import EVERYWHERE, Record
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.delta_causal.errors import LiveRefused as NotSent
from roamcast.middleware.delta_causal.messages import Deliver as Arrived
from roamcast.middleware.delta_causal.messages import LiveEffect, LiveMessage, Why
from roamcast.middleware.delta_causal.past import NOTHING, Id, Lists
from roamcast.middleware.delta_causal.settings import LiveSettings
from roamcast.middleware.delta_causal.station import LiveStation
from roamcast.middleware.effects import Broadcast, Channel, Deliver, Effect, Reject, SendLive, SendPeer
from roamcast.middleware.host_frames import LIVE_BYTES_MAX, LiveData, LiveMsg, LiveRefused
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.settings import MS, Settings
from roamcast.middleware.station_frames import DataBatch
from roamcast.middleware.vectors import covers, merged

NEVER = frozenset({Why.AHEAD, Why.DELTA, Why.LATE})
"""What is dropped for this does not wait for its floor."""
EXT = "live"
"""Extension of STATE: what the host may have been given. No part of the record."""
KINDS = frozenset({Kind.BROADCAST, Kind.MAIL, Kind.TOPIC})


@dataclass(frozen=True, slots=True)
class _Carried(LiveMessage):
    cast: LiveCast

    @property
    def size(self) -> int:
        return len(self.cast.body)


class Live:
    """What is live at one station. `start` comes first."""

    def __init__(self, ledger: Ledger, downlink: Downlink, subscriptions: Subscriptions) -> None:
        self.ledger = ledger
        self.counts: Counter[str] = Counter()
        """taken, given, and why others were not; for status."""
        self.gate = LiveGate(ledger)
        self._log = LiveLog(ledger)
        self.core: LiveStation
        self._downlink = downlink
        self._subscriptions = subscriptions
        self._tags: LiveTagBook
        self._peers: tuple[int, ...] = ()
        self._set: int | None = None
        """The clock less the monotonic one, in the last tick."""
        self._floors = LiveFloors(ledger)
        self._own = LiveOwn(ledger)
        self._early: list[Deliver | SendLive] = []
        """Frames that were made before the end of this tick ..."""
        self._stripped: set[Channel] = set()
        """... and whose hosts have lost rights since."""
        self._behind: dict[Channel, Record] = {}
        """Hosts that may have been given more elsewhere than is here."""

    def start(self) -> None:
        """The first tick of a life. The station is silent until all that an earlier one knew of is over."""
        ledger = self.ledger
        settings = _settings(ledger.settings)
        self.core = LiveStation(ledger.own, ledger.fifo.peers, settings, ledger.wall, ledger.mutants)
        self._tags = LiveTagBook(self.core, ledger.table.vector("stored"))
        ledger.row_made = self._made
        ledger.causal.before = self._before

    def configure(self) -> None:
        """The settings of the ledger have changed. Before the first tick there is nothing to tell."""
        if self.ledger.wall:
            self._perform(self.core.configure(_settings(self.ledger.settings), self.ledger.wall))

    def follow(self) -> None:
        """Who belongs to the group now, and whether the clock was set: then what is live begins anew, as at a start.

        Else all that waits would be late at once, or nothing until the clock is again where it was.
        """
        ledger, before = self.ledger, self._set
        self._set = ledger.wall - ledger.now
        step = abs(self._set - before) if before is not None else 0
        if step > ledger.settings.live_skew and "live_frozen" not in ledger.mutants:
            ledger.notice("warning", "live-begins-anew", clock_set_by_ms=step // MS)
            self._floors, self._own = LiveFloors(ledger), LiveOwn(ledger)
            self.start()
        if self._peers is not self.ledger.fifo.peers:
            self._peers = self.ledger.fifo.peers
            self.core.follow(self._peers)

    def pause(self) -> None:
        """Custody comes from a station that cannot say what its hosts were given."""
        self._perform(self.core.pause(self.ledger.wall))
        self._overtake(self.core.newest)

    def refuses(self) -> str | None:
        """Why nothing live is taken here now, for status; None: it is."""
        wall = self.ledger.wall
        if not wall:
            return None  # no tick yet
        if (closed := self.gate.closed()) is not None:
            return closed[1]
        left = self.core.quiet_until - self.core.read(wall)
        return f"a start, or a change of live-delta: a pause of {left // MS + 1} ms more" if left >= 0 else None

    # ---- from a host ----

    def take(self, channel: Channel, record: Record, frame: LiveData) -> None:
        """A host has sent a live message: it goes to all stations at once, or nowhere."""
        ledger = self.ledger
        if frame.number > record.lastseq and "live_number" not in ledger.mutants:
            self.counts["unfounded"] += 1  # what it follows is not here, and may come by another station
            if frame.tag:
                ledger.tell(channel, LiveRefused("unfounded", DROPPED["unfounded"], frame.tag))
            return
        kind, addressee, refusal = self._audience(record, frame)
        if refusal is None:
            refusal = self.gate.closed()
        if refusal is None:
            try:
                message = self.core.send(None, b"", ledger.wall)
            except NotSent as reason:
                refusal = (reason.code, str(reason))
        if refusal is not None:
            self.counts["refused"] += 1
            ledger.tell(channel, LiveRefused(*refusal, frame.tag))
            return
        floor = ledger.view.void(merged(ledger.causal.sent, merged(record.base, record.sdep)))
        cast = LiveCast(
            message.stamp,
            message.delta,
            message.past.rest,
            tuple((slot, n) for slot, n in enumerate(floor) if n),
            max(0, min(frame.deadline, message.delta)),
            *(record.mh[0], record.mh[1] & 0xFFFFFFFF),
            kind,
            addressee,
            frame.body,
        )
        self.counts["taken"] += 1
        self._log.taken(record, frame.number, cast)
        ledger.out.append(Broadcast(cast))
        self._own.append(Own(message.id, cast, channel, record, frame.e, frame.tag))
        self.pump()

    def _audience(self, record: Record, frame: LiveData) -> tuple[Kind, int, tuple[str, str] | None]:
        """Whom it is for, or why it is refused: rights are looked at here, as for all else that hosts send."""
        ledger, topics = self.ledger, self.ledger.topics
        if len(frame.body) > LIVE_BYTES_MAX:
            return Kind.BROADCAST, 0, ("too-large", f"a live message has at most {LIVE_BYTES_MAX} bytes")
        if frame.to is None:
            return Kind.BROADCAST, 0, None
        if frame.is_topic:
            number = topics.number(frame.to, ledger.numbers)
            known = topics.exists(number) and topics.may_send(number, record.mh[0])
            return Kind.TOPIC, number, None if known else ("no-right", f"no topic {frame.to!r}, or no right to send")
        number = ledger.numbers.get(frame.to, 0)
        return Kind.MAIL, number, None if ledger.knows(number) else ("unknown", f"no member host {frame.to!r}")

    # ---- from another station ----

    def receive(self, slot: int, cast: LiveCast) -> None:
        """A live message came from the station that took it."""
        fault = self._fault(cast)
        if fault is not None:
            self.ledger.out.append(Reject(slot, "live-cast", fault))
            return
        if self.gate.closed() is not None:
            self.counts["refused"] += 1
            return
        if cast.delta != (delta := self.ledger.settings.live_delta):  # for a moment when it is changed; else its fault
            self.ledger.notice(
                "warning", "live-delta-differs", slot=slot, theirs_ms=cast.delta // MS, ours_ms=delta // MS
            )
        blocker = self._floors.blocker(cast)
        if blocker is None:
            self._enter((cast.stamp, slot), cast)
        elif (why := self.core.refusal(_carried((cast.stamp, slot), cast), self.ledger.wall)) in NEVER:
            self.counts[why.value] += 1
            self._log.dropped(why.value, slot)
        elif not self._floors.hold((cast.stamp, slot), cast, blocker):
            self.counts["full"] += 1

    def _fault(self, cast: LiveCast) -> str | None:
        if cast.kind not in KINDS or not 0 <= cast.deadline <= cast.delta or len(cast.body) > LIVE_BYTES_MAX:
            return f"kind {cast.kind}, deadline {cast.deadline}, delta {cast.delta}, {len(cast.body)} bytes"
        return None

    def _enter(self, name: Id, cast: LiveCast) -> None:
        self._perform(self.core.receive(name[1], _carried(name, cast), self.ledger.wall))

    def _perform(self, effects: Iterable[LiveEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Reject):
                self.ledger.out.append(effect)
            elif not isinstance(effect, Arrived):
                self.counts[effect.why.value] += 1
                self._log.dropped(effect.why.value, effect.src)
            elif isinstance(effect.message, _Carried):
                self._hand(effect.message.id, effect.message.cast)

    # ---- to hosts ----

    def pump(self) -> None:
        """What has its floor here now goes on: behind the frames of all rows that have taken their places."""
        while self._own and self._floors.blocker(self._own[0].cast) is None:
            own = self._own.popleft()
            self._own.tell(own, self._hand(own.id, own.cast))
        if self._floors:
            for name, cast in self._floors.freed():
                self._enter(name, cast)

    def _hand(self, name: Id, cast: LiveCast) -> str:
        """To every host here that it is for and that has been sent all that it is owed; to the others never.

        Returns why it was dropped instead, or ''.
        """
        ledger = self.ledger
        at = self.core.read(ledger.wall)
        left = cast.stamp + cast.deadline - at
        if left < 0:
            self.counts["expired"] += 1
            return "expired"
        if cast.stamp + cast.delta < self.core.newest and "live_pair" not in ledger.mutants:
            self.counts["overtaken"] += 1  # it may come before something that a station with a fast clock has sent
            return "overtaken"
        made = len(ledger.out)
        self._note_stripped()
        self._downlink.flush(early=True)
        groups: dict[int, list[Channel]] = {}
        for channel in self._channels(cast):
            end = self._downlink.end_of(channel)
            if end is None and "live_front" in ledger.mutants:
                end = self._downlink.sent_to(ledger.channels[channel])
            if end is not None:
                groups.setdefault(end, []).append(channel)
            else:
                self.counts["unready"] += 1
                self._downlink.look_again(channel)
        sender, topic = ledger.name_of(cast.host), ledger.topic_name(cast.addressee) if cast.kind is Kind.TOPIC else ""
        for last, channels in groups.items():
            frame = LiveMsg(last, name, sender, cast.incarnation32, cast.kind, topic, left, at, cast.body)
            self.counts["given"] += len(channels)
            ledger.out.append(SendLive(channels, frame))
        self._log.handed(name, self.core.clock, sum(map(len, groups.values())))
        self._early += [effect for effect in ledger.out[made:] if isinstance(effect, Deliver | SendLive)]
        return ""

    def _channels(self, cast: LiveCast) -> list[Channel]:
        """Whose hosts it is for: attached, not the sender, and not having been given more than is here."""
        ledger = self.ledger
        delivered = ledger.table.vector("delivered")
        for channel, record in list(self._behind.items()):
            if record.channel != channel or covers(delivered, ledger.view.void(record.sdep)):
                del self._behind[channel]
        if cast.kind is Kind.MAIL:
            wanted: Iterable[Channel] = self._downlink.channels_of(cast.addressee)
        else:
            on_topic = cast.kind is Kind.TOPIC
            wanted = self._subscriptions.subscribers(cast.addressee) if on_topic else ledger.channels
        without = {*self._downlink.channels_of(cast.host), *self._behind}
        return [channel for channel in wanted if channel not in without]

    def opened(self, record: Record) -> None:
        """A session was opened: nothing live goes to its host until all that it may have been given is here."""
        if record.prev == EVERYWHERE and record.sess == record.arr:
            self.pause()
        if record.channel is not None and "live_sdep" not in self.ledger.mutants:
            self._behind[record.channel] = record
            if len(self._behind) > 2 * len(self.ledger.channels) + 64:  # nothing is live, and hosts come and go
                self._behind = {channel: one for channel, one in self._behind.items() if one.channel == channel}

    def flush(self) -> None:
        """The frames of the tick, of rows. What was made early for a session that has ended since is taken back: its
        rows may be dropped in this very tick. So is what its host may not receive any more: it attaches again."""
        self._log.flush(self.counts)
        self._note_stripped()
        self._downlink.flush()
        early, self._early = self._early, []
        for effect in early:
            effect.channels = [channel for channel in effect.channels if self._is_served(channel)]
        self._stripped.clear()
        if any(not effect.channels for effect in early):
            out = self.ledger.out
            self.ledger.out = [one for one in out if not isinstance(one, Deliver | SendLive) or one.channels]

    def _is_served(self, channel: Channel) -> bool:
        record = self.ledger.channels.get(channel)
        return record is not None and record.state == "open" and channel not in self._stripped

    def _note_stripped(self) -> None:
        if self._early:
            self._stripped |= self._subscriptions.stripped

    # ---- beside rows ----

    def _made(self, row: Row) -> None:
        """An own row was made: it comes after all that is live here."""
        self._tags.keep(row.id, self.core.tail(self.ledger.wall))

    def _before(self, row: Row) -> None:
        """`row` is about to take its place, and waits for nothing: what goes before it goes now or never."""
        if self._own or self._floors:
            self.pump()
        past = self._tags.of(row)
        if past != NOTHING and row.slot != self.ledger.own and "live_settle" not in self.ledger.mutants:
            self._perform(self.core.settle(past, self.ledger.wall))

    def placed(self) -> None:
        """A row has taken its place."""
        if self._own or self._floors:
            self.pump()

    def learn(self, batch: DataBatch) -> None:
        """What rows follow that come from another station."""
        if batch.live:
            self._tags.learn(batch)

    def tagged(self, effects: Sequence[Effect]) -> list[Effect]:
        """The frames with what their rows follow."""
        return [self._tagged(effect) for effect in effects]

    def _tagged(self, effect: Effect) -> Effect:
        if isinstance(effect, Broadcast | SendPeer) and isinstance(effect.frame, DataBatch):
            live = self._tags.of_batch(effect.frame)
            if live:
                effect.frame = replace(effect.frame, live=live)
        return effect

    # ---- custody ----

    def ext(self) -> dict[str, bytes]:
        """For a STATE: what a host of this station may have been given."""
        past = self.core.tail(self.ledger.wall)
        return {} if past == NOTHING or "live_state" in self.ledger.mutants else {EXT: pack(past)}

    def inherit(self, ext: Mapping[str, bytes]) -> dict[str, bytes]:
        """Of a STATE: what comes from here follows it from now on. Returns the other extensions. Raises ValueError."""
        past = unpack(ext[EXT]) if EXT in ext else NOTHING
        if past != NOTHING:
            self._perform(self.core.inherit(past, self.ledger.wall))
            self._overtake(newest_of(past))
        return {name: value for name, value in ext.items() if name != EXT}

    def _overtake(self, stamp: int) -> None:
        """A host that comes may have been given elsewhere what was taken here, and still waits here for its floor."""
        if dropped := self._own.overtake(stamp):
            self.counts["overtaken"] += dropped

    # ---- time ----

    def expire(self) -> None:
        """What is over, and what waits no longer."""
        self._perform(self.core.expire(self.ledger.wall))
        self.pump()
        if behind := self._floors.forget(self.core.clock) + self._own.expire(self.core.clock):
            self.counts["behind"] += behind

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next, monotonic."""
        if not self.ledger.wall:
            return None  # no tick yet
        own = self._own[0].over if self._own else None
        due = [at for at in (own, self._floors.next_deadline(), self.core.next_deadline()) if at is not None]
        return self.ledger.now + max(0, min(due) - self.core.clock) if due else None


def _carried(name: Id, cast: LiveCast) -> _Carried:
    stamp, slot = name
    return _Carried(slot, stamp, cast.delta, None, Lists(cast.past), b"", cast)


def _settings(settings: Settings) -> LiveSettings:
    return LiveSettings(delta=settings.live_delta, skew=settings.live_skew, entries_max=settings.live_entries)
