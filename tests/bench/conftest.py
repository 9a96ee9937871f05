"""The benchmark's modules as `bench`, the demo's as `demo`."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
for folder in (str(TESTS), str(TESTS.parent / "examples")):
    if folder not in sys.path:
        sys.path.insert(0, folder)
