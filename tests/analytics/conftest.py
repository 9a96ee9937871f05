"""The modules of this folder are found by each other; seeds are printed and can be set."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture
def seed() -> int:
    """Fresh for each test; ROAMCAST_SEED sets it. pytest shows the line when the test fails."""
    value = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"ROAMCAST_SEED={value}")
    return value
