"""Rule B: which stations are gateways when clusters are joined in pairs, and what each process has to do."""

from __future__ import annotations

from itertools import combinations
from math import isqrt

import pytest

from roamcast.middleware.fifo_broadcast.cluster_costs import gain, load, pairs, size_of


@pytest.mark.parametrize("stations", [4, 5, 9, 16, 20, 50, 100, 333])
def test_pairs_use_every_station_and_join_any_two_clusters_once(stations: int) -> None:
    layout = pairs(stations)
    assert layout.fault(str, str) is None
    assert {slot for slots in layout.clusters for slot in slots} == {*range(1, stations + 1)}
    assert len(layout.clusters) == isqrt(stations)
    for one, other in combinations(map(set, layout.clusters), 2):
        assert len(one & other) == 2 and len(one & other & layout.standbys) == 1
    sizes = [len(slots) for slots in layout.clusters]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) / len(sizes) == pytest.approx(size_of(stations))


def test_the_rule_is_that_of_the_specification() -> None:
    """(1+R)(F+n) > 2 (1+R c/n)(F+c) with c = 2 sqrt(n) - 1; passing a row on inside costs a cell for each cluster."""
    for stations in (16, 25, 100, 225, 400):
        size = 2 * isqrt(stations) - 1
        for controls in (0.5, 2.3, 9.4):
            for fixed in (0, 100, 500):
                flat = (1 + controls) * (fixed + stations)
                split = 2 * (1 + controls * size / stations) * (fixed + size) + 2
                assert gain(stations, controls, fixed) == pytest.approx(flat / split)


def test_a_gateway_hears_twice_as_much_as_a_station() -> None:
    station, gateway = load(100, 19, 1, 2.3, 100), load(100, 19, 2, 2.3, 100)
    assert station.pdus == pytest.approx(1 + 2.3 * 0.19) and station.cells == pytest.approx(station.pdus * 119)
    assert gateway.pdus == 2 * station.pdus and gateway.cells == pytest.approx(2 * station.cells + 2)


def test_no_clusters_pay_for_a_handful() -> None:
    assert all(gain(stations, 1_000, 0) < 1 for stations in (1, 2, 3))
