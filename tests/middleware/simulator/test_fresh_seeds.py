"""A short campaign with seeds that no run has seen: each CI run searches a little further."""

from __future__ import annotations

import os
import random

import pytest

from roamcast.middleware.simulator.run import run

SEED = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1 << 40))
"""First seed; printed with every failure, and set by ROAMCAST_SEED to replay it."""


@pytest.mark.parametrize(
    ("scenario", "count"),
    [("mixed", 30), ("few", 40), ("long", 3), ("group", 30), ("topics", 30), ("mixed-live", 30), ("composite", 12)],
)
def test_promises_are_kept_under_fresh_seeds(scenario: str, count: int) -> None:
    print(f"ROAMCAST_SEED={SEED}")
    for seed in range(SEED, SEED + count):
        result = run(scenario, seed)
        replay = f"roamcast-simulate --scenario {scenario} --seed {seed}"
        assert not result.rule, "\n".join([result.rule, *result.witness, *result.tail, replay])
