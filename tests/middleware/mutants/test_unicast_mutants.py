"""The causal unicast with a rule switched off, or with writes that a crash loses: the simulator finds a violation.

What the paper's own text does wrong is played in simulator/test_unicast.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.unicast.run import run_unicast

CRASHES = {"story": "crashes", "crashes": 12}
SPLITS = {**CRASHES, "crash_per_effect": 0.03}
LOST = {
    "story": "lost", "lost": 2, "stations": 6, "pattern": "fanout", "messages": 80, "duration": 500_000,
    "delay": 200_000, "slow": 0.3, "loss": 0.3, "hearsay": 5_000,
}  # fmt: skip
"""Two of six burn down in dense traffic over slow links, and all others hear of it soon."""

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "ack_early": (5, 4, {"story": "crashes", "crash_per_effect": 0.03}),
    "deliverable_limited": (1, 4, {"story": "limits", "held_bytes_max": 0}),
    "duplicates_silent": (3, 4, {"loss": 0.3}),
    "supersede_early": (1, 4, LOST),
    "held_unseen": (1, 4, LOST),
    "retired_recorded": (1, 4, LOST),
    "retired_awaited": (1, 4, LOST),
    "disk:PutCount": (1, 4, CRASHES),
    "late:PutCount": (1, 4, CRASHES),
    "split:PutCount": (3, 4, SPLITS),
    "disk:PutSRecord": (3, 4, CRASHES),
    "late:PutSRecord": (3, 4, CRASHES),
    "split:PutSRecord": (3, 4, SPLITS),
    "split:DropSRecord": (110, 4, SPLITS),
    "disk:PutOutgoing": (1, 4, CRASHES),
    "late:PutOutgoing": (1, 4, CRASHES),
    "split:PutOutgoing": (3, 4, SPLITS),
    "disk:PutHeldMail": (4, 4, CRASHES),
    "late:PutHeldMail": (4, 4, CRASHES),
    "disk:DropHeldMail": (13, 4, CRASHES),
    "late:DropHeldMail": (28, 4, CRASHES),
    "split:DropHeldMail": (109, 4, SPLITS),
    "disk:PutInbox": (3, 4, CRASHES),
    "late:PutInbox": (3, 4, CRASHES),
    "split:PutInbox": (107, 4, SPLITS),
    "disk:DropInbox": (3, 4, CRASHES),
    "late:DropInbox": (3, 4, CRASHES),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS = {
    "disk:DropSRecord": "a record too many of what was delivered: a longer header",
    "disk:DropOutgoing": "sent again, and acknowledged again",
    "disk:PutRetired": "the configuration says it again at every start",
}
"""Writes that only save time, or that others imply; why."""


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    first, count, options = FALLS[mutant]
    fallen = (seed for seed in range(first, first + count) if run_unicast(seed, frozenset({mutant}), options).rule)
    assert next(fallen, None) is not None, f"{mutant} is not noticed in cmd {first} .. {first + count - 1}, {options}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    first, count, options = FALLS[mutant]
    failed = [seed for seed in range(first, first + count) if run_unicast(seed, overrides=options).rule]
    assert not failed, f"cmd {failed}, {options}"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    for options in (CRASHES, {**CRASHES, "story": "lost"}):
        failed = [seed for seed in range(1, 41) if run_unicast(seed, frozenset({mutant}), options).rule]
        assert not failed, HOLDS[mutant]


def test_where_no_station_is_lost_records_may_be_superseded_at_once():
    """A.b as it stands, and the rule about held mail that the end of a station alone needs."""
    options = {"story": "plain", "loss": 0.3, "slow": 0.3}
    mutants = frozenset({"supersede_early", "held_unseen"})
    assert not [seed for seed in range(1, 101) if run_unicast(seed, mutants, options).rule]
