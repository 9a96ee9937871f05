"""Whether live messages disturb durable ones, and the reverse, at two stations.

*Flood*: latency of durable messages, as in latency.py, unloaded, while other hosts in a process of their own flood the
stations with live broadcasts at ten times the capacity, and while they flood two other stations on the same machine
instead: what that costs, the processors and the disk cost. Then a host that sends both on one connection. No durable
message is lost.

*Reverse*: broadcasts as fast as they are taken, beside live messages at a moderate rate. None of these may be given
beyond its deadline. A light host gives what an agent would: what was not longer on its way than it had left
(`live_age`). Judged is by the one clock of this machine, from when its station took the message, as LIVE_MSG says, to
when the host had it from its socket; less the least way to that host so far, which no host can know, and less what the
measuring process had been busy with since it last waited for something to come. What is late then is late for certain.
The time from the call is told too: on its way to the station a message does not age (docs/protocols/delta-causal.md).
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, difference, percentile
from bench.fan_out import ON_THE_WAY
from bench.group import StationGroup, seats
from bench.latency import BODY_BYTES, RATE
from bench.live_load import PAUSE_S, causes, live_counts
from bench.plan import Plan

HOSTS, FLOODERS = 4, 4
TIMES = 10
"""The capacity."""

LEAD_S = 0.5
UNLOADED, ELSEWHERE, FLOODED = "unloaded", "flood elsewhere", "flooded"
OWN_UNLOADED, OWN_FLOODED = "own connection, unloaded", "own connection, flooded"
LIVE_RATE = 100.0
DEADLINES_US = (500_000, 50_000)


class Scene:
    """Two stations with hosts that measure and hosts that flood, and two more for the flood elsewhere."""

    def __init__(self, stack: ExitStack, home: Path, rate: float) -> None:
        self.rate = rate
        everybody = [*seats(FLOODERS, 2, "f"), *seats(HOSTS, 2)]
        self.group, other = (StationGroup(home / name, 2, everybody) for name in ("flood", "elsewhere"))
        for group in (self.group, other):
            stack.callback(group.close)
            group.wait_linked()
        self.measuring = self.group.fleet("live_fleet", "h")
        self.flooding = self.group.fleet("live_fleet", "f")
        self.elsewhere = other.fleet("live_fleet")
        for fleet in (self.measuring, self.flooding, self.elsewhere):
            stack.callback(fleet.close)
            fleet.ask("attach")
        for fleet in (self.flooding, self.elsewhere):
            fleet.ask("yield")
        time.sleep(PAUSE_S)

    def beside(self, fleet: Child | None, seconds: float) -> Json:
        """Durable messages at a moderate rate, beside this flood."""
        before = live_counts(self.group)
        if fleet is not None:
            load = {"rate": self.rate, "notes": False, "publishers": list(range(FLOODERS))}
            fleet.tell("live", seconds=seconds + 2 * LEAD_S, **load, **_message())
            time.sleep(LEAD_S)
        durable: Json = {"body_bytes": BODY_BYTES, "rate": RATE, "on_the_way": 50, "sample": 1}
        told = self.measuring.ask("beside", seconds=seconds, **durable)
        flood = {} if fleet is None else fleet.answer()
        return {
            **_both(told["latencies_us"]),
            "messages": told["messages"],
            "lost": told["missing"] + told["frames_lost"],
            "live_given": told["live_given"],
            "flood": flood,
            "counts": difference(live_counts(self.group), before),
        }

    def on_one_connection(self, rate: float, seconds: float) -> Json:
        """The same sent by a host that floods, or does not (rate 0)."""
        before = live_counts(self.group)
        self.measuring.tell("listen", seconds=seconds, body_bytes=BODY_BYTES)
        load = {"publishers": [0], "durable_rate": RATE, "notes": False, "rate": rate, "seconds": seconds}
        flood = self.flooding.ask("live", **load, **_message())
        told = self.measuring.answer()
        return {
            **_both(told["latencies_us"]),
            "messages": flood["durable"],
            "lost": flood["durable"] * HOSTS - told["deliveries"] + told["frames_lost"],
            "live_given": 0,
            "flood": flood if rate else {},
            "counts": difference(live_counts(self.group), before),
        }

    def reverse(self, deadline_us: int, broadcasts: bool, seconds: float) -> Json:
        """Live messages at a moderate rate, with or without broadcasts beside them."""
        before = live_counts(self.group)
        if broadcasts:
            load: Json = {"body_bytes": BODY_BYTES, "rate": 0.0, "on_the_way": ON_THE_WAY}
            self.measuring.tell("beside", seconds=seconds + 2 * LEAD_S, **load)
            time.sleep(LEAD_S)
        told = self.flooding.ask("live", rate=LIVE_RATE, seconds=seconds, **_message(deadline_us))
        durable = (
            self.measuring.answer() if broadcasts else {"messages": 0, "seconds": 1, "missing": 0, "frames_lost": 0}
        )
        counts = difference(live_counts(self.group), before)
        expected = told["sent"] * (FLOODERS - 1)
        return {
            **told,
            "expected": expected,
            "missing": 1 - told["given"] / expected,
            "durable_rate": durable["messages"] / durable["seconds"],
            "lost": durable["missing"] + durable["frames_lost"],
            "counts": counts,
            "causes": causes(counts, told["sent"] * (HOSTS + FLOODERS - 1), HOSTS + FLOODERS, 2, 2 * told["aged"]),
        }


def _message(deadline_us: int = DEADLINES_US[0]) -> Json:
    return {"body_bytes": BODY_BYTES, "deadline_us": deadline_us}


def _both(latencies_us: dict[str, list[float]]) -> Json:
    return {
        way: {name: percentile(latencies_us[label], share) / 1_000 for name, share in (("p50", 0.5), ("p99", 0.99))}
        for way, label in (("one", "1"), ("two", "2"))
    }


def measure(home: Path, capacity: float, plan: Plan) -> Json:
    """All rounds, in turn; the best of each."""
    with ExitStack() as stack:
        plan.say(f"flood: starting two stations, and two more; {TIMES} x {capacity:.0f} live messages a second")
        scene = Scene(stack, home, TIMES * capacity)
        scene.beside(None, 0.5)
        told: dict[str, list[Json]] = {}
        back: dict[tuple[int, bool], list[Json]] = {}
        for i in range(plan.repeats):
            plan.say(f"flood: rounds, {i + 1} of {plan.repeats}")
            for name, fleet in ((UNLOADED, None), (ELSEWHERE, scene.elsewhere), (FLOODED, scene.flooding)):
                told.setdefault(name, []).append(scene.beside(fleet, plan.latency_s))
            for name, rate in ((OWN_UNLOADED, 0.0), (OWN_FLOODED, scene.rate)):
                told.setdefault(name, []).append(scene.on_one_connection(rate, plan.latency_s))
            for deadline_us in DEADLINES_US:
                for broadcasts in (False, True):
                    found = scene.reverse(deadline_us, broadcasts, plan.latency_s)
                    back.setdefault((deadline_us, broadcasts), []).append(found)
        return {
            "capacity": capacity,
            "asked": scene.rate,
            "flood": {name: best(rounds) for name, rounds in told.items()},
            "reverse": [
                {"deadline_us": deadline_us, "broadcasts": broadcasts, **worst(rounds)}
                for (deadline_us, broadcasts), rounds in back.items()
            ],
        }


def best(rounds: list[Json]) -> Json:
    """The least of each percentile; of what was lost all."""
    least = {way: {share: min(one[way][share] for one in rounds) for share in ("p50", "p99")} for way in ("one", "two")}
    chosen = min(rounds, key=lambda one: one["two"]["p50"])
    return {**chosen, **least, "lost": sum(one["lost"] for one in rounds), "rounds": rounds}


def worst(rounds: list[Json]) -> Json:
    """The round with the most beyond its deadline; of what was lost all."""
    chosen = max(rounds, key=lambda one: (one["late"]["most_ms"], one["past"]["most_ms"]))
    late = sum(one["late"]["count"] for one in rounds)
    return {**chosen, "late_in_all": late, "lost": sum(one["lost"] for one in rounds), "rounds": rounds}


def is_good(found: Json) -> bool:
    """Whether nothing durable was lost, and nothing live was late."""
    lost = sum(one["lost"] for one in [*found["flood"].values(), *found["reverse"]])
    return not lost and not any(one["late_in_all"] for one in found["reverse"])
