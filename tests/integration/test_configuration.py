"""The shared configuration while links are cut and stations die: equal everywhere in the end (BL-47, BL-52, BL-55)."""

from __future__ import annotations

from collections.abc import Callable

from demo.cluster import must, run_command
from harness import Bench, until

from roamcast.middleware.lan_update.records import Version
from roamcast.mss_station.asking import look
from roamcast.mss_station.store import read_lan

KEYS = [f"settings/{name}" for name in ("window-entries", "attach-burst", "retain-rows", "spool-grace")]
PLACES = {"a": "s1", "b": "s2", "c": "s3"}


def held(bench: Bench, station: str) -> dict[str, Version]:
    """What a station holds durably: deletions too."""
    return {key: entry.version for key, entry in read_lan(bench.station(station).directory).entries.items()}


def wait_equal(bench: Bench) -> None:
    first, *others = [station.id for station in bench.cluster.stations]
    until(lambda: all(held(bench, other) == held(bench, first) for other in others), "equal configurations", 40)


def write(bench: Bench, station: str) -> None:
    """One random change at a station, whether it runs or not."""
    directory, key = bench.station(station).directory, bench.rng.choice(KEYS)
    if bench.rng.random() < 0.25:
        assert run_command("mss-station", "config", "delete", directory, key).returncode in (0, 2)
    else:
        value = f"{bench.rng.randint(1, 9)}s" if "grace" in key else str(bench.rng.randint(1_000, 60_000) // 10 * 10)
        value = "7" if "burst" in key else value
        must("mss-station", "config", "set", directory, key, value)


def test_a_partition_with_writes_in_both_halves_ends_in_one_configuration(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=10)
    gates = [gate for pair, gate in bench.cluster.station_gates.items() if "s1" in pair]
    for gate in gates:
        gate.swallow()
    for _ in range(3):
        for station in ("s1", "s2", "s3"):
            write(bench, station)
    must("mss-station", "hosts", "enrol", bench.station("s1").directory, "x", "--out", bench.home / "x.toml")
    must("mss-station", "hosts", "enrol", bench.station("s3").directory, "y", "--out", bench.home / "y.toml")
    for gate in gates:
        gate.heal()
    wait_equal(bench)
    for station in PLACES.values():
        assert {"x", "y"} <= {card.name for card in look(bench.station(station).directory)[2].hosts()}
    bench.settle()


def test_changes_survive_stations_that_are_killed_and_changed_while_they_are_down(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=10)
    for _ in range(4):
        victim = bench.rng.choice(bench.cluster.stations)
        for station in PLACES.values():
            write(bench, station)
        victim.kill()
        for station in PLACES.values():
            write(bench, station)
        said = held(bench, victim.id)
        victim.start()
        victim.wait_ready()
        now = held(bench, victim.id)
        assert all(now[key] >= version for key, version in said.items()), "a change that was told done went back"
    wait_equal(bench)
    bench.settle()
