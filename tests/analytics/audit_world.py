"""A small group with honest logs: two stations, three hosts, a handoff, mail. Tests then change one thing."""

from __future__ import annotations

from typing import Any

import audit_events

from roamcast.analytics.engine import Report
from roamcast.analytics.evidence import Segment
from roamcast.middleware.delivery_log import EVENTS

NOON = 1_800_014_400_000_000
"""us; 12:00 of 2027-01-15, UTC"""

A, B, C = 1 << 32 | 1, 2 << 32 | 1, 1 << 32 | 2
NAMES = {A: "ann", B: "bob", C: "cid"}
INCARNATION = {A: (1 << 64) - 5, B: 77, C: 12}
STEP = 1_000_000


class World:
    """Logs of two stations as rows [wall, event, values] that may be changed."""

    def __init__(self) -> None:
        self.now = NOON
        self.left_out: dict[int, tuple[int, int]] = {}
        """Station -> a message that it never orders."""
        self.logs: dict[int, list[list[Any]]] = {1: [], 2: []}
        self.journal: dict[int, list[list[Any]]] = {A: [], B: [], C: []}
        self.rows: dict[tuple[int, int], list[Any]] = {}
        self.order: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.vector = {1: [0, 0, 0], 2: [0, 0, 0]}
        self.stamped = {1: [0, 0, 0], 2: [0, 0, 0]}
        self.hlc = {1: 0, 2: 0}
        self.at: dict[int, int] = {}
        self.e = dict.fromkeys(NAMES, 0)
        self.acked: dict[int, int] = {}
        self.base: dict[int, list[int]] = {}
        self.number = dict.fromkeys(NAMES, 0)

    def log(self, station: int, event: str, *values: Any) -> list[Any]:
        self.now += STEP
        row = [self.now, event, list(values)]
        self.logs[station].append(row)
        return row

    # ---- rows ----

    def _make(self, station: int, kind: int, host: int, incarnation: int, number: int, taken: Any, to: int) -> None:
        n = sum(1 for slot, _ in self.rows if slot == station) + 1
        self.hlc[station] = max(self.now + STEP, self.hlc[station] + 1)
        changed = [k for k in (1, 2) if k != station and self.vector[station][k] != self.stamped[station][k]]
        stamp = [number for k in changed for number in (k, self.vector[station][k])]
        self.stamped[station] = list(self.vector[station])
        facts = [station, n, kind, host, incarnation, number, self.hlc[station], *taken, to, 40, stamp]
        self.rows[station, n] = facts
        self.place(station, (station, n))

    def place(self, station: int, message: tuple[int, int]) -> None:
        """The station orders a message."""
        self.order[station].append(message)
        facts = list(self.rows[message])
        if message[0] != station:
            facts[-1] = []
        self.log(station, "order", len(self.order[station]), *facts)
        self.vector[station][message[0]] = message[1]
        self.hlc[station] = max(self.hlc[station], facts[6])

    def spread(self) -> None:
        """Every station orders what it does not have."""
        for station in self.logs:
            for message in self.rows:
                if message not in self.order[station] and message != self.left_out.get(station):
                    self.place(station, message)

    # ---- hosts ----

    def enrol(self, host: int) -> None:
        station = host >> 32
        self.log(station, "host", host, NAMES[host])
        self.base[host] = list(self.vector[station])
        self.log(station, "member", host, 0, 0, list(self.base[host]))
        self._make(station, 3, host, 0, 0, (0, 0), 0)

    def attach(self, host: int, station: int, gap: bool = False) -> None:
        """A new session, at the same or another station; what the host has acknowledged is not given again."""
        le, c = self.e[host], self.acked.get(host, 0)
        if le:
            self.base[host] = self.had(host)
            if self.at[host] != station:
                self.log(self.at[host], "handoff", host, INCARNATION[host], le + 1, station)
        self.log(station, "host", host, NAMES[host])
        self.e[host], self.at[host], self.acked[host] = le + 1, station, -1
        who = (host, INCARNATION[host])
        self.log(station, "session", *who, le + 1, -1, le, c if le else 0, gap, list(self.base[host]), [])
        self.log(station, "ack", *who, le + 1, -1)

    def had(self, host: int) -> list[int]:
        """What the host has, as a vector."""
        vector = list(self.base[host])
        for slot, n in self.order[self.at[host]][: max(0, self.acked[host])]:
            vector[slot] = max(vector[slot], n)
        return vector

    def ack(self, host: int) -> None:
        """The host is given all that its station has ordered, and acknowledges it."""
        station, before = self.at[host], max(0, self.acked[host])
        for position, message in enumerate(self.order[station], 1):
            facts = self.rows[message]
            meant = self.is_meant(host, position, facts)
            if position > before and meant and message[1] > self.base[host][message[0]]:
                given = [self.e[host], position, *message, facts[4] & 0xFFFFFFFF, facts[5]]
                self.journal[host].append([self.now, "given", given])
        self.acked[host] = len(self.order[station])
        self.log(station, "ack", host, INCARNATION[host], self.e[host], self.acked[host])

    def is_meant(self, host: int, position: int, facts: list[Any]) -> bool:
        """Whether a message that stands at a position of the host's station is for it."""
        return bool(facts[2] == 0 or (facts[2] == 1 and facts[9] == host))

    def send(self, host: int, to: int = 0) -> tuple[int, int]:
        """The host sends; its station orders the message at once."""
        self.number[host] += 1
        taken = (self.e[host], self.acked[host])
        self.journal[host].append([self.now, "sent", [self.number[host], *taken, NAMES.get(to, "")]])
        self._make(self.at[host], 1 if to else 0, host, INCARNATION[host], self.number[host], taken, to)
        return next(reversed(self.rows))

    # ---- what the audit reads ----

    def find(self, station: int, event: str, **wanted: Any) -> list[Any]:
        """The one row of a log with these values."""
        names = list(EVENTS[event])
        found = [
            row
            for row in self.logs[station]
            if row[1] == event and all(row[2][names.index(name)] == value for name, value in wanted.items())
        ]
        assert len(found) == 1, (event, wanted, found)
        return found[0]

    def change(self, station: int, event: str, wanted: dict[str, Any], **values: Any) -> None:
        """Change columns of the one row with these values."""
        row = self.find(station, event, **wanted)
        for name, value in values.items():
            row[2][list(EVENTS[event]).index(name)] = value

    def segments(self, size: int = 9, journals: tuple[int, ...] = ()) -> list[Segment]:
        """The logs, cut into closed segments; each names the heads of the other station."""
        made: dict[int, list[Segment]] = {}
        for slot, log in self.logs.items():
            rows = [(wall, event, tuple(values)) for wall, event, values in log]
            made[slot] = audit_events.segments(rows, size, slot=slot, id=f"station{slot}")
        for slot, line in made.items():
            other = made[3 - slot]
            line[-1].header["peers"] = {3 - slot: (len(other), other[-1].end)}  # type: ignore[index]
        for host in journals:
            rows = [(wall, event, tuple(values)) for wall, event, values in self.journal[host]]
            header = {"writer": "journal", "id": NAMES[host], "incarnation": INCARNATION[host]}
            made[-host] = audit_events.segments(rows, size, **header)
            for segment in made[-host]:
                segment.status = "unsigned"
        return [segment for line in made.values() for segment in line]


def story(left_out: dict[int, tuple[int, int]] | None = None) -> World:
    """Ann and cid at station 1, bob at 2. Messages 1:3 (ann), 2:2 (bob, after it), 1:4 (mail ann to bob), 1:5 (ann).

    Ann moves to station 2 without having been given 2:3 and sends 2:4 there; everybody acknowledges everything.
    """
    world = World()
    world.left_out = left_out or {}
    for host in (A, C, B):
        world.enrol(host)
    world.spread()
    for host, station in ((A, 1), (C, 1), (B, 2)):
        world.attach(host, station)
    assert world.send(A) == (1, 3)
    world.spread()
    world.ack(B)
    assert world.send(B) == (2, 2)
    world.spread()
    world.ack(A)
    assert world.send(A, to=B) == (1, 4)
    assert world.send(A) == (1, 5)
    world.spread()
    world.ack(B)
    assert world.send(B) == (2, 3)
    world.attach(A, 2)
    world.ack(A)
    assert world.send(A) == (2, 4)
    world.spread()
    for host in (A, B, C):
        world.ack(host)
    return world


def of_severity(report: Report, *severities: str) -> list[dict[str, object]]:
    return [row for row in report.findings.to_pylist() if row["severity"] in severities]
