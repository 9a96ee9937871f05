"""What must be true of topics when nothing happens any more: one last value everywhere, and true presence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roamcast.middleware.rows import PRESENCE
from roamcast.middleware.writes import LastValue

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation


def _values(simulation: Simulation) -> tuple[dict[int, LastValue], list[str]]:
    """Of each topic the value that the stations have, and where they differ."""
    found: dict[int, tuple[int, LastValue]] = {}
    left = []
    serving = [slot for slot in simulation.slots if simulation.stations[slot].serves()]
    for slot in serving:
        simulation.stations[slot].disk.sync()
        for topic, value in simulation.stations[slot].disk.state.last.items():
            other, known = found.setdefault(topic, (slot, value))
            if known.order != value.order:
                left.append(f"topic {topic}: station {slot} has {value.order}, station {other} {known.order}")
    for topic, (other, _) in found.items():
        lacking = [slot for slot in serving if topic not in simulation.stations[slot].disk.state.last]
        if lacking:
            left.append(f"topic {topic}: station {other} has a last value, stations {lacking} have none")
    return {topic: value for topic, (_, value) in found.items()}, left


def values_differ(simulation: Simulation, names: Sequence[str]) -> list[str]:
    """Stations and subscribers that do not agree on the newest value of a topic."""
    values, left = _values(simulation)
    if not simulation.rights.names or left:
        return left
    told = {
        name: ((value.order[0], value.order[1]), value.cleared)
        for name in simulation.rights.names
        if (value := values.get(simulation.rights.number(name))) is not None
    }
    for name in names:
        differing = simulation.judge.topics.differing(simulation.judge.current[name], told)
        left += [differing] if differing else []
    return left


def subscriptions_differ(simulation: Simulation, names: Sequence[str]) -> list[str]:
    """Hosts that believe to be subscribed to something else than their station does."""
    left = []
    for slot in simulation.slots:
        core = simulation.stations[slot].core
        for record in core.ledger.channels.values() if core is not None else ():
            name = core.ledger.name_of(record.mh[0]) if core is not None else ""
            if core is None or name not in names:
                continue
            there = set(core.subscriptions.names(record))
            here = simulation.judge.topics.of(simulation.judge.current[name]).subs.keys()
            if there != here:
                left.append(f"{name} is subscribed to {sorted(there)} at {slot}, and believes {sorted(here)}")
    return left


def shown(simulation: Simulation) -> list[str]:
    """Hosts whose presence is not what the stations say."""
    if not simulation.rights.presence:
        return []
    values, left = _values(simulation)
    for host in simulation.hosts:
        value = values.get(PRESENCE | host.number)
        attached = host.connection is not None and host.radio_on and not host.left
        says = value is not None and not value.order[2]
        if value is not None and says != attached:
            left.append(f"{host.name} is said to be {'attached' if says else 'away'} ({value.order})")
        if value is None and attached:
            left.append(f"nobody has said that {host.name} is attached")
    return left
