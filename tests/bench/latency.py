"""Latency host to host over one station and over two, and handoff times, beside a bare relay and the commits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, percentile
from bench.group import RelayGroup, StationGroup, seats
from bench.plan import Plan

RATE = 100.0
"""Messages a second: moderate."""

COPIES = {"copies = 1": 1, "copies = 2": 2}
COPIES_RATES = (100.0, 20.0)
"""Messages a second above and below one in `claims_tick`, for `copies`."""

BODY_BYTES = 128
HOSTS = 20
"""Light hosts, half of them at each of two stations."""

MOVERS = 8
PAUSE_S = 0.05
FULL, NORMAL, BARE = "FULL", "NORMAL", "bare"
DURABILITY = {FULL: "power", NORMAL: "process"}


def paths(home: Path, plan: Plan) -> Json:
    """Light hosts at two stations, durability FULL and NORMAL, and at two bare relays, round by round in turn.

    Returns:
        For each of the three: p50 and p99, ms, over one station (hosts at the sender's) and two, the best round of
        each; and the commits of both stations, ms.
    """
    with ExitStack() as stack:
        pairs: dict[str, Pair] = {}
        for name in (FULL, NORMAL, BARE):
            plan.say(f"latency: starting two stations, {name}")
            where = home / f"latency-{name}"
            if name == BARE:
                pairs[name] = Pair(stack, RelayGroup(where, 2, seats(HOSTS, 2)))
            else:
                pairs[name] = Pair(stack, StationGroup(where, 2, seats(HOSTS, 2), durability=DURABILITY[name]))
        return _in_turn(pairs, plan, RATE)


def copies(home: Path, plan: Plan) -> Json:
    """The same with the setting `copies` 1 and 2, durability FULL, at each of COPIES_RATES."""
    with ExitStack() as stack:
        pairs: dict[str, Pair] = {}
        for name, count in COPIES.items():
            plan.say(f"latency: starting two stations, {name}")
            group = StationGroup(home / f"copies-{count}", 2, seats(HOSTS, 2))
            pairs[name] = Pair(stack, group)
            group.wait_linked()
            group.config_set("settings/copies", str(count))
            group.wait_setting("copies", count)
        return {f"{rate:g}": _in_turn(pairs, plan, rate) for rate in COPIES_RATES}


class Pair:
    """Two stations or relays with their hosts attached."""

    def __init__(self, stack: ExitStack, group: StationGroup | RelayGroup) -> None:
        stack.callback(group.close)
        self.stations = group.stations if isinstance(group, StationGroup) else []
        self.fleet = group.fleet()
        stack.callback(self.fleet.close)
        self.fleet.ask("attach")


def _in_turn(pairs: Mapping[str, Pair], plan: Plan, rate: float) -> Json:
    """Rounds of `rate` messages a second, of each pair in turn: the best of each."""
    told: dict[str, list[Json]] = {name: [] for name in pairs}
    for i in range(plan.repeats + 1):
        plan.say(f"latency: rounds of {', '.join(pairs)}, " + (f"{i} of {plan.repeats}" if i else "to warm up"))
        for name, pair in pairs.items():
            found = _round(pair, plan.latency_s if i else 0.5, rate)
            if i:
                told[name].append(found)
    return {name: _best(rounds) for name, rounds in told.items()}


def _round(pair: Pair, seconds: float, rate: float) -> Json:
    for station in pair.stations:
        station.ask("commits")
    told = pair.fleet.ask("round", seconds=seconds, body_bytes=BODY_BYTES, rate=rate, on_the_way=50, sample=1)
    return {
        "one": _percentiles(told["latencies_us"]["1"]),
        "two": _percentiles(told["latencies_us"]["2"]),
        "commits": [station.ask("commits") for station in pair.stations],
    }


def _percentiles(latencies_us: list[float]) -> Json:
    return {"p50": percentile(latencies_us, 0.5) / 1_000, "p99": percentile(latencies_us, 0.99) / 1_000}


def _best(rounds: list[Json]) -> Json:
    """The least of each figure, and the commits of the round with the least p50 over two stations."""
    least = {way: {share: min(one[way][share] for one in rounds) for share in ("p50", "p99")} for way in ("one", "two")}
    return {**least, "commits": min(rounds, key=lambda one: one["two"]["p50"])["commits"], "rounds": rounds}


def agents(home: Path, plan: Plan) -> Json:
    """Real agents, state on disk: latency from call to receipt, one at each durability; and with FULL the handoffs."""
    told: Json = {}
    for name in (FULL, NORMAL):
        with ExitStack() as stack:
            plan.say(f"agents: starting two stations, {name}, and {MOVERS} agents")
            names = [f"agent{i}" for i in range(MOVERS)]
            where = home / f"agents-{name}"
            group = StationGroup(where, 2, seats(HOSTS, 2), names, durability=DURABILITY[name])
            stack.callback(group.close)
            child = Child("agents", where, "agents")
            stack.callback(child.close)
            at = [group.station_ids[i % 2] for i in range(MOVERS)]
            if name == FULL:
                fleet = group.fleet()
                stack.callback(fleet.close)
                fleet.ask("attach")
                child.ask("open", files=group.credentials, at=at)
                told["handoff"] = _handoffs(fleet, child, group, plan)
                fleet.close()
            else:
                child.ask("open", files=group.credentials[:4], at=at[:4])
            plan.say(f"agents: latency, {name}")
            found = child.ask("latency", seconds=plan.latency_s, rate=RATE, body_bytes=BODY_BYTES)
            one, two = (found["latencies_us"].get(station, []) for station in group.station_ids)
            call = _percentiles(found["call_us"])
            told[name] = {"one": _percentiles(one), "two": _percentiles(two), "call": call}
    return told


def _handoffs(fleet: Child, agents: Child, group: StationGroup, plan: Plan) -> Json:
    """Move agents to and fro while the light hosts are sent RATE messages a second."""
    plan.say(f"handoff: {plan.moves} moves under {RATE:.0f} messages a second")
    seconds = plan.moves * (PAUSE_S + 0.05) + 2
    fleet.tell("round", seconds=seconds, body_bytes=BODY_BYTES, rate=RATE, on_the_way=100)
    taken = agents.ask("moves", count=plan.moves, stations=group.station_ids, pause_s=PAUSE_S)["ms"]
    messages = fleet.answer()["messages"]
    return {
        "moves": len(taken),
        "p50_ms": percentile(taken, 0.5),
        "p99_ms": percentile(taken, 0.99),
        "messages": messages,
        **agents.ask("verdict", count=messages),
    }
