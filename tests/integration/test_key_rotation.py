"""Stations that get other keys while hosts send and roam; the judge sees applications alone."""

from __future__ import annotations

from collections.abc import Callable

from demo.cluster import must
from harness import Bench, until

from roamcast.transport.station_files import read_station

PLACES = {"a": "s1", "b": "s2", "c": "s3", "d": "s1"}


def test_all_stations_change_their_keys_under_load_and_one_is_killed(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=15, roam_s=2)
    before = {station.id: read_station(station.directory).keys for station in bench.cluster.stations}
    for station in bench.cluster.stations:
        must("mss-station", "keys", "rotate", station.directory)
    bench.run_for(bench.rng.uniform(0.5, 4))
    victim = bench.rng.choice(bench.cluster.stations)
    victim.kill()
    victim.start()

    def all_changed() -> bool:
        return all(read_station(station.directory).keys != before[station.id] for station in bench.cluster.stations)

    def all_linked() -> bool:
        statuses = [station.status() for station in bench.cluster.stations]
        return all(status and all(link["linked"] for link in status["links"]) for status in statuses)

    until(all_changed, "all have new keys", 60)
    until(all_linked, "all are linked under them", 30)
    bench.run_for(1)
    assert bench.settle().messages > 100
