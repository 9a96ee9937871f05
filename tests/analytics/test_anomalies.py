"""Hand-made histories: an honest one, and for each kind of finding a twin with one thing changed, and its witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from audit_world import INCARNATION, A, B, C, World, of_severity, story

from roamcast.analytics import history, membership, tables
from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.judgement import Options
from roamcast.analytics.verdict import CLEAN, VIOLATED
from roamcast.middleware import delivery_log
from roamcast.middleware.rows import Kind

UNDECIDED = "undecided"
DAY = 86_400_000_000


@dataclass
class Case:
    """One thing that is wrong, and what the audit must say of it."""

    change: Callable[[World], None]
    kinds: set[str]
    """All kinds of findings but those of severity info."""
    witness: str
    """Part of the witness of one of them."""
    verdict: str = VIOLATED
    hosts: set[str] = field(default_factory=set)
    """Hosts that are not clean."""
    journals: tuple[int, ...] = ()
    left_out: tuple[int, int] = (0, 0)
    """A message that station 2 never orders."""


def not_clean(report: Report) -> set[str]:
    return {row["host"] for row in report.hosts.to_pylist() if row["verdict"] != CLEAN}


def positions(world: World, station: int, first: tuple[int, int], second: tuple[int, int]) -> None:
    """A station orders two messages the other way round."""
    rows = [world.find(station, "order", slot=slot, n=n) for slot, n in (first, second)]
    rows[0][2][0], rows[1][2][0] = rows[1][2][0], rows[0][2][0]


def everywhere(world: World, slot: int, n: int, **values: object) -> None:
    for station in world.logs:
        world.change(station, "order", {"slot": slot, "n": n}, **values)


def base_of_second(world: World, vector: list[int]) -> None:
    world.change(2, "session", {"host": A, "e": 2}, base=vector)


def one_more(world: World) -> None:
    """Cid sends, and bob is given it."""
    world.send(C)
    world.spread()
    for host in (A, B, C):
        world.ack(host)


def without_row(world: World) -> None:
    world.logs[2].remove(world.find(2, "order", slot=1, n=5))


def spool(*pairs: int) -> Callable[[World], None]:
    """Ann's second session has a spool, and is acknowledged."""
    return lambda world: world.change(2, "session", {"host": A, "e": 2}, spool=list(pairs), at=-len(pairs) // 2 - 1)


def again(world: World) -> None:
    row = world.find(2, "order", slot=1, n=5)
    last = max(other[2][0] for other in world.logs[2] if other[1] == "order")
    world.log(2, "order", last + 1, *row[2][1:])


def conflict(world: World) -> None:
    row = world.find(2, "order", slot=1, n=5)
    world.log(2, "order", row[2][0], 1, 4, *row[2][3:])


def cycle(world: World) -> None:
    """Ann had 2:2 when she sent 1:3, which bob had when he sent 2:2."""
    position = world.find(1, "order", slot=2, n=2)[2][0]
    everywhere(world, 1, 3, taken_e=1, taken_c=position)


def sent_twice(world: World) -> None:
    everywhere(world, 1, 5, number=2)


def send_lost(world: World) -> None:
    everywhere(world, 1, 5, number=4)
    everywhere(world, 2, 4, number=5)


def foreign(world: World) -> None:
    """Station 2 makes up a message of station 1, whose log goes on for two days."""
    row = world.find(2, "order", slot=1, n=5)
    last = max(other[2][0] for other in world.logs[2] if other[1] == "order")
    world.log(2, "order", last + 1, 1, 9, *row[2][3:5], INCARNATION[A], 5, row[2][7] + DAY, *row[2][8:])
    world.now += 2 * DAY
    world.send(C)


def third_session(world: World) -> None:
    """Bob's second session counts what the third one gives."""
    world.attach(B, 2)
    world.ack(B)
    world.change(2, "session", {"host": B, "e": 2}, base=[0, 9, 9])
    slot, n = world.send(B)
    world.change(2, "session", {"host": B, "e": 2}, base=[0, 9, n])
    world.attach(B, 2)
    world.change(2, "session", {"host": B, "e": 3}, base=[0, 5, n - 1])
    world.ack(B)
    world.spread()
    world.change(2, "session", {"host": B, "e": 2}, base=[0, 5, n])
    assert slot == 2


def journal_order(world: World) -> None:
    given = [row for row in world.journal[B] if row[1] == "given"]
    given[2][2][:], given[3][2][:] = list(given[3][2]), list(given[2][2])


def journal_lacks(world: World) -> None:
    world.journal[C].remove(next(row for row in world.journal[C] if row[2][2:4] == [2, 2]))


def journal_again(world: World) -> None:
    world.journal[C].append(list(world.journal[C][0]))


def journal_number(world: World) -> None:
    world.journal[C][0][2][5] += 1


CASES: dict[str, Case] = {
    "missing": Case(
        lambda w: base_of_second(w, [0, 5, 3]), {"missing"}, "ann never acknowledged 2:3, and session 2 at station 2",
        hosts={"ann"},
    ),
    "duplicate": Case(lambda w: base_of_second(w, [0, 3, 1]), {"duplicate"}, "ann acknowledged 2:2 2 times",
                      hosts={"ann"}),
    "unearned": Case(third_session, {"base_unearned"}, "session 2 of host bob at station 2 counts 2:5", hosts={"bob"}),
    "unverified": Case(
        lambda w: (w.change(2, "session", {"host": A, "e": 2}, le=7, base=[0, 5, 3])), {"unverified"},
        "session 7 before it is in no log", UNDECIDED, {"ann"},
    ),
    "invented": Case(spool(1, 99), {"invented"}, "was given 1:99 by station 2, but no station", hosts={"ann"}),
    "not meant": Case(spool(1, 4), {"not_meant"}, "ann was given 1:4, which is not for it", hosts={"ann"}),
    "not owed": Case(
        lambda w: w.change(1, "member", {"host": C}, base=[0, 3, 1]), {"not_owed"}, "cid was given 1:3 of before",
        hosts={"cid"},
    ),
    "gap": Case(
        lambda w: w.change(2, "session", {"host": A, "e": 2}, gap=True), {"gap_unexplained"},
        "ann was told of a gap in session 2 at station 2, and its custody had not ended", hosts={"ann"},
    ),
    "facts": Case(
        lambda w: w.change(2, "order", {"slot": 1, "n": 5}, size=41), {"facts_differ"}, "message 1:5: size 41 and 40"
    ),
    "two at one position": Case(
        conflict, {"order_conflict", "facts_differ"}, "two messages at position 7 of its order: 1:5 and 1:4",
        hosts=set(),
    ),
    "left out": Case(
        one_more, {"order_hole", "missing"}, "2 ordered 1:6 at 9, 1:4 at 6, and nothing between",
        hosts={"ann", "bob"}, left_out=(1, 5),
    ),
    "log without a row": Case(
        without_row, {"positions_missing", "evidence"}, "station 2 has no position 7", UNDECIDED,
        {"ann", "bob"},
    ),
    "ordered twice": Case(again, {"ordered_twice"}, "station 2 ordered 1:5 again at 10"),
    "fifo": Case(
        lambda w: positions(w, 2, (1, 4), (1, 5)), {"fifo_sender", "fifo_origin"}, "host bob got 1:5 at", hosts={"bob"}
    ),
    "causal": Case(
        lambda w: positions(w, 1, (1, 3), (2, 2)), {"causal"}, "; bob, who sent 2:2 at", hosts={"ann", "cid"}
    ),
    "stamp": Case(
        lambda w: w.change(2, "order", {"slot": 2, "n": 2}, stamp=[1, 2]), {"stamp_understated"},
        "bob had 1:3 at", hosts={"bob"},
    ),
    "clock": Case(
        lambda w: everywhere(w, 2, 2, hlc=5), {"clock_not_extension"}, "2:2 of host bob has clock 5", hosts={"bob"}
    ),
    "cycle": Case(cycle, {"clock_not_extension", "history_cycle", "stamp_understated"}, "logs contradict each other",
                  hosts={"ann"}),
    "sent twice": Case(sent_twice, {"sent_twice", "send_lost"}, "own number 2 of host ann is 1:4 and 1:5",
                       hosts={"ann"}),
    "send lost": Case(send_lost, {"send_lost"}, "own number 2 is 1:4 and 4 is 1:5", hosts={"ann"}),
    "beyond the cut": Case(
        lambda w: w.log(1, "closed", 2, 1, 3), {"beyond_cut"}, "2:4 was ordered, but the stream of station 2 was cut"
    ),
    "foreign": Case(foreign, {"invented", "messages_unknown", "order_hole"},
                    "station 1 does not tell of its message 1:9"),
    "journal lacks": Case(
        journal_lacks, {"claim_not_given", "missing"}, "counts 2:2 as acknowledged by cid", hosts={"cid"}, journals=(C,)
    ),
    "journal order": Case(
        journal_order, {"claim_order_differs", "fifo_sender", "fifo_origin"}, "bob was given", hosts={"bob"},
        journals=(B,),
    ),
    "journal twice": Case(journal_again, {"duplicate"}, "cid acknowledged 1:3 2 times", hosts={"cid"}, journals=(C,)),
    "journal number": Case(
        journal_number, {"journal_facts_differ"}, "cid was given 1:3 as number 2", hosts={"cid"}, journals=(C,)
    ),
    "taken": Case(
        lambda w: everywhere(w, 2, 2, taken_c=-1), {"taken_differs"}, "bob had been given session 1, position",
        hosts={"bob"}, journals=(B,),
    ),
}  # fmt: skip


def test_the_honest_one_is_clean() -> None:
    report = audit(story().segments(), rows_max=1)
    assert report.findings.to_pylist() == []
    assert report.verdict == CLEAN and not not_clean(report)
    assert report.outcome.deliveries == 3 * 5 + 1  # five broadcasts for three, one mail


def test_the_honest_one_is_clean_by_its_journals() -> None:
    report = audit(story().segments(journals=(A, B, C)))
    assert report.findings.to_pylist() == []
    assert report.verdict == CLEAN and not not_clean(report)


@pytest.mark.parametrize("name", CASES)
def test_one_thing_is_wrong(name: str) -> None:
    case = CASES[name]
    world = story({2: case.left_out})
    case.change(world)
    report = audit(world.segments(journals=case.journals), rows_max=1)
    found = of_severity(report, "violation", UNDECIDED)
    print(*(f"{row['kind']}: {row['witness']}" for row in found), sep="\n")
    assert {str(row["kind"]) for row in found} == case.kinds
    assert any(case.witness in str(row["witness"]) for row in found)
    assert report.verdict == case.verdict
    assert not_clean(report) == case.hosts


def test_an_expiry_explains_a_gap() -> None:
    world = story()
    base_of_second(world, [0, 5, 3])
    world.change(2, "session", {"host": A, "e": 2}, gap=True)
    world.log(1, "member", A, INCARNATION[A], 1, [0, 5, 3])
    report = audit(world.segments())
    assert report.verdict == CLEAN
    (row,) = report.findings.to_pylist()
    assert row["kind"] == "discontinuity" and "2 messages given up" in row["witness"]


def test_what_only_stamps_order_is_told_and_no_violation() -> None:
    world = story()
    assert world.send(B) == (2, 5)
    world.spread()
    assert world.send(C) == (1, 6)  # cid had not been given 2:5, but its station had ordered it
    world.spread()
    for host in (A, B, C):
        world.ack(host)
    positions(world, 2, (2, 5), (1, 6))
    report = audit(world.segments())
    assert report.verdict == CLEAN
    assert {row["kind"] for row in of_severity(report, "info")} == {"causal_stamp"}
    assert {row["host"] for row in of_severity(report, "info")} == {"", "ann", "bob"}


def test_the_numbers_of_the_log_are_those_of_the_audit() -> None:
    assert (tables.PLACE_SHIFT, tables.PLACE_ZERO) == (delivery_log.PLACE_SHIFT, delivery_log.PLACE_ZERO)
    ends = (membership.ENROLLED, membership.EXPIRED, membership.LEFT)
    assert ends == (delivery_log.ENROLLED, delivery_log.EXPIRED, delivery_log.LEFT)
    assert (history.BROADCAST, history.MAIL, history.REFUSED) == (Kind.BROADCAST, Kind.MAIL, Kind.REFUSED)


def test_what_is_not_acknowledged_yet_is_pending() -> None:
    world = story()
    world.send(C)
    world.spread()
    report = audit(world.segments())
    assert report.verdict == CLEAN
    assert [row["pending"] for row in report.hosts.to_pylist()] == [1, 1, 1]


def drop(number: int, station: int = 1) -> Callable[[list[Segment]], list[Segment]]:
    return lambda line: [s for s in line if not (s.station == station and s.header["seq"] == number)]


def marked(status: str) -> Callable[[list[Segment]], list[Segment]]:
    def change(line: list[Segment]) -> list[Segment]:
        line[1].status = status
        return line

    return change


def forked(line: list[Segment]) -> list[Segment]:
    first = line[1]
    return [*line, Segment(first.header, first.events, first.status, "copy", b"x" * 32, first.closed, first.count)]


def other_head(line: list[Segment]) -> list[Segment]:
    line[0].header["peers"] = {2: (1, b"y" * 32)}  # type: ignore[index]
    return line


def broken(line: list[Segment]) -> list[Segment]:
    line[2].header["prev"] = b"z" * 32  # type: ignore[index]
    return line


EVIDENCE: dict[str, tuple[Callable[[list[Segment]], list[Segment]], set[str]]] = {
    "a segment is gone": (drop(2), {"segment_missing"}),
    "the last segment is gone": (lambda line: drop(max(s.header["seq"] for s in line if s.station == 1))(line),
                                 {"head_missing"}),
    "a station's log is gone": (lambda line: [s for s in line if s.station != 2],
                                {"station_log_missing", "head_missing"}),
    "open": (marked("open"), {"segment_open"}),
    "torn": (marked("torn"), {"segment_torn"}),
    "damaged": (marked("damaged"), {"segment_damaged"}),
    "forged": (marked("forged"), {"segment_forged", "segment_missing"}),
    "fork": (forked, {"segment_fork"}),
    "another head was seen": (other_head, {"head_differs"}),
    "the chain is broken": (broken, {"chain_broken"}),
    "no segment at all": (lambda line: [*line, Segment({}, {}, "damaged", "noise")], {"segment_damaged"}),
}  # fmt: skip


@pytest.mark.parametrize("name", EVIDENCE)
def test_missing_evidence_is_named_and_never_clean(name: str) -> None:
    change, kinds = EVIDENCE[name]
    report = audit(change(story().segments()))
    found = of_severity(report, "violation", UNDECIDED)
    print(*(f"{row['kind']} {row['severity']}: {row['witness']}" for row in found), sep="\n")
    assert kinds <= {str(row["kind"]) for row in found}
    assert report.verdict == UNDECIDED


def test_the_same_file_under_two_names_changes_nothing() -> None:
    line = story().segments()
    twice = [*line, Segment(line[0].header, line[0].events, line[0].status, "copy", line[0].end, 0, line[0].count)]
    assert audit(twice).findings.to_pylist() == []
    assert audit(twice).tables["orders"].equals(audit(line).tables["orders"])


def test_the_result_does_not_depend_on_buckets_or_the_order_of_files() -> None:
    world = story()
    positions(world, 1, (1, 3), (2, 2))
    line = world.segments()
    assert audit(line, rows_max=1).findings.equals(audit(list(reversed(line)), rows_max=10**6).findings)


def test_a_message_that_only_just_came_is_not_invented() -> None:
    world = story()
    foreign(world)
    report = audit(world.segments(), Options(grace=10 * DAY))
    assert "origin_log_missing" in {row["kind"] for row in of_severity(report, UNDECIDED)}
