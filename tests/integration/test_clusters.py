"""Two clusters of real stations, joined by a gateway with a standby: all arrives, whatever the gateway does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from demo.cluster import CommandFailed, station_command
from harness import Bench, until

TWO = "north: s1 s2 s3 / south: s2 s3 s4 / standbys: s3"
GATEWAY, STANDBY = "s2", "s3"
PLACES = {"a": "s1", "b": "s1", "c": "s2", "d": "s4"}
SETTINGS = {"heartbeat": "200ms", "down-after": "1s"}
SOON_S = 15.0


def make_sites(make_bench: Callable[..., Bench], **settings: str) -> Bench:
    """Two clusters of three stations, two of which are in both; hosts everywhere."""
    bench = make_bench(stations=4)
    for name, value in (SETTINGS | settings).items():
        station_command("config", "set", bench.station("s1").directory, f"settings/{name}", value)
    bench.hosts(PLACES, workers=1)
    return bench


def clusters_of(bench: Bench, station: str) -> dict[str, Any] | None:
    status = bench.station(station).status()
    return None if status is None else status["clusters"]


def wait_layout(bench: Bench, is_flat: bool) -> None:
    """Every station has learnt of the setting."""
    stations = [station.id for station in bench.cluster.stations]
    until(lambda: all((clusters_of(bench, one) is None) == is_flat for one in stations), f"flat: {is_flat}", SOON_S)


def forwards(bench: Bench, station: str) -> bool:
    told = clusters_of(bench, station)
    return told is not None and bool(told["forwards"])


def test_the_gateway_is_killed_under_load_and_its_standby_takes_over(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_sites(make_bench, clusters=TWO)
    wait_layout(bench, is_flat=False)
    roles = {station.id: clusters_of(bench, station.id) for station in bench.cluster.stations}
    assert {one: told["role"] for one, told in roles.items() if told} == {
        "s1": "station", "s2": "gateway", "s3": "standby", "s4": "station",
    }  # fmt: skip
    assert [one for one, told in roles.items() if told and told["forwards"]] == [GATEWAY]
    apart = [bench.station_gate("s1", "s4"), bench.station_gate("s4", "s1")]
    for gate in apart:
        gate.swallow()
    bench.send("a", 5)
    bench.send("d", 5)
    bench.send("b", 3, to="d")
    bench.wait_delivered()
    for gate in apart:
        gate.heal()
    bench.move("a", "s4")
    bench.wait_attached("a", "s4")
    bench.load(["a", "b", "d"], rate=10, roam_s=2, among=["s1", "s4"])
    bench.run_for(0.5)
    bench.station(GATEWAY).kill()
    killed = time.monotonic()
    until(lambda: forwards(bench, STANDBY), "the standby has taken over", SOON_S)
    print(f"the standby took over after {time.monotonic() - killed:.1f} s")
    bench.run_for(0.5)
    shown = station_command("status", bench.station(STANDBY).directory)
    assert "this station is a standby in north and south, and has taken over" in shown
    assert "between north and south: s2, s3 (standby); s3 forwards" in shown
    assert re.search(r"s2 is (\d+ messages? behind, )?silent", shown)
    bench.cluster.start()
    until(lambda: not forwards(bench, STANDBY), "the gateway is back", SOON_S)
    bench.run_for(0.5)
    bench.station(STANDBY).kill()
    bench.run_for(1.5)
    bench.cluster.start()
    assert bench.settle().messages > 20
    assert "gateway_changed: clusters=north,south forwards=s3" in bench.station("s1").text()


def test_clusters_come_and_go_while_messages_flow(make_bench: Callable[..., Bench]) -> None:
    bench = make_sites(make_bench)
    at = bench.station("s4").directory
    bench.load(list(PLACES), rate=8, roam_s=2)
    for value, is_flat in ((TWO, False), ("flat", True), (TWO, False)):
        station_command("config", "set", at, "settings/clusters", value)
        wait_layout(bench, is_flat)
        bench.run_for(0.7)
    with pytest.raises(CommandFailed, match="there is no station 's9'"):
        station_command("config", "set", at, "settings/clusters", "north: s1 s9 / south: s9")
    station_command("config", "delete", at, "settings/clusters")
    wait_layout(bench, is_flat=True)
    assert bench.settle().messages > 20


def test_a_site_that_was_down_at_first_and_a_link_that_is_reset_again_and_again(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_sites(make_bench, clusters="north: s1 s2 / south: s2 s3 s4")
    wait_layout(bench, is_flat=False)
    for name in ("s2", "s3", "s4"):
        bench.station(name).kill()
    bench.send("a", 50)
    bench.station("s2").start()
    bench.station("s2").wait_ready()
    bench.send("b", 50)
    bench.run_for(2.0)
    bench.cluster.start()
    bench.wait_delivered()
    gates = [bench.station_gate("s2", "s4"), bench.station_gate("s4", "s2")]
    for _ in range(10):
        for gate in gates:
            gate.cut()
        bench.send("a")
        bench.send("d")
        bench.send("a", to="d")
        bench.wait_delivered(SOON_S)
    assert bench.settle().messages == 130
