"""Tags: the live messages that a row comes after. Kept in memory until all that they name is over everywhere."""

from __future__ import annotations

import struct
from collections import deque

from roamcast.middleware.delta_causal.past import NOTHING, Past
from roamcast.middleware.delta_causal.station import LiveStation
from roamcast.middleware.live_frames import LiveTags
from roamcast.middleware.rows import MessageId, Row
from roamcast.middleware.station_frames import DataBatch

_HORIZON = struct.Struct(">Q")
_ENTRY = struct.Struct(">QI")
ENTRIES_MAX = 64


class LiveTagBook:
    """Of one life of one station. `stored`: rows up to there are of an earlier one, and their tags are forgotten."""

    def __init__(self, core: LiveStation, stored: list[int]) -> None:
        self._core = core
        self._stored = stored
        self._start = core.clock
        self._tags: dict[MessageId, Past] = {}
        self._ages: deque[tuple[int, MessageId]] = deque()
        """(newest stamp, row) in the order of their coming, which is nearly that of stamps."""

    def keep(self, row: MessageId, past: Past) -> None:
        """The row comes after `past`."""
        if past == NOTHING or row in self._tags:
            return
        self._tags[row] = past
        self._ages.append((min(newest_of(past), self._core.bound(self._core.clock)), row))
        while self._ages and self._core.is_past(self._ages[0][0]):
            del self._tags[self._ages.popleft()[1]]

    def of(self, row: Row) -> Past:
        """What the row comes after; NOTHING: of that all is over, or this life has been silent since."""
        return self._tags.get(row.id, NOTHING)

    def learn(self, batch: DataBatch) -> None:
        """Keep what a frame says of its rows."""
        live, at = batch.live, -1
        for row in batch.rows:
            while at + 1 < len(live) and live[at + 1][0] <= row.n:
                at += 1
            if at >= 0:
                self.keep(row.id, live[at][1])

    def of_batch(self, batch: DataBatch) -> LiveTags:
        """What a frame has to say of its rows."""
        if not self._tags and self._core.is_past(self._core.bound(self._start)):
            return ()
        found: list[tuple[int, Past]] = []
        before = NOTHING
        for row in batch.rows:
            past = self._told(row)
            if past != before:
                found.append((row.n, past))
                before = past
        return tuple(found)

    def _told(self, row: Row) -> Past:
        past = self._tags.get(row.id, NOTHING)
        if past == NOTHING and row.slot < len(self._stored) and row.n <= self._stored[row.slot]:
            past = Past((), self._core.bound(min(row.hlc, self._start)))
        return NOTHING if self._core.is_past(newest_of(past)) else past


def newest_of(past: Past) -> int:
    """No stamp in it is larger."""
    return past.entries[-1][0] if past.entries else past.horizon


def pack(past: Past) -> bytes:
    """8 bytes, and 12 an entry."""
    return _HORIZON.pack(past.horizon) + b"".join(_ENTRY.pack(*entry) for entry in past.entries)


def unpack(data: bytes) -> Past:
    """What `pack` was given. Raises ValueError: it is nothing that a station has made."""
    try:
        (horizon,) = _HORIZON.unpack_from(data)
        entries = tuple(_ENTRY.iter_unpack(data[_HORIZON.size :]))
    except struct.error as error:
        raise ValueError(f"a live past that nobody has made: {error}") from error
    if list(entries) != sorted(set(entries)) or len(entries) > ENTRIES_MAX:
        raise ValueError("a live past out of order")
    return Past(tuple((stamp, sender) for stamp, sender in entries), horizon)
