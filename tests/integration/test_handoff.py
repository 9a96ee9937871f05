"""Handoffs: back and forth within a round trip, on to a third, from a station that is down (BL-01, 02, 03, 12, 43)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Bench, until

WAY_S = 0.1
"""One way between stations in the tests that move within one round trip."""


@pytest.mark.parametrize("way", [("s2", "s1"), ("s2", "s3"), ("s2", "s3", "s1"), ("s2", "s1", "s2", "s1", "s2")])
def test_moves_within_one_round_trip(make_bench: Callable[..., Bench], way: tuple[str, ...]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    for gate in bench.cluster.station_gates.values():
        gate.slow(delay_s=WAY_S)
    bench.load(["a", "b", "c"], rate=25)
    for _ in range(4):
        bench.run_for(0.3)
        bench.move("a", "s1")
        bench.run_for(bench.rng.uniform(0, 3 * WAY_S))
        bench.move("a", *way)
    bench.wait_attached("a", way[-1])
    bench.settle()


def test_moves_with_pauses_below_a_round_trip(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    for gate in bench.cluster.station_gates.values():
        gate.slow(delay_s=WAY_S)
    bench.load(["a", "b"], rate=25)
    for i in range(30):
        bench.move("a", f"s{i % 3 + 1}")
        bench.run_for(bench.rng.uniform(0, 2 * WAY_S))
    bench.settle()


def test_old_station_down_during_the_handoff(make_bench: Callable[..., Bench]) -> None:
    """The new station says whom it waits for; when the old one is back the host is served all of it (BL-02)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2", "c": "s3"})
    bench.send("b", 5)
    bench.wait_delivered()
    bench.station("s1").kill()
    bench.send("c", 20, to="a")
    bench.move("a", "s2")
    waiting = until(lambda: bench.status("a")["waiting"], "a is told to wait")
    assert waiting["station"] in ("s1", 1), waiting
    bench.send("a", 5)
    bench.run_for(2)
    assert bench.status("a")["state"] != "open"
    assert len(bench.progress().missing_at("a")) >= 20
    bench.station("s1").start()
    bench.wait_attached("a", "s2")
    assert not bench.status("a")["waiting"]
    bench.settle()


@pytest.mark.parametrize("victim", ["s1", "s2", "both"])
def test_killed_in_the_middle_of_the_handoff(make_bench: Callable[..., Bench], victim: str) -> None:
    """One broken handoff locks nobody out (BL-03)."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s3"})
    for gate in bench.cluster.station_gates.values():
        gate.slow(delay_s=WAY_S)
    bench.load(["a", "b"], rate=20)
    for _ in range(3):
        bench.move("a", "s1")
        bench.wait_attached("a", "s1")
        bench.move("a", "s2")
        bench.run_for(bench.rng.uniform(0, 3 * WAY_S))
        killed = [bench.station(name) for name in ("s1", "s2") if victim in (name, "both")]
        for station in killed:
            station.kill()
        bench.move("a", "s3")
        bench.run_for(0.5)
        for station in killed:
            station.start()
        for station in killed:
            station.wait_ready()
        bench.wait_attached("a")
    bench.settle()


def test_all_hosts_of_a_station_attach_again_at_once(make_bench: Callable[..., Bench]) -> None:
    """Cut together, then the station restarted, then gone for good (BL-43)."""
    bench = make_bench()
    crowd = {f"h{i:02}": "s1" for i in range(40)}
    bench.hosts({**crowd, "b": "s2"}, workers=4)
    bench.load(["b", "h00"], rate=10)
    for name in crowd:
        bench.host_gate(name, "s1").cut()
    for name in crowd:
        bench.wait_attached(name)
    bench.station("s1").kill()
    bench.run_for(0.5)
    bench.station("s1").start()
    for name in crowd:
        bench.wait_attached(name, timeout_s=30)
    bench.settle(90)
