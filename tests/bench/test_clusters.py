"""What the benchmark of composite clusters measures, at a size that takes no time."""

from __future__ import annotations

from pathlib import Path

from bench import cluster_tables
from bench.cluster_load import A_TURN, CLAIMS, COMPOSITE, DATA, FLAT_GROUP, cores

from roamcast.middleware.fifo_broadcast.cluster_costs import pairs
from roamcast.middleware.fifo_broadcast.layout import FLAT

STATIONS = 9


def test_a_station_in_clusters_hears_fewer_claims_and_every_row(tmp_path: Path) -> None:
    flat = cores(tmp_path / "flat", STATIONS, FLAT, turns=A_TURN)
    composite = cores(tmp_path / "composite", STATIONS, pairs(STATIONS), turns=A_TURN)
    assert flat["gateway"] is None and composite["gateway"] is not None
    assert composite["station"][CLAIMS] < composite["gateway"][CLAIMS]
    assert composite["station"][CLAIMS] < 0.8 * flat["station"][CLAIMS]
    assert all(0 < one["station"][DATA] <= 1 for one in (flat, composite))
    one = {"stations": STATIONS, "clusters": 3, FLAT_GROUP: flat, COMPOSITE: composite}
    lines = cluster_tables.report({"cores": [one], "processes": one}).splitlines()
    assert sum(line.lstrip().startswith(str(STATIONS)) for line in lines) == 6
