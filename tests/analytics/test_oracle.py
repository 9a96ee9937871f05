"""Random histories against happened-before as a transitive closure, computed by brute force from what hosts did.

Some of it is sent on topics, to hosts that have subscribed at the beginning. Per host: the audit finds a violation of
order if and only if the closure has one, and every causal pair that it names is in the closure. Source: audit.md 3.2,
'Verified'.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import combinations

import audit_events
import pytest

from roamcast.analytics import engine_local
from roamcast.analytics.checks import causal
from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.middleware.rows import Kind

BEGIN = 1_800_000_000_000_000
ORDER_KINDS = ("causal", "fifo_sender")
Message = tuple[int, int]


@dataclass
class Life:
    """A host: what it was given and what it sent, in order."""

    number: int
    events: list[tuple[str, Message]] = field(default_factory=list)
    owed: list[Message] = field(default_factory=list)
    topics: set[int] = field(default_factory=set)
    clock: int = 0
    sent: int = 0


class Wild:
    """A random history. Hosts are given what they are owed in causal order, or, sometimes, in any."""

    def __init__(self, rng: random.Random, clock_is_right: bool = True) -> None:
        self.rng = rng
        self.hosts = [Life(slot << 32 | i) for i, slot in enumerate(rng.choices((1, 2, 3), k=rng.randint(2, 5)), 1)]
        self.facts: dict[Message, list[object]] = {}
        self.sender: dict[Message, Life] = {}
        self.clock_is_right = clock_is_right
        wild, mail = rng.choice((0.0, 0.02, 0.1, 0.5, 1.0)), rng.choice((0.0, 0.3, 0.7))
        topic = rng.choice((0.0, 0.0, 0.3, 0.7))
        for host in self.hosts if topic else ():
            for number in rng.sample((1, 2, 3), rng.randint(0, 3)):
                host.topics.add(number)
                self.enter(host, Kind.SUB, number, [host])
        for _ in range(rng.randint(5, 60)):
            host = rng.choice(self.hosts)
            if rng.random() < rng.choice((0.3, 0.6)):
                self.send(host, mail, topic)
            else:
                self.give(host, wild)
        if rng.random() < 0.7:
            for host in self.hosts:
                while host.owed:
                    self.give(host, wild)

    def send(self, host: Life, mail: float, topic: float) -> None:
        if self.rng.random() < topic:
            number = self.rng.randint(1, 3)
            self.enter(host, Kind.TOPIC, number, [other for other in self.hosts if number in other.topics])
        elif self.rng.random() < mail:
            to = self.rng.choice(self.hosts)
            self.enter(host, Kind.MAIL, to.number, [to])
        else:
            self.enter(host, Kind.BROADCAST, 0, self.hosts)

    def enter(self, host: Life, kind: Kind, addressee: int, audience: list[Life]) -> None:
        slot = self.rng.randint(1, 3)
        message = (slot, sum(1 for other, _ in self.facts if other == slot) + 1)
        host.sent += 1
        host.clock += self.rng.randint(1, 50)
        given = sum(1 for what, _ in host.events if what == "given")
        clock = host.clock if self.clock_is_right else self.rng.randint(1, 100)
        self.facts[message] = [
            kind, host.number, host.number & 0xFF, host.sent, BEGIN + clock, given, addressee
        ]  # fmt: skip
        self.sender[message] = host
        host.events.append(("sent", message))
        for other in audience:
            other.owed.append(message)

    def give(self, host: Life, wild: float) -> None:
        if not host.owed:
            return
        at = self.rng.randrange(len(host.owed)) if self.rng.random() < wild else 0
        message = host.owed.pop(at)
        host.events.append(("given", message))
        clock = self.facts[message][4]
        assert isinstance(clock, int)
        host.clock = max(host.clock, clock - BEGIN)

    def segments(self) -> list[Segment]:
        """As logs: one session per host, all from a spool, which can be in any order."""
        logs: dict[int, list[audit_events.Row]] = {1: [], 2: [], 3: []}
        for host in self.hosts:
            logs[1].append((BEGIN, "host", (host.number, f"h{host.number & 0xFF}")))
            logs[1].append((BEGIN, "member", (host.number, 0, 0, [0, 0, 0, 0])))
            given = [message for what, message in host.events if what == "given"]
            spool = [number for message in given for number in message]
            who = (host.number, host.number & 0xFF)
            logs[1].append((BEGIN, "session", (*who, 1, -len(given) - 1, 0, 0, 0, [0, 0, 0, 0], spool)))
            logs[1].append((BEGIN, "ack", (*who, 1, -1)))
        for position, ((slot, n), facts) in enumerate(self.facts.items(), 1):
            kind, number, incarnation, own, clock, given_before, to = facts
            host = self.sender[slot, n]
            count = sum(1 for what, _ in host.events if what == "given")
            taken = (1, int(str(given_before)) - count - 1)
            values = (position, slot, n, kind, number, incarnation, own, clock, *taken, to, 1, [])
            for log in logs.values():
                log.append((BEGIN + position, "order", values))
        return [s for slot, log in logs.items() for s in audit_events.segments(log, 1000, slot=slot, id=f"s{slot}")]

    def closure(self) -> dict[Message, set[Message]]:
        """Message -> all that happened before it."""
        past: dict[Message, set[Message]] = {}
        seen = {host.number: (set[Message](), 0) for host in self.hosts}
        for message in self.facts:  # in the order of sending: what was given had been sent
            host = self.sender[message]
            known, at = seen[host.number]
            while host.events[at] != ("sent", message):
                known = known | {host.events[at][1]} | past.get(host.events[at][1], set())
                at += 1
            past[message] = set(known)
            seen[host.number] = (known | {message}, at + 1)
        return past

    def violations(self) -> dict[str, set[tuple[Message, Message]]]:
        """Host -> pairs (x, y), x before y, of which it was given y first; x may never have come, if it is owed."""
        past = self.closure()
        found: dict[str, set[tuple[Message, Message]]] = {}
        for host in self.hosts:
            given = [message for what, message in host.events if what == "given"]
            pairs = {(x, y) for y, x in combinations(given, 2) if x in past[y]}
            pairs |= {(x, y) for y in given for x in host.owed if x in past[y]}
            found[f"h{host.number & 0xFF}"] = pairs
        return found


def compare(wild: Wild, report: Report) -> tuple[int, int]:
    """Hold a report against the closure. Returns how many hosts were not in order, and pairs named."""
    truth = wild.violations()
    rows = [row for row in report.findings.to_pylist() if row["severity"] == "violation" and row["host"]]
    ordered = [row for row in rows if row["kind"] in ORDER_KINDS]
    skipped = {row["host"] for row in rows if row["kind"] == "missing"}
    named = {(row["host"], (row["slot"], row["n"]), (row["other_slot"], row["other_n"])) for row in ordered}
    for host, x, y in named:
        assert (x, y) in truth[host], f"{host}: {x} before {y} is not in the closure"
    for host, pairs in truth.items():
        told = any(row["host"] == host for row in ordered)
        assert told == bool(pairs) or (pairs and host in skipped), f"{host}: audit {told}, closure {sorted(pairs)}"
    return sum(map(bool, truth.values())), len(named)


def test_the_closure_and_the_audit_agree(seed: int) -> None:
    rng = random.Random(seed)
    wrong = pairs = clean = 0
    for _ in range(300):
        wild = Wild(rng)
        found = compare(wild, audit(wild.segments(), rows_max=20))
        wrong, pairs = wrong + found[0], pairs + found[1]
        clean += len(wild.hosts) - found[0]
    print(f"{wrong} hosts out of order, {clean} in order, {pairs} pairs named")
    assert wrong > 100 and clean > 100


def test_a_wrong_clock_is_told_and_hides_nothing(seed: int) -> None:
    rng = random.Random(seed)
    told = wrong = 0
    for _ in range(150):
        wild = Wild(rng, clock_is_right=False)
        report = audit(wild.segments())
        told += "clock_not_extension" in report.findings.column("kind").to_pylist()
        wrong += compare(wild, report)[0]
    assert told > 50 and wrong > 50


def test_far_late_rows_need_only_the_last_of_each_sender(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no row tried one by one the same hosts are out of order."""
    monkeypatch.setattr(causal, "LAG_MAX", 1)
    rng = random.Random(seed)
    for _ in range(150):
        wild = Wild(rng)
        compare(wild, engine_local.audit(wild.segments()))
