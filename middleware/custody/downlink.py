"""The downlink: one shared MSG frame per tick for all hosts at the front, frames of their own for the rest.

The front's position F is the `last` of the shared frame before. A host stands at the front when the last position sent
to it is F and its base holds nothing that the station has yet to log. A shared frame's `last` is the last position of
its tick, and so is that of every frame of the tick. A host that had something of its own in a tick without a broadcast
stands beside the front, ahead of it, until the next one. Hosts at or beside the front that are owed the same get one
frame for them all, also on topics. Hosts that lag, or that came with more than is logged here, stand apart. Work per
tick: the frames, and the hosts that are owed something of their own; nothing grows with the hosts at the front.

Sources: overview section 7; hot-path.md rules 4-10; causal-broadcast.md P4.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from operator import itemgetter

from roamcast.middleware.custody.bodies import Bodies
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.stream import is_change, is_sub, owed, owed_count
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.effects import Channel, Deliver
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.middleware.vectors import covers

Entry = Row | SpoolItem
Entries = list[tuple[int, Entry]]
Alike = tuple[int, list[int], list[Channel]]
"""Hosts that are given the same in a tick: the last position sent, positions beside those of broadcasts, channels."""


class Downlink:
    """Which channel stands where, and the frames of a tick."""

    def __init__(self, ledger: Ledger, subscriptions: Subscriptions, bodies: Bodies) -> None:
        self.ledger = ledger
        self.bodies = bodies
        bodies.came = self._body_came
        self._subscriptions = subscriptions
        self.position = ledger.table.last_position
        """F: where the front stands."""
        self._front: dict[Channel, Record] = {}
        self._beside: dict[Channel, Record] = {}
        """Served up to the end of the log, beyond F."""
        self._apart: dict[Channel, Record] = {}
        """Served up to the end of the log, but its base holds more than that."""
        self._owners: dict[Channel, list[int] | None] = {}
        """In this tick: who is owed what of mail (positions); None: has to be looked at."""
        self._spoken: dict[int, list[int]] = {}
        """In this tick: what was said on topics (positions). Who is owed it is looked up once, at its end."""
        self._blocked: dict[Channel, Record] = {}
        """Window or queue full: served again on the host's next sign of life."""
        self._stalled: dict[Channel, Record] = {}
        """Before a SUB whose last value is still to come here: served again when the log has grown."""
        self._awaiting: dict[Channel, Record] = {}
        """Before a mail whose body is still to come here: served again when it has."""
        self._due: dict[Channel, Record] = {}
        """To be served at the end of this tick."""
        self._by_host: dict[int, list[Record]] = {}
        """Attached records by host number; a superseded session of the same host may still be among them."""
        self._served_to = self.position
        self._swept_at = self.position

    # ---- hosts come and go ----

    def add(self, record: Record) -> None:
        """A session opened, or may be served from now on."""
        channel = record.channel
        if channel is not None:
            self.remove(channel)
            self._by_host.setdefault(record.mh[0], []).append(record)
            self._due[channel] = record
            self._subscriptions.attach(channel, record)

    def remove(self, channel: Channel) -> None:
        """The channel is gone."""
        record = self._take(channel)
        if record is not None:
            self._subscriptions.detach(channel)
            attached = self._by_host[record.mh[0]]
            attached.remove(record)
            if not attached:
                del self._by_host[record.mh[0]]

    def _take(self, channel: Channel) -> Record | None:
        """Out of wherever the channel stands; leaving the front, the record remembers where that stood."""
        record = self._front.pop(channel, None)
        if record is not None:
            record.sent = self.position
            return record
        for place in (self._beside, self._apart, self._blocked, self._stalled, self._awaiting, self._due):
            if channel in place:
                return place.pop(channel)
        return None

    def serve(self, channel: Channel) -> None:
        """Look at this host at the end of the tick."""
        record = self._take(channel)
        if record is not None:
            self._due[channel] = record

    def stand_apart(self, record: Record) -> None:
        """What the host is owed stands in its spool from now on: shared frames, made from the log, do not serve it."""
        if record.channel is not None:
            self.serve(record.channel)

    def full(self, channel: Channel, prev: int | None) -> None:
        """The channel did not take the frame behind `prev` nor those after it: served again on its next sign."""
        record = self._take(channel)
        if record is not None:
            self._blocked[channel] = record
            if prev is not None:
                record.sent = min(record.sent, prev)

    def window_opened(self, record: Record) -> None:
        """A sign of life came from a host whose window or queue was full."""
        if record.channel is not None and record.channel in self._blocked:
            self.serve(record.channel)

    def _body_came(self, record: Record) -> None:
        """A body that a host waited for is here, or given up."""
        if record.channel is not None and record.channel in self._awaiting:
            self.serve(record.channel)

    def sent_to(self, record: Record) -> int:
        """Position of the last frame sent to the host in its session."""
        return self.position if record.channel in self._front else record.sent

    def channels_of(self, host: int) -> list[Channel]:
        """Of the sessions of a host."""
        return [record.channel for record in self._by_host.get(host, ()) if record.channel is not None]

    def end_of(self, channel: Channel) -> int | None:
        """The last position sent, of a host that has been sent all that it is owed."""
        record = self._beside.get(channel)
        return self.position if channel in self._front else None if record is None else record.sent

    def look_again(self, channel: Channel) -> None:
        """If what a host apart has had elsewhere is here by now, it is at or beside the front from the next tick."""
        record = self._apart.get(channel)
        if record is not None and not record.join and covers(self.ledger.table.vector("delivered"), record.base):
            self.serve(channel)

    # ---- the frames of a tick ----

    def placed(self, row: Row) -> None:
        """A row has taken its position: note the attached hosts that are owed it and that no shared frame serves."""
        position = row.position or 0
        match row.kind:
            case Kind.MAIL | Kind.REFUSED:
                for record in self._by_host.get(row.addressee, ()):
                    self._note(record.channel, None if row.lean else position)
            case Kind.SUB | Kind.UNSUB | Kind.NOSUB:
                for record in self._by_host.get(row.host, ()):
                    self._note(record.channel, None)
            case Kind.TOPIC | Kind.RETAINED | Kind.CLEAR | Kind.ONLINE | Kind.OFFLINE:
                self._spoken.setdefault(row.addressee, []).append(position)

    def _note(self, channel: Channel | None, position: int | None) -> None:
        """None: more has to be looked at than a position."""
        if channel is None:
            return
        positions = self._owners.setdefault(channel, [])
        if position is None:
            self._owners[channel] = None
        elif positions is not None:
            positions.append(position)

    def flush(self, early: bool = False) -> None:
        """Append the tick's frames to the effects; early: those of the hosts that stand at or beside the front."""
        table = self.ledger.table
        end = table.last_position
        if self._owners or self._spoken:
            self._owners.update(dict.fromkeys(self._subscriptions.stripped))
        self._subscriptions.stripped.clear()
        if end != self._served_to:
            broadcasts: Entries = list(table.broadcasts(max(self.position, self._served_to), end))
            self._fan_out(broadcasts, self._alike(bool(broadcasts)), end)
            self._sweep(end)
            self._served_to = end
            for channel in list(self._stalled):
                self.serve(channel)
        self._owners.clear()
        self._spoken.clear()
        due, self._due = ({}, self._due) if early else (self._due, {})
        for channel, record in due.items():
            self._serve(channel, record, end)

    def _alike(self, broadcast: bool) -> list[Alike]:
        """Hosts that have had all that is older, by what one frame for them all begins with and is made of: the last
        position sent, and positions that are theirs. Those for whom that is not enough are served by themselves.
        """
        owners = self._owners
        topics, sets = self._topics_of_channels()
        alike: dict[tuple[int, tuple[int, ...], int], list[Channel]] = {}
        if broadcast:
            concerned = owners.keys() | topics.keys()
            others = [c for c in self._front if c not in concerned] if concerned else list(self._front)
            alike = {(self.position, (), 0): others} if others else {}
        for channel in chain(owners, (c for c in topics if c not in owners)):
            if channel in self._front:
                prev = self.position
            elif channel in self._beside:
                prev = self._beside[channel].sent
            else:
                if channel in self._apart or channel in self._awaiting:
                    self.serve(channel)
                continue
            positions = owners.get(channel, ())
            if positions is None:
                self.serve(channel)
            else:
                alike.setdefault((prev, tuple(positions), topics.get(channel, 0)), []).append(channel)
        if broadcast:
            for channel in list(self._apart):
                self.serve(channel)
            for channel, record in self._beside.items():
                if channel not in concerned:
                    alike.setdefault((record.sent, (), 0), []).append(channel)
        if "mail_shared" in self.ledger.mutants and broadcast:
            alike = {(prev, (), 0): channels for (prev, _, _), channels in alike.items()}
        on = self._spoken
        return [
            (prev, [*mail, *chain.from_iterable(on[topic] for topic in sets[number])], channels)
            for (prev, mail, number), channels in alike.items()
        ]

    def _topics_of_channels(self) -> tuple[dict[Channel, int], list[tuple[int, ...]]]:
        """Who is subscribed to which set of the topics that were spoken on in this tick, and these sets, by number.

        Work per tick and subscriber, not per message. Subscribed at its end: for whom that has changed meanwhile is
        looked at by itself (`placed`, `stripped`).
        """
        found: dict[Channel, int] = {}
        sets: list[tuple[int, ...]] = [()]
        for topic in self._spoken:
            subscribers = self._subscriptions.subscribers(topic)
            if not found:
                found = dict.fromkeys(subscribers, len(sets))
                sets.append((topic,))
                continue
            more: dict[int, int] = {}
            """Number of a set -> that of the same with this topic."""
            for channel in subscribers:
                before = found.get(channel, 0)
                number = more.get(before)
                if number is None:
                    number = more[before] = len(sets)
                    sets.append((*sets[before], topic))
                found[channel] = number
        return found, sets

    def _fan_out(self, broadcasts: Entries, alike: list[Alike], end: int) -> None:
        """One frame (or a few, cut) for all that are alike; after a broadcast they all stand at the front, at `end`."""
        table, front, beside = self.ledger.table, self._front, self._beside
        for prev, positions, channels in alike:
            entries = broadcasts
            if positions:
                own = [(position, row) for position in positions if (row := table.row_at(position)) is not None]
                entries = sorted([*broadcasts, *own], key=itemgetter(0))
            for last, part in self._cut(entries, self.ledger.settings.frame_bytes, end):
                self.ledger.out.append(Deliver(channels, prev, last, part))
                prev = last
            if not broadcasts:
                for channel in channels:
                    record = front.pop(channel, None)
                    if record is not None:
                        beside[channel] = record
                    beside[channel].sent = end
        if broadcasts:
            front.update(beside)
            beside.clear()
            self.position = end

    @staticmethod
    def _cut(entries: Entries, frame_bytes: int, end: int) -> list[tuple[int, Entries]]:
        """Entries in frames of at most frame_bytes (or one position); the last frame reaches to `end`."""
        frames: list[tuple[int, Entries]] = []
        part: Entries = []
        size = 0
        for entry in entries:
            if part and size + entry[1].size > frame_bytes and entry[0] > part[-1][0]:
                frames.append((part[-1][0], part))
                part, size = [], 0
            part.append(entry)
            size += entry[1].size
        frames.append((end, part))
        return frames

    # ---- hosts apart ----

    def _serve(self, channel: Channel, record: Record, end: int) -> None:
        """Send what the host's window allows; then it stands at the front, apart, or blocked."""
        if record.join:
            self._apart[channel] = record  # no MSG before the join is confirmed
            return
        entries, reached, stalled = self._next_entries(record)
        if entries:
            last = end if reached else entries[-1][0]
            for cut, part in self._cut(entries, self.ledger.settings.frame_bytes, last):
                self.ledger.out.append(Deliver((channel,), record.sent, cut, part))
                record.sent = cut
        elif reached and record.sent < self.position:
            self.ledger.out.append(Deliver((channel,), record.sent, self.position, ()))
            record.sent = self.position
        if stalled is not None:
            stalled[channel] = record
        elif not reached:
            self._blocked[channel] = record
        elif not covers(self.ledger.table.vector("delivered"), record.base):
            self._apart[channel] = record
        elif record.sent == self.position:
            self._front[channel] = record
        else:
            self._beside[channel] = record

    def _next_entries(self, record: Record) -> tuple[Entries, bool, dict[Channel, Record] | None]:
        """Owed entries behind what was sent, as many as the window takes; whether these are all up to the end of the
        log; and where the host has to wait, if something stops them: a body that is not here, or a SUB: what the host
        has had elsewhere must be here, to tell its last value.

        A full window never reaches the end: the host is served again on its next acknowledgement.
        """
        settings = self.ledger.settings
        room, room_bytes = self._room(record)
        if room <= 0:
            return [], False, None
        covered = covers(self.ledger.table.vector("delivered"), record.base) or "sub_at_once" in self.ledger.mutants
        idle = room == settings.window_entries
        entries: Entries = []
        size = 0
        start = bisect_right(record.spool, record.sent, key=lambda entry: entry.position)
        spooled: Entries = [(entry.position, entry.item) for entry in record.spool[start : start + room + 1]]
        spool_end = record.spool[-1].position if record.spool else record.sent
        after = max(record.sent, spool_end)
        for position, holder in chain(spooled, owed(self.ledger, record, after)):
            first = idle and not entries
            if len(entries) >= room or (size + holder.size > room_bytes and not first):
                return entries, False, None
            if not covered and is_sub(holder):
                return entries, False, self._stalled
            if holder.lean:
                if "hole" in self.ledger.mutants:
                    continue
                self.bodies.first(record, after)
                return entries, False, self._awaiting
            entries.append((position, holder))
            size += holder.size
            value = self._value_with(record, position, holder, bool(spooled) and position <= spool_end)
            if value is not None:
                entries.append((position, value))
                size += value.size
        return entries, True, None

    def _value_with(self, record: Record, position: int, holder: Row | SpoolItem, spooled: bool) -> Entry | None:
        """The last value that goes with a SUB: what the host is not given anyway, in its stream behind that."""
        if not isinstance(holder, SpoolItem) or not is_sub(holder):
            return None
        value = self.ledger.last.given_with(holder.topic, None if spooled else position, record.base)
        if value is None or not spooled or "ret_always" in self.ledger.mutants:
            return value
        behind = (entry.item for entry in record.spool if entry.position > position)
        other = (one for one in behind if one.topic == holder.topic)  # the value itself, or the subscription ends there
        return None if any((one.slot, one.n) == (value.slot, value.n) or is_change(one) for one in other) else value

    def _room(self, record: Record) -> tuple[int, int]:
        """Entries and bytes the window still takes."""
        settings, table = self.ledger.settings, self.ledger.table
        low = bisect_right(record.spool, record.acked_c, key=lambda entry: entry.position)
        high = bisect_right(record.spool, record.sent, key=lambda entry: entry.position)
        spooled = record.spool[low:high]
        after = max(record.acked_c, record.spool[-1].position if record.spool else record.acked_c)
        entries = len(spooled)
        size = sum(entry.item.size for entry in spooled)
        if record.sent > after:
            entries += owed_count(self.ledger, record, after, record.sent)
            size += table.bytes_between(after, record.sent)
        return settings.window_entries - entries, settings.window_bytes - size

    def _sweep(self, end: int) -> None:
        """Once per quarter of a window: hosts at the front that have not acknowledged for a window stand apart."""
        window = self.ledger.settings.window_entries
        if end < self._swept_at + max(1, window // 4):
            return
        self._swept_at = end
        for channel in [c for c, r in self._front.items() if r.acked_c < self.position - window]:
            self.serve(channel)
        for channel in [c for c, r in self._beside.items() if r.acked_c < r.sent - window]:
            self.serve(channel)
