"""The simulator on fresh seeds until the time is over: ``python3 dev.py soak [--minutes N] [--seed N]``.

Batches of seeds of each scenario, one after the other. The first failure ends it, with the witness and the line that
replays it, as ``roamcast-simulate`` printed them.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BATCHES = {"mixed": 100, "few": 100, "long": 10}
"""Scenario -> seeds at a time: about equal in time."""
SIMULATE = Path(sys.executable).with_name("roamcast-simulate")


def soak(seed: int, seconds: float, batches: dict[str, int], jobs: int) -> tuple[int, int]:
    """Run batches from `seed` on, until `seconds` are over. Return (exit code of the last batch, seeds run)."""
    end, done = time.monotonic() + seconds, 0
    while True:
        for scenario, count in batches.items():
            numbers = {"--seed": seed + done, "--count": count, "--jobs": jobs}
            options = [str(word) for pair in numbers.items() for word in pair]
            code = subprocess.run([SIMULATE, "--scenario", scenario, "--quiet", *options]).returncode
            done += count
            left = end - time.monotonic()
            print(f"soak: {done:,} seeds, {max(0.0, left):.0f} s left", flush=True)
            if code or left <= 0:
                return code, done


def main(argv: Sequence[str]) -> int:
    """Run the soak. Return the exit code of the simulator, 0 when every seed passed."""
    parser = argparse.ArgumentParser(prog="dev.py soak", description="The simulator on fresh seeds.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--seed", type=int, default=None, help="first seed; default: a fresh one, printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--scenario", choices=sorted(BATCHES), help="only this one; default: all in turn")
    options = parser.parse_args(argv)
    seed = secrets.randbits(40) if options.seed is None else options.seed
    batches = {options.scenario: BATCHES[options.scenario]} if options.scenario else BATCHES
    signal.signal(signal.SIGTERM, lambda signum, _frame: sys.exit(128 + signum))
    print(f"soak: first seed {seed}", flush=True)
    code, done = soak(seed, 60 * options.minutes, batches, options.jobs)
    print(f"soak: {done:,} seeds, " + ("every one passed" if code == 0 else f"stopped by a failure (exit code {code})"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
