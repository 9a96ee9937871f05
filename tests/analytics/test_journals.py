"""What journals have and stations do not claim, and what an agent had not written when it was killed."""

from __future__ import annotations

import pytest
from audit_world import A, B, C, of_severity, story

from roamcast.analytics.engine_local import audit
from roamcast.analytics.verdict import CLEAN, VIOLATED


def test_what_a_journal_has_and_no_station_claims_is_told() -> None:
    world = story()
    slot, n = world.send(C)
    world.spread()
    position = len(world.order[2])
    world.journal[B].append([world.now, "given", [1, position, slot, n, 12, 1]])
    report = audit(world.segments(journals=(B,)))
    assert report.verdict == CLEAN
    assert [row["kind"] for row in of_severity(report, "info")] == ["given_not_claimed"]


@pytest.mark.parametrize("killed", [True, False])
def test_what_an_agent_had_not_written_when_it_was_killed_the_stations_tell(killed: bool) -> None:
    world = story()
    given = [row for row in world.journal[C] if row[1] == "given"]
    for row in given[2:4]:
        world.journal[C].remove(row)
    segments = world.segments(size=given.index(given[2]), journals=(C,))
    journal = [segment for segment in segments if segment.header["writer"] == "journal"]
    assert len(journal) > 1
    if killed:
        journal[0].status = "open"
    report = audit(segments)
    assert report.verdict == (CLEAN if killed else VIOLATED)
    told = [row["witness"] for row in of_severity(report, "info") if row["kind"] == "journal_hole"]
    assert (
        told
        == ["the journal of cid has a hole where its agent was killed: of 2 messages the stations' word is taken"][
            : len(told)
        ]
    )
    assert bool(told) == killed


def test_what_came_again_in_a_later_session_counts_where_it_was_given_first() -> None:
    """Taken in a session, acknowledged in the next one, where the other station has another order."""
    world = story()
    given = [row for row in world.journal[A] if row[1] == "given"]
    again = next(row for row in given if row[2][0] == 2)
    first = next(i for i, row in enumerate(world.journal[A]) if row[1] == "given" and row[2][0] == 2)
    world.journal[A].remove(again)
    again[2][:2] = [1, max(row[2][1] for row in given if row[2][0] == 1) + 1]
    world.journal[A].insert(first, again)
    assert audit(world.segments(journals=(A,))).verdict == CLEAN
