"""Stations in clusters with a rule switched off: the simulator finds it."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.run import run

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "own_for_all": (1, 1, {}),
    "stable_for_all": (1, 1, {}),
    "views_near": (2, 1, {}),
    "any_mark": (23, 1, {}),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS: dict[str, str] = {}


def seeds_of(mutant: str) -> tuple[range, dict[str, Any]]:
    first, count, options = FALLS[mutant]
    return range(first, first + count), options


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant: str) -> None:
    seeds, options = seeds_of(mutant)
    assert any(run("composite", seed, frozenset({mutant}), options).rule for seed in seeds)


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant: str) -> None:
    seeds, options = seeds_of(mutant)
    assert not [seed for seed in seeds if run("composite", seed, overrides=options).rule]
