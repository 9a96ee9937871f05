"""Stations that ended: what their logs must still say, and what is not waited for. Incarnations in their order."""

from __future__ import annotations

import audit_events
import pytest
import simulated
from audit_world import NOON, story

from roamcast.analytics.carried import Carried
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.nights import Night, run_night

HEIR, LOST = 1, 0


def two_nights(heir: int) -> list[Night]:
    """Station 2 ends at noon, and station 1 goes on; then a day on which nothing happens."""
    world = story()
    world.log(1, "closed", 2, heir, len([n for slot, n in world.rows if slot == 2]))
    line = world.segments(size=1000)
    one, other = line
    one.closed = NOON + simulated.DAY
    one.header["peers"] = {2: (1, other.end)}  # type: ignore[index]
    header = {"slot": 1, "id": "station1", "seq": 2, "prev": one.end, "opened": NOON + simulated.DAY // 2}
    later = audit_events.segment([], {**header, "peers": {2: (2, b"never uploaded" * 2)} if heir == LOST else {}})
    later.closed = NOON + 2 * simulated.DAY
    first = run_night(line, "2027-01-15", Carried())
    return [first, run_night([*line, later], "2027-01-16", first.state)]


def test_the_log_of_a_station_that_was_retired_ends_with_it() -> None:
    assert [night.report.verdict for night in two_nights(HEIR)] == ["clean", "clean"]


def test_the_log_of_a_lost_station_is_missed_in_its_night_only() -> None:
    first, second = two_nights(LOST)
    assert "log_ends_early" in [row["kind"] for row in first.report.findings.to_pylist()]
    assert (first.report.verdict, second.report.verdict) == ("undecided", "clean")
    assert second.report.findings.num_rows == 0 or {row["severity"] for row in second.report.findings.to_pylist()} == {
        "info"
    }


@pytest.mark.parametrize("there", [True, False])
def test_the_log_of_a_station_that_was_retired_must_be_whole(there: bool) -> None:
    world = story()
    world.log(1, "closed", 2, HEIR, len([n for slot, n in world.rows if slot == 2]))
    line: list[Segment] = world.segments(size=8)
    last = max((s for s in line if s.station == 2), key=lambda s: int(s.header["seq"]))
    for segment in line:
        segment.closed = NOON + simulated.DAY
    night = run_night([s for s in line if there or s is not last], "2027-01-15", Carried())
    assert night.report.verdict == ("clean" if there else "undecided")


def test_an_incarnation_whose_join_is_ordered_tomorrow_comes_last() -> None:
    """Its session is of today: without a place among the joins it was taken for the first one."""
    simulation, _ = simulated.run("mixed", 548390, skew=0)
    night = run_night(simulated.stretched(simulation, 4), "2027-01-16", Carried())
    assert not [row for row in night.report.findings.to_pylist() if row["severity"] == "violation"]


def test_the_clock_of_what_only_a_lost_station_had_is_known_to_nobody_else() -> None:
    simulation, rule = simulated.run("group", 7050)
    assert not rule
    assert not [row for row in audit(simulated.logs(simulation)).findings.to_pylist() if row["severity"] != "info"]
