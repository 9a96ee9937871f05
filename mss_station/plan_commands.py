"""`mss-station plan`: one flat cluster or several, and what a station has to expect of it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any, Final

from roamcast.middleware.fifo_broadcast.cluster_costs import Load, gain, load, pairs, size_of
from roamcast.mss_station.cluster_text import FLAT, Clusters
from roamcast.mss_station.control import Json
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.tables import columns
from roamcast.transport.limits import SLOT_MAX

RATE: Final = 2.5
FIXED_COST: Final = 100.0
"""R and F where nothing else is said, as measured: docs/protocols/cluster-settings.md."""

NUMBER_MAX: Final = 1e6

HOPS_FLAT: Final = (1, 2, 3)
HOPS_CLUSTERS: Final = (2, 4, 6)
"""Until all have a row, all have it known to be stable, all know that of all: without waiting for a claims tick."""

ABOUT: Final = (
    "Say whether a group of so many stations is better one flat cluster or several, joined in pairs by gateways, by "
    "the load of its busiest station. Print what each receives for a message of the group and, where clusters pay, a "
    "value for settings/clusters, in which s1, s2, ... stand for the ids of your stations."
)
RATE_HELP: Final = (
    "R: frames of control (CLAIMS) that a station sends for each message that every station sends. Measured: 2.5 where "
    "each sends one in every claims tick (20 ms), 9 where in every fifth (default %(default)g)"
)
FIXED_COST_HELP: Final = (
    "F: what a frame costs beside its counters, one of which costs 1 (3 us). Measured: 55 for a frame with one "
    "message, 7 for CLAIMS; with 100 for both the rule turns near where these do (default %(default)g)"
)
EPILOG: Final = "example: mss-station plan --stations 100; exit codes: 0 done, 2 wrong use"


def add_parsers(commands: Any) -> None:
    """Add `plan` to the commands."""
    about = "one cluster or several, for so many stations"
    one = commands.add_parser("plan", help=about, description=ABOUT, epilog=EPILOG)
    one.add_argument("--stations", type=int, required=True, metavar="N", help=f"how many, 1 to {SLOT_MAX}")
    one.add_argument("--rate", type=float, default=RATE, metavar="R", help=RATE_HELP)
    one.add_argument("--fixed-cost", type=float, default=FIXED_COST, metavar="F", help=FIXED_COST_HELP)
    one.add_argument("--json", action="store_true", help="for a program")
    one.set_defaults(action=show)


def show(options: argparse.Namespace) -> str:
    """The recommendation."""
    if not 1 <= options.stations <= SLOT_MAX:
        raise WrongUse(f"--stations must be from 1 to {SLOT_MAX}, not {options.stations}")
    for name, value in (("--rate", options.rate), ("--fixed-cost", options.fixed_cost)):
        if not 0 <= value <= NUMBER_MAX:
            raise WrongUse(f"{name} must be a number from 0 to {NUMBER_MAX:,.0f}, not {value:g}")
    plan = plan_of(options.stations, options.rate, options.fixed_cost)
    return json.dumps(plan, indent=1) if options.json else table(plan)


def plan_of(stations: int, rate: float, fixed: float) -> Json:
    """What is recommended for so many stations, and what each kind of process has to expect; plain data."""
    ratio = gain(stations, rate, fixed)
    flat: Json = {
        "clusters": 1,
        "size": stations,
        "gateways": 0,
        "station": _rounded(load(stations, stations, 1, rate, fixed)),
        "gateway": None,
        "hops": HOPS_FLAT,
    }
    told: Json = {"stations": stations, "rate": rate, "fixed_cost": fixed, "gain": round(ratio, 3)}
    if ratio <= 1:
        return {**told, "recommended": FLAT, "flat": flat, "pairs": None, "setting": ""}
    layout, size = pairs(stations), size_of(stations)
    ids = [tuple(f"s{slot}" for slot in slots) for slots in layout.clusters]
    names = [f"c{number}" for number in range(1, len(ids) + 1)]
    split: Json = {
        "clusters": len(ids),
        "size": round(size, 1),
        "gateways": len(layout.standbys),
        "station": _rounded(load(stations, size, 1, rate, fixed)),
        "gateway": _rounded(load(stations, size, 2, rate, fixed)),
        "hops": HOPS_CLUSTERS,
    }
    standbys = tuple(f"s{slot}" for slot in sorted(layout.standbys))
    setting = str(Clusters(tuple(zip(names, ids, strict=True)), standbys))
    return {**told, "recommended": "pairs", "flat": flat, "pairs": split, "setting": setting}


def _rounded(one: Load) -> Json:
    return {name: round(value, 3) for name, value in asdict(one).items()}


def table(plan: Json) -> str:
    """The plan as a person reads it."""
    flat, split = plan["flat"], plan["pairs"]
    rows = [["one flat cluster", "every station", *_load(flat["station"]), _hops(flat["hops"])]]
    if split is None:
        number = f"{plan['stations']} stations" if plan["stations"] > 1 else "1 station"
        first = f"{number}: one flat cluster, which is the default (settings/clusters {FLAT})"
    else:
        first = (
            f"{plan['stations']} stations: {split['clusters']} clusters of about {split['size']:g}, any two with a "
            f"gateway and a standby; the busiest station has {plan['gain']:.2f} times less to do"
        )
        rows.append([f"{split['clusters']} clusters", "a station", *_load(split["station"]), _hops(split["hops"])])
        rows.append(["", "a gateway, a standby", *_load(split["gateway"]), ""])
    head = ["", "who", "frames", "cells", "hops until all have it / it is stable / all know that"]
    lines = [first, "", "Received for each message of the group:", "", *columns(head, rows)]
    lines.append(f"A cell is a counter that is looked at; a frame costs {plan['fixed_cost']:g} more.")
    if split is not None:
        lines += ["", "mss-station config set DIR settings/clusters \\", f"  '{plan['setting']}'"]
    return "\n".join(lines)


def _load(told: Json) -> tuple[str, str]:
    return f"{told['pdus']:.2f}", f"{told['cells']:.0f}"


def _hops(hops: tuple[int, ...]) -> str:
    return " / ".join(map(str, hops))
