"""Stations that join, are retired, are lost, with a rule switched off or a fact not durable: the simulator finds it.

Rules whose absence needs a rare moment fall to directed tests instead; docs/faults.md says which.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from roamcast.middleware.simulator.run import run

WHOLE = {"lean_bytes": 0}
"""Unless the options of a mutant say otherwise."""
ROAMING = {"hops_count": 60, "storm": 0.7, "radio_loss": 0.1}
JOINS = {"added_count": 6, "crash_per_effect": 0.03, "stations": 3}
RETIRED = {**ROAMING, "stations": 3, "retired_count": 4, "lost_count": 0, "added_count": 2}
LOST = {**ROAMING, "stations": 4, "lost_count": 2, "retired_count": 0, "added_count": 0, "wired_loss": 0.3}
COPIES = {"stations": 4, "lost_count": 1, "retired_count": 0, "added_count": 0, "copies": 2, "wired_loss": 0.3}

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "late_member": (4, 4, {}),
    "no_claimed": (3, 4, {}),
    "no_third_party": (4, 3, LOST),
    "no_void": (8, 2, LOST),
    "no_taken": (8, 3, {**LOST, "wired_loss": 0.0}),
    "no_copies": (21, 2, COPIES),
    "f_not_awaited": (28, 3, {**LOST, "wired_slow": 0.2}),
    "held_not_spooled": (14, 2, RETIRED),
    "r_runs_on": (14, 1, {**RETIRED, "collect_interval": 10_000, "wired_loss": 0.3}),
    "no_shift": (16, 2, RETIRED),
    "disk:PutView": (1, 3, {}),
    "late:PutView": (19, 1, {"crash_per_effect": 0.02, "one_by_one": True}),
    "disk:PutReservation": (3, 1, JOINS),
    "disk:PutStreams": (5, 1, {}),
    "disk:PutHeld": (14, 1, {**RETIRED, "crash_per_effect": 0.03}),
    "disk:DropHeld": (30, 4, {**RETIRED, "crash_per_effect": 0.02}),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS = {
    "save:heir": ({**RETIRED, "crash_per_effect": 0.03}, "every start puts the heir in the place of the retired again"),
    "save:orphan": ({**LOST, "crash_per_effect": 0.03}, "every start opens again what was promised to a lost station"),
    "disk:DropSnapshot": ({**JOINS, "lost_count": 2}, "the next snapshot replaces what is left of the one before"),
}
"""Writes that others imply: with which options, and why."""


@cache
def holds(seed: int, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the seed passes as the code is."""
    return not run("group", seed, overrides={**WHOLE, **dict(options)}).rule


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    first, count, options = FALLS[mutant]
    seeds, chosen = range(first, first + count), {**WHOLE, **options}
    fallen = (seed for seed in seeds if run("group", seed, frozenset({mutant}), chosen).rule)
    assert next(fallen, None) is not None, f"{mutant} is not noticed in group {first} .. {first + count - 1}, {options}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    first, count, options = FALLS[mutant]
    failed = [seed for seed in range(first, first + count) if not holds(seed, tuple(options.items()))]
    assert not failed, f"group {failed}, {options}"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    options, why = HOLDS[mutant]
    assert not [seed for seed in range(1, 9) if run("group", seed, frozenset({mutant}), options).rule], why
