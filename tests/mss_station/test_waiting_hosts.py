"""Hosts while nothing can be committed: told in time, not too often, and called when it can."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from roamcast.middleware.host_frames import NoSession, Wait
from roamcast.middleware.settings import SECOND, Settings
from roamcast.mss_station.host_port import Failure, HostPort
from roamcast.mss_station.live_share import LiveShare
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.waiting_hosts import WaitingHosts
from roamcast.transport.host_codec import decode_down

A, B = b"\0aaaa", b"\0bbbb"
INTERVAL = 5 * SECOND


class Door:
    """The waiting hosts of slot 3, whose store is closed for want of room."""

    def __init__(self, router: Any) -> None:
        self.router = router
        tally = Tally()
        self.port = HostPort(router, Settings(), tally, {}.get, lambda name, until: None, LiveShare(lambda: 0, tally))
        guard: Any = SimpleNamespace(reason="no room", since=77)
        self.waiting = WaitingHosts(self.port, guard, 3)

    def told(self) -> list[tuple[bytes, Any]]:
        told = [(channel, decode_down(data)) for channel, data in self.router.sent]
        self.router.sent.clear()
        return told


@pytest.fixture
def door(router: Any) -> Door:
    return Door(router)


def test_a_host_is_told_why_and_again_before_its_patience_ends(door: Door) -> None:
    for now in (0, 1, INTERVAL - 1):
        door.waiting.spoke(A, now, INTERVAL)
    assert door.told() == [(A, Wait("no room", 3, 77))]
    door.waiting.repeat(INTERVAL - 1, INTERVAL)
    assert door.told() == []
    door.waiting.repeat(INTERVAL, INTERVAL)
    assert door.told() == [(A, Wait("no room", 3, 77))]


def test_all_are_called_once_when_it_works_again(door: Door) -> None:
    door.waiting.spoke(A, 0, INTERVAL)
    door.waiting.spoke(B, 0, INTERVAL)
    door.told()
    door.waiting.call()
    assert door.told() == [(A, NoSession()), (B, NoSession())]
    door.waiting.call()
    assert door.told() == []


def test_a_host_that_has_gone_is_told_no_more(door: Door) -> None:
    door.waiting.spoke(A, 0, INTERVAL)
    door.told()
    door.port.failed[A] = Failure(True, None)
    door.waiting.repeat(INTERVAL, INTERVAL)
    door.waiting.repeat(2 * INTERVAL, INTERVAL)
    assert door.told() == []
