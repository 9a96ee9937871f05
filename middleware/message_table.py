"""The one message table of a station: rows by origin, the log by position, and who is owed what.

Source: overview section 6. Rows of an origin are dense: floor < n <= stored. The log holds the delivered rows that are
not dropped yet; positions of dropped rows are holes. Nothing here decides; it answers in O(log rows).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from roamcast.middleware.errors import ensure
from roamcast.middleware.rows import (
    PRESENCE_KINDS,
    SUBSCRIPTION_KINDS,
    TOPIC_KINDS,
    Kind,
    Row,
    Vector,
)
from roamcast.middleware.vectors import entry
from roamcast.middleware.writes import DurableState

_position = attrgetter("position")


class OriginRows:
    """The rows of one origin: n = floor+1 .. stored, the first of them delivered."""

    __slots__ = ("delivered", "floor", "rows")

    def __init__(self, floor: int, delivered: int) -> None:
        self.floor = floor
        self.delivered = delivered
        self.rows: list[Row] = []

    @property
    def stored(self) -> int:
        """Highest number accepted."""
        return self.floor + len(self.rows)

    def get(self, n: int) -> Row | None:
        """The row n, or None if it is dropped or not stored."""
        index = n - self.floor - 1
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def delivered_at(self, position: int) -> int:
        """Highest n of this origin with a position <= `position` (floor if all such rows are dropped)."""
        return self.floor + bisect_right(self.rows, position, hi=self.delivered - self.floor, key=_position)


class MessageTable:
    """Rows, log and audience indexes of one station."""

    def __init__(self, members: Sequence[int], image: DurableState) -> None:
        self.width = max(members) + 1
        self.origins = [OriginRows(0, 0) for _ in range(self.width)]
        for slot, stream in sorted(image.streams.items()):
            ensure(slot < self.width, f"the store knows slot {slot}, the configuration does not")
            self.origins[slot] = OriginRows(stream.floor, stream.delivered)
        for slot, n in sorted(image.rows):
            origin = self.origins[slot]
            ensure(n == origin.stored + 1, f"row ({slot}, {n}) follows {origin.stored}")
            origin.rows.append(image.rows[slot, n])
        for slot, stream in image.streams.items():
            ensure(self.origins[slot].stored == max(stream.stored, stream.floor), f"stream {slot} lacks rows")
        self.last_position = image.last_position
        self._log_first = 1
        self._log: list[Row | None] = []
        self._bytes = [0]
        """Cumulative item bytes of the log: _bytes[i+1] - _bytes[i] belongs to _log[i]."""
        self._to_all: list[int] = []
        self._to_host: dict[int, list[int]] = {}
        self._to_topic: dict[int, list[int]] = {}
        self._to_topics: list[int] = []
        """To any topic."""
        self._changes: dict[int, list[int]] = {}
        """By host: its subscriptions, and the ends of them."""
        self.rows_total = sum(len(origin.rows) for origin in self.origins)
        self.bytes_total = sum(row.held for origin in self.origins for row in origin.rows)
        self.lean_total = sum(row.lean for origin in self.origins for row in origin.rows)
        placed = sorted((row for o in self.origins for row in o.rows if row.position is not None), key=_position)
        self._log_first = _position(placed[0]) if placed else self.last_position + 1
        self._log = [None] * (self.last_position + 1 - self._log_first)
        for row in placed:
            self._log[_position(row) - self._log_first] = row
            self._index(row)
        for logged in self._log:
            self._bytes.append(self._bytes[-1] + (logged.size if logged else 0))

    # ---- growth ----

    def widen(self, width: int) -> None:
        """There are slots up to width - 1 now."""
        self.origins += [OriginRows(0, 0) for _ in range(width - self.width)]
        self.width = max(self.width, width)

    def append(self, row: Row) -> None:
        """A row was accepted: the next of its origin."""
        origin = self.origins[row.slot]
        ensure(row.n == origin.stored + 1, f"row ({row.slot}, {row.n}) follows {origin.stored}")
        origin.rows.append(row)
        self.rows_total += 1
        self.bytes_total += row.held
        self.lean_total += row.lean

    def fill(self, row: Row, item: bytes) -> None:
        """The item of a lean row has come."""
        ensure(row.lean and len(item) == row.size, f"item of {len(item)} bytes for row ({row.slot}, {row.n})")
        row.item, row.lean = item, False
        self.bytes_total += row.size
        self.lean_total -= 1

    def place(self, row: Row) -> int:
        """A stored row is delivered: it takes the next position, which is returned."""
        origin = self.origins[row.slot]
        ensure(row.n == origin.delivered + 1 and row.position is None, f"({row.slot}, {row.n}) is not the next")
        origin.delivered = row.n
        self.last_position += 1
        row.position = self.last_position
        self._log.append(row)
        self._bytes.append(self._bytes[-1] + row.size)
        self._index(row)
        return row.position

    def _index(self, row: Row) -> None:
        if row.kind is Kind.BROADCAST:
            self._to_all.append(_position(row))
        elif row.kind is Kind.MAIL or row.kind is Kind.REFUSED:
            self._to_host.setdefault(row.addressee, []).append(_position(row))
        elif row.kind in TOPIC_KINDS or row.kind in PRESENCE_KINDS:
            self._to_topic.setdefault(row.addressee, []).append(_position(row))
            self._to_topics.append(_position(row))
        elif row.kind in SUBSCRIPTION_KINDS:
            self._changes.setdefault(row.host, []).append(_position(row))

    def drop(self, slot: int, floor: int) -> None:
        """Rows of `slot` with n <= floor go; all of them are delivered."""
        origin = self.origins[slot]
        ensure(floor <= origin.delivered, f"collection of ({slot}, {floor}) beyond {origin.delivered}")
        for row in origin.rows[: max(0, floor - origin.floor)]:
            self._log[_position(row) - self._log_first] = None
            self.rows_total -= 1
            self.bytes_total -= row.held
            self.lean_total -= row.lean
        del origin.rows[: max(0, floor - origin.floor)]
        origin.floor = max(origin.floor, floor)

    def trim(self) -> None:
        """After drops: forget the holes at the head of the log and the audience entries before it."""
        holes = 0
        while holes < len(self._log) and self._log[holes] is None:
            holes += 1
        if not holes:
            return
        del self._log[:holes]
        del self._bytes[:holes]
        self._log_first += holes
        before = self._log_first - 1
        for positions in (self._to_all, self._to_topics):
            del positions[: bisect_right(positions, before)]
        for index in (self._to_host, self._to_topic, self._changes):
            for key in list(index):
                positions = index[key]
                del positions[: bisect_right(positions, before)]
                if not positions:
                    del index[key]

    # ---- questions ----

    def vector(self, what: str) -> list[int]:
        """One counter per slot: 'stored', 'delivered' or 'floor'."""
        return [getattr(origin, what) for origin in self.origins]

    def vector_at(self, position: int) -> Vector:
        """DELIV as it was when `position` was the last one (never below the floor)."""
        if position >= self.last_position:
            return tuple(origin.delivered for origin in self.origins)
        return tuple(origin.delivered_at(position) for origin in self.origins)

    @property
    def first_logged(self) -> int:
        """Lowest position that the log still covers."""
        return self._log_first

    def row_at(self, position: int) -> Row | None:
        """The row at a position of the log; None if dropped or not there yet."""
        index = position - self._log_first
        return self._log[index] if 0 <= index < len(self._log) else None

    def rows(self, slot: int, first: int, last: int) -> list[Row]:
        """The stored rows first..last of an origin that are still here."""
        origin = self.origins[slot]
        return origin.rows[max(0, first - origin.floor - 1) : max(0, last - origin.floor)]

    def waiting(self) -> Iterator[Row]:
        """Rows that are stored and not delivered, by origin."""
        for slot, origin in enumerate(self.origins):
            yield from self.rows(slot, origin.delivered + 1, origin.stored)

    def first_position_beyond(self, base: Vector) -> int:
        """Lowest position of a logged row that `base` does not cover; last position + 1 if none."""
        lowest = self.last_position + 1
        for slot, origin in enumerate(self.origins):
            n = max(entry(base, slot), origin.floor) + 1
            if n <= origin.delivered:
                lowest = min(lowest, _position(origin.rows[n - origin.floor - 1]))
        return lowest

    def broadcasts(self, after: int, upto: int) -> list[tuple[int, Row]]:
        """(position, row) of the broadcasts to all in (after, upto]."""
        low, high = bisect_right(self._to_all, after), bisect_right(self._to_all, upto)
        return [(p, row) for p in self._to_all[low:high] if (row := self.row_at(p)) is not None]

    def changes(self, host: int) -> Sequence[int]:
        """Positions of the subscriptions of `host`, whatever its incarnation, and of their ends."""
        return self._changes.get(host, ())

    def on_topic(self, topic: int, after: int, upto: int) -> Iterator[tuple[int, Row]]:
        """(position, row) of the messages on a topic in (after, upto]."""
        positions = self._to_topic.get(topic, ())
        for index in range(bisect_right(positions, after), bisect_right(positions, upto)):
            row = self.row_at(positions[index])
            if row is not None:
                yield positions[index], row

    def on_any_topic(self, after: int) -> Iterator[tuple[int, Row]]:
        """(position, row) of the messages on topics, whichever, behind `after`."""
        for index in range(bisect_right(self._to_topics, after), len(self._to_topics)):
            row = self.row_at(self._to_topics[index])
            if row is not None:
                yield self._to_topics[index], row

    def spoken_behind(self, after: int) -> int:
        """How many messages on topics there are behind `after`."""
        return len(self._to_topics) - bisect_right(self._to_topics, after)

    def is_spoken_on(self, topic: int) -> bool:
        """Whether there are messages on the topic in the log."""
        return topic in self._to_topic

    def owed(self, host: int, base: Vector, after: int) -> Iterator[tuple[int, Row]]:
        """(position, row) behind `after`, in order, that `base` does not cover: broadcasts, and mail to `host`."""
        after = max(after, self.first_position_beyond(base) - 1)
        to_all, to_host = self._to_all, self._to_host.get(host, [])
        i, j = bisect_right(to_all, after), bisect_right(to_host, after)
        while i < len(to_all) or j < len(to_host):
            if j >= len(to_host) or (i < len(to_all) and to_all[i] < to_host[j]):
                position = to_all[i]
                i += 1
            else:
                position = to_host[j]
                j += 1
            row = self.row_at(position)
            if row is not None and row.n > entry(base, row.slot):
                yield position, row

    def lean_mail(self, host: int, base: Vector, after: int) -> Iterator[tuple[int, Row]]:
        """(position, row) behind `after`, in order, that `base` does not cover: mail to `host` without its item."""
        positions = self._to_host.get(host, ()) if self.lean_total else ()
        for index in range(bisect_right(positions, after), len(positions)):
            row = self.row_at(positions[index])
            if row is not None and row.lean and row.n > entry(base, row.slot):
                yield positions[index], row

    def owed_count(self, host: int, after: int, upto: int) -> int:
        """How many broadcasts and mails to `host` there are in (after, upto] (whatever it has already)."""
        to_host = self._to_host.get(host, ())
        return (
            bisect_right(self._to_all, upto)
            - bisect_right(self._to_all, after)
            + bisect_right(to_host, upto)
            - bisect_right(to_host, after)
        )

    def bytes_between(self, after: int, upto: int) -> int:
        """Item bytes of the log in (after, upto], whoever is owed them."""
        low = max(0, min(after + 1 - self._log_first, len(self._log)))
        high = max(low, min(upto + 1 - self._log_first, len(self._log)))
        return self._bytes[high] - self._bytes[low]
