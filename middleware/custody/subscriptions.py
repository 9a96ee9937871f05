"""Who is subscribed to what at the end of the log, and what becomes of subscriptions that are not allowed any more.

An index from topics to attached hosts, so that a message on a topic costs work for those only that are given it. And
the rules of rights that go (one-order.md 4.4): a station that knows hands nothing on a denied topic to a host, also
nothing that was waiting; the host is told which SUBs have ended, until it is known to know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from roamcast.middleware.custody import stream
from roamcast.middleware.custody.extras import Subs
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.log_events import log_ended
from roamcast.middleware.custody.record import Record
from roamcast.middleware.effects import Channel
from roamcast.middleware.host_frames import Unsubscribed
from roamcast.middleware.rows import Kind, MessageId, Row
from roamcast.middleware.topics import Topics
from roamcast.middleware.vectors import entry
from roamcast.middleware.writes import PutRecord, Write

EVERY: MessageId = (0, 0)
"""Stands for every SUB of a host."""
TOLD_MAX = 1_000
"""Ended SUBs that are remembered of a host; of more the oldest are forgotten."""


class Subscriptions:
    """Those of the records at one station."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.stripped: set[Channel] = set()
        """In this tick: what was meant for them has to be looked at again."""
        self._by_topic: dict[int, dict[Channel, Record]] = {}
        self._of: dict[Channel, Subs] = {}

    # ---- the index of attached hosts ----

    def attach(self, channel: Channel, record: Record) -> None:
        """The record has a session on this channel."""
        subs = dict(stream.subs_after(self.ledger, record, self.ledger.table.last_position))
        self._of[channel] = subs
        by_topic = self._by_topic
        for topic in subs:
            channels = by_topic.get(topic)
            if channels is None:
                channels = by_topic[topic] = {}
            channels[channel] = record

    def detach(self, channel: Channel) -> None:
        """The channel is gone."""
        for topic in list(self._of.get(channel, ())):
            self._end(channel, topic)
        self._of.pop(channel, None)

    def subscribers(self, topic: int) -> Collection[Channel]:
        """Channels of attached hosts that are subscribed at the end of the log."""
        return self._by_topic.get(topic, ())

    def count(self, channel: Channel) -> int:
        """How many subscriptions the host on this channel has."""
        return len(self._of.get(channel, ()))

    def has_room(self, channel: Channel, topic: int, most: int) -> bool:
        """Whether the host on this channel may subscribe to the topic, or is already, with so many at most."""
        subs = self._of.get(channel, ())
        return topic in subs or len(subs) < most

    def _end(self, channel: Channel, topic: int) -> None:
        if self._of[channel].pop(topic, None) is not None:
            channels = self._by_topic[topic]
            del channels[channel]
            if not channels:
                del self._by_topic[topic]

    # ---- the order goes on ----

    def placed(self, row: Row) -> None:
        """A SUB, or the end of one, has taken its place in the log."""
        for record in list(self.ledger.records.get((row.host, row.incarnation), {}).values()):
            channel = record.channel
            if channel in self._of and row.n > entry(record.base, row.slot):
                self._end(channel, row.addressee)
                if row.kind is Kind.SUB and row.id not in record.dead:
                    self._of[channel][row.addressee] = row.id
                    self._by_topic.setdefault(row.addressee, {})[channel] = record
            if row.kind is Kind.SUB and not self.ledger.topics.may_receive(row.addressee, row.host):
                self.strip(record)

    # ---- rights ----

    def configure(self, topics: Topics) -> None:
        """These are the topics and rights from now on. A topic that is not known yet keeps the value that it has."""
        ledger = self.ledger
        before, ledger.topics = ledger.topics, topics
        changed = topics.changed(before) if ledger.configured else None
        ledger.configured = True
        gone = [t for t in ledger.last.topics() if (before.exists(t) or topics.was_removed(t)) and not topics.exists(t)]
        if writes := ledger.last.remove(gone):
            ledger.persist(*writes)
        for record in ledger.all_records() if changed is None or changed else ():
            self.strip(record, changed)

    def strip(self, record: Record, among: Collection[int] | None = None) -> None:
        """End what is not allowed any more, durably, and tell the host if it is there. among: as in `denied`."""
        writes = self.denied(record, among=among)
        if writes is not None:
            self.ledger.persist(PutRecord(record.image()), *writes)
            self.tell(record)

    def denied(self, record: Record, opening: int = 0, among: Collection[int] | None = None) -> list[Write] | None:
        """End what is not allowed any more: every SUB in force between `base` and the end of the log, and those under
        which the spool owes something. Returns writes, for one Persist with the record; None: nothing has changed.
        opening: the session that is about to begin. among: only these topics are looked at; the others are as they
        were when the record was looked at before.
        """
        ledger, host = self.ledger, record.mh[0]
        if not ledger.configured or record.state != "open":
            return None
        found: dict[MessageId, int] = {}

        may_receive = ledger.topics.may_receive

        def look(topic: int, sub: MessageId) -> None:
            if among is not None and topic not in among:
                return
            if sub not in record.dead and sub != EVERY and not may_receive(topic, host):
                found[sub] = topic

        subs = record.subs
        for topic in subs if among is None else subs.keys() & among:
            if not may_receive(topic, host):
                look(topic, subs[topic])
        for _, row in stream.changes(ledger, record):
            if row.kind is Kind.SUB:
                look(row.addressee, row.id)
        if "strip_subs_only" not in ledger.mutants:
            for spooled in record.spool:
                if spooled.item.topic:
                    look(spooled.item.topic, spooled.item.sub)
        if not found:
            return None
        writes = ledger.spools.drop(record, lambda item: item.topic > 0 and item.sub in found)
        if "no_dead" not in ledger.mutants:
            self._bury(record, {sub: ledger.topic_name(topic) for sub, topic in found.items()})
        record.set_subs({topic: sub for topic, sub in record.subs.items() if sub not in found})
        if record.channel in self._of:
            self.stripped.add(record.channel)
            for topic in [topic for topic, sub in self._of[record.channel].items() if sub in found]:
                self._end(record.channel, topic)
        for (slot, n), topic in found.items():
            log_ended(ledger, record, topic, (slot, n), opening)
            ledger.notice("info", "unsubscribed", host=ledger.name_of(host), topic=ledger.topic_name(topic))
        return writes

    def end_all(self, record: Record, opening: int = 0) -> None:
        """What the host is subscribed to is not known here, or was given up: it has to ask again. The caller saves.

        Its SUBs that are here mean nothing either: it may have had them elsewhere, and then would not be told again.
        opening: the session that is about to begin.
        """
        ledger = self.ledger
        if not ledger.topics and not ledger.topics.presence and not record.subs:
            return
        rows = [*(row for _, row in stream.changes(ledger, record)), *ledger.table.waiting()]
        subs = [row for row in rows if row.kind is Kind.SUB and (row.host, row.incarnation) == record.mh]
        record.set_dead(record.dead | {EVERY: ("", False)} | {row.id: ("", True) for row in subs})
        log_ended(ledger, record, 0, EVERY, opening)
        record.set_subs({})

    def _bury(self, record: Record, ended: dict[MessageId, str]) -> None:
        dead = record.dead | {sub: (name, False) for sub, name in ended.items()}
        record.set_dead(dict(list(dead.items())[-TOLD_MAX:]))

    # ---- the host is told ----

    def untold(self, record: Record) -> tuple[tuple[int, int, str], ...]:
        """What a WELCOME or UNSUBSCRIBED says; the record remembers that it has said it."""
        told = {sub: name for sub, (name, known) in record.dead.items() if not known}
        record.listed = frozenset(told)
        return tuple((*sub, name) for sub, name in sorted(told.items()))

    def confirmed(self, record: Record) -> None:
        """The host has that WELCOME. The caller saves the record."""
        self._known(record)
        self.tell(record)

    def heard(self, record: Record) -> None:
        """The host has what `tell` has said last."""
        if record.listed and record.le == record.sess:
            self._known(record)
            self.ledger.persist(PutRecord(record.image()))

    def _known(self, record: Record) -> None:
        if record.listed:
            known = {sub: (name, told or sub in record.listed) for sub, (name, told) in record.dead.items()}
            if EVERY in record.listed:
                known.pop(EVERY, None)
            record.set_dead(known)
            record.listed = frozenset()

    def tell(self, record: Record) -> None:
        """What the host may not know, once its session is confirmed: before, it can still be forgotten."""
        confirmed = record.le == record.sess or "notice_early" in self.ledger.mutants
        if record.channel is None or not confirmed or record.join or "no_notice" in self.ledger.mutants:
            return
        if ended := self.untold(record):
            self.ledger.tell(record.channel, Unsubscribed(record.sess, ended))

    def names(self, record: Record) -> Iterator[str]:
        """Topics that the record is subscribed to at the end of the log, for an operator."""
        subs = stream.subs_after(self.ledger, record, self.ledger.table.last_position)
        return (self.ledger.topic_name(topic) for topic in sorted(subs))
