"""What the command prints, whatever order sets have in its process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

import pytest

Outputs = Callable[[Sequence[str]], list[str]]


@pytest.fixture
def outputs_of() -> Outputs:
    """Of one command under three hash seeds."""

    def run(command: Sequence[str]) -> list[str]:
        return [
            subprocess.run(
                command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
            ).stdout
            for seed in ("0", "1", "2")
        ]

    return run
