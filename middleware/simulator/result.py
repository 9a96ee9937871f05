"""What came of one seed, and what every world of a seed can tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from roamcast.middleware.simulator.world import Trace


class Drawn(Protocol):
    """What a seed has drawn."""

    def banner(self) -> str:
        """All of it on one line."""


class Playable(Protocol):
    """The world of one seed."""

    trace: Trace

    @property
    def options(self) -> Drawn:
        """What was drawn."""

    def run(self) -> None:
        """All of it. Raises Violation."""

    def counts(self) -> dict[str, int]:
        """What the run did, for the campaign's table."""


@dataclass(slots=True)
class Result:
    """What came of one seed."""

    scenario: str
    seed: int
    options: Drawn
    sha256: str
    counts: dict[str, int]
    rule: str = ""
    """The broken promise; '' = none."""
    witness: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
