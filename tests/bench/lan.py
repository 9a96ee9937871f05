"""What the LAN update layer costs: one recovery in bytes and time, beside pushing everything; the spread of one change.

Recoveries are simulated (lan_world.py): virtual time, real core and codec. The spread is measured with processes on
loopback, and simulated beside it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, percentile
from bench.group import StationGroup
from bench.lan_world import DELAY, LanWorld, full_push
from bench.plan import Plan

from roamcast.middleware.settings import MS
from roamcast.mss_station.schema import setting_value

GROUPS = ((5, 1_000), (10, 5_000))
"""(stations, keys) of the recoveries."""

CHANGES = (0, 1, 20)
"""Keys changed while a station was away."""

SPREADS = (3, 10, 30)
"""Stations that one change has to reach."""

DELAY_MS = DELAY / MS
SETTING, LEAST = "attach-burst", 100
"""What is changed, and to what at first."""

PAUSE_S = 0.3
LOOK_S = 0.1
SPREAD_S_MAX = 20.0


class NotEqual(Exception):
    """Stations that can reach each other do not come to hold the same."""


def measure(home: Path, plan: Plan) -> Json:
    """Recoveries and spreads."""
    return {
        "delay_ms": DELAY_MS,
        "recovery": [found for stations, keys in GROUPS for found in recoveries(stations, keys, plan)],
        "spread": [spread(home, stations, plan) for stations in SPREADS],
    }


# ---- recovery, simulated ----


def recoveries(stations: int, keys: int, plan: Plan) -> list[Json]:
    """One station comes back, after so many changes at the others; and what pushing everything to it costs."""
    plan.say(f"lan: recoveries of one of {stations} stations with {keys:,} keys, simulated")
    lan = LanWorld(stations, keys)
    push = full_push(lan.entries.values())
    found = []
    for changes in CHANGES:
        told = lan.recovery(changes)
        if not told["equal"]:
            raise NotEqual(f"{stations} stations with {keys} keys, {changes} changed: not equal after a recovery")
        found.append({"stations": stations, "keys": keys, "changes": changes, **told, "push": push})
    return found


# ---- spread of one change ----


def spread(home: Path, stations: int, plan: Plan) -> Json:
    """`config set` at one of so many stations, again and again: when all of them hold it; and the same simulated."""
    plan.say(f"lan: one change to {stations} stations, simulated")
    simulated = LanWorld(stations, 1, len(setting_value(LEAST))).change()
    if not simulated["equal"]:
        raise NotEqual(f"{stations} stations: not equal after one change")
    plan.say(f"lan: starting {stations} stations")
    with ExitStack() as stack:
        group = StationGroup(home / f"lan-{stations}", stations, ())
        stack.callback(group.close)
        group.wait_linked()
        _take(group.stations)
        _spread_once(group, 0)
        plan.say(f"lan: {plan.lan_changes} changes to {stations} stations")
        rounds = [_spread_once(group, i) for i in range(1, plan.lan_changes + 1)]
    last = [one["last_ms"] for one in rounds]
    return {
        "stations": stations,
        "simulated": simulated,
        "changes": len(rounds),
        "first_p50_ms": percentile([one["first_ms"] for one in rounds], 0.5),
        "last_p50_ms": percentile(last, 0.5),
        "last_max_ms": max(last),
        "frames": sum(one["frames"] for one in rounds) / len(rounds),
        "bytes": sum(one["bytes"] for one in rounds) / len(rounds),
        "rounds": rounds,
    }


def _take(stations: list[Child]) -> list[Json]:
    return [station.ask("lan") for station in stations]


def _spread_once(group: StationGroup, number: int) -> Json:
    """One change: ms until it was durable at the first station and at the last one, and the frames of all."""
    value = str(LEAST + number)
    name = f"{SETTING} {value}"
    began = time.monotonic_ns()
    group.config_set(f"settings/{SETTING}", value)
    time.sleep(PAUSE_S)  # nobody is asked anything meanwhile
    end = time.monotonic() + SPREAD_S_MAX
    frames: list[list[int]] = []
    while True:
        told = _take(group.stations)
        frames += [counted for one in told for counted in one["frames"].values()]
        held = [one["held_at"][name] for one in told if name in one["held_at"]]
        if len(held) == len(group.stations):
            break
        if time.monotonic() > end:
            raise NotEqual(f"{SETTING} = {value} holds at {len(held)} of {len(group.stations)} stations")
        time.sleep(LOOK_S)
    return {
        "first_ms": (min(held) - began) / 1e6,
        "last_ms": (max(held) - began) / 1e6,
        "frames": sum(count for count, _ in frames),
        "bytes": sum(size for _, size in frames),
    }
