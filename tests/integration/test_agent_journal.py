"""The witness journal of an agent that is killed again and again: what was given, in order, once; holes are told."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Bench, until

from roamcast.middleware.delivery_log import GIVEN, LOST, SENT, place
from roamcast.transport.segment import Segment, read_segment

LATE_S = 2.5
"""A second by contract; the rest is for a busy machine."""

LISTENER = """
    import random, signal, sys, time
    from roamcast.mh_agent import Agent
    rng, stopped = random.Random(sys.argv[4]), []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    def say(what, *values):
        log.write(" ".join(map(str, (time.monotonic(), what, *values))) + "\\n")
    with Agent(sys.argv[1], journal=sys.argv[2], acknowledge="manual") as agent, open(sys.argv[3], "w", 1) as log:
        agent.broadcast(b"here I am")
        while (message := agent.receive(0.5)) is not None or not stopped:
            if message is not None:
                say("given", *message.id)
                if rng.random() < 0.3:
                    say("acking")
                    message.ack()
                    say("acked")
"""


@dataclass
class Life:
    """What one process of the application says, and when it was killed (0: it was not)."""

    killed_at: float = 0.0
    acked: list[tuple[float, tuple[int, int]]] = field(default_factory=list)
    """(time, id), in the order in which they were given."""
    unsure: list[tuple[int, int]] = field(default_factory=list)
    """Given, and their acknowledgement was under way at the end."""


def read_life(log: Path, killed_at: float) -> Life:
    life, given = Life(killed_at), []
    for line in log.read_text().splitlines():
        at, what, *values = line.split()
        if what == "given":
            given.append((int(values[0]), int(values[1])))
        elif what == "acking":
            life.unsure = given
        elif what == "acked":
            life.acked += [(float(at), each) for each in given]
            life.unsure, given = [], []
    return life


def test_a_journal_through_kills(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=1)
    bench.hosts({"b": "s1"}, workers=1)
    bench.cluster.enrol(["a"])
    journal = bench.home / "journal"
    lives: list[Life] = []
    bench.load(["b"], rate=100)
    for number in range(5):
        log = bench.home / f"life{number}.txt"
        arguments = [bench.cluster.credentials["a"], journal, log, f"{bench.seed} {number}"]
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(LISTENER), *map(str, arguments)])
        try:
            until(lambda log=log: log.exists() and log.read_text().count("acked") > 3, "messages are given")
            bench.run_for(bench.rng.uniform(0.2, 2.5))
            if number == 4:
                bench.quiet()
                process.terminate()
                assert process.wait(30) == 0
        finally:
            process.kill()
            killed_at = time.monotonic()
            process.wait(10)
        lives.append(read_life(log, killed_at))
    lives[-1].killed_at = 0.0
    judge(lives, [read_segment(file.read_bytes()) for file in sorted(journal.glob("*.rclog"))])


def judge(lives: list[Life], segments: list[Segment]) -> None:
    assert len(segments) == len(lives), "one day, less than 16 MiB: a segment for each life"
    told = [each for segment in segments for each in given_of(segment)]
    assert len(set(told)) == len(told), "once"
    places = [place(e, c) for segment in segments for e, c in columns_of(segment, GIVEN, "e", "c")]
    assert places == sorted(set(places)), "each behind the one before, also over sessions"
    for number, (life, segment) in enumerate(zip(lives, segments, strict=True)):
        rows = given_of(segment)
        sure = [each for _, each in life.acked]
        assert rows == [*sure, *life.unsure][: len(rows)], "what was acknowledged, in its order, and nothing else"
        missing = life.acked[len(rows) :]
        if life.killed_at:
            assert all(at > life.killed_at - LATE_S for at, _ in missing), "only what came last is missing"
        else:
            assert rows == sure
        assert segment.status == ("open" if life.killed_at else "unsigned")
        note = f"segment {number} was not closed: what came last may be missing"
        assert segment.header.note == (note if number else "")
        assert segment.header.prev == (segments[number - 1].end if number else b"")
        assert len(columns_of(segment, LOST)) == (number == 0)
        if rows:
            assert columns_of(segment, SENT, "number", "addressee") == [(number + 1, "")]
    assert any(given_of(segment) for segment in segments[:-1]), "the kills came late enough to see something"


def columns_of(segment: Segment, event: str, *names: str) -> list[tuple[Any, ...]]:
    columns = segment.columns(event)
    return list(zip(*(columns[name] for name in names or ("seq",)), strict=True)) if columns else []


def given_of(segment: Segment) -> list[tuple[int, int]]:
    return columns_of(segment, GIVEN, "slot", "n")
