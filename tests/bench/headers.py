"""Bytes of header per message, on the host link and between stations: they must not depend on the number of hosts.

Counters are written in as many bytes as they need. So positions and the stations' numbers are brought to 256..65535
first, and the numbers of the two hosts that publish to 24..255.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.child import Json
from bench.group import StationGroup, seats
from bench.plan import Plan

BODY_BYTES = 128
WARM_UP = 520
"""Messages of two other hosts."""

LEAD_IN = 50
MEASURED = 50


def measure(home: Path, hosts: int, plan: Plan) -> Json:
    """Two stations, half of `hosts` at each, one host of each publishing in turn, one message at a time."""
    plan.say(f"headers: two stations with {hosts} hosts")
    with ExitStack() as stack:
        everybody = seats(hosts, 2)
        group = StationGroup(home / f"headers-{hosts}", 2, everybody)
        stack.callback(group.close)
        fleet = group.fleet()
        stack.callback(fleet.close)
        fleet.ask("attach")
        load: Json = {"seconds": 60.0, "body_bytes": BODY_BYTES, "rate": 0.0}
        fleet.ask("round", on_the_way=40, publishers=[2, 3], count=WARM_UP, **load)
        load |= {"publishers": [0, 1], "on_the_way": 1 / hosts}
        fleet.ask("round", count=LEAD_IN, **load)
        for station in group.stations:
            station.ask("peer_frames")
        told = fleet.ask("round", count=MEASURED, **load)
        counted = [station.ask("peer_frames") for station in group.stations]
        content = BODY_BYTES + len(everybody[0].name)
        frames, size = (sum(frames["DataBatch"][i] for frames in counted) for i in (0, 1))
        claims = [sum(frames.get("Claims", [0, 0])[i] for frames in counted) for i in (0, 1)]
        return {
            "hosts": hosts,
            "host_link": told["header_bytes"] / told["deliveries"],
            "between_stations": size / frames - content,
            "claims_frame": claims[1] / max(1, claims[0]),
            "messages_per_frame": told["deliveries"] / told["frames"],
        }
