"""The ROUTER for hosts: who speaks on which channel, strict frames in, shared frames out.

A channel is the routing id of one connection. Its host is that of the connection's User-Id (set by ZAP from the key),
never what a frame says: HELLO is compared with it. The User-Id is looked at with every frame, for a client may bring a
routing id of its own, such as that of another host's former connection. The second part of a message is received as a
frame object, not as bytes: it carries the User-Id and tells whether more parts follow. Without that, a host could send
three parts of which the second is another host's channel. (Measured: 0.58 us a message, 0.5 for the User-Id; 0.21 with
bytes, 0.8 with bytes and asking RCVMORE; decoding the frame takes 2.)
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import zmq

from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    DownFrame,
    Hello,
    LiveData,
    LiveRefused,
    NoSession,
    Ping,
    Refused,
    UpFrame,
)
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station.core import StationCore
from roamcast.mss_station.buckets import Buckets
from roamcast.mss_station.drop_list import DropList
from roamcast.mss_station.full_queues import FullQueues
from roamcast.mss_station.live_queue import LiveQueue, Waiting
from roamcast.mss_station.live_share import TAKEN_MAX, LiveShare
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.user_id import Owner, brought_id, user_id, user_of
from roamcast.transport.errors import DecodeError, OtherVersion, UnknownKind
from roamcast.transport.host_codec import UP, encode_down
from roamcast.transport.serving_codec import decode_up

BAD_FRAMES_MAX: Final = 16
"""Frames that cannot be read, until the channel is closed and its host is refused for a while."""

LIVE_DATA: Final = UP.mark(LiveData)
SAY_RECEIVED: Final = (UP.mark(Ack), UP.mark(Ping))
"""Live messages that came before these may be taken later: they only follow more than they have to."""

TAKEN_BEFORE_MAX: Final = 4
"""Live messages of a host that are taken at once when something durable of it comes: it waits no longer than that."""

SHED_MAX: Final = 24
"""Live messages that are dropped in one go: what is durable behind them waits no longer than that."""

BUSY: Final = LiveRefused("busy", "the station has no time for more live messages; send fewer")
BAN_US: Final = 60 * SECOND
CHANNELS_KNOWN_MAX: Final = 65_536
NOBLOCK: Final = int(zmq.NOBLOCK)
SNDMORE_NOBLOCK: Final = int(zmq.SNDMORE | zmq.NOBLOCK)

Feed = Callable[[bytes, int, UpFrame], None]
"""(channel, host number, frame) of an authenticated host."""


@dataclass(slots=True)
class Failure:
    """A channel did not take a frame."""

    gone: bool
    """The connection has ended; else its queue is full."""
    prev: int | None
    """`prev` of the first MSG that it did not take."""


class HostPort:
    """Everything that goes through the ROUTER for hosts.

    Args:
        socket: bound ROUTER with ROUTER_MANDATORY; every send is DONTWAIT.
        number_of: host number of an enrolled, unrevoked name; None otherwise.
        ban: lets ZAP refuse a host's name until a time (monotonic microseconds).
        share: what time there is for live messages.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        settings: Settings,
        tally: Tally,
        number_of: Callable[[str], int | None],
        ban: Callable[[str, int], None],
        share: LiveShare,
    ) -> None:
        self._socket = socket
        self._settings = settings
        self._tally = tally
        self._number_of = number_of
        self._ban = ban
        self._known: dict[bytes, Owner] = {}
        self._bad: dict[bytes, int] = {}
        self._attachments = Buckets()
        self._share = share
        self._live = LiveQueue()
        self._busy: dict[bytes, int] = {}
        """Channels whose live messages were dropped -> when that may be told again."""
        self.dropped = DropList()
        self.failed: dict[bytes, Failure] = {}
        """Channels that did not take a frame since the last report to the core."""
        self.is_flooded = False
        """Live messages were dropped in the last `drain`: what is durable shall not wait for the rest of the flood."""
        self._full = FullQueues()
        self._crowded: set[bytes] = set()
        """Those that did not take a live message since then."""

    # ---- in ----

    def drain(self, limit: int, now: int, feed: Feed) -> int:
        """Feed at most `limit` frames that have arrived; returns how many messages were taken off the socket."""
        recv = self._socket.recv
        known = self._known
        self.is_flooded = False
        shed = 0
        for taken in range(limit):
            try:
                channel = recv(NOBLOCK)
            except zmq.Again:
                return taken
            part = recv(0, False)
            surplus = part.more
            if surplus:
                self._skip_parts()
            owner = known.get(channel)
            if owner is None or user_id(part) != owner.user:
                owner = self._introduce(channel, part, now)
                if owner is None:
                    continue
            if surplus:
                self._tally.count("reject.parts")
                self._refuse_bad(channel, owner, now, "a message of more than one part")
                continue
            data = part.bytes
            if data.startswith(LIVE_DATA, 1):
                if dropped := self._live.put(Waiting(channel, owner, data, now)):
                    self.is_flooded = True
                    self._dropped("live_shed", dropped, channel, now)
                    shed += 1
                    if shed == SHED_MAX:
                        return taken + 1
                continue
            if self._live.size and not data.startswith(SAY_RECEIVED, 1):
                self._take_before(channel, owner.number, now, feed)
            frame = self._read(channel, owner, data, now)
            if frame is not None and (type(frame) is not Hello or self._may_attach(channel, owner, frame, now)):
                feed(channel, owner.number, frame)
        return limit

    def take_live(self, now: int, feed: Feed) -> None:
        """In an open tick, which began at `now`: feed live messages that wait, as many as there is time for."""
        while self._live.size and self._share.admits():
            waiting = self._live.take()
            while waiting is not None and not self._take_live(waiting, now, feed):
                waiting = self._live.take_of(waiting.owner.number)

    def _take_before(self, channel: bytes, number: int, now: int, feed: Feed) -> None:
        """Something durable comes next: what its host sent before goes now or never."""
        for _ in range(TAKEN_BEFORE_MAX):
            if not self._share.admits(2 * TAKEN_MAX) or (waiting := self._live.take_of(number)) is None:
                break
            self._take_live(waiting, now, feed)
        if dropped := self._live.drop(number):
            self._dropped("live_shed", dropped, channel, now)

    def _take_live(self, waiting: Waiting, now: int, feed: Feed) -> bool:
        """Feed the message with what is left of its time. False: that is over, or it is no message."""
        channel, owner = waiting.channel, waiting.owner
        with self._share.used():
            frame = cast(LiveData | None, self._read(channel, owner, waiting.data, now))
            if frame is None:
                return False
            if (waited := now - waiting.since) > 0:
                left = min(frame.deadline, self._settings.live_delta) - waited
                if left <= 0:
                    self._dropped("live_over", 1, channel, now)
                    return False
                frame = replace(frame, deadline=left)
            feed(channel, owner.number, frame)
        self._share.took()
        return True

    def _read(self, channel: bytes, owner: Owner, data: bytes, now: int) -> UpFrame | None:
        try:
            return decode_up(data)
        except DecodeError as error:
            self._unreadable(channel, owner, now, error)
            return None

    def _dropped(self, name: str, count: int, channel: bytes, now: int) -> None:
        """Count live messages that were dropped, and tell their host at most once a second."""
        self._tally.count(name, count)
        if self._busy.get(channel, 0) <= now:
            if len(self._busy) >= CHANNELS_KNOWN_MAX:
                self._busy.clear()
            self._busy[channel] = now + SECOND
            self.send(channel, BUSY)

    def _skip_parts(self) -> None:
        while self._socket.recv(0, False).more:
            pass

    def _introduce(self, channel: bytes, part: zmq.Frame, now: int) -> Owner | None:
        """Who a channel belongs to that is unknown, or was another user's; None: its frames are ignored."""
        if channel in self.dropped:
            self._tally.count("frames_dropped")
            if self.dropped.take_answer(
                channel
            ):  # a host that slept until it was hung up shall not wait for a time-out
                self.send(channel, NoSession())
            return None
        taken_over = channel in self._known
        if taken_over:  # the connection that had this id has ended
            self.failed[channel] = Failure(True, None)
        name = user_of(part, "host")
        number = None if name is None else self._number_of(name)
        if name is None or number is None:  # revoked since its handshake
            self._tally.count("frames_of_unknown_hosts")
            self.close(channel, answer=False)
            return None
        if taken_over or brought_id(channel, part):  # no id is given twice
            self._tally.count("reject.routing-id")
            self._tally.line(30, "routing_id_refused", f"host {name!r} brought a routing id of its own", name)
            self._shut_out(channel, name, now)
            return None
        if len(self._known) >= CHANNELS_KNOWN_MAX:  # only a cache of what ZAP said
            for old in list(self._known)[: CHANNELS_KNOWN_MAX // 2]:
                del self._known[old]
        owner = self._known[channel] = Owner(number, name, f"host:{name}")
        return owner

    def _may_attach(self, channel: bytes, owner: Owner, hello: Hello, now: int) -> bool:
        name = owner.name
        if hello.version[0] != PROTOCOL_VERSION[0]:
            self._tally.count("reject.version")
            self.send(channel, Refused("version", _versions(hello.version)))
            return False
        if hello.name != name:
            self._tally.count("reject.name")
            self._tally.line(30, "name_refused", f"{name!r} called itself {hello.name!r}", name)
            self.send(channel, Refused("name", "the name of HELLO is not that of the key"))
            self._refuse_bad(channel, owner, now, "another host's name")
            return False
        limits = self._settings
        if not self._attachments.take(owner.number, now, limits.attach_burst, limits.attach_interval):
            self._tally.count("reject.rate")
            self.send(channel, Refused("rate", "too many attachments; wait a second"))
            return False
        return True

    def _unreadable(self, channel: bytes, owner: Owner, now: int, error: DecodeError) -> None:
        if isinstance(error, OtherVersion):
            self._tally.count("reject.version")
            self.send(channel, Refused("version", error.text))
        elif isinstance(error, UnknownKind):
            self._tally.count("reject.unknown-kind")
            self.send(channel, Refused(error.code, error.text))
        else:
            self._tally.count("reject.bad-frame")
        self._refuse_bad(channel, owner, now, error.text)

    def _refuse_bad(self, channel: bytes, owner: Owner, now: int, why: str) -> None:
        if len(self._bad) >= CHANNELS_KNOWN_MAX:
            self._bad.clear()
        self._bad[channel] = self._bad.get(channel, 0) + 1
        self._tally.line(30, "bad_frame", f"host {owner.name!r}: {why}", owner.name)
        if self._bad[channel] >= BAD_FRAMES_MAX:
            self._tally.count("channels_closed_for_bad_frames")
            self._shut_out(channel, owner.name, now)

    def _shut_out(self, channel: bytes, name: str, now: int) -> None:
        self._ban(name, now + BAN_US)
        self.close(channel, answer=False)

    # ---- out ----

    def send(self, channel: bytes, frame: DownFrame) -> None:
        """Send `frame` to one host, or note the channel in `failed`."""
        self.deliver((channel,), encode_down(frame))

    def deliver(self, channels: Sequence[bytes], data: bytes, prev: int | None = None) -> None:
        """Send the same bytes to each channel in order (hot-path.md rule 6). prev: that of a MSG, else None.

        A channel that did not take a frame gets no further one until `failed` has been reported: what comes later
        would look like a lost frame to its host.
        """
        shared = zmq.Frame(data)
        send, failed = self._socket.send, self.failed
        left = self._not_failed(channels, prev) if failed else iter(channels)
        while True:
            channel = b""
            try:
                for channel in left:
                    send(channel, SNDMORE_NOBLOCK)
                    send(shared, 0, False)
                return
            except zmq.Again:
                self._tally.count("eagain.hosts")
                failed[channel] = Failure(False, prev)
            except zmq.ZMQError as error:
                if error.errno != errno.EHOSTUNREACH:
                    raise
                failed[channel] = Failure(True, prev)

    def deliver_live(self, channels: Sequence[bytes], data: bytes) -> None:
        """The same for a live message, which who does not take it now is not given, nor any other in this tick.

        That is no gap in a host's stream. A channel that has failed lacks what comes before, and gets none.
        """
        shared = zmq.Frame(data)
        send, failed, crowded = self._socket.send, self.failed, self._crowded
        for channel in channels:
            if channel in failed or channel in crowded:
                self._tally.count("live_untaken")
                continue
            try:
                send(channel, SNDMORE_NOBLOCK)
                send(shared, 0, False)
            except zmq.Again:
                self._tally.count("live_untaken")
                crowded.add(channel)
            except zmq.ZMQError as error:
                if error.errno != errno.EHOSTUNREACH:
                    raise
                failed[channel] = Failure(True, None)

    def report(self, core: StationCore, now: int) -> None:
        """In an open tick: tell the core what channels did not take, and let it try again those that may by now."""
        for channel, failure in self.failed.items():
            if failure.gone:
                core.channel_lost(channel)
            else:
                core.channel_full(channel, failure.prev)
                self._full.add(channel, now)
        self.failed.clear()
        self._crowded.clear()
        self._share.next_tick()
        for channel in self._full.take(now):
            if (record := core.ledger.channels.get(channel)) is not None:
                core.downlink.window_opened(record)

    def next_report(self, now: int) -> int | None:
        """When there is something to report, or a live message to take; None: nothing is due."""
        if self.failed:
            return now
        dues = self._full.next_deadline(), self._share.admits_at() if self._live.size else None
        return min((due for due in dues if due is not None), default=None)

    def _not_failed(self, channels: Iterable[bytes], prev: int | None) -> Iterator[bytes]:
        for channel in channels:
            failure = self.failed.get(channel)
            if failure is None:
                yield channel
            elif failure.prev is None:
                failure.prev = prev

    def close(self, channel: bytes, *, answer: bool) -> None:
        """Ignore the channel from now on; what was sent still goes out. answer: its next frame gets NOSESSION."""
        owner = self._known.pop(channel, None)
        if owner is not None:
            self._live.drop(owner.number, channel)
        self._bad.pop(channel, None)
        self._busy.pop(channel, None)
        self.dropped.add(channel, answer=answer)

    def configure(self, settings: Settings) -> None:
        """New limits."""
        self._settings = settings

    def hang_up(self, number: int) -> None:
        """The host may not go on with the key that it has: its connections count as lost."""
        for channel in [channel for channel, host in self._known.items() if host.number == number]:
            self.close(channel, answer=False)
            self.failed[channel] = Failure(True, None)

    def forget(self, number: int) -> None:
        """The host was revoked: its channels are looked up again, and then not found."""
        for channel in [channel for channel, host in self._known.items() if host.number == number]:
            del self._known[channel]
        self._live.drop(number)
        self._attachments.forget(number)


def _versions(theirs: tuple[int, int]) -> str:
    ours, other = (".".join(map(str, version)) for version in (PROTOCOL_VERSION, theirs))
    return f"version {other} is spoken there, {ours} here"
