"""What one seed draws for the single-item algorithm, and the bounds of paper 004 that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import floor
from typing import Any

from roamcast.middleware.simulator.scenario import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleItemOptions:
    """What one seed draws. Times in microseconds, shares from 0 to 1."""

    kind: str
    """Of the schedule."""
    nodes: int
    timeout: int
    """Tw, for a send."""
    computing: int
    """Tc, for an entry of the queue."""
    storing: int
    """Tf, for a store."""
    share: float
    """Nodes of a chain run together for this share of the bound of theorem 1; such windows must be enough."""
    days: int
    updates: int
    crashes: int
    """Of those planned with the schedule."""
    crash_per_step: float
    """Before any step of a node, its first one included."""
    slow: bool
    """Every send takes Tw."""
    unsure: float
    skew: int
    """Clocks are up to this far off."""
    old: bool
    """Every node starts with information of its own, each older or newer than the others'."""

    @property
    def passing(self) -> float:
        """K_B of lemma 5: one pass over all nodes takes no longer, in Tw."""
        others = self.nodes - 1
        return others + (2 * self.nodes - 1) * others * self.computing / (self.timeout - others * self.computing)

    @property
    def bound(self) -> int:
        """k Tw just above the bound of theorem 1; one Tw more than printed, in which the receiver hangs in a send."""
        queue = self.queue_bound(self.nodes) * self.computing
        return floor((3 * self.passing + 1) * self.timeout + queue + self.storing) + 1

    @property
    def window(self) -> int:
        """How long two nodes run together that one may tell the other."""
        return floor(self.share * self.bound)

    @staticmethod
    def queue_bound(nodes: int) -> int:
        """Corollary 4: a queue is never longer, unless an update has just been made."""
        return (nodes + 1) * (nodes - 1)

    @property
    def settling(self) -> int:
        """Theorem 2, repaired: the rest of a pass, a pass of answers, and what came in by then."""
        others = self.nodes - 1
        return 2 * others * self.timeout + (self.nodes + 3) * others * self.computing

    def banner(self) -> str:
        """All options on one line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_single_item(seed: int, overrides: Mapping[str, Any] | None = None) -> SingleItemOptions:
    """The options of a seed. Raises ValueError for an unknown option."""
    wanted = dict(overrides or {})
    if unknown := wanted.keys() - {field.name for field in fields(SingleItemOptions)}:
        raise ValueError(f"no option {min(unknown)!r}")

    def pick(name: str, *choices: Any) -> Any:
        return stream(seed, name).choice(choices)

    nodes = wanted.get("nodes", stream(seed, "nodes").randint(2, 7))
    timeout = wanted.get("timeout", 1_000)
    drawn = {
        "kind": pick("kind", "chain", "chain", "random", "always"),
        "nodes": nodes,
        "timeout": timeout,
        "computing": stream(seed, "computing").randint(0, timeout // (2 * nodes)),
        "storing": stream(seed, "storing").randint(0, timeout // 2),
        "share": 1.0,
        "days": nodes + 1,
        "updates": pick("updates", 1, 1, 2, 4),
        "crashes": pick("crashes", 0, 0, 2, 8),
        "crash_per_step": pick("crash_per_step", 0.0, 0.0, 0.001, 0.01),
        "slow": pick("slow", False, False, False, True),
        "unsure": pick("unsure", 0.0, 0.1, 0.5),
        "skew": pick("skew", 0, 0, timeout, 1_000_000),
        "old": pick("old", False, False, True),
    }
    return SingleItemOptions(**{**drawn, **wanted})
