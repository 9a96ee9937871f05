"""Light hosts that send and are given live messages, at stations and at bare relays.

The body of a live message begins with the time when it was sent (ns, monotonic) and the number of the sender's station.
What a socket does not take at once is counted and not sent: a live message does not wait, what is durable does.
"""

from __future__ import annotations

import struct
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

import zmq
from bench.child import Json, percentile
from bench.light_host import BareHost, Counts, Parsed, StationHost

from roamcast.middleware.host_frames import LiveData, LiveMsg, LiveRefused
from roamcast.middleware.mobile_host.live_age import LiveAge
from roamcast.transport.codec import decode_down, encode_up
from roamcast.transport.host_codec import DOWN
from roamcast.transport.sockets import HOST_QUEUE_FRAMES

LIVE_MSG, LIVE_REFUSED = DOWN.mark(LiveMsg), DOWN.mark(LiveRefused)
HEAD = struct.Struct(">QB")
MARK = b"\xf5\x00live\x00\xf5"
"""In bodies behind the head: where that is in a frame, whatever stands around it."""

RESOLUTION_US = 1.0
"""Stamps are whole microseconds."""

KNOWN_MAX = 512
BEFORE = HEAD.pack(0, 0) + MARK


class Reading:
    """When the process that reads had last nothing to read: what it reads later may have come by then."""

    def __init__(self) -> None:
        self._woken = time.monotonic_ns()
        self._busy = 0

    def waits(self) -> None:
        """It begins to wait."""
        self._busy = time.monotonic_ns() - self._woken

    def woken(self) -> None:
        """Something came, or a time."""
        self._woken = time.monotonic_ns()

    def slow_by_us(self, now: int) -> float:
        """What is read `now` (ns, monotonic) may have come so much earlier: this turn, and the last but its waiting."""
        return (self._busy + now - self._woken) / 1_000


@dataclass(slots=True)
class Given:
    """What the hosts of one fleet were given that is live."""

    reading: Reading
    deadline_us: int = 0
    """Of what is sent now."""
    notes: bool = True
    """Whether times are noted."""
    given: int = 0
    unfit: int = 0
    """Came behind a frame that was lost: an agent does not give it."""
    aged: int = 0
    """Was on its way for longer than it had left: an agent does not give it either."""
    refused: Counter[str] = field(default_factory=Counter)
    ages_us: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    """From the call to the arrival, by whether the sender is at the same station."""
    past_us: list[float] = field(default_factory=list)
    """By how much each came beyond its deadline, negative: before, counted from when its station took it."""
    late_us: list[float] = field(default_factory=list)
    """Of those beyond: by how much for certain, less what the reader was slow by and the least way. Positive only."""

    def note(self, sent_ns: int, is_same: bool, taken_us: int | None = None, least_us: int = 0) -> None:
        """One has come.

        Args:
            taken_us: when its station took it, UTC, as it says; None: nobody says.
            least_us: the shortest way to this host so far, which no host can know.
        """
        self.given += 1
        now = time.monotonic_ns()
        age = (now - sent_ns) / 1_000
        self.ages_us[is_same].append(age)
        past = age - self.deadline_us if taken_us is None else time.time_ns() / 1_000 - taken_us - self.deadline_us
        self.past_us.append(past)
        if past > 0 and (certain := past - RESOLUTION_US - least_us - self.reading.slow_by_us(now)) > 0:
            self.late_us.append(certain)

    def told(self) -> Json:
        """For a table."""
        return {
            "given": self.given,
            "unfit": self.unfit,
            "aged": self.aged,
            "refused": dict(self.refused),
            "one": _ms(self.ages_us[True]),
            "two": _ms(self.ages_us[False]),
            "older": sum(age > self.deadline_us for ages in self.ages_us.values() for age in ages),
            "past": {"count": sum(past > 0 for past in self.past_us), "most_ms": max(self.past_us, default=0) / 1_000},
            "late": {"count": len(self.late_us), "most_ms": max(self.late_us, default=0) / 1_000},
        }


def _ms(taken_us: list[float]) -> Json:
    p50, p99 = (percentile(taken_us, share) / 1_000 for share in (0.5, 0.99))
    return {"count": len(taken_us), "p50": p50, "p99": p99, "most": max(taken_us, default=0.0) / 1_000}


class LiveStationHost(StationHost):
    """A host of a station. It gives what is live where it stands in the one order and if it is in time, as an agent."""

    queue_frames = HOST_QUEUE_FRAMES

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: dict[str, Any],
        counts: Counts,
        frames: OrderedDict[bytes, Parsed],
        ack_at: OrderedDict[StationHost, float],
        live: Given,
        known: OrderedDict[bytes, LiveMsg],
    ) -> None:
        """known: live frames, which are the same bytes for hosts that are given the same."""
        super().__init__(context, place, counts, frames, ack_at)
        self._live, self._known = live, known
        self._waiting: deque[bytes] = deque()
        """What is durable and the socket has not taken."""
        self._frame = b"", b""
        self._made_for = -1, 0, 0
        self._station = int(self.label)
        self._age = LiveAge()

    def take(self, data: bytes) -> None:
        """What is live by its mark; all else as ever."""
        if not data.startswith(LIVE_MSG, 1):
            super().take(data)
        elif self._live.notes:
            self._note(self._known.get(data) or self._decode(data))
        else:
            self._live.given += 1

    def _decode(self, data: bytes) -> LiveMsg:
        frame = decode_down(data)
        assert isinstance(frame, LiveMsg)
        self._known[data] = frame
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return frame

    def _note(self, frame: LiveMsg) -> None:
        if frame.last != self._c:
            self._live.unfit += 1
            return
        if self._age.came(time.time_ns() // 1_000, frame.at) > frame.left:
            self._live.aged += 1
            return
        sent_ns, station = HEAD.unpack_from(frame.body)
        self._live.note(sent_ns, station == self._station, frame.id[0], self._age.least)

    def _parse(self, head: bytes, data: bytes) -> Parsed | None:
        if data.startswith(LIVE_REFUSED, 1):
            refused = decode_down(data)
            assert isinstance(refused, LiveRefused)
            self._live.refused[refused.code] += 1
            return None
        return super()._parse(head, data)

    def publish_live(self, body_bytes: int, deadline_us: int) -> bool:
        """Send one to all; returns whether the socket took it. What is durable and waits for it goes first."""
        if not self.push():
            return False
        key = self._number, body_bytes, deadline_us
        if key != self._made_for:
            body = BEFORE.ljust(body_bytes, b".")
            frame = LiveData(e=1, number=self._number, to=None, is_topic=False, deadline=deadline_us, body=body)
            head, _, tail = encode_up(frame).partition(BEFORE)
            self._frame, self._made_for = (head, MARK + tail), key
        head, tail = self._frame
        try:
            self.socket.send(head + HEAD.pack(time.monotonic_ns(), self._station) + tail, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def say(self, data: bytes) -> None:
        """As soon as the socket takes it."""
        self._waiting.append(data)
        self.push()

    def push(self) -> bool:
        """Send what waits; returns whether nothing does any more."""
        while self._waiting:
            try:
                self.socket.send(self._waiting[0], zmq.NOBLOCK)
            except zmq.Again:
                return False
            self._waiting.popleft()
        return True


class LiveBareHost(BareHost):
    """A host of a bare relay."""

    queue_frames = HOST_QUEUE_FRAMES

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], place: dict[str, Any], counts: Counts, live: Given
    ) -> None:
        super().__init__(context, place, counts)
        self._live = live
        self._station = int(self.label)

    def take(self, data: bytes) -> None:
        """A message, or the answer to `hello`."""
        if not self.open:
            super().take(data)
        elif self._live.notes:
            sent_ns, station = HEAD.unpack_from(data)
            self._live.note(sent_ns, station == self._station)
        else:
            self._live.given += 1

    def publish_live(self, body_bytes: int, deadline_us: int) -> bool:
        """Send one to all; returns whether the socket took it. The relay knows no deadline."""
        body = (HEAD.pack(time.monotonic_ns(), self._station) + MARK).ljust(body_bytes, b".")
        try:
            self.socket.send(body, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def push(self) -> bool:
        """Nothing waits."""
        return True
