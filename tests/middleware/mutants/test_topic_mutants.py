"""Topics with a rule switched off or a fact not durable: the simulator finds it.

Rules whose absence needs a rare moment fall to directed tests instead; docs/faults.md says which.
"""

from __future__ import annotations

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
"""Mutant -> (first seed, count): the first of these seeds of `topics` that falls does not fall without the mutant."""

HOLDS = {
    "notice_early": "what is told before the session is confirmed is told again after it",
    "p_stale": "values compare attempts: the rule only spares subscribers an old word",
}
"""Rules that only save time, or that others imply; why."""


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    first, count = FALLS[mutant]
    fallen = (seed for seed in range(first, first + count) if run("topics", seed, frozenset({mutant}), WHOLE).rule)
    seed = next(fallen, None)
    assert seed is not None, f"{mutant} is not noticed in topics {first} .. {first + count - 1}"
    assert not run("topics", seed, overrides=WHOLE).rule, f"topics {seed} falls without {mutant} too"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    assert not [seed for seed in range(1, 13) if run("topics", seed, frozenset({mutant})).rule], HOLDS[mutant]
