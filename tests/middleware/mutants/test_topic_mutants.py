"""Topics with a rule switched off or a fact not durable: the simulator finds it.

Rules whose absence needs a rare moment fall to directed tests instead; docs/faults.md says which.
"""

from __future__ import annotations

from functools import cache

import pytest

from roamcast.middleware.simulator.run import run

WHOLE = {"lean_bytes": 0}
FALLS = {
    "no_subs": (1, 3),
    "sub_local": (6, 3),
    "subs_now": (6, 1),
    "ckpt_no_subs": (3, 3),
    "ret_always": (8, 3),
    "ret_pos_only": (38, 1),
    "ret_last": (9, 1),
    "strip_subs_only": (108, 1),
    "strip_open": (81, 1),
    "no_dead": (12, 1),
    "no_notice": (81, 1),
    "no_shown": (248, 1),
    "p_sum": (8, 2),
    "disk:PutLast": (3, 2),
    "late:PutLast": (15, 1),
    "disk:PutItems": (3, 2),
    "disk:SpoolDrop": (38, 1),
}
"""Mutant -> (first seed, count): at least one of these seeds of `topics` falls, and none of them without the mutant."""

HOLDS = {
    "notice_early": "what is told before the session is confirmed is told again after it",
    "p_stale": "values compare attempts: the rule only spares subscribers an old word",
}
"""Rules that only save time, or that others imply; why."""


@cache
def holds(seed: int) -> bool:
    """Whether the seed passes as the code is."""
    return not run("topics", seed, overrides=WHOLE).rule


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    first, count = FALLS[mutant]
    seeds = range(first, first + count)
    fallen = (seed for seed in seeds if run("topics", seed, frozenset({mutant}), WHOLE).rule)
    assert next(fallen, None) is not None, f"{mutant} is not noticed in topics {first} .. {first + count - 1}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    first, count = FALLS[mutant]
    failed = [seed for seed in range(first, first + count) if not holds(seed)]
    assert not failed, f"topics {failed}"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    assert not [seed for seed in range(1, 13) if run("topics", seed, frozenset({mutant})).rule], HOLDS[mutant]
