"""The cluster cores with a rule switched off: the simulator finds a violation."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.clusters.run import run_clusters

SHORT = {"rows": 30, "duration": 50_000}
LOSS = {"story": "loss", "shape": "two", **SHORT}
TAKEOVER = {"story": "takeover", "shape": "two", "size": 3, **SHORT}

ADDITION = {**SHORT, "story": "addition", "shape": "flat", "size": 5, "additions": 2, "loss": 0.2, "tick": 2_000}

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "gack_on_receipt": (1, 3, LOSS),
    "own_ack_immediate": (1, 3, LOSS),
    "own_ack_local": (1, 3, {**LOSS, "shape": "three-3"}),
    "mincal_all": (1, 1, LOSS),
    "gw_window_global": (1, 1, {**LOSS, "shape": "three-3", "relay_window": 1}),
    "relay_all": (1, 2, {**LOSS, "shape": "three-3"}),
    "takeover_early": (1, 4, {**TAKEOVER, "delay": 20_000}),
    "no_lift": (1, 4, TAKEOVER),
    "closed_uses_ack": (5, 2, {"story": "takeover", "shape": "two", **SHORT}),
    "standby_unheld": (1, 2, {**TAKEOVER, "suspicion": False, "loss": 0.2}),
    "untagged_claims": (1, 4, ADDITION),
    "stranded_lost": (39, 1, {**TAKEOVER, "rows": 40, "removals": 1, "takeovers": 1, "loss": 0.3, "suspicion": False}),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS: dict[str, str] = {}


def seeds_of(mutant: str) -> tuple[range, dict[str, Any]]:
    first, count, options = FALLS[mutant]
    return range(first, first + count), options


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    seeds, options = seeds_of(mutant)
    assert any(run_clusters(seed, frozenset({mutant}), options).rule for seed in seeds), f"clusters {seeds}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    seeds, options = seeds_of(mutant)
    assert not [seed for seed in seeds if run_clusters(seed, overrides=options).rule], f"clusters {seeds}"
