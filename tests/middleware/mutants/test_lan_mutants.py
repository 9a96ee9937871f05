"""The many-key LAN update layer with a rule switched off: the simulator finds a violation.

Rules whose absence needs a rare moment fall to directed tests instead; docs/faults.md says which. That an entry is
compared again when it is stored has no mutant: comparing and storing is one step, and nothing can come between.
"""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.lan.keys_run import run_keys

FALLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "no_start_exchange": (1, 4, {"story": "plain"}),
    "raw_clock": (1, 4, {"story": "clocks"}),
    "no_boot": (14, 4, {"story": "backup", "clock_back": True, "old_backups": 0, "young_backups": 2}),
    "never_stale": (6, 3, {"story": "backup", "old_backups": 2, "young_backups": 0, "purges": True}),
    "former_speaks": (4, 4, {"story": "night"}),
    "no_repeat": (1, 4, {"story": "partition"}),
    "stale_relays": (1, 5, {"story": "night"}),
    "late:PutEntry": (1, 4, {"story": "plain"}),
    "disk:PutAlive": (18, 4, {"story": "plain", "purges": True}),
    "disk:PutEntry": (1, 4, {"story": "plain"}),
}
"""Mutant -> (first seed, count, options): at least one of these seeds falls, and none of them without the mutant."""

HOLDS = {
    "no_older_answer": "the digests find it (lan-update.md C.e)",
    "disk:DropEntry": "a tombstone that comes back is held by all, and purged again",
    "disk:PutHistory": "a tombstone that was purged here is taken back, and purged again",
}
"""Rules and writes that only save time, or that others imply; why."""


@pytest.mark.parametrize("mutant", FALLS)
def test_falls(mutant):
    first, count, options = FALLS[mutant]
    fallen = (seed for seed in range(first, first + count) if run_keys(seed, frozenset({mutant}), options).rule)
    assert next(fallen, None) is not None, f"{mutant} is not noticed in lan {first} .. {first + count - 1}, {options}"


@pytest.mark.parametrize("mutant", FALLS)
def test_the_same_seeds_pass_without(mutant):
    first, count, options = FALLS[mutant]
    failed = [seed for seed in range(first, first + count) if run_keys(seed, overrides=options).rule]
    assert not failed, f"lan {failed}, {options}"


@pytest.mark.parametrize("mutant", HOLDS)
def test_superfluous(mutant):
    options = {"purges": True, "deletes": 0.5}
    assert not [seed for seed in range(1, 13) if run_keys(seed, frozenset({mutant}), options).rule], HOLDS[mutant]
