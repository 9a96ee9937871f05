"""Links cut without goodbye, swallowed, slowed; between hosts and stations and between stations (BL-07, 10, 40, 44)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from demo.relay import Gate
from harness import Bench, until

PLACES = {"a": "s1", "b": "s2", "c": "s3", "d": "s1"}
HOLES = {"both ways": (True, True), "up": (True, False), "down": (False, True)}


def gates(bench: Bench, kind: str) -> list[Gate]:
    """The gates of the links of one kind."""
    return list((bench.cluster.host_gates if kind == "hosts" else bench.cluster.station_gates).values())


@pytest.mark.parametrize("kind", ["hosts", "stations"])
def test_cut_again_and_again(make_bench: Callable[..., Bench], kind: str) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=25)

    def cut() -> None:
        if bench.rng.random() < 0.1:
            bench.rng.choice(gates(bench, kind)).cut()

    bench.run_for(4, cut)
    until(lambda: cut() or sum(gate.cuts for gate in gates(bench, kind)) > 3, "enough links were cut")
    bench.settle()


def test_host_link_swallowed(make_bench: Callable[..., Bench]) -> None:
    """The agent notices by itself, goes to another station or waits, and nothing is lost (BL-10)."""
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=10)
    for up, down in HOLES.values():
        host, station = bench.rng.choice(sorted(PLACES.items()))
        gate = bench.host_gate(host, station)
        gate.swallow(up=up, down=down)
        bench.send("b" if host != "b" else "c", 30, to=host)
        bench.run_for(0.5)
        bench.ask(host, "network_changed")
        bench.run_for(1.5)
        gate.heal()
    bench.settle()


def test_host_link_swallowed_and_nobody_says_so(make_bench: Callable[..., Bench]) -> None:
    """The application does nothing: silence alone makes the agent leave the dead link."""
    bench = make_bench()
    bench.hosts({"a": "s1", "b": "s2"})
    bench.load(["a", "b"], rate=10)
    bench.host_gate("a", "s1").swallow()
    bench.run_for(1)
    until(lambda: bench.status("a")["station"] not in ("s1", None), "a left the dead link", 30)
    bench.wait_attached("a")
    bench.settle()


@pytest.mark.parametrize("hole", list(HOLES))
def test_station_link_swallowed(make_bench: Callable[..., Bench], hole: str) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20, roam_s=2)
    up, down = HOLES[hole]
    gate = bench.station_gate("s1", "s2")
    bench.run_for(0.5)
    gate.swallow(up=up, down=down)
    bench.run_for(3)
    gate.heal()
    bench.run_for(0.5)
    bench.settle()


def test_all_links_slow(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    for gate in bench.relay.gates:
        gate.slow(delay_s=bench.rng.uniform(0.0, 0.3), bytes_per_s=50_000)
    bench.load(list(PLACES), rate=10, roam_s=2)
    bench.run_for(3)
    bench.settle()


def test_large_frames_late_between_two_stations(make_bench: Callable[..., Bench]) -> None:
    """Repeats are not asked for at full speed while the link is merely slow (BL-44)."""
    bench = make_bench()
    bench.hosts(PLACES)
    bench.station_gate("s1", "s2").slow(delay_s=0.9)
    bench.station_gate("s2", "s1").slow(delay_s=0.9)
    for _ in range(20):
        bench.send("a", 5, size=4096)
        bench.run_for(0.1)
    bench.settle()
