"""Signed logs of a station that lies: numbers that cannot be end no run, take no memory, and are told."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import simulated
from audit_world import INCARNATION, A, B, C, story
from live_world import LiveWorld, lively
from topic_world import TOPIC, TopicWorld, topics

from roamcast.analytics import bounds
from roamcast.analytics.carried import Carried
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.nights import run_night
from roamcast.middleware.delivery_log import BEFORE
from roamcast.middleware.rows import PRESENCE
from roamcast.transport.limits import SLOT_MAX

POWERS = [sign * 2**power + more for power in (31, 32, 39, 40, 44, 62) for sign in (1, -1) for more in (0, -1)]
EXTREMES = [0, 1, -1, 127, 128, 2**63 - 1, -(2**63), *POWERS]


def spoil(segments: list[Segment], rng: random.Random) -> tuple[Any, ...]:
    """Put an extreme number somewhere; returns what and where."""
    segment = rng.choice([each for each in segments if each.events])
    event = rng.choice(sorted(segment.events))
    columns = dict(segment.events[event])
    names = [name for name, values in columns.items() if isinstance(values, np.ndarray) and len(values)]
    name = rng.choice([name for name in names if not name.endswith("_len")])
    values = np.array(columns[name])
    at, value = rng.randrange(len(values)), rng.choice(EXTREMES)
    values[at] = np.array(value).astype(values.dtype)
    columns[name] = values
    segment.events = {**segment.events, event: columns}
    return segment.path, event, name, at, value


def ended_topics() -> TopicWorld:
    """Topics, with ends and a SUB from before the log."""
    world = topics()
    last = len(world.order[2])
    world.ended(B, (2, 7), 1, last, last, PRESENCE | A)
    world.ended(A, (0, 0), 3, BEFORE, BEFORE, 0)
    world.log(2, "subscribed", A, INCARNATION[A], TOPIC, 1, 3)
    return world


def live() -> LiveWorld:
    """Live messages, also such that nobody tells of."""
    world, x, _ = lively()
    world.hand((2, x[1] + 9), 1, C)
    world.log(1, "untold", 5, 6)
    return world


def test_no_number_ends_a_run(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        world = rng.choice([story, ended_topics, live])()
        segments = world.segments(journals=rng.choice([(), (A, B, C)]))
        print(*(spoil(segments, rng) for _ in range(rng.randint(1, 3))))
        audit(segments)
        for segment in segments:
            segment.closed = simulated.FIRST_DAY
        run_night(segments, "2027-01-15", Carried())


@pytest.mark.parametrize("column", ["slot", "n", "position", "kind", "taken_e", "hlc"])
def test_what_cannot_be_is_told_with_its_row(column: str) -> None:
    segments = story().segments(size=1000)
    orders = segments[0].events["order"]
    segments[0].events = {**segments[0].events, "order": {**orders, column: np.array(orders[column])}}
    segments[0].events["order"][column][2] = 2**62
    report = audit(segments)
    row = orders["seq"][2]
    told = [each["witness"] for each in report.findings.to_pylist() if each["kind"] == "segment_damaged"]
    assert len(told) == 1 and f"(row {row} cannot be: order)" in told[0]
    assert report.verdict != "clean"


def test_bounds_are_those_of_the_product() -> None:
    assert bounds.SLOT_MAX == SLOT_MAX


def test_a_station_that_leaves_its_order_out_is_missed() -> None:
    segments = story().segments(size=1000)
    segments[0].events = {event: columns for event, columns in segments[0].events.items() if event != "order"}
    report = audit(segments)
    assert "order_short" in {row["kind"] for row in report.findings.to_pylist()} and report.verdict == "undecided"
