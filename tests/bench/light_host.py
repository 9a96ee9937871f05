"""Hosts for the load: a DEALER each and the least that a host must do, so that the station is measured and not agents.

`StationHost` speaks the host link (HELLO, DATA, ACK as an agent says it: every 128 messages or after 1 s, PING every
5 s); it checks that no frame is lost. While broadcasts are sent it reads a frame's head only: the frames of a tick are
the same bytes for all hosts. `BareHost` speaks to the bare relay. A body begins with the time when it was sent, ns,
monotonic.
"""

from __future__ import annotations

import struct
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import zmq
from bench.bare import HELLO

from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    Data,
    Hello,
    Msg,
    Ping,
    Pong,
    TopicData,
    Uack,
    UpFrame,
    Welcome,
)
from roamcast.middleware.rows import Kind
from roamcast.transport.codec import decode_down, encode_up
from roamcast.transport.curve import CurveKeys
from roamcast.transport.sockets import set_client

PING_S = 5.0
ACK_S = 1.0
STAMP = struct.Struct(">Q")
HEAD_BYTES = 24
"""At least the head of a MSG frame: prev and last are in it, so equal heads are equal frames."""

FRAMES_KNOWN_MAX = 256


@dataclass(slots=True)
class Parsed:
    """What all hosts need to know of a shared frame."""

    prev: int
    last: int
    sent_ns: list[int]
    header_bytes: int
    """Bytes of the frame over bodies and names, of senders and topics."""


@dataclass(slots=True)
class Counts:
    """What the hosts of one fleet have received."""

    deliveries: int = 0
    frames: int = 0
    bytes: int = 0
    header_bytes: int = 0
    acks: int = 0
    lost: int = 0
    """Frames that did not fit behind the one before."""
    other: list[str] = field(default_factory=list)
    latencies_us: dict[str, list[float]] = field(default_factory=dict)


class LightHost(ABC):
    """What both kinds share: the socket, and what is counted."""

    queue_frames = 1_000
    """So many wait in the socket at most."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], place: dict[str, Any], counts: Counts) -> None:
        """`place`: endpoint, key (None: no CURVE), public, secret, label."""
        self.counts = counts
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if place["key"] is not None:
            set_client(self.socket, CurveKeys(place["public"], place["secret"]), place["key"])
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.SNDHWM, self.queue_frames)
        self.socket.connect(place["endpoint"])
        self.label: str = place["label"]
        self.latencies: list[float] | None = None
        self.greeted = False
        self.open = False

    def greet(self) -> None:
        """Say hello, once the connection takes it."""
        try:
            self.socket.send(self.hello(), zmq.NOBLOCK)
            self.greeted = True
        except zmq.Again:
            return

    @abstractmethod
    def hello(self) -> bytes:
        """First frame."""

    @abstractmethod
    def take(self, data: bytes) -> None:
        """A frame has come."""

    @abstractmethod
    def publish(self, body: bytes, topic: str | None = None, to: str | None = None) -> None:
        """Send to everybody, on a topic, or to one host."""

    def note(self, sent_ns: list[int]) -> None:
        """Keep how long these messages took."""
        if self.latencies is not None:
            now = time.monotonic_ns()
            self.latencies += [(now - sent) / 1_000 for sent in sent_ns]


class BareHost(LightHost):
    """A host of the bare relay."""

    def hello(self) -> bytes:
        """The relay learns the channel by it."""
        return HELLO

    def take(self, data: bytes) -> None:
        """A message, or the answer to `hello`."""
        if not self.open:
            self.open = data == HELLO
            return
        counts = self.counts
        counts.deliveries += 1
        counts.frames += 1
        counts.bytes += len(data)
        if self.latencies is not None:
            self.note([STAMP.unpack_from(data)[0]])

    def publish(self, body: bytes, topic: str | None = None, to: str | None = None) -> None:
        """One message; the relay knows nobody but all."""
        self.socket.send(body)


class StationHost(LightHost):
    """A host of a station."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: dict[str, Any],
        counts: Counts,
        frames: OrderedDict[bytes, Parsed],
        ack_at: OrderedDict[StationHost, float],
    ) -> None:
        """`frames`: what is known of shared frames, by head. `ack_at`: when the hosts' acknowledgements are due."""
        super().__init__(context, place, counts)
        self.name: str = place["name"]
        self._last: int = place["slot"]
        self._incarnation: int = place["incarnation"]
        self._frames, self._ack_at = frames, ack_at
        self._c = self._acked = 0
        self._number = 0
        self._ack_every = 128
        self.head_bytes: int | None = HEAD_BYTES
        """By so many first bytes a frame is known; None: by all."""

    def hello(self) -> bytes:
        """The first attempt of a first incarnation."""
        hello = Hello(PROTOCOL_VERSION, self.name, self._incarnation, False, 1, self._last, 0, 0, 1, 240)
        return encode_up(hello)

    def take(self, data: bytes) -> None:
        """Take a MSG by its head; everything else is decoded."""
        head = data[: self.head_bytes]
        parsed = self._frames.get(head) or self._parse(head, data)
        if parsed is None:
            return
        if parsed.prev != self._c:
            self.counts.lost += 1
            return
        self._c = parsed.last
        counts = self.counts
        counts.deliveries += len(parsed.sent_ns)
        counts.frames += 1
        counts.bytes += len(data)
        counts.header_bytes += parsed.header_bytes
        if self.latencies is not None:
            self.note(parsed.sent_ns)
        if self._c - self._acked >= self._ack_every:
            self.acknowledge()
        elif self not in self._ack_at:
            self._ack_at[self] = time.monotonic() + ACK_S

    def _parse(self, head: bytes, data: bytes) -> Parsed | None:
        frame = decode_down(data)
        if isinstance(frame, Msg):
            items = [item for _, item in frame.entries]
            content = sum(len(item.body) + len(item.sender.encode()) + len(item.topic.encode()) for item in items)
            sent = [STAMP.unpack_from(item.body)[0] for item in items]
            parsed = Parsed(frame.prev, frame.last, sent, len(data) - content)
            self._frames[head] = parsed
            if len(self._frames) > FRAMES_KNOWN_MAX:
                self._frames.popitem(last=False)
            return parsed
        if isinstance(frame, Welcome):
            self.open = True
            self._c = self._acked = frame.at
            self._ack_every = min(256, frame.window_entries // 4)
            self.acknowledge()
        elif not isinstance(frame, (Uack, Pong)):
            self.counts.other.append(str(frame))
        return None

    def acknowledge(self) -> None:
        """Everything received."""
        self._ack_at.pop(self, None)
        self._acked = self._c
        self.counts.acks += 1
        self.say(encode_up(Ack(1, self._c)))

    def ping(self) -> None:
        """It acknowledges too."""
        self._ack_at.pop(self, None)
        self._acked = self._c
        self.counts.acks += 1
        self.say(encode_up(Ping(1, self._c)))

    def publish(self, body: bytes, topic: str | None = None, to: str | None = None) -> None:
        """One DATA."""
        self._number += 1
        frame: UpFrame = Data(1, self._number, self._c, to, body)
        if topic is not None:
            frame = TopicData(1, self._number, self._c, Kind.TOPIC, topic, body)
        self.say(encode_up(frame))

    def say(self, data: bytes) -> None:
        """Send it, once the socket takes it."""
        self.socket.send(data)
