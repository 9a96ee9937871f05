"""Live messages: honest logs give no finding; one thing changed is found under its name; runs of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import simulated
import simulated_journals
from audit_world import A, B, C
from live_world import DEADLINE, LiveWorld, Name, lively

from roamcast.analytics.engine import Report
from roamcast.analytics.engine_local import LocalEngine, audit
from roamcast.analytics.evidence import Segment
from roamcast.analytics.lives import LiveTables
from roamcast.analytics.nights import run_whole
from roamcast.analytics.report.kinds import KINDS
from roamcast.analytics.report.live import by_station
from roamcast.analytics.report.positions import Positions
from roamcast.analytics.verdict import CLEAN, VIOLATED
from roamcast.middleware.delivery_log import CAUSES
from roamcast.middleware.simulator.live_order import LiveOrder

JOURNALS = (A, B, C)


def judged(world: LiveWorld, journals: tuple[int, ...] = JOURNALS) -> Report:
    return audit(world.segments(50, journals))


def wrong(report: Report) -> dict[str, dict[str, Any]]:
    found = [row for row in report.findings.to_pylist() if row["severity"] != "info"]
    print(*(f"{row['kind']}: {row['witness']}" for row in found), sep="\n")
    return {row["kind"]: row for row in found}


def test_honest_logs_are_clean() -> None:
    world, _, _ = lively()
    report = judged(world)
    assert not wrong(report)
    assert report.verdict == CLEAN
    assert len(report.tables["heard"]) == 4


def test_logs_and_journals_without_live_messages_are_judged_as_before() -> None:
    world, _, _ = lively()
    for rows in (*world.logs.values(), *world.journal.values()):
        rows[:] = [row for row in rows if row[1] not in ("live", "handed", "missed", "heard")]
    report = judged(world)
    assert report.verdict == CLEAN
    assert not report.case.live_parts
    assert by_station(report) == []


Change = Callable[[LiveWorld, Name, Name], None]


def swap(rows: list[list[Any]], a: list[Any], b: list[Any]) -> None:
    i, j = rows.index(a), rows.index(b)
    rows[i], rows[j] = rows[j], rows[i]


def swapped(world: LiveWorld, x: Name, y: Name) -> None:
    swap(world.logs[1], world.find(1, "handed", stamp=x[1]), world.find(1, "handed", stamp=y[1]))


def twice(world: LiveWorld, x: Name, y: Name) -> None:
    rows, first = world.logs[1], world.find(1, "handed", stamp=x[1])
    rows.insert(rows.index(first), list(first))


def late(world: LiveWorld, x: Name, y: Name) -> None:
    world.change(2, "handed", {"stamp": x[1]}, reading=x[1] + DEADLINE + 1)


def before_its_floor(world: LiveWorld, x: Name, y: Name) -> None:
    world.change(2, "handed", {"stamp": x[1]}, position=1)


def before_the_own_row(world: LiveWorld, x: Name, y: Name) -> None:
    """Station 2 tells of no floor, and bob had sent 2:2 before."""
    world.change(2, "live", {"stamp": y[1]}, floor=[])
    world.change(1, "handed", {"stamp": y[1]}, position=1)


def after_the_own_row(world: LiveWorld, x: Name, y: Name) -> None:
    """Ann sent 1:3 after x."""
    world.change(2, "handed", {"stamp": x[1]}, position=len(world.order[2]))


CHANGES: dict[str, Change] = {
    "live_causal": swapped, "live_twice": twice, "live_late": late, "live_early": before_its_floor,
    "live_overtaken": after_the_own_row,
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_what_a_station_does_wrong(kind: str) -> None:
    world, x, y = lively()
    CHANGES[kind](world, x, y)
    report = judged(world, ())
    assert set(wrong(report)) == {kind}
    assert report.verdict == VIOLATED
    row = wrong(report)[kind]
    assert row["n"] == x[1] and row["station"] and kind in KINDS
    spots = Positions(report).of(row)
    assert any("handed down" in spot["what"] for spot in spots) and all(spot["segment"] for spot in spots)


def test_what_a_station_says_of_floors_is_not_believed() -> None:
    world, x, y = lively()
    before_the_own_row(world, x, y)
    assert set(wrong(judged(world, ()))) == {"live_early"}


def test_order_is_followed_through_messages_that_were_not_handed_down_there() -> None:
    """z comes after y, that after x; station 1 hands z down, then x."""
    world, x, _ = lively()
    world.logs[1] = [row for row in world.logs[1] if row[1] != "handed"]
    z = world.live(B)
    world.hand(z, 1)
    world.hand(x, 1)
    found = wrong(judged(world, ()))
    assert found["live_causal"]["other_n"] == z[1]


def of_journal(kind: str, world: LiveWorld, x: Name, y: Name) -> None:
    rows = world.journal[C]
    heard = [row for row in rows if row[1] == "heard"]
    match kind:
        case "live_causal":
            swap(rows, heard[0], heard[1])
        case "live_twice":
            rows.append(list(heard[1]))
        case "live_late":
            heard[0][2][5] = -1
        case "live_not_meant":
            world.hear(B, y)
        case "live_early":
            heard[0][2][1] = 1
        case "live_overtaken":
            heard[0][2][1] = heard[1][2][1] = 10


@pytest.mark.parametrize(
    "kind", ["live_causal", "live_twice", "live_late", "live_not_meant", "live_early", "live_overtaken"]
)
def test_what_only_a_journal_shows(kind: str) -> None:
    world, x, y = lively()
    of_journal(kind, world, x, y)
    found = wrong(judged(world))
    assert kind in found and found[kind]["host"]
    assert not wrong(judged(world, ()))


def test_a_host_that_moves_takes_along_what_it_was_given() -> None:
    """Cid is given something at station 1, goes on at 2, and sends: station 2 must not hand that down before."""
    world, _, _ = lively()
    w = world.live(A)
    world.hand(w, 1, C)
    world.attach(C, 2)
    z = world.live(C)
    world.hand(z, 2)
    world.hand(w, 2)
    assert set(wrong(judged(world, (C,)))) == {"live_causal"}
    assert not wrong(judged(world, ()))


def test_what_a_log_lacks_accuses_nobody() -> None:
    world, _, _ = lively()
    world.log(1, "untold", 3, 4)
    for event in ("live", "handed"):
        world.logs[1] = [row for row in world.logs[1] if row[1] != event]
        report = judged(world)
        assert not wrong(report)
        assert [row["kind"] for row in report.findings.to_pylist()] == ["live_untold"]


def test_the_report_counts_by_cause() -> None:
    world, _, _ = lively()
    world.log(1, "untold", 3, 4)
    night = run_whole(world.segments(), LocalEngine())
    one, two = by_station(night.report)
    assert (one["taken"], one["handed"], one["deliveries"], one["untold"]) == (4, 6, 3, 7)
    assert (two["taken"], two["handed"], two["deliveries"]) == (1, 1, 1)
    assert two["missed"] == {"late": 3, "expired": 1}
    assert two["over_share"] == 0.8
    assert one["missed"] == {} and one["over_share"] == 0.0
    assert CAUSES[0] == "other"


# ---- the simulator ----


def found_in(seed: int, patch: pytest.MonkeyPatch, *mutants: str, **overrides: Any) -> tuple[Report, list[Segment]]:
    """Nobody else judges what is live, so the run goes on behind the first fault."""
    patch.setattr(LiveOrder, "_inverted", lambda *_: None)
    simulation, folders, rule = simulated_journals.journaled("mixed-live", seed, patch, frozenset(mutants), **overrides)
    assert mutants or not rule
    logs = simulated.logs(simulation, first=simulated_journals.names(simulation)) + folders.segments()
    return audit(logs), logs


@pytest.mark.parametrize("seed", range(1, 11))
def test_honest_runs_are_clean(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report, logs = found_in(seed, monkeypatch)
    assert not wrong(report)
    tables = report.tables
    made = by_station(report)
    assert sum(row["handed"] for row in made) == len(tables["handed"])
    assert sum(sum(row["missed"].values()) for row in made) == sum(tables["missed"].column("count").to_pylist())
    assert not wrong(audit([each for each in logs if each.is_station]))


HOPS: dict[str, Any] = {
    "hops_count": 60, "storm": 0.0, "live": 120, "live_slow": 0.5, "live_loss": 0.0, "live_delta": 400_000,
    "wired_loss": 0.0, "partitions_count": 0, "crashes_count": 0, "crash_per_effect": 0.0, "full_per_write": 0.0,
    "kills_count": 0, "naps_count": 0, "radio_loss": 0.0, "cuts_count": 0, "freezes_count": 0, "duration": 1_500_000,
    "expiry": 0, "live_steps": 0,
}  # fmt: skip
"""Much moves, nothing else happens, and live frames are slow."""

MUTANTS = [
    ("live_floor", "live_early", 7, {}),
    ("live_settle", "live_overtaken", 38, {}),
    ("live_number", "live_early", 6, {}),
    ("live_front", "live_early", 28, {}),
    ("live_state", "live_twice", 51, HOPS),
    ("live_state", "live_overtaken", 8, HOPS),
]
"""Rule switched off, what the audit finds, seed, options."""


@pytest.mark.parametrize(("mutant", "kind", "seed", "options"), MUTANTS)
def test_rules_that_were_switched_off(
    mutant: str, kind: str, seed: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kind in wrong(found_in(seed, monkeypatch, mutant, **options)[0])


def test_two_that_changed_places_in_a_log_of_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one sender, handed down one after the other by one station."""
    report, logs = found_in(3, monkeypatch)
    tables = report.tables["handed"].to_pylist()
    one, two = next(
        (one, two)
        for one in tables
        for two in tables
        if one["stamp"] < two["stamp"] and all(one[name] == two[name] for name in ("station", "slot", "seg"))
    )
    segment = next(
        each for each in logs if each.station == one["station"] and each.header["seq"] == one["seg"] and each.is_station
    )
    stamps = segment.events["handed"]["stamp"]
    i, j = (int((stamps == row["stamp"]).argmax()) for row in (one, two))
    stamps[[i, j]] = stamps[[j, i]]
    found = audit(logs).findings.to_pylist()
    assert one["station"] in {row["station"] for row in found if row["kind"] == "live_causal"}


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_a_run_that_is_cut_into_parts_is_judged_alike(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found_in(38, monkeypatch, "live_settle")[0]
    findings = whole.findings
    real = LiveTables.parts
    monkeypatch.setattr(LiveTables, "parts", lambda self: real(self, rows))
    cut = found_in(38, monkeypatch, "live_settle")[0]
    assert len(cut.case.live_parts) > 1
    assert cut.findings.equals(findings)
