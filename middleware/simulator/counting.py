"""What a run did, in numbers for the campaign's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation

FRAMES = ("State", "Spooled", "SpoolPart", "NoRec", "Expire", "Pull", "Body", "Keep")
"""Frames between stations that are counted."""


def counts(simulation: Simulation) -> dict[str, int]:
    """All of it."""
    judge, live = simulation.judge, simulation.live
    return {
        "messages": len(judge.messages),
        "deliveries": judge.deliveries,
        "crashes": sum(station.crashes for station in simulation.stations.values()),
        "kills": sum(host.kills for host in simulation.hosts),
        "cuts": simulation.radio.cuts,
        "events": simulation.world.events_run,
        "values": judge.topics.values,
        **{name: simulation.wired.counts.get(name, 0) for name in FRAMES},
        **(_clusters(simulation) if simulation.options.clusters else {}),
        **({"live": live.sent, "live-given": live.given} if simulation.options.live else {}),
        "given-up": 0 if judge.losses is None else len(judge.losses.bodies),
    }


def _clusters(simulation: Simulation) -> dict[str, int]:
    stations = simulation.stations.values()
    parted = sum(event[1:2] == ("notice",) and event[4] == "clusters-parted" for event in simulation.trace.events)
    return {name: sum(node.sends[name] for node in stations) for name in next(iter(stations)).sends} | {
        "parted": parted
    }
