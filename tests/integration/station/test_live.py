"""Live messages at running stations: over connections of their own, by clocks that are compared, with one delta."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.host_frames import Ack, LiveData, LiveMsg, LiveRefused, Welcome
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import MS, SECOND
from roamcast.mss_station.cli import main

HOUR = 3_600 * SECOND
DEADLINE = 2 * SECOND
"""The tests' group has a delta of this, for a machine that is busy."""


class Talker:
    """An attached host."""

    def __init__(self, host: Any) -> None:
        self.host = host
        welcome: Welcome = host.attach()
        host.say(Ack(1, welcome.at))
        self.number = 0

    def live(self, body: bytes, to: str | None = None) -> None:
        self.host.say(LiveData(1, self.number, to, False, DEADLINE, body))

    def broadcast(self, body: bytes) -> None:
        self.number += 1
        self.host.broadcast(self.number, body)

    def next(self, *kinds: type) -> Any:
        return self.host.hear(kinds if len(kinds) > 1 else kinds[0])


@pytest.fixture
def group(make_group: Callable[[int], Any], until: Callable[..., Any]) -> Any:
    """Three running stations, delta 2 s, hosts ann, bob and cat attached at one each; all clocks compared."""
    group = make_group(3)
    files = [group.enrol(name, station) for name, station in zip(("ann", "bob", "cat"), group.names, strict=True)]
    for name in group.names:
        group.start(name)
    assert main(["config", "set", str(group.path("s1")), "settings/live-delta", "2s"]) == 0
    for running in group.running.values():
        until(lambda running=running: running.station._running.settings.live_delta == DEADLINE)
        until(lambda running=running: compared(running) == 2)
        until(lambda name=running.path.name: all(group.knows(name, host) for host in ("ann", "bob", "cat")))
    group.ann, group.bob, group.cat = (Talker(group.host(file, slot)) for slot, file in enumerate(files, start=1))
    return group


def compared(running: Any) -> int:
    """Peers whose clocks the station has compared with its own."""
    return len(running.station._running.core.live.gate._found)


def heard(sender: Talker, hearer: Talker, body: bytes) -> LiveMsg:
    """Send until one comes: the first ones may meet the pause of a start, or of a new delta."""
    for _ in range(60):
        sender.live(body)
        try:
            return hearer.host.hear(LiveMsg, 0.5)
        except AssertionError:
            continue
    raise AssertionError("no live message has come in half a minute")


def test_they_come_to_other_stations_within_delta(group: Any) -> None:
    frame = heard(group.ann, group.bob, b"here")
    assert (frame.sender, frame.kind, frame.body, frame.topic) == ("ann", Kind.BROADCAST, b"here", "")
    assert 0 < frame.left <= DEADLINE
    group.ann.live(b"to cat", to="cat")
    while (mail := group.cat.next(LiveMsg)).body != b"to cat":
        pass
    assert mail.kind is Kind.MAIL
    counts = group.running["s1"].status()["live"]
    assert counts["taken"] >= 2
    assert group.running["s2"].status()["live"]["given"] >= 1


def test_a_durable_message_that_was_sent_before_comes_before(group: Any) -> None:
    heard(group.ann, group.bob, b"warm")
    group.ann.broadcast(b"durable")
    group.ann.live(b"live")
    seen = []
    while seen[-1:] != [b"live"]:
        frame = group.bob.host.hear(object)
        seen += [frame.body] if isinstance(frame, LiveMsg) else [item.body for _, item in getattr(frame, "entries", ())]
    assert [body for body in seen if body in (b"durable", b"live")] == [b"durable", b"live"]


def test_a_station_whose_clock_is_off_has_no_live_service_and_all_else(
    group: Any, until: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    heard(group.ann, group.bob, b"warm")
    one = group.running["s1"]
    clock = one.station._running.clock
    right = clock.wall
    clock.wall = lambda: right() + HOUR
    group.ann.live(b"x")
    while (refused := group.ann.next(LiveRefused)).code == "quiet":  # of before
        pass
    assert refused.code == "clock" and "has jumped ahead by 3600" in refused.text, "or the machine has slept"
    until(lambda: " ms ahead of those of the others" in (one.status()["live_refused"] or ""))
    capsys.readouterr()
    assert main(["status", str(one.path)]) == 0
    assert "none are taken: the clock of this station is " in capsys.readouterr().out
    heard(group.bob, group.cat, b"theirs")
    group.ann.broadcast(b"durable")
    until(lambda: any(item.body == b"durable" for _, item in group.cat.host.given()))
    clock.wall = right
    assert heard(group.ann, group.bob, b"again").body in (b"again", b"warm", b"theirs")
    assert one.status()["live_refused"] is None


def test_clocks_that_differ_little_do_no_harm(group: Any, until: Callable[..., Any]) -> None:
    clock = group.running["s1"].station._running.clock
    right = clock.wall
    clock.wall = lambda: right() + 20 * MS
    gate = group.running["s2"].station._running.core.live.gate
    until(lambda: len(gate._found) == 2 and 15 * MS < gate._found[1].ahead - gate._found[3].ahead < 25 * MS)
    heard(group.ann, group.bob, b"a")
    heard(group.bob, group.ann, b"b")


def test_a_station_whose_machine_has_slept_is_not_accused_and_accuses_nobody(
    group: Any, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its monotonic clock stands still for a second, UTC is right."""
    heard(group.ann, group.bob, b"warm")
    one = group.running["s1"]
    clock = one.station._running.clock
    going = clock.now
    asleep = going()
    clock.now = lambda: asleep
    time.sleep(1)
    lost = going() - asleep
    clock.now = lambda: going() - lost
    until(lambda: "or the machine has slept" in (one.status()["live_refused"] or ""))
    until(lambda: one.status()["live_refused"] is None)
    assert heard(group.ann, group.bob, b"again").body in (b"again", b"warm")
    assert "live-refused" not in caplog.text and "live-begins-anew" in caplog.text
