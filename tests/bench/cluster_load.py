"""Frames and CPU per message and station: one flat cluster beside composite clusters, in the same run.

*Cores*: 20, 50 and 100 stations as real cores with codec and stores in one process (core_world.py), in as many clusters
as `mss-station plan` says. *Processes*: twelve stations, flat and in three clusters of four, with sockets and CURVE.
Each station has one host. Every message goes to all hosts; counted is what a station receives and uses for one message.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, difference
from bench.core_world import CoreStation, CoreWorld
from bench.group import StationGroup, seats
from bench.plan import Plan

from roamcast.middleware.fifo_broadcast.cluster_costs import pairs
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.station.core import StationCore

FLAT_GROUP, COMPOSITE = "flat", "composite"
BODY = bytes(128)
A_TURN = 20
"""Each station sends one message in so many turns."""

WARM_UP_TURNS = 10
SITES = "north: s1 s2 s3 s4 s12 / east: s5 s6 s7 s8 s4 / south: s9 s10 s11 s12 s8"
"""Three clusters of four, each with the gateway of another one."""

GATEWAYS = (4, 8, 12)
PROCESSES = 12
RATE = 60.0
"""Messages a second, of all hosts together."""

DATA, CLAIMS = "DataBatch", "Claims"


def measure(home: Path, plan: Plan) -> Json:
    """Cores in one process, and processes."""
    return {
        "cores": [_cores(home, stations, plan) for stations in plan.cluster_stations],
        "processes": _processes(home, plan),
    }


def _cores(home: Path, stations: int, plan: Plan) -> Json:
    """The best round of each kind, by the CPU of its busiest station."""
    plan.say(f"clusters: {stations} stations in one process")
    found: Json = {"stations": stations, "clusters": len(pairs(stations).clusters)}
    for name, layout in ((FLAT_GROUP, FLAT), (COMPOSITE, pairs(stations))):
        rounds = [
            cores(home / f"clusters-{stations}-{name}-{i}", stations, layout, plan.cluster_turns)
            for i in range(plan.repeats)
        ]
        found[name] = min(rounds, key=lambda one: float(one["busiest"]["us"]))
    return found


def cores(home: Path, stations: int, layout: Layout, turns: int) -> Json:
    """What plain stations and gateways receive and use for one message, on average; and the busiest station."""
    with CoreWorld(home, stations) as world:
        for station in world.stations.values():
            station.tick(lambda core: StationCore.set_layout(core, layout))
        for slot in world.slots:
            world.enrol([f"host{slot}"], slot)
        world.attach(world.hosts, lambda i: i + 1)
        _send(world, 0, WARM_UP_TURNS)
        given = sum(host.given for host in world.hosts)
        world.reset()
        messages = _send(world, WARM_UP_TURNS, turns)
        if sum(host.given for host in world.hosts) - given != messages * stations:
            raise RuntimeError(f"of {messages} messages not all were given to all")
        used = {slot: _core_load(station, messages) for slot, station in world.stations.items()}
        return summary(used, [slot for slot in world.slots if layout.is_gateway(slot)])


def _send(world: CoreWorld, first: int, turns: int) -> int:
    """Hosts send in turn, then all that was begun comes to its end. Returns how many messages."""
    count = 0
    for turn in range(first, first + turns):
        for host in world.hosts[turn % A_TURN :: A_TURN]:
            host.send(BODY)
            count += 1
        world.turn()
    world.settle(30)
    return count


def _core_load(station: CoreStation, messages: int) -> Json:
    told = station.received
    return {DATA: told[DATA] / messages, CLAIMS: told[CLAIMS] / messages, "us": 1e6 * station.cpu_s / messages}


def summary(used: dict[int, Json], gateways: list[int]) -> Json:
    """Means of plain stations and of gateways (None: there are none), and the station with the most CPU."""
    plain = [one for slot, one in used.items() if slot not in gateways]
    return {
        "station": _mean(plain) if plain else None,
        "gateway": _mean([used[slot] for slot in gateways]) if gateways else None,
        "busiest": max(used.values(), key=lambda one: float(one["us"])),
    }


def _mean(loads: list[Json]) -> Json:
    return {name: sum(one[name] for one in loads) / len(loads) for name in loads[0]}


def _processes(home: Path, plan: Plan) -> Json:
    """Rounds of both in turn, the best of each."""
    with ExitStack() as stack:
        groups = {}
        for name in (FLAT_GROUP, COMPOSITE):
            plan.say(f"clusters: {PROCESSES} stations as processes, {name}")
            group = StationGroup(home / f"sites-{name}", PROCESSES, seats(PROCESSES, PROCESSES))
            stack.callback(group.close)
            group.wait_linked()
            if name == COMPOSITE:
                group.config_set("settings/clusters", SITES)
                group.wait_setting("clusters", SITES)
            fleet = group.fleet()
            stack.callback(fleet.close)
            fleet.ask("attach")
            groups[name] = group, fleet
            _round(group, fleet, 1.0)
        rounds: dict[str, list[Json]] = {}
        for _ in range(plan.repeats):
            for name, (group, fleet) in groups.items():
                rounds.setdefault(name, []).append(_round(group, fleet, plan.latency_s))
        best = {name: min(told, key=lambda one: float(one["busiest"]["us"])) for name, told in rounds.items()}
        return {"stations": PROCESSES, "clusters": SITES.count("/") + 1, **best}


def _round(group: StationGroup, fleet: Child, seconds: float) -> Json:
    for station in group.stations:
        station.ask("received_frames")
    before = group.usage()
    told = fleet.ask(
        "round", seconds=seconds, body_bytes=len(BODY), rate=RATE, on_the_way=50, publishers=list(range(PROCESSES))
    )
    used = [difference(after, one) for after, one in zip(group.usage(), before, strict=True)]
    frames = [station.ask("received_frames") for station in group.stations]
    messages = told["messages"]
    loads = {
        slot: {
            DATA: came.get(DATA, [0])[0] / messages,
            CLAIMS: came.get(CLAIMS, [0])[0] / messages,
            "us": 1e6 * one["cpu_s"] / messages,
        }
        for slot, (one, came) in enumerate(zip(used, frames, strict=True), 1)
    }
    is_split = "composite" in str(group.home)
    return summary(loads, list(GATEWAYS) if is_split else [])
