"""What journals have and stations do not claim, and what an agent had not written when it was killed."""

from __future__ import annotations

import pytest
from audit_world import A, B, C, of_severity, story

from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.tables import UNDECIDED
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


def test_a_journal_that_begins_with_a_send_begins_behind_what_was_given_before() -> None:
    world = story()
    journal = world.journal[B]
    sent = next(i for i, row in enumerate(journal) if row[1] == "sent")
    assert any(row[1] == "given" for row in journal[:sent])
    world.journal[B] = journal[sent:]
    assert audit(world.segments(journals=(B,))).verdict == CLEAN


@pytest.mark.parametrize("how", ["damaged", "lacks a segment", "two of one number"])
def test_a_journal_that_is_not_whole_is_not_used(how: str) -> None:
    segments = story().segments(size=2, journals=(C,))
    mine = [segment for segment in segments if segment.header["writer"] == "journal"]
    assert len(mine) > 2
    if how == "damaged":
        mine[1].status, mine[1].events = "damaged", {}
    elif how == "lacks a segment":
        segments.remove(mine[1])
    else:
        segments.append(Segment(mine[1].header, mine[2].events, "unsigned", "copy", b"other", 0, mine[2].count))
    report = audit(segments)
    assert report.verdict == UNDECIDED
    assert {row["kind"] for row in of_severity(report, "undecided")} <= {"journal_broken", "journal_damaged"}
    assert not of_severity(report, "violation")


def test_a_journal_alone_acquits_no_station() -> None:
    """A session counts a message as had that it has not given; only a journal, which anybody can write, has it."""
    world = story()
    world.change(2, "session", {"host": A, "e": 2}, base=[0, 5, 3])
    assert audit(world.segments()).verdict == VIOLATED
    last = next(row for row in world.journal[A] if row[1] == "given")
    lost = {(2, 3)} - {tuple(row[2][2:4]) for row in world.journal[A] if row[1] == "given"}
    for slot, n in lost:
        number = world.rows[slot, n][5]
        world.journal[A].append([world.now, "given", [2, 0, slot, n, last[2][4], number]])
    report = audit(world.segments(journals=(A,)))
    assert report.verdict != CLEAN
    assert "given_unclaimed" in {row["kind"] for row in of_severity(report, "undecided", "violation")} or of_severity(
        report, "violation"
    )
