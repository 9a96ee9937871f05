"""What a message on a topic costs a station, with 1,000 hosts attached: beside a broadcast to as many hosts as are
subscribed, by a station that has no others, and beside a bare relay to as many.

Station, topic, broadcast and relay go in turn; of each the cheapest round counts. What the station uses while nobody
sends (pings of 1,000 hosts) is measured before and taken off, so that a message to ten hosts is not charged for the
pings of the others; collection is in it. Topics are sent on in turn, by one host.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.child import Json, difference
from bench.fan_out import BODY_BYTES, ON_THE_WAY, PACED, PACED_DELIVERIES, SATURATED, Side
from bench.group import RelayGroup, StationGroup, seats
from bench.plan import Plan

HOSTS = 1_000
SHARES = (0.01, 0.1, 1.0)
RATE = 40
"""At most so many messages a second in a paced round: with 1,000 hosts a station ends a tick every 20 ms at most."""

IDLE_S = 2.0
TOPIC, BROADCAST, BARE = "topic", "broadcast", "bare"


@dataclass(frozen=True, slots=True)
class Case:
    """How hosts are subscribed."""

    topics: int
    share: float
    """Of the hosts, that is subscribed to each topic."""
    same: bool = False
    """The same hosts to all topics; else to each as many as were drawn for it."""

    def subscribed(self, hosts: Sequence[str]) -> dict[str, list[str]]:
        """By topic, who is subscribed."""
        rng, size = random.Random(str(self)), round(self.share * len(hosts))
        first = rng.sample(hosts, size)
        return {f"topic{i:04d}": first if self.same else rng.sample(hosts, size) for i in range(self.topics)}


def cases(plan: Plan) -> list[Case]:
    """All of a run."""
    drawn = [Case(topics, share) for topics in plan.topics for share in SHARES]
    same = [Case(topics, share, True) for topics in plan.topics for share in SHARES[1:-1] if topics > 1]
    return sorted(drawn + same, key=lambda case: (case.topics, case.share))


class Measured(Side):
    """A server and its hosts, and what they cost when nobody sends."""

    def __init__(self, stack: ExitStack, group: StationGroup | RelayGroup) -> None:
        super().__init__(stack, group)
        self._idle = 0.0
        self._idle = self._used({"seconds": IDLE_S}, "idle")["us"] / IDLE_S

    def paced_or_not(self, seconds: float, rate: float, audiences: Sequence[tuple[str, int]] = ()) -> Json:
        """One round: what a message costs."""
        asked = {"seconds": seconds, "body_bytes": BODY_BYTES, "rate": rate, "on_the_way": ON_THE_WAY}
        told = self._used({**asked, "audiences": audiences}, "round")
        messages, deliveries = told["messages"], told["deliveries"]
        return {
            "us_per_message": told["us"] / messages,
            "us_per_delivery": told["us"] / deliveries,
            "messages": messages,
            "deliveries": deliveries,
            "messages_per_tick": messages / told["commits"] if told["commits"] else None,
            "messages_per_frame": deliveries / told["frames"],
            "header_bytes": told["header_bytes"] / deliveries,
        }

    def _used(self, asked: Json, command: str) -> Json:
        """CPU of the server while its hosts do so, us, less what it uses anyway; and what they tell."""
        before, began = self.server.ask("usage"), time.monotonic()
        told = self.fleet.ask(command, **asked)
        used = difference(self.server.ask("usage"), before)
        us = 1e6 * used["cpu_s"] - self._idle * (time.monotonic() - began)
        return {**told, "us": us, "commits": used.get("counters", {}).get("commits", 0)}


class References:
    """Stations and bare relays with 1 %, 10 % and 100 % of the hosts, to whom is broadcast."""

    def __init__(self, stack: ExitStack, home: Path, sizes: Sequence[int], plan: Plan) -> None:
        self._sides: dict[tuple[str, int], Measured] = {}
        for size in sizes:
            plan.say(f"topics: a station and a bare relay with {size} hosts")
            groups: dict[str, StationGroup | RelayGroup] = {
                BROADCAST: StationGroup(home / f"all-{size}", 1, seats(size, 1)),
                BARE: RelayGroup(home / f"bare-{size}", 1, seats(size, 1)),
            }
            for name, group in groups.items():
                self._sides[name, size] = Measured(stack, group)

    def of(self, size: int) -> dict[str, Measured]:
        """Those with so many hosts."""
        return {name: self._sides[name, size] for name in (BROADCAST, BARE)}


def measure(home: Path, plan: Plan, hosts: int = HOSTS) -> list[Json]:
    """All cases."""
    with ExitStack() as stack:
        every = cases(plan)
        references = References(stack, home, sorted({round(case.share * hosts) for case in every}), plan)
        return [_case(home, plan, case, hosts, references) for case in every]


def _case(home: Path, plan: Plan, case: Case, hosts: int, references: References) -> Json:
    """Rounds of one case, saturated and paced, with the broadcasts to as many hosts between them."""
    size = round(case.share * hosts)
    plan.say(f"topics: {case.topics} topics, {size} of {hosts} hosts subscribed to each{' (the same)' * case.same}")
    everybody = seats(hosts, 1)
    subscribed = case.subscribed([seat.name for seat in everybody])
    with ExitStack() as stack:
        where = home / f"topics-{case.topics}-{size}-{case.same}"
        side = Measured(stack, StationGroup(where, 1, everybody, subscribed=subscribed))
        audiences = [(topic, len(names)) for topic, names in subscribed.items()]
        random.Random(case.topics).shuffle(audiences)
        rounds: dict[str, list[Json]] = {}
        for _ in range(plan.repeats):
            for mode, rate in ((SATURATED, 0.0), (PACED, min(RATE, PACED_DELIVERIES / size))):
                told = side.paced_or_not(plan.round_s, rate, audiences)
                rounds.setdefault(f"{TOPIC} {mode}", []).append(told)
                for name, other in references.of(size).items():
                    rounds.setdefault(f"{name} {mode}", []).append(other.paced_or_not(plan.round_s, rate))
        return {
            "topics": case.topics,
            "subscribers": size,
            "same": case.same,
            "hosts": hosts,
            "per_host": sum(map(len, subscribed.values())) / hosts,
            "best": {name: min(told, key=lambda one: one["us_per_message"]) for name, told in rounds.items()},
        }
