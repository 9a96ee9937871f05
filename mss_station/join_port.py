"""Connections under the one-time keys of invitations: Join comes in, its answer goes out, and nothing else counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import zmq

from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.middleware.settings import SECOND
from roamcast.mss_station.buckets import Buckets
from roamcast.mss_station.drop_list import DropList
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.user_id import brought_id
from roamcast.transport.errors import DecodeError, OtherVersion
from roamcast.transport.join_codec import decode_join, encode_join_answer

BAD_FRAMES_MAX: Final = 4
"""Until nothing more is taken from the connection."""

CHANNELS_MAX: Final = 256
JOINS_BURST: Final = 8
JOIN_INTERVAL: Final = SECOND
"""Of each key: a newcomer repeats its Join every few seconds."""

Take = Callable[[bytes, str, Join], None]
"""(channel, one-time key, frame): the channel is where the answer goes."""


class JoinPort:
    """What newcomers say, and are told.

    Args:
        send: sends bytes to a channel, if it takes them now.
    """

    def __init__(self, tally: Tally, take: Take, send: Callable[[Any, bytes], bool]) -> None:
        self._tally = tally
        self._take = take
        self._send = send
        self._bad: dict[bytes, int] = {}
        self._dropped = DropList(CHANNELS_MAX)
        self._joins = Buckets()

    def receive(self, channel: bytes, key: str, part: zmq.Frame, surplus: bool, now: int) -> None:
        """A message that came under a one-time key. surplus: it had more parts than one."""
        if channel in self._dropped:
            self._tally.count("frames_dropped")
            return
        if surplus or brought_id(channel, part):
            self._refuse(channel, "more than one part, or a routing id of its own")
            return
        try:
            frame = decode_join(part.bytes)
        except DecodeError as error:
            if isinstance(error, OtherVersion):
                self.answer(channel, JoinRefused(error.code, error.text, False))
            self._refuse(channel, error.text)
            return
        if self._joins.take(key, now, JOINS_BURST, JOIN_INTERVAL):
            self._take(channel, key, frame)
        else:
            self._tally.count("reject.join-rate")

    def _refuse(self, channel: bytes, why: str) -> None:
        self._tally.count("reject.bad-join")
        self._tally.line(30, "bad_join", why)
        if len(self._bad) >= CHANNELS_MAX:
            self._bad.clear()
        self._bad[channel] = self._bad.get(channel, 0) + 1
        if self._bad[channel] >= BAD_FRAMES_MAX:
            del self._bad[channel]
            self._dropped.add(channel, answer=False)

    def answer(self, channel: bytes, frame: Joined | JoinRefused) -> None:
        """Answer a Join where it came from; one that is lost is asked for again."""
        self._send(channel, encode_join_answer(frame))
