"""A small group with honest logs in which hosts subscribe and speak on topics."""

from __future__ import annotations

from typing import Any

import audit_events
from audit_world import INCARNATION, A, B, C, World

from roamcast.analytics.evidence import Segment
from roamcast.middleware.rows import PRESENCE, Kind

TOPIC, OTHER = 7, 9
DAY = 86_400_000_000


class TopicWorld(World):
    """Hosts are given what they are subscribed to, as the order of their station has it."""

    def is_meant(self, host: int, position: int, facts: list[Any]) -> bool:
        kind = Kind(facts[2])
        if kind in (Kind.SUB, Kind.UNSUB, Kind.NOSUB):
            return bool(facts[3] == host)
        if kind in (Kind.TOPIC, Kind.RETAINED, Kind.CLEAR, Kind.ONLINE, Kind.OFFLINE):
            return self.is_subscribed(host, facts[9], position)
        return super().is_meant(host, position, facts)

    def is_subscribed(self, host: int, topic: int, position: int) -> bool:
        order = self.order[self.at[host]]
        changes = [
            facts
            for message, facts in self.rows.items()
            if facts[2] in (Kind.SUB, Kind.UNSUB, Kind.NOSUB) and facts[3] == host and facts[9] == topic
            if message[1] <= self.base[host][message[0]] or (message in order and order.index(message) + 1 < position)
        ]
        return bool(changes) and max(changes, key=lambda facts: int(facts[5]))[2] == Kind.SUB

    def say(self, host: int, kind: Kind, topic: int = TOPIC) -> tuple[int, int]:
        """The host sends on a topic, or asks for it; its station orders that at once."""
        self.number[host] += 1
        taken = (self.e[host], self.acked[host])
        self.journal[host].append([self.now, "sent", [self.number[host], *taken, f"#{topic}"]])
        self._make(self.at[host], kind, host, INCARNATION[host], self.number[host], taken, topic)
        return next(reversed(self.rows))

    def attached(self, host: int, there: bool = True) -> tuple[int, int]:
        """Its station says that the host is attached, or away."""
        kind = Kind.ONLINE if there else Kind.OFFLINE
        joined = 1_800_000_000_000_000  # far beyond any session
        self._make(self.at[host], kind, host, INCARNATION[host], self.e[host], (joined, 0), PRESENCE | host)
        return next(reversed(self.rows))

    def everybody(self) -> None:
        """All stations have everything, and all hosts what they are owed."""
        self.spread()
        for host in (A, B, C):
            self.ack(host)

    def ended(self, host: int, sub: tuple[int, int], e: int, c: int, last: int, topic: int = TOPIC) -> None:
        """A right went, and with it the SUB (`0, 0`: all of them)."""
        self.log(self.at[host], "ended", host, INCARNATION[host], topic, *sub, e, c, last)

    def days(self, count: int) -> list[Segment]:
        """The logs, one closed segment for each station and UTC day."""
        made: list[Segment] = []
        first = min(row[0] for log in self.logs.values() for row in log) // DAY
        for slot, log in self.logs.items():
            prev = b""
            for day in range(count):
                begin = (first + day) * DAY
                rows = [(w, event, tuple(values)) for w, event, values in log if begin <= w < begin + DAY]
                header = {"slot": slot, "id": f"station{slot}", "seq": day + 1, "prev": prev, "opened": begin}
                segment = audit_events.segment(rows, header)
                segment.closed = begin + DAY
                prev = segment.end
                made.append(segment)
        return made


def topics() -> TopicWorld:
    """Bob speaks on the topic: 2:2, 2:3, 2:4, 2:6; cid once, 1:4. Ann is subscribed from 1:3 on, and not from 2:5 on.

    She has 2:3 at station 1, then moves to station 2 and has 1:4 and 2:4 there. Bob is subscribed to her presence, by
    2:7; that she is attached is 2:8. At last cid broadcasts 1:5. Everybody acknowledges everything.
    """
    world = begun()
    world.say(B, Kind.TOPIC)
    world.everybody()
    assert world.say(A, Kind.SUB) == (1, 3)
    world.everybody()
    assert world.say(B, Kind.TOPIC) == (2, 3)
    world.everybody()
    assert world.say(C, Kind.RETAINED) == (1, 4)
    world.spread()
    world.attach(A, 2)
    world.everybody()
    world.say(B, Kind.CLEAR)
    world.everybody()
    assert world.say(A, Kind.UNSUB) == (2, 5)
    world.everybody()
    assert world.say(B, Kind.TOPIC) == (2, 6)
    world.everybody()
    assert world.say(B, Kind.SUB, PRESENCE | A) == (2, 7)
    world.everybody()
    assert world.attached(A) == (2, 8)
    world.everybody()
    assert world.send(C) == (1, 5)
    world.everybody()
    return world


def begun() -> TopicWorld:
    """Ann and cid at station 1, bob at 2; nobody has said anything."""
    world = TopicWorld()
    for host in (A, C, B):
        world.enrol(host)
    world.spread()
    for host, station in ((A, 1), (C, 1), (B, 2)):
        world.attach(host, station)
    return world
