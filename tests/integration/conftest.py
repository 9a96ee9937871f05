"""Real processes: every test gets a directory and leaves no process behind. Seeds are printed and can be set."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")
HERE = str(Path(__file__).resolve().parent)
for folder in (EXAMPLES, HERE):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from harness import Bench  # noqa: E402  (found by the path set above)


@pytest.fixture
def seed() -> int:
    """Fresh for each test; ROAMCAST_SEED sets it. pytest shows the line when the test fails."""
    value = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"ROAMCAST_SEED={value}")
    return value


@pytest.fixture
def make_bench(tmp_path: Path, seed: int) -> Iterator[Callable[..., Bench]]:
    """Make a bench: stations, relay, agent processes; closed after the test."""
    benches: list[Bench] = []

    def make(*, stations: int = 3) -> Bench:
        benches.append(Bench(tmp_path / f"bench{len(benches)}", stations, seed))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()
