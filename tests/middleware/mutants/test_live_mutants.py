"""The delta-causal core with a rule switched off: the simulator finds a violation, under either rule for cut tags."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.delta_causal.settings import Rule
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.live.options import draw_live
from roamcast.middleware.simulator.live.run import LiveRun, run_live

TICKS = {"story": "plain", "delta": 8}
"""So few ticks to a delta that stamps are equal, and messages come on the very tick of a deadline."""

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "no_merge": (3, 4, {"story": "plain"}),
    "cut_ignored": (1, 4, {"story": "plain", "entries_max": 1}),
    "no_quarantine": (1, 6, {"story": "restarts"}),
    "deadline_inclusive": (3, 4, TICKS),
    "stamp_only": (3, 4, TICKS),
    "equal_stamps": (1, 4, TICKS),
    "raw_stamps": (1, 4, {"story": "skew"}),
    "late_at_poll": (1, 4, {"story": "timers"}),
    "duplicates_taken": (1, 4, {"story": "loss"}),
    "ahead_taken": (1, 12, {"story": "leaps", "mad": True}),
    "clock_back": (1, 6, {"story": "leaps"}),
    "any_delta": (3, 12, {"story": "delta"}),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS: dict[str, str] = {}


def played(mutant: str, rule: Rule) -> list[tuple[int, dict[str, Any]]]:
    """Seeds and options."""
    first, count, options = FALLS[mutant]
    bounded = {} if rule is Rule.HORIZON or "entries_max" in options else {"entries_max": 2}
    return [(seed, {**options, **bounded, "rule": rule.value}) for seed in range(first, first + count)]


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant, rule):
    seeds = played(mutant, rule)
    assert any(run_live(seed, frozenset({mutant}), options).rule for seed, options in seeds), f"live {seeds}"


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant, rule):
    seeds = played(mutant, rule)
    assert not [seed for seed, options in seeds if run_live(seed, overrides=options).rule], f"live {seeds}"


@pytest.mark.parametrize("mutant", ["no_merge", "cut_ignored", "no_quarantine", "deadline_inclusive", "stamp_only"])
def test_an_application_notices_it_too(mutant):
    """Messages out of order, or twice: not only a wrong stamp or tag."""
    _, _, options = FALLS[mutant]
    rules = set()
    for seed in range(1, 31):
        run = LiveRun(seed, draw_live(seed, options), frozenset({mutant}))
        run.judge.invariants = False
        try:
            run.run()
        except Violation as violation:
            rules.add(violation.rule)
    assert rules & {"J2", "J7"}, mutant
