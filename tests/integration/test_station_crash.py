"""A station killed with SIGKILL: between commit and send, at named points, and at random (BL-05, BL-09, BL-41)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness import Bench, until

SOON_S = 6.0
PLACES = {"a": "s1", "b": "s1", "c": "s2", "d": "s3"}


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "mid-send", "after-send"])
def test_killed_at_a_named_point(make_bench: Callable[..., Bench], point: str) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    victim = bench.station("s1")
    bench.load(list(PLACES), rate=15, roam_s=1.5)
    for count in (bench.rng.randint(2, 9), bench.rng.randint(10, 60)):
        victim.stop()
        victim.start(kill_point=f"{point}:{count}")
        assert victim.wait_end() == -9, f"{point}:{count} was not reached:\n{victim.text()[-2000:]}"
        victim.start()
        victim.wait_ready()
        bench.run_for(0.5)
    assert bench.settle().messages > 30


def test_killed_at_random_under_load(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20, roam_s=3)
    for _ in range(6):
        victim = bench.rng.choice(bench.cluster.stations)
        bench.run_for(bench.rng.uniform(0.2, 1.0))
        victim.kill()
        bench.run_for(bench.rng.uniform(0.0, 0.5))
        victim.start()
        victim.wait_ready()
    assert bench.settle().messages > 100


def test_killed_right_after_the_last_acknowledgement(make_bench: Callable[..., Bench]) -> None:
    """What was acknowledged does not come again to the application (BL-05), though the station died."""
    bench = make_bench(stations=1)
    bench.hosts({"a": "s1", "b": "s1"})
    for _ in range(3):
        bench.ask("a", "suspend")
        bench.send("b", 50, to="a")
        until(lambda: bench.status("b")["outbox"] == 0, "b's mail is stored")
        bench.ask("a", "resume")
        bench.wait_delivered()
        bench.station("s1").kill()
        bench.cluster.start()
        bench.wait_attached("a")
    verdict = bench.settle()
    assert verdict.deliveries == 150


def test_all_stations_killed_at_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20)
    for _ in range(2):
        bench.run_for(0.7)
        for station in bench.cluster.stations:
            station.kill()
        time.sleep(0.05)
        bench.cluster.start()
    assert bench.settle().messages > 50


def test_sigterm_finishes_the_tick_and_leaves(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20)
    bench.run_for(0.5)
    begun = time.monotonic()
    assert bench.station("s1").stop() == 0
    assert time.monotonic() - begun < 5
    bench.run_for(0.5)
    bench.settle()


def test_messages_go_out_as_soon_as_a_peer_has_answered(make_bench: Callable[..., Bench]) -> None:
    """A station that has just started takes no messages before a peer knows it; its hosts wait no longer than that."""
    bench = make_bench(stations=2)
    bench.hosts({"a": "s1", "b": "s2"})
    bench.station("s2").stop()
    bench.station("s1").stop()
    bench.station("s1").start()
    bench.station("s1").wait_ready()
    bench.wait_attached("a", "s1")
    bench.send("a", 5)
    waiting = until(lambda: bench.status("a")["waiting"], "a is told to wait")
    assert "peer" in waiting["reason"]
    bench.station("s2").start()
    bench.station("s2").wait_ready()
    until(lambda: bench.status("a")["outbox"] == 0, "a's messages are taken", SOON_S)
    bench.settle()
