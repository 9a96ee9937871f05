"""Hosts that spoke while nothing can be committed: they are told to wait, in time and again, and called when it can."""

from __future__ import annotations

from typing import Final

from roamcast.middleware.host_frames import NoSession, Wait
from roamcast.mss_station.guard import StoreGuard
from roamcast.mss_station.host_port import HostPort

CHANNELS_MAX: Final = 65_536


class WaitingHosts:
    """By channel, when it was last told. Times: monotonic microseconds.

    Args:
        slot: own slot, named as the one that is waited for.
    """

    def __init__(self, hosts: HostPort, guard: StoreGuard, slot: int) -> None:
        self._hosts = hosts
        self._guard = guard
        self._slot = slot
        self._told: dict[bytes, int] = {}

    def spoke(self, channel: bytes, now: int, interval: int) -> None:
        """A frame came that is not taken: the host is told so, at most once in `interval`."""
        if channel not in self._told and len(self._told) >= CHANNELS_MAX:
            return
        if now - self._told.get(channel, -interval) >= interval:
            self._tell(channel, now)

    def repeat(self, now: int, interval: int) -> None:
        """A host with a WAIT under 15 s old has no time-out: say it again in time."""
        for channel in [channel for channel, said in self._told.items() if said <= now - interval]:
            if channel in self._hosts.failed:
                del self._told[channel]
            else:
                self._tell(channel, now)

    def call(self) -> None:
        """Commits go through again: all of them may attach."""
        for channel in self._told:
            self._hosts.send(channel, NoSession())
        self._told.clear()

    def _tell(self, channel: bytes, now: int) -> None:
        self._told[channel] = now
        self._hosts.send(channel, Wait(self._guard.reason or "", self._slot, self._guard.since))
