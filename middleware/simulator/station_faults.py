"""How a simulated station's driver misbehaves, and how its process ends."""

from __future__ import annotations

from dataclasses import dataclass


class Crash(Exception):
    """The process dies here."""


class Halted(Exception):
    """The process ends for good."""


class DiskFull(Exception):
    """The transaction failed."""


@dataclass(slots=True)
class StationFaults:
    """How a station's driver misbehaves."""

    one_by_one: bool = False
    """Each Persist is a step of its own, each input a tick of its own; else group commit."""
    crash_per_effect: float = 0.0
    full_per_write: float = 0.0
    """The transaction fails for want of room."""
    tick_spacing: int = 1_000
    down_time: tuple[int, int] = (1_000, 200_000)
