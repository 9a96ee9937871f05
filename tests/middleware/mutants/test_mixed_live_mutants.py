"""Live messages among all others with a rule switched off: the simulator finds it.

Rules whose absence needs a rare moment fall to directed tests instead; docs/faults.md says which.
"""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.run import run

HOPS: dict[str, Any] = {
    "hops_count": 60, "storm": 0.0, "live": 120, "live_slow": 0.5, "live_loss": 0.0, "live_delta": 400_000,
    "wired_loss": 0.0, "partitions_count": 0, "crashes_count": 0, "crash_per_effect": 0.0, "full_per_write": 0.0,
    "kills_count": 0, "naps_count": 0, "radio_loss": 0.0, "cuts_count": 0, "freezes_count": 0, "duration": 1_500_000,
    "expiry": 0, "live_steps": 0,
}  # fmt: skip
"""Much moves, nothing else happens, and live frames are slow."""

FALLS: dict[str, tuple[int, dict[str, Any]]] = {
    "live_floor": (6, {}),
    "live_front": (6, {}),
    "live_number": (3, {}),
    "live_settle": (6, {}),
    "live_last": (1, {}),
    "live_state": (8, HOPS),
}
"""Mutant -> (seed, options) of `mixed-live` that falls, and does not without the mutant."""

HOLDS: dict[str, str] = {}


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    seed, options = FALLS[mutant]
    assert run("mixed-live", seed, frozenset({mutant}), options).rule


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seed_passes_without(mutant):
    seed, options = FALLS[mutant]
    result = run("mixed-live", seed, overrides=options)
    assert not result.rule, result.witness
