"""A small group with honest logs in which hosts also speak live: ann and cid at station 1, bob at 2."""

from __future__ import annotations

from typing import Any

from audit_world import INCARNATION, A, B, C, World

DELTA, DEADLINE = 60_000_000, 40_000_000
"""us; rows of `World` are a second apart."""

Name = tuple[int, int]
"""(slot, stamp)"""


class LiveWorld(World):
    """`live` takes a message; `hand` hands it down at a station, to hosts that have journals."""

    def __init__(self) -> None:
        super().__init__()
        self.past: dict[int, dict[int, int]] = {1: {}, 2: {}}
        """Station -> slot -> newest stamp that came before."""
        self.lives: dict[Name, list[Any]] = {}

    def live(self, host: int, to: int = 0) -> Name:
        station = self.at[host]
        self.now += 1_000
        stamp = self.now
        past = [number for slot, newest in self.past[station].items() for number in (slot, newest)]
        floor = [value for slot in (1, 2) if self.vector[station][slot] for value in (slot, self.vector[station][slot])]
        self.past[station] = {station: stamp}
        facts = [
            stamp, host, INCARNATION[host], self.e[host], self.number[host], 1 if to else 0, to, DELTA, DEADLINE, 20, 0,
            past, floor,
        ]  # fmt: skip
        self.logs[station].append([self.now, "live", facts])
        self.lives[station, stamp] = facts
        return station, stamp

    def hand(self, name: Name, station: int, *hosts: int, reading: int = 0) -> list[Any]:
        self.now += 1_000
        slot, stamp = name
        row = [self.now, "handed", [slot, stamp, len(self.order[station]), reading or stamp + 2_000, len(hosts) or 1]]
        self.logs[station].append(row)
        self.past[station] = {station: 0, **self.past[station], slot: stamp}
        self.past[station] = {slot: stamp for slot, stamp in self.past[station].items() if stamp}
        for host in hosts:
            self.hear(host, name)
        return row

    def hear(self, host: int, name: Name, left: int = 100_000) -> list[Any]:
        given = [self.e[host], max(0, self.acked[host]), *name, self.number[host], left]
        row = [self.now, "heard", given]
        self.journal[host].append(row)
        return row

    def miss(self, station: int, cause: int, count: int, slot: int = 0) -> None:
        self.log(station, "missed", cause, slot, count)


def lively() -> tuple[LiveWorld, Name, Name]:
    """Bob broadcasts 2:2; ann speaks live (x); bob is given that and answers live (y); all hand both down."""
    world = LiveWorld()
    for host in (A, C, B):
        world.enrol(host)
    world.spread()
    for host, station in ((A, 1), (C, 1), (B, 2)):
        world.attach(host, station)
    assert world.send(B) == (2, 2)
    world.spread()
    for host in (A, B, C):
        world.ack(host)
    x = world.live(A)
    world.hand(x, 1, C)
    world.hand(x, 2, B)
    y = world.live(B)
    world.hand(y, 1, A, C)
    world.miss(2, 6, 3, slot=1)
    world.miss(2, 11, 1)
    assert world.send(A) == (1, 3)
    world.spread()
    for host in (A, B, C):
        world.ack(host)
    return world, x, y
