"""A HostPort with its surroundings, and two hosts that it knows."""

from __future__ import annotations

from typing import Any

from roamcast.middleware.host_frames import DownFrame, Hello, UpFrame
from roamcast.middleware.settings import Settings
from roamcast.mss_station.host_port import HostPort
from roamcast.mss_station.live_share import LiveShare
from roamcast.mss_station.tally import Tally
from roamcast.transport.host_codec import decode_down, encode_up

A, B, C = b"\0aaaa", b"\0bbbb", b"\0cccc"


class Port:
    """A HostPort with its surroundings."""

    def __init__(self, router: Any, **settings: int) -> None:
        self.router = router
        self.tally = Tally()
        self.time = 0
        self.hosts: dict[str, int] = {"ann": 11, "bob": 12}
        self.bans: list[tuple[str, int]] = []
        self.fed: list[tuple[bytes, int, UpFrame]] = []
        self.port = HostPort(
            self.router,
            Settings(**settings),
            self.tally,
            self.hosts.get,
            lambda name, until: self.bans.append((name, until)),
            LiveShare(lambda: self.time, self.tally),
        )

    def drain(self, now: int = 0, limit: int = 1_000) -> list[tuple[bytes, int, UpFrame]]:
        self.fed.clear()
        self.port.drain(limit, now, lambda *fed: self.fed.append(fed))
        return list(self.fed)

    def live(self, now: int = 0) -> list[tuple[bytes, int, UpFrame]]:
        """Live messages that are taken in one tick."""
        self.fed.clear()
        self.port.take_live(now, lambda *fed: self.fed.append(fed))
        return list(self.fed)

    def told(self) -> list[tuple[bytes, DownFrame]]:
        return [(channel, decode_down(data)) for channel, data in self.router.sent]


def hello(name: str, e: int = 1, version: tuple[int, int] = (1, 0)) -> bytes:
    return encode_up(Hello(version, name, 5, False, e, 1, 0, 0, 1, 5))
