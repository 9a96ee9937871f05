"""Who sends to whom: patterns of traffic, for the runs and for the study of s-records."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

PATTERNS = ("uniform", "fanout", "groups", "star", "ring", "pairs", "chain")
GROUP = 4
OUTSIDE = 0.1
"""Share of the mail of a group that leaves it."""


def targets(pattern: str, sender: int, stations: Sequence[int], rng: Random) -> list[int]:
    """To whom `sender` sends at one occasion, in order; empty: to nobody. `stations` has the sender in it.

    uniform: anybody. fanout: half of all others. groups: four that keep to themselves, mostly. star: the first station
    and all others. ring: the next. pairs: each its partner. chain: a neighbour, request and answer up and down.
    """
    here, count = stations.index(sender), len(stations)
    others = [station for station in stations if station != sender]
    if not others:
        return []
    match pattern:
        case "fanout":
            return rng.sample(others, -(-len(others) // 2))
        case "groups":
            start = here - here % GROUP
            group = [station for station in stations[start : start + GROUP] if station != sender]
            return [rng.choice(others if rng.random() < OUTSIDE or not group else group)]
        case "star":
            return [rng.choice(others) if here == 0 else stations[0]]
        case "ring":
            return [stations[(here + 1) % count]]
        case "pairs":
            partner = here ^ 1
            return [stations[partner]] if partner < count else []
        case "chain":
            return [stations[rng.choice([place for place in (here - 1, here + 1) if 0 <= place < count])]]
        case _:
            return [rng.choice(others)]
