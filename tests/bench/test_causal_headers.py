"""Causal headers between stations stay within 8 + 2 x stations bytes on average: real cores, real codec."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from bench import causal_headers
from bench.child import Json

from roamcast.middleware.fifo_broadcast.stamps import Stamps
from roamcast.middleware.rows import Row

TURNS = {2: 200, 8: 60, 20: 30, 50: 12, 100: 6}


@pytest.mark.parametrize("load", causal_headers.LOADS)
@pytest.mark.parametrize("stations", causal_headers.STATIONS)
def test_they_are_within_the_bound(stations: int, load: str) -> None:
    found = causal_headers.measure_one(stations, load, TURNS[stations])
    assert 6 < found["header"] <= causal_headers.bound(stations)
    assert found["messages"] >= TURNS[stations] * (load == "one alone")
    assert causal_headers.is_good([found])
    assert f"{stations} stations, {load}" in causal_headers.report([found])


def test_in_values_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bound is worth: the same messages without steps."""

    def in_values(self: Stamps, rows: Sequence[Row], to: tuple[int, ...]) -> list[Row]:
        return list(rows)

    monkeypatch.setattr(Stamps, "shorten", in_values)
    found: list[Json] = [causal_headers.measure_one(8, load, 30) for load in ("all equally", "hot pairs")]
    assert all(one["header"] > one["bound"] for one in found)
    assert not causal_headers.is_good(found)


def test_who_sends() -> None:
    def of(load: str, turn: int) -> list[int]:
        return list(causal_headers.senders(load, tuple(range(1, 101)), turn, Random(1)))

    assert of("one alone", 5) == [1]
    assert set(of("hot pairs", 4)) & {1, 2, 3, 4} == {2, 4}
    assert set(of("hot pairs", 5)) & {1, 2, 3, 4} == {1, 3}
    assert 2 < len(of("all equally", 5)) < 30
