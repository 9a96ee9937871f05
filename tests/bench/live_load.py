"""Live messages against offered load: latency, and what is missing and why, beside bare PUB and SUB in the same run.

2, 4 and 8 stations as processes, a few light hosts at each, all in one more process. All hosts broadcast in turn. The
capacity is found first, of both: the highest rate at which less than 1 % of what everybody was to be given is missing.
Then both are offered the same shares of the stations' capacity, rounds in turn, and the best of each counts.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench.child import ChildFailed, Json, difference
from bench.group import RelayGroup, StationGroup, seats
from bench.plan import Plan

HOSTS_EACH = 4
BODY_BYTES = 128
DEADLINE_US = 500_000
"""As long as delta of the group."""

FACTORS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
QUICK_FACTORS = (0.1, 0.5, 1.0, 2.0)
MISSING_MAX = 0.01
LEAST_RATE, FIRST_RATE, LAST_RATE = 10.0, 100.0, 40_000.0
HALVINGS = 3
PAUSE_S = 2.5
"""A station that has started is silent for delta and twice the skew."""

STATION, BARE = "station", "bare"
SHED, BETWEEN, OVER, UNREADY = "shed", "between", "over", "unready"
PER_MESSAGE = {
    SHED: ("live_shed", "refused", "unfounded"),
    BETWEEN: ("live_shed_of_peers", "live_unsent", "live_without_link", "full"),
    OVER: ("expired", "late", "behind", "overtaken", "live_over", "ahead", "quiet"),
}
PER_HOST = {UNREADY: ("unready", "live_untaken")}
CAUSES = (*PER_MESSAGE, *PER_HOST)


class Side:
    """Stations or relays, with their hosts attached."""

    def __init__(self, stack: ExitStack, group: StationGroup | RelayGroup) -> None:
        stack.callback(group.close)
        self.group = group
        if isinstance(group, StationGroup):
            group.wait_linked()
        self.fleet = group.fleet("live_fleet")
        stack.callback(self.fleet.close)
        self.hosts = self.fleet.ask("attach")["hosts"]
        time.sleep(PAUSE_S)

    def round(self, rate: float, seconds: float) -> Json:
        """One round of load."""
        before = live_counts(self.group)
        told = self.fleet.ask("live", seconds=seconds, rate=rate, body_bytes=BODY_BYTES, deadline_us=DEADLINE_US)
        counts = difference(live_counts(self.group), before)
        expected = told["sent"] * (self.hosts - 1)
        return {
            **told,
            "rate": told["sent"] / told["seconds"],
            "missing": 1 - told["given"] / expected,
            "older": told["older"] / expected,
            "untaken": told["untaken"] / told["sent"],
            "counts": counts,
            "causes": causes(counts, expected, self.hosts, len(self.group.stations), told["aged"]),
        }

    def capacity(self, plan: Plan) -> float:
        """The highest rate that was carried: doubled until one is not, then by halves. One bad round is no proof.

        Raises ChildFailed: nothing is carried.
        """
        carried = FIRST_RATE
        while not self._carries(carried, plan):
            carried /= 2
            if carried < LEAST_RATE:
                raise ChildFailed(f"not even {2 * carried:.0f} live messages a second are carried; run nothing beside")
        rate = 2 * carried
        while rate <= LAST_RATE and self._carries(rate, plan):
            carried, rate = rate, 2 * rate
        for _ in range(HALVINGS):
            middle = (carried * rate) ** 0.5
            carried, rate = (middle, rate) if self._carries(middle, plan) else (carried, middle)
        return carried

    def _carries(self, rate: float, plan: Plan) -> bool:
        tries = (self.round(rate, plan.round_s / 2 if plan.repeats == 1 else plan.round_s) for _ in range(3))
        return any(one["missing"] < MISSING_MAX and one["rate"] > 0.95 * rate for one in tries)


def live_counts(group: StationGroup | RelayGroup) -> Json:
    """What became of live messages so far, all stations together."""
    total: Json = {}
    for station in group.stations if isinstance(group, StationGroup) else ():
        for name, count in station.ask("live").items():
            total[name] = total.get(name, 0) + count
    return total


def causes(counts: Json, expected: int, hosts: int, stations: int, aged: int) -> dict[str, float]:
    """Shares of what everybody was to be given that is missing, by cause.

    What the station of the sender drops is missing at all others, what another station drops at its hosts. aged: what
    hosts did not give, for it was too long on its way to them.
    """
    missing = {SHED: hosts - 1.0, BETWEEN: hosts / stations, OVER: hosts / stations}
    found = {cause: missing[cause] * sum(counts.get(name, 0) for name in names) for cause, names in PER_MESSAGE.items()}
    found |= {cause: sum(counts.get(name, 0) for name in names) for cause, names in PER_HOST.items()}
    found[OVER] += aged
    return {cause: count / expected for cause, count in found.items()}


def measure(home: Path, stations: int, plan: Plan) -> Json:
    """All rounds with so many stations."""
    with ExitStack() as stack:
        plan.say(f"live: starting {stations} stations and {stations} bare relays")
        everybody = seats(HOSTS_EACH * stations, stations)
        sides = {
            STATION: Side(stack, StationGroup(home / f"live-{stations}", stations, everybody)),
            BARE: Side(stack, RelayGroup(home / f"pub-{stations}", stations, everybody, module="live_bare")),
        }
        capacity = {}
        for name, side in sides.items():
            capacity[name] = side.capacity(plan)
            plan.say(f"live: {stations} stations, capacity of {name}: {capacity[name]:.0f} messages a second")
        told: dict[tuple[float, str], list[Json]] = {}
        for i in range(plan.repeats):
            plan.say(f"live: {stations} stations, rounds at all loads, {i + 1} of {plan.repeats}")
            for factor in QUICK_FACTORS if plan.repeats == 1 else FACTORS:
                for name, side in sides.items():
                    told.setdefault((factor, name), []).append(side.round(factor * capacity[STATION], plan.round_s))
        cells = [
            {"factor": factor, STATION: best(told[factor, STATION]), BARE: best(told[factor, BARE])}
            for factor in dict.fromkeys(factor for factor, _ in told)
        ]
        return {"stations": stations, "hosts": HOSTS_EACH * stations, "capacity": capacity, "cells": cells}


def best(rounds: list[Json]) -> Json:
    """The round in which least is missing, with the least of each percentile."""
    chosen = min(rounds, key=lambda one: one["missing"])
    least = {way: {share: min(one[way][share] for one in rounds) for share in ("p50", "p99")} for way in ("one", "two")}
    return {**chosen, **least, "all_missing": [one["missing"] for one in rounds]}
