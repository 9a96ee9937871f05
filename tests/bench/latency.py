"""Latency host to host over one station and over two, and handoff times, beside a bare relay and the commits."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, percentile
from bench.group import RelayGroup, StationGroup, seats
from bench.plan import Plan

RATE = 100.0
"""Messages a second: moderate."""

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
        groups: dict[str, StationGroup | RelayGroup] = {}
        fleets: dict[str, Child] = {}
        for name in (FULL, NORMAL, BARE):
            plan.say(f"latency: starting two stations, {name}")
            where = home / f"latency-{name}"
            if name == BARE:
                groups[name] = RelayGroup(where, 2, seats(HOSTS, 2))
            else:
                groups[name] = StationGroup(where, 2, seats(HOSTS, 2), durability=DURABILITY[name])
            stack.callback(groups[name].close)
            fleets[name] = groups[name].fleet()
            stack.callback(fleets[name].close)
            fleets[name].ask("attach")
        told: dict[str, list[Json]] = {name: [] for name in groups}
        for i in range(plan.repeats + 1):
            plan.say(f"latency: rounds of {', '.join(groups)}, " + (f"{i} of {plan.repeats}" if i else "to warm up"))
            for name, fleet in fleets.items():
                found = _round(fleet, groups[name], plan.latency_s if i else 0.5)
                if i:
                    told[name].append(found)
        return {name: _best(rounds) for name, rounds in told.items()}


def _round(fleet: Child, group: StationGroup | RelayGroup, seconds: float) -> Json:
    stations = group.stations if isinstance(group, StationGroup) else []
    for station in stations:
        station.ask("commits")
    told = fleet.ask("round", seconds=seconds, body_bytes=BODY_BYTES, rate=RATE, on_the_way=50, sample=1)
    return {
        "one": _percentiles(told["latencies_us"]["1"]),
        "two": _percentiles(told["latencies_us"]["2"]),
        "commits": [station.ask("commits") for station in stations],
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
