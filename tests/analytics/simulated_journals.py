"""Runs of the simulator in which every agent keeps a witness journal, as the audit reads it: in memory, at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import audit_events
import pytest

from roamcast.analytics.evidence import Segment
from roamcast.middleware.simulator import host_node
from roamcast.middleware.simulator.run import Simulation, play
from roamcast.middleware.simulator.scenario import draw
from roamcast.middleware.simulator.station_node import WALL_ZERO
from roamcast.transport import witness

Key = tuple[str, int, int]
"""(host, incarnation, life)"""


class Folders:
    """The journals of one run; what a life of an agent has written under one incarnation is a segment."""

    def __init__(self) -> None:
        self.rows: dict[Key, list[audit_events.Row]] = {}
        self.whole: set[Key] = set()
        self.lives = 0

    def segments(self) -> list[Segment]:
        """In the order in which they were begun. Those of processes that were killed have no end."""
        made, seqs = [], defaultdict[tuple[str, int], int](int)
        for key, rows in self.rows.items():
            name, incarnation, _ = key
            seqs[name, incarnation] += 1
            header = {"writer": "journal", "id": name, "incarnation": incarnation, "seq": seqs[name, incarnation]}
            made.append(audit_events.segment(rows, header, "unsigned" if key in self.whole else "open"))
        return made


def journaled(
    scenario: str, seed: int, patch: pytest.MonkeyPatch, mutants: frozenset[str] = frozenset(), **overrides: Any
) -> tuple[Simulation, Folders, str]:
    """Play one seed. Returns the simulation, its journals, and the promise that its own judge found broken, if any."""
    folders = Folders()
    simulation = Simulation(seed, draw(scenario, seed, overrides), mutants)
    cores: list[witness.WitnessedCore] = []

    class Folder:
        """In place of a `SegmentFolder`."""

        problem, unwritten = None, 0

        def __init__(self, _path: Path, header: Any) -> None:
            folders.lives += 1
            self._life, self._header = folders.lives, header

        def write(self, events: Sequence[Any], _wall: int, owner: int) -> None:
            rows = folders.rows.setdefault((self._header(1, b"", "", 0).id, owner, self._life), [])
            rows += [(wall, event, values) for event, wall, values in events]

        def close(self, _wall: int, whole: bool) -> None:
            folders.whole |= {key for key in folders.rows if key[2] == self._life and whole}

    class Core(witness.WitnessedCore):
        """Writes at the end of each tick."""

        def __init__(self, **arguments: Any) -> None:
            super().__init__(Path(), "g", ExitStack(), **arguments)
            cores.append(self)

    patch.setattr(witness, "SegmentFolder", Folder)
    patch.setattr(witness, "BATCH_EVENTS", 1)
    patch.setattr(witness, "_wall", lambda: WALL_ZERO + simulation.world.now)
    patch.setattr(host_node, "AgentCore", Core)
    rule = play(scenario, seed, simulation).rule
    for host in simulation.hosts:
        if isinstance(host.core, Core):
            host.core.begin(simulation.world.now)
            host.core._release()
    return simulation, folders, rule


def names(simulation: Simulation) -> list[audit_events.Row]:
    """What tells the audit how the hosts are called: for the beginning of a station's log."""
    return [(WALL_ZERO - 1, "host", (host.number, host.name)) for host in simulation.hosts]
