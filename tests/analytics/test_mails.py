"""Station mail: honest logs give no finding; one thing changed is found under its name."""

from __future__ import annotations

from random import Random
from typing import Any

import audit_events
import pytest
import simulated
import simulated_mails
from audit_world import NOON, of_severity, story
from simulated_mails import Rows

from roamcast.analytics.carried import Carried
from roamcast.analytics.checks.completeness import Before
from roamcast.analytics.engine_local import audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.judgement import Options
from roamcast.analytics.nights import Night, run_night
from roamcast.analytics.report.kinds import KINDS
from roamcast.analytics.report.positions import Positions
from roamcast.analytics.verdict import CLEAN, VIOLATED

SECOND = 1_000_000
DAY = 86_400 * SECOND
RELAY = (1, 1), (1, 2), (2, 1)
"""1:1 from station 1 to 3; 1:2 from 1 to 2, and behind it 2:1 from 2 to 3."""


class World:
    """Three stations that send each other mail; what is delivered is said."""

    def __init__(self) -> None:
        self.now = NOON
        self.rows: Rows = {1: [], 2: [], 3: []}
        self.to: dict[tuple[int, int], int] = {}
        self.vector: dict[tuple[int, int], dict[int, int]] = {}
        self.past: dict[int, dict[int, int]] = {1: {}, 2: {}, 3: {}}
        self.told: dict[int, dict[int, int]] = {1: {}, 2: {}, 3: {}}

    def log(self, station: int, event: str, *values: Any) -> None:
        self.now += SECOND
        self.rows[station].append([self.now, event, list(values)])

    def position(self, station: int) -> int:
        return sum(event == "arrived" for _, event, _ in self.rows[station])

    def post(self, station: int, to: int) -> tuple[int, int]:
        past = self.past[station]
        past[station] = past.get(station, 0) + 1
        name = (station, past[station])
        changed = {k: n for k, n in past.items() if k != station and self.told[station].get(k) != n}
        self.told[station] |= changed
        self.to[name], self.vector[name] = to, dict(past)
        pairs = [number for pair in changed.items() for number in pair]
        self.log(station, "posted", name[1], to, self.position(station), 9, pairs)
        return name

    def arrive(self, name: tuple[int, int], station: int = 0) -> None:
        station = station or self.to[name]
        self.log(station, "arrived", self.position(station) + 1, *name)
        for slot, n in self.vector.get(name, {}).items():
            self.past[station][slot] = max(n, self.past[station].get(slot, 0))


def relay(*arrivals: tuple[int, int]) -> World:
    """The relay, with these arrivals at station 3; then everybody goes on."""
    world = World()
    assert (world.post(1, 3), world.post(1, 2)) == RELAY[:2]
    world.arrive((1, 2))
    assert world.post(2, 3) == RELAY[2]
    for name in arrivals:
        world.arrive(name, 3)
    for station in (1, 2, 3):
        world.arrive(world.post(station, station % 3 + 1))
    return world


def judged(rows: Rows, **options: Any) -> list[dict[str, Any]]:
    report = audit(simulated_mails.segments(rows), Options(**options))
    found = of_severity(report, "violation", "undecided")
    assert report.verdict == (CLEAN if not found else VIOLATED) or all(row["severity"] != "violation" for row in found)
    return found


@pytest.mark.parametrize("part", range(3))
def test_runs_of_the_simulator_give_no_finding(part: int, seed: int) -> None:
    mails = ends = 0
    for i in range(12):
        chosen = 1_000 * seed + 12 * part + i
        print(f"seed {chosen}")
        run = simulated_mails.LoggedRun(chosen, backup="", messages=30)
        rows = run.logs()
        assert not (found := judged(rows, before=Before(ended=frozenset(run.judge.closed)))), found[:3]
        mails += sum(event == "arrived" for line in rows.values() for _, event, _ in line)
        ends += bool(run.judge.closed)
    print(f"{mails} mails arrived; {ends} runs with ends of stations")
    assert mails > 300


def test_the_relay_is_clean() -> None:
    assert judged(relay((1, 1), (2, 1)).rows) == []


CASES: dict[str, tuple[World, set[str], str]] = {
    "missing": (relay((2, 1)), {"mail_lost"}, "which has mail 1:1 in its past; that never came"),
    "swapped": (relay((2, 1), (1, 1)), {"mail_causal"}, "station 3 was delivered mail 2:1 at 1, which has mail 1:1"),
    "twice": (relay((1, 1), (2, 1), (1, 1)), {"mail_twice"}, "mail 1:1 arrived at station 3 again"),
    "meant for another": (relay((1, 1), (1, 2), (2, 1)), {"mail_invented"}, "had posted it to station 2"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_thing_wrong(name: str) -> None:
    world, kinds, witness = CASES[name]
    report = audit(simulated_mails.segments(world.rows))
    found = of_severity(report, "violation", "undecided")
    assert {row["kind"] for row in found} == kinds <= set(KINDS), found
    assert any(witness in str(row["witness"]) for row in found), found
    spots = Positions(report).of(found[0])
    assert {spot["station"] for spot in spots} >= {1, 3} and all(spot["file"] for spot in spots), spots


def without(world: World, station: int, event: str, place: int) -> None:
    rows = [row for row in world.rows[station] if row[1] == event]
    world.rows[station].remove(rows[place])


def test_mail_that_nobody_has_posted() -> None:
    world = relay((1, 1), (2, 1))
    without(world, 2, "posted", 0)
    assert {row["kind"] for row in judged(world.rows)} == set(), "the log of station 2 may begin there"
    world = relay((1, 1), (2, 1))
    without(world, 1, "posted", 1)
    assert {row["kind"] for row in judged(world.rows)} == {"mail_invented", "mail_numbers"}
    world = relay((1, 1), (2, 1))
    world.arrive((2, 9), 3)
    assert [(row["kind"], row["severity"]) for row in judged(world.rows)] == [("mail_invented", "undecided")]
    world.now += 2 * DAY
    world.arrive(world.post(2, 3))
    assert [(row["kind"], row["severity"]) for row in judged(world.rows)] == [("mail_invented", "violation")]


def test_a_number_that_stands_for_two_mails() -> None:
    world = relay((1, 1), (2, 1))
    rows = [row for row in world.rows[1] if row[1] == "posted"]
    rows[2][2][0] = 2
    assert "mail_numbers" in {row["kind"] for row in judged(world.rows)}


@pytest.mark.parametrize("count", [0, 5])
def test_a_header_that_is_wrong(count: int) -> None:
    world = relay((1, 1), (2, 1))
    row = next(row for row in world.rows[2] if row[1] == "posted")
    assert row[2][4] == [1, 2]
    row[2][4] = [1, count] if count else []
    found = judged(world.rows)
    assert {row["kind"] for row in found} == {"mail_header"}, found


def test_what_is_under_way_and_what_an_end_excuses() -> None:
    world = relay((1, 1), (2, 1))
    world.post(1, 3)
    assert judged(world.rows) == []
    assert [row["kind"] for row in audit(simulated_mails.segments(world.rows)).findings.to_pylist()] == ["mail_waiting"]
    world.now += 2 * DAY
    world.arrive(world.post(2, 1))
    assert judged(world.rows) == [], "the log of station 3 does not go so far"
    world.arrive(world.post(2, 3))
    assert [(row["kind"], row["severity"]) for row in judged(world.rows)] == [("mail_waiting", "undecided")]
    gone = relay((2, 1))
    for station in (2, 3):
        gone.log(station, "closed", 1, 0, 0)
    del gone.rows[1]
    assert {row["kind"] for row in judged(gone.rows)} == {"station_log_missing"}


def test_a_log_that_is_not_whole_accuses_nobody() -> None:
    world = relay((2, 1))
    segments = simulated_mails.segments(world.rows, 1)
    found = of_severity(audit([each for each in segments if (each.station, each.header["seq"]) != (3, 2)]), "violation")
    assert found == []
    assert {row["kind"] for row in of_severity(audit(segments), "violation")} == {"mail_lost"}
    assert of_severity(audit(segments, Options(mail_unsure=frozenset({3}))), "violation") == []


def test_a_group_without_station_mail() -> None:
    report = audit(story().segments())
    assert report.verdict == CLEAN and not report.tables["posts"].num_rows and not report.tables["arrivals"].num_rows


@pytest.mark.parametrize("value", [-1, 0, 1 << 10, 1 << 33, (1 << 63) - 1])
@pytest.mark.parametrize(
    ("event", "column"), [(e, i) for e, count in (("posted", 5), ("arrived", 3)) for i in range(count)]
)
def test_numbers_that_cannot_be_stop_nothing(event: str, column: int, value: int) -> None:
    world = relay((1, 1), (2, 1))
    row = next(row for row in world.rows[1] if row[1] == event)
    row[2][column] = [value, value] if column == 4 else value
    audit(simulated_mails.segments(world.rows))


def by_night(rows: Rows, days: int) -> tuple[list[Night], list[Segment]]:
    """The rows stretched over days, judged night after night."""
    walls = [wall for line in rows.values() for wall, _, _ in line]
    begin, factor = min(walls), days * DAY // (max(walls) - min(walls) + 1)
    later = {
        slot: [[simulated.FIRST_DAY + (wall - begin) * factor, *row] for wall, *row in line]
        for slot, line in rows.items()
    }
    segments = []
    for slot, line in later.items():
        prev = b""
        for day in range(days):
            start = simulated.FIRST_DAY + day * DAY
            mine = [(wall, event, tuple(values)) for wall, event, values in line if 0 <= wall - start < DAY]
            header = {"slot": slot, "id": f"s{slot}", "seq": day + 1, "prev": prev, "opened": start}
            segments.append(audit_events.segment(mine, header))
            segments[-1].closed = start + DAY
            prev = segments[-1].end
    made, state = [], Carried()
    for day in range(days):
        date = f"2027-01-{16 + day}"
        made.append(run_night(segments, date, Carried.parsed(state.text()), grace=100 * DAY))
        state = made[-1].state
        assert not state.provisional
    return made, segments


def told(nights: list[Night]) -> list[tuple[str, int, int]]:
    rows = [row for night in nights for row in of_severity(night.report, "violation", "undecided")]
    return sorted((str(row["kind"]), int(str(row["slot"])), int(str(row["n"]))) for row in rows)


def test_nights_of_honest_runs_give_no_finding(seed: int) -> None:
    carried = 0
    for i in range(5):
        print(f"seed {1_000 * seed + i}")
        run = simulated_mails.LoggedRun(1_000 * seed + i, backup="", lost=0, messages=40)
        nights, _ = by_night(run.logs(), 4)
        assert told(nights) == []
        carried += sum(len(of.get("posted", ())) for night in nights for of in night.state.events.values())
    assert carried > 20


@pytest.mark.parametrize("name", CASES)
def test_nights_find_what_one_run_finds(name: str) -> None:
    world = CASES[name][0]
    nights, segments = by_night(world.rows, 4)
    whole = of_severity(audit(segments, Options(grace=100 * DAY)), "violation")
    kinds = {"mail_twice" if name == "meant for another" else str(row["kind"]) for row in whole}
    assert whole and told(nights) == sorted(
        (kind, row["slot"], row["n"]) for kind, row in zip(kinds, whole, strict=True)
    )


def test_nights_find_what_was_swapped(seed: int) -> None:
    """Neighbours in an inbox change places; over midnight one of them is lost at first."""
    rng = Random(seed)
    for i in range(8):
        run = simulated_mails.LoggedRun(1_000 * seed + i, backup="", lost=0, joiners=0, own=0.0, messages=40)
        rows = run.logs()
        inbox = [row for row in rows[rng.choice(sorted(rows))] if row[1] == "arrived"]
        posted = {(k, row[2][0]): row[0] for k, line in rows.items() for row in line if row[1] == "posted"}
        can = [j for j in range(1, len(inbox)) if posted[tuple(inbox[j][2][1:])] < inbox[j - 1][0]]
        for j in can[1::3]:
            inbox[j - 1][2][1:], inbox[j][2][1:] = inbox[j][2][1:], inbox[j - 1][2][1:]
        nights, segments = by_night(rows, 4)
        whole = of_severity(audit(segments, Options(grace=100 * DAY)), "violation", "undecided")
        names = {(row["slot"], row["n"]) for row in whole if row["kind"] != "mail_header"}
        print(i, sorted(names))
        assert {(slot, n) for kind, slot, n in told(nights) if kind != "mail_header"} == names
