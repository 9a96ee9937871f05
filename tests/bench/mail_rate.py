"""How many mails a second of CPU carries at a station, by number of stations, with whole bodies and lean ones.

Hosts are dealt out evenly, do not move, and write to hosts of all stations alike: a mail of 2 KiB is for a host at
another station in all cases but 1 / stations. All stations send at the same rate. The table of up to sixteen stations
is made in one process (core_world.py); some are measured as processes too, sockets, CURVE and delivery log included.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from random import Random

from bench.child import Child, Json, difference
from bench.core_world import CoreWorld
from bench.group import StationGroup, seats
from bench.plan import Plan

from roamcast.middleware.topics import Topics

BODY_BYTES = 2_048
LEAN = {"whole": 0, "lean": 1_024}
"""`lean-bodies` of the group."""

HOSTS_EACH = 8
A_TICK = 8
"""Mails that each station takes from its hosts in a tick."""

TICKS = 40
IN_PROCESSES = (2, 4)
MAILS = 1_500
WARM_UP = 200


def measure(home: Path, plan: Plan) -> Json:
    """Cores in one process, and processes."""
    return {
        "cores": [_cores(home, stations, plan) for stations in plan.topic_stations],
        "processes": [_processes(home, stations, plan) for stations in IN_PROCESSES if stations in plan.topic_stations],
    }


def _cores(home: Path, stations: int, plan: Plan) -> Json:
    """The best round of each kind."""
    plan.say(f"mail: {stations} stations in one process")
    found: Json = {"stations": stations}
    for name, lean in LEAN.items():
        rounds = [cores(home / f"mail-{stations}-{name}-{i}", stations, lean) for i in range(plan.repeats)]
        found[name] = min(rounds, key=lambda one: one["us_per_mail"])
    return found


def cores(home: Path, stations: int, lean: int, ticks: int = TICKS) -> Json:
    """CPU of one station, the mean of all, per mail of the group, and bytes that one mail makes stations say."""
    rng = Random(stations)
    body = bytes(BODY_BYTES)
    with CoreWorld(home, stations, lean_bytes=lean) as world:
        world.set_topics(Topics())
        for slot in world.slots:
            world.enrol([f"h{slot:02d}-{i:02d}" for i in range(HOSTS_EACH)], slot)
        world.attach(world.hosts, lambda i: i // HOSTS_EACH + 1)
        world.collect()
        given = [host.given for host in world.hosts]
        world.reset()
        for _ in range(ticks):
            for i in range(A_TICK):
                for slot in world.slots:
                    host = world.hosts[(slot - 1) * HOSTS_EACH + i % HOSTS_EACH]
                    host.send(body, rng.choice(world.hosts).name)
            world.turn()
        world.settle()
        mails = ticks * A_TICK * stations
        took = sum(host.given for host in world.hosts) - sum(given)
        if took != mails:
            raise RuntimeError(f"{took} of {mails} mails given")
        cpu = sum(station.cpu_s for station in world.stations.values())
        return {**_rates(cpu, mails, stations), "bytes": _bytes(world) / mails, "pulls": _sent(world, "Pull") / mails}


def _bytes(world: CoreWorld) -> int:
    return sum(size for station in world.stations.values() for kind, size in station.sent.items() if kind != "rows")


def _sent(world: CoreWorld, kind: str) -> int:
    return sum(station.sent[kind] for station in world.stations.values())


def _rates(cpu_s: float, mails: int, stations: int) -> Json:
    """cpu_s: of all stations together."""
    one = cpu_s / stations
    return {"us_per_mail": 1e6 * one / mails, "group_rate": mails / one, "own_rate": mails / stations / one}


def _processes(home: Path, stations: int, plan: Plan) -> Json:
    """The same with processes: rounds of both kinds in turn, the best of each."""
    found: Json = {"stations": stations}
    with ExitStack() as stack:
        groups = {}
        for name, lean in LEAN.items():
            plan.say(f"mail: {stations} stations as processes, {name} bodies")
            group = StationGroup(home / f"mails-{stations}-{name}", stations, seats(HOSTS_EACH * stations, stations))
            stack.callback(group.close)
            group.wait_linked()
            group.config_set("settings/lean-bodies", str(lean))
            group.wait_setting("lean-bodies", lean)
            fleet = group.fleet()
            stack.callback(fleet.close)
            fleet.ask("attach")
            groups[name] = group, fleet
            _round(group, fleet, WARM_UP)
        rounds: dict[str, list[Json]] = {}
        for _ in range(plan.repeats):
            for name, (group, fleet) in groups.items():
                rounds.setdefault(name, []).append(_round(group, fleet, MAILS))
        return found | {name: min(told, key=lambda one: one["us_per_mail"]) for name, told in rounds.items()}


def _round(group: StationGroup, fleet: Child, count: int) -> Json:
    for station in group.stations:
        station.ask("peer_frames")
    before = group.usage()
    hosts = HOSTS_EACH * len(group.stations)
    publishers = Random(count).sample(range(hosts), hosts)
    told = fleet.ask(
        "round", seconds=60.0, body_bytes=BODY_BYTES, rate=0.0, on_the_way=A_TICK * len(group.stations) * 4,
        count=count, mail=True, publishers=publishers,
    )  # fmt: skip
    used = [difference(after, one) for after, one in zip(group.usage(), before, strict=True)]
    sent = [station.ask("peer_frames") for station in group.stations]
    mails = told["messages"]
    return {
        **_rates(sum(one["cpu_s"] for one in used), mails, len(group.stations)),
        "mails_per_tick": mails / max(1, max(one["counters"]["commits"] for one in used)),
        "encoded": sum(size for kinds in sent for _, size in kinds.values()) / mails,
    }
