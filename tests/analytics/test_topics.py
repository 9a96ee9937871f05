"""Topics in hand-made histories: an honest one, and twins with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from audit_world import A, B, C, of_severity
from topic_world import DAY, OTHER, TOPIC, TopicWorld, begun, topics

from roamcast.analytics import subscription_ends, tables
from roamcast.analytics.carried import Carried, load_before, save
from roamcast.analytics.checks import exactly_once
from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import audit
from roamcast.analytics.nights import Night, run_night
from roamcast.analytics.verdict import CLEAN, VIOLATED
from roamcast.middleware import delivery_log, host_frames
from roamcast.middleware.delivery_log import BEFORE
from roamcast.middleware.rows import PRESENCE, PRESENCE_KINDS, STATION_KINDS, SUBSCRIPTION_KINDS, TOPIC_KINDS, Kind

UNDECIDED = "undecided"


@dataclass
class Case:
    """One thing that is wrong, and what the audit must say of it."""

    change: Callable[[TopicWorld], None]
    kinds: set[str]
    """All kinds of findings but those of severity info."""
    witness: str
    hosts: set[str] = field(default_factory=set)
    journals: tuple[int, ...] = ()
    story: Callable[[], TopicWorld] = topics


def told(report: Report) -> list[dict[str, object]]:
    found = of_severity(report, "violation", UNDECIDED)
    print(*(f"{row['kind']}: {row['witness']}" for row in found), sep="\n")
    return found


def not_clean(report: Report) -> set[str]:
    return {row["host"] for row in report.hosts.to_pylist() if row["verdict"] != CLEAN}


def base(world: TopicWorld, vector: list[int]) -> None:
    """What ann's second session counts as had."""
    world.change(2, "session", {"host": A, "e": 2}, base=vector)


def again(world: TopicWorld, host: int, *pairs: int) -> None:
    """The host attaches once more, and is given a spool."""
    world.attach(host, world.at[host])
    world.change(
        world.at[host], "session", {"host": host, "e": world.e[host]}, spool=list(pairs), at=-len(pairs) // 2 - 1
    )


def lacks(world: TopicWorld, slot: int, n: int) -> None:
    """Ann's journal does not have a message."""
    world.journal[A].remove(next(row for row in world.journal[A] if row[1] == "given" and row[2][2:4] == [slot, n]))


def gives(world: TopicWorld, host: int, message: tuple[int, int], e: int) -> None:
    """A host's journal has a message, where its station has ordered it."""
    position = world.order[world.at[host] if e == world.e[host] else 1].index(message) + 1
    facts = world.rows[message]
    row = [world.now, "given", [e, position, *message, facts[4] & 0xFFFFFFFF, facts[5]]]
    line = [i for i, old in enumerate(world.journal[host]) if old[1] == "given" and old[2][:2] < [e, position]]
    world.journal[host].insert(line[-1] + 1 if line else 0, row)


def positions(world: TopicWorld, station: int, first: tuple[int, int], second: tuple[int, int]) -> None:
    """A station orders two messages the other way round."""
    rows = [world.find(station, "order", slot=slot, n=n) for slot, n in (first, second)]
    rows[0][2][0], rows[1][2][0] = rows[1][2][0], rows[0][2][0]


def ended_and_given(world: TopicWorld) -> None:
    """Ann's SUB ends in her second session, before she has 2:4; and she is given it all the same."""
    world.ended(A, (1, 3), 2, *[world.order[2].index((1, 4)) + 1] * 2)


def ended_and_spooled(world: TopicWorld) -> None:
    """Bob's SUB ends before his second session begins, which has what was sent on the topic nevertheless."""
    message = world.attached(A, there=False)
    had = world.had(B)
    world.ended(B, (2, 7), 2, BEFORE, BEFORE, PRESENCE | A)
    again(world, B, *message)
    world.change(2, "session", {"host": B, "e": 2}, base=[0, had[1], message[1]])
    world.spread()


def spoken() -> TopicWorld:
    """Ann subscribes, and bob speaks twice on the topic."""
    world = begun()
    world.say(A, Kind.SUB)
    world.everybody()
    for n in (2, 3):
        assert world.say(B, Kind.TOPIC) == (2, n)
    world.everybody()
    return world


CASES: dict[str, Case] = {
    "withheld": Case(
        lambda w: base(w, [0, 4, 3]), {"missing"}, "ann never acknowledged 1:4, and session 2 at station 2", {"ann"}
    ),
    "withheld, by its journal": Case(
        lambda w: lacks(w, 1, 4), {"claim_not_given", "missing"}, "counts 1:4 as acknowledged by ann", {"ann"}, (A,)
    ),
    "its SUB is withheld": Case(
        lambda w: lacks(w, 1, 3), {"claim_not_given", "missing"}, "counts 1:3 as acknowledged by ann", {"ann"}, (A,)
    ),
    "not subscribed, by a journal": Case(
        lambda w: gives(w, C, (2, 3), 1), {"not_subscribed"}, "cid was given 2:3 on topic 7 at session 1", {"cid"}, (C,)
    ),
    "presence of another": Case(
        lambda w: gives(w, C, (2, 8), 1), {"not_subscribed"}, "on the presence of host 4294967297", {"cid"}, (C,)
    ),
    "before its SUB": Case(
        lambda w: gives(w, A, (2, 2), 1), {"not_subscribed"}, "ann was given 2:2 on topic 7 at session 1", {"ann"}, (A,)
    ),
    "behind its UNSUB": Case(
        lambda w: gives(w, A, (2, 6), 2), {"not_subscribed"}, "was given 2:6 on topic 7 at session 2", {"ann"}, (A,)
    ),
    "not subscribed, by a spool": Case(
        lambda w: again(w, C, 2, 6), {"not_subscribed"}, "cid was given 2:6 on topic 7 at session 2, position -1",
        {"cid"},
    ),
    "another's SUB": Case(
        lambda w: again(w, C, 2, 7), {"not_meant"}, "cid was given 2:7, which is not for it", {"cid"}
    ),
    "twice": Case(lambda w: base(w, [0, 3, 2]), {"duplicate"}, "ann acknowledged 2:3 2 times", {"ann"}),
    "out of order": Case(
        lambda w: positions(w, 1, (2, 2), (2, 3)), {"fifo_sender", "fifo_origin"}, "host ann got 2:3 at", {"ann"},
        story=spoken,
    ),
    "an end that was ignored": Case(
        ended_and_given, {"not_subscribed"}, "ann was given 2:4 on topic 7 at session 2", {"ann"}, (A,)
    ),
    "an end before a spool": Case(
        ended_and_spooled, {"not_subscribed"}, "bob was given 2:9 on the presence", {"bob"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("journals", [(), (A, B, C)])
def test_the_honest_one_is_clean(journals: tuple[int, ...]) -> None:
    report = audit(topics().segments(journals=journals), rows_max=1)
    assert report.findings.to_pylist() == []
    assert report.verdict == CLEAN and not not_clean(report)
    assert (
        report.outcome.deliveries == 2 + 3 + 2 + 3
    )  # ann's changes; hers on the topic; bob's SUB and what it brings; 1:5
    assert [row["pending"] for row in report.hosts.to_pylist()] == [0, 0, 0]


@pytest.mark.parametrize("name", CASES)
def test_one_thing_is_wrong(name: str) -> None:
    case = CASES[name]
    world = case.story()
    case.change(world)
    report = audit(world.segments(journals=case.journals), rows_max=1)
    found = told(report)
    assert {str(row["kind"]) for row in found} == case.kinds
    assert any(case.witness in str(row["witness"]) for row in found)
    assert report.verdict == VIOLATED
    assert not_clean(report) == case.hosts


def test_a_subscription_that_was_ended_owes_nothing_more() -> None:
    """2:4 was under way when the right went: it may have been given, or not; both are right."""
    world = topics()
    before, behind = (world.order[2].index(message) + 1 for message in ((1, 4), (2, 4)))
    world.ended(A, (1, 3), 2, before, behind)
    lacks(world, 2, 4)
    assert told(audit(world.segments(journals=(A,)))) == []
    world = topics()
    world.ended(A, (1, 3), 2, before, behind)
    assert told(audit(world.segments(journals=(A,)))) == []
    report = audit(world.segments())
    assert told(report) == [] and report.outcome.deliveries == 2 + 2 + 2 + 3


def test_what_was_lost_before_an_end_is_lost() -> None:
    world = topics()
    base(world, [0, 4, 3])
    last = len(world.order[2])
    world.ended(A, (1, 3), 2, last, last)
    assert {row["kind"] for row in told(audit(world.segments()))} == {"missing"}


@pytest.mark.parametrize("all_of_them", [True, False])
def test_an_end_before_a_session_excuses_what_was_under_way(all_of_them: bool) -> None:
    """Ann's second session counts 1:4 as had, which she never was given: her SUB had ended."""
    world = topics()
    for row in [row for row in world.logs[2] if row[1] == "order" and row[2][1:3] in ([2, 5], [2, 4])]:
        row[2][3] = Kind.BIND  # she does not end it herself, and nothing is sent in her second session
    world.change(1, "order", {"slot": 2, "n": 5}, kind=Kind.BIND)
    world.change(1, "order", {"slot": 2, "n": 4}, kind=Kind.BIND)
    base(world, [0, 4, 3])
    world.ended(A, (0, 0) if all_of_them else (1, 3), 2, BEFORE, BEFORE, 0 if all_of_them else TOPIC)
    assert {row["kind"] for row in told(audit(world.segments()))} <= {"send_lost"}


def test_order_through_a_topic_that_the_receiver_is_not_subscribed_to() -> None:
    """Cid's 1:6 is for bob, bob's answer to it for ann, and ann's broadcast, which follows, comes to cid first."""
    world = begun()
    for host, topic in ((A, TOPIC), (B, OTHER), (C, OTHER)):
        world.say(host, Kind.SUB, topic)
        world.everybody()
    x = world.say(C, Kind.TOPIC, OTHER)
    world.everybody()
    z = world.say(B, Kind.TOPIC)
    world.everybody()
    y = world.send(A)
    world.everybody()
    assert told(audit(world.segments())) == []
    positions(world, 1, x, y)
    positions(world, 1, z, y)  # y, x, z: ann, at station 1, too, has z behind her own broadcast
    found = told(audit(world.segments()))
    assert ("causal", "cid") in {(row["kind"], row["host"]) for row in found}
    assert any(f"had message {z[0]}:{z[1]}" in str(row["witness"]) or row["host"] == "" for row in found)


def test_kinds_are_those_of_the_rows() -> None:
    kinds = np.array(sorted(Kind))
    for told_by, meant in (
        (tables.is_sent, set(Kind) - STATION_KINDS),
        (tables.is_given, set(Kind) - (STATION_KINDS - PRESENCE_KINDS)),
        (tables.is_change, SUBSCRIPTION_KINDS),
        (tables.is_on_topic, TOPIC_KINDS | PRESENCE_KINDS),
    ):
        assert set(kinds[told_by(kinds)].tolist()) == meant
    assert subscription_ends.BEFORE == delivery_log.BEFORE
    assert exactly_once.JOINED_AT == host_frames.JOINED_AT


# ---- nights ----


def long_story() -> TopicWorld:
    """Ann subscribes on the first day; on the third day something is sent, and she has moved."""
    world = begun()
    world.say(A, Kind.SUB)
    world.everybody()
    world.now += DAY
    world.send(C)
    world.everybody()
    world.now += DAY
    world.attach(A, 2)
    world.everybody()
    world.say(B, Kind.TOPIC)
    world.everybody()
    return world


def nights(world: TopicWorld, directory: Path) -> list[Night]:
    made = []
    for day in ("2027-01-15", "2027-01-16", "2027-01-17"):
        night = run_night(world.days(3), day, load_before(directory, day))
        save(directory, night.state)
        made.append(night)
    return made


def test_a_subscription_of_the_first_day_counts_on_the_third(tmp_path: Path) -> None:
    made = nights(long_story(), tmp_path)
    assert [night.report.verdict for night in made] == [CLEAN] * 3
    assert made[1].state.floor[1] > 3, "the SUB is settled"
    assert [len(events.get("subscribed", ())) for events in made[1].state.events.values()].count(1) == 1
    assert made[2].report.tables["changes"].column("station").to_pylist() == [0]
    deliveries = made[2].report.case.deliveries(0, len(made[2].report.case.names))
    assert sorted(deliveries["slot"].tolist())[-1] == 2 and len(deliveries["slot"]) >= 1


def test_what_is_withheld_on_the_third_day_is_missing(tmp_path: Path) -> None:
    world = long_story()
    world.attach(A, 2)
    world.ack(A)
    for slot, n in (world.say(B, Kind.TOPIC),):
        world.change(2, "session", {"host": A, "e": 3}, base=[0, 9, n])
        assert slot == 2
    world.everybody()
    made = nights(world, tmp_path)
    assert [row["kind"] for row in told(made[2].report)] == ["missing"]


def test_a_state_that_lacks_subscriptions_makes_undecided_never_guilty(tmp_path: Path) -> None:
    """As a version before topics has left it."""
    world = long_story()
    segments = world.days(3)
    state = Carried()
    for day in ("2027-01-15", "2027-01-16"):
        state = run_night(segments, day, state).state
    text = state.text().replace('"has_subscriptions":true,', "")
    assert text != state.text()
    state = Carried.parsed(text)
    assert not state.has_subscriptions
    for events in state.events.values():
        events.pop("subscribed", None)
    again(world, A, *next(reversed([m for m, facts in world.rows.items() if facts[2] == Kind.TOPIC])))
    night = run_night(world.days(3), "2027-01-17", state)
    assert night.report.verdict == UNDECIDED
    assert {row["kind"] for row in told(night.report)} == {"subscription_unknown"}
    assert not_clean(night.report) == {"ann"}
    assert not night.state.has_subscriptions
