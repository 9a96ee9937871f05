"""The downlink: one shared MSG frame per tick for all hosts at the front, frames of their own for the rest.

The front's position F is the `last` of the shared frame before. A host stands at the front when the last position sent
to it is F and its base holds nothing that the station has yet to log. A shared frame's `last` is the last position of
its tick, and so is that of every frame of one's own in that tick. Hosts that lag, that had mail in a tick without a
shared frame, or that came with more than is logged here stand apart. Work per tick: the shared frame and the hosts
apart; nothing grows with the hosts at the front.

Sources: overview section 7; hot-path.md rules 4-10; causal-broadcast.md P4.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.effects import Channel, Deliver
from roamcast.middleware.rows import Row, SpoolItem
from roamcast.middleware.vectors import covers

Entries = list[tuple[int, Row | SpoolItem]]


class Downlink:
    """Which channel stands where, and the frames of a tick."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.position = ledger.table.last_position
        """F: where the front stands."""
        self._front: dict[Channel, Record] = {}
        self._apart: dict[Channel, Record] = {}
        """Served up to the end of the log, but not at F or not covered by it."""
        self._blocked: dict[Channel, Record] = {}
        """Window or queue full: served again on the host's next sign of life."""
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

    def remove(self, channel: Channel) -> None:
        """The channel is gone."""
        record = self._take(channel)
        if record is not None:
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
        for place in (self._apart, self._blocked, self._due):
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

    def sent_to(self, record: Record) -> int:
        """Position of the last frame sent to the host in its session."""
        return self.position if record.channel in self._front else record.sent

    # ---- the frames of a tick ----

    def flush(self) -> None:
        """Append the tick's frames to the effects."""
        table = self.ledger.table
        end = table.last_position
        if end != self._served_to:
            broadcasts: Entries = list(table.broadcasts(max(self.position, self._served_to), end))
            owners = self._mail_owners()
            if broadcasts:
                self._shared(broadcasts, owners, end)
            else:
                for channel in owners:
                    self.serve(channel)
            self._sweep()
            self._served_to = end
        due, self._due = self._due, {}
        for channel, record in due.items():
            self._serve(channel, record, end)

    def _mail_owners(self) -> list[Channel]:
        """Hosts that are owed mail in this tick and have nothing else to wait for."""
        owners: list[Channel] = []
        for number in self.ledger.table.addressees(self._served_to):
            channels = [record.channel for record in self._by_host.get(number, ())]
            owners += [c for c in channels if c is not None and (c in self._front or c in self._apart)]
        return owners

    def _shared(self, broadcasts: Entries, owners: list[Channel], end: int) -> None:
        """One frame (or a few, cut) for all at the front who own no mail in this tick; the front moves to `end`."""
        if "mail_shared" not in self.ledger.mutants:
            for channel in owners:
                self.serve(channel)
        for channel in list(self._apart):
            self.serve(channel)
        channels = list(self._front)
        prev, frame_bytes = self.position, self.ledger.settings.frame_bytes
        if channels:
            for last, entries in self._cut(broadcasts, frame_bytes, end):
                self.ledger.out.append(Deliver(channels, prev, last, entries))
                prev = last
        self.position = end

    @staticmethod
    def _cut(entries: Entries, frame_bytes: int, end: int) -> list[tuple[int, Entries]]:
        """Entries in frames of at most frame_bytes (or one entry); the last frame reaches to `end`."""
        frames: list[tuple[int, Entries]] = []
        part: Entries = []
        size = 0
        for entry in entries:
            if part and size + entry[1].size > frame_bytes:
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
        entries, reached = self._next_entries(record, end)
        if entries:
            last = end if reached else entries[-1][0]
            for cut, part in self._cut(entries, self.ledger.settings.frame_bytes, last):
                self.ledger.out.append(Deliver((channel,), record.sent, cut, part))
                record.sent = cut
        elif reached and record.sent < self.position:
            self.ledger.out.append(Deliver((channel,), record.sent, self.position, ()))
            record.sent = self.position
        if not reached:
            self._blocked[channel] = record
        elif record.sent == self.position and covers(self.ledger.table.vector("delivered"), record.base):
            self._front[channel] = record
        else:
            self._apart[channel] = record

    def _next_entries(self, record: Record, end: int) -> tuple[Entries, bool]:
        """Owed entries behind what was sent, as many as the window takes; and whether these are all up to `end`.

        A full window never reaches `end`: the host is served again on its next acknowledgement.
        """
        settings, table = self.ledger.settings, self.ledger.table
        room, room_bytes = self._room(record)
        if room <= 0:
            return [], False
        idle = room == settings.window_entries
        entries: Entries = []
        size = 0
        start = bisect_right(record.spool, record.sent, key=lambda entry: entry.position)
        spooled: Entries = [(entry.position, entry.item) for entry in record.spool[start : start + room + 1]]
        after = max(record.sent, record.spool[-1].position) if record.spool else record.sent
        for position, holder in chain(spooled, table.owed(record.mh[0], record.base, after)):
            first = idle and not entries
            if len(entries) >= room or (size + holder.size > room_bytes and not first):
                return entries, False
            entries.append((position, holder))
            size += holder.size
        return entries, True

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
            entries += table.owed_count(record.mh[0], after, record.sent)
            size += table.bytes_between(after, record.sent)
        return settings.window_entries - entries, settings.window_bytes - size

    def _sweep(self) -> None:
        """Once per quarter of a window: hosts at the front that have not acknowledged for a window stand apart."""
        window = self.ledger.settings.window_entries
        if self.position < self._swept_at + max(1, window // 4):
            return
        self._swept_at = self.position
        for channel in [c for c, r in self._front.items() if r.acked_c < self.position - window]:
            self.serve(channel)
