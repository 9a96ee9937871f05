"""The summary of a night: verdict, sentence, counts, numbers by hour, station and host."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated
from audit_world import A, B, C, story
from reports import DAY, about, night, skipped, told
from test_anomalies import CASES, EVIDENCE

from roamcast.analytics.carried import Carried, load_before, save
from roamcast.analytics.checks.latency import HOUR
from roamcast.analytics.days import WHOLE
from roamcast.analytics.engine_local import LocalEngine, audit
from roamcast.analytics.nights import Night, run_night, run_whole
from roamcast.analytics.report import figures, kinds
from roamcast.analytics.report.plain import missing, text
from roamcast.analytics.report.summary import EXAMPLES, summary
from roamcast.analytics.report.words import duration, shown

KEYS = {
    "schema", "day", "verdict", "sentence", "provisional", "counts", "missing", "findings", "stations", "hosts",
    "latency", "gaps", "hours", "run", "live",
}  # fmt: skip


def test_a_clean_night() -> None:
    made = told()
    assert set(made) == KEYS and made["schema"] == 1
    assert made["verdict"] == "clean" and not made["provisional"]
    assert made["sentence"] == (
        "On 2027-01-15 nothing was lost, doubled or out of order: 16 deliveries to 3 hosts at 2 stations; "
        "6 new messages."
    )
    counts = made["counts"]
    others = dict.fromkeys(("refused", "topic", "subscription", "presence"), 0)
    assert counts["messages"] == {"broadcast": 5, "mail": 1, **others}
    assert (counts["deliveries"], counts["hosts"], counts["hosts_active"], counts["stations"]) == (16, 3, 3, 2)
    assert counts["findings"] == {"violation": {}, "undecided": {}, "info": {}}
    assert (counts["handoffs"], counts["reconnections"]) == (1, 0)
    one, two = made["stations"]
    assert (one["handoffs_in"], one["handoffs_out"], two["handoffs_in"], two["handoffs_out"]) == (0, 1, 1, 0)
    assert one["deliveries"] + two["deliveries"] == 16 and two["gap_max_us"] == made["gaps"]["max_us"] > 0
    assert one["segments_closed"] + two["segments_closed"] == counts["segments"]
    assert made["hosts"]["clean"] == 3 and [row["host"] for row in made["hosts"]["worst"]]
    assert "CLEAN: On" in text(made) and "1 station1" in text(made)


def test_the_keys_are_those_of_the_page_that_explains_them(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs/protocols/audit-report.md").read_text()
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\| (`[^|]*) \|", page)))) >= KEYS
    assert all(f"`{key}`" in page for key in told()["counts"])


def test_a_violated_night_names_what_was_lost() -> None:
    made = told(skipped(story()))
    assert made["verdict"] == "violated"
    assert "2 violations, at host ann: lost (2)" in made["sentence"]
    (group,) = made["findings"]
    assert (group["kind"], group["severity"], group["count"], group["hosts"]) == ("missing", "violation", 2, 1)
    first = group["examples"][0]
    assert (first["host"], first["message"], first["station"], first["place"]) == ("ann", "1:5", 2, {"session": 2})
    assert {spot["station"] for spot in first["log"]} == {1, 2}
    assert made["hosts"]["worst"][0]["host"] == "ann" and made["hosts"]["violated"] == 1
    assert "Lost (missing, 2):" in text(made)


def test_one_violation_is_the_sentence() -> None:
    world = story()
    world.change(2, "order", {"slot": 1, "n": 5}, size=41)
    made = told(world)
    assert made["sentence"] == (
        "On 2027-01-15 there was 1 violation: stations 2 and 1 tell different facts of message 1:5: size 41 and 40."
    )


def test_an_undecided_night_names_the_station() -> None:
    made = told(whole=False)
    assert made["verdict"] == "undecided" and made["provisional"]
    assert made["missing"]["stations"] == [1, 2] and made["missing"]["count"] == 2
    assert "the logs of stations 1 (station1) and 2 (station2) are not whole" in made["sentence"]
    assert missing(made) == [f"the log of station {i} ends before the end of the day" for i in (1, 2)]
    assert "missing:\n  the log of station 1" in text(made)


def test_a_violation_counts_though_evidence_is_missing() -> None:
    world = story()
    world.change(2, "order", {"slot": 1, "n": 5}, size=41)
    made = told(world, whole=False)
    assert made["verdict"] == "violated"
    assert "size 41 and 40" in made["sentence"] and "so there may be more" in made["sentence"]
    assert {group["severity"] for group in made["findings"]} == {"violation", "undecided"}


@pytest.mark.parametrize("name", [*CASES, *EVIDENCE])
def test_every_kind_has_its_words(name: str) -> None:
    if name in CASES:
        world = story({2: CASES[name].left_out})
        CASES[name].change(world)
        segments = world.segments(journals=CASES[name].journals)
    else:
        segments = EVIDENCE[name][0](story().segments())
    made = summary(run_whole(segments, LocalEngine()), about(WHOLE))
    json.dumps(made, allow_nan=False)
    assert {group["kind"] for group in made["findings"]} <= set(kinds.KINDS)
    for group in made["findings"]:
        assert group["count"] >= group["rows"] == len(group["examples"]) > 0
    assert made["verdict"] != "undecided" or made["missing"]["count"] or made["counts"]["findings"]["undecided"]
    for group in made["findings"]:
        assert not any(re.search(r"at \d{10}", each["witness"]) for each in group["examples"])


def test_every_kind_in_the_sources_has_its_words() -> None:
    source = "".join(path.read_text() for path in Path(figures.__file__).parents[1].rglob("*.py"))
    found = set(re.findall(r'"kind": "(\w+)"', source)) | set(re.findall(r'_finding\(\s*"(\w+)"', source))
    found |= set(re.findall(r'"(mail_[a-z]+)"', source)) - {"mail_unsure"}  # a key of the state
    found |= set(re.findall(r'"(live_[a-z_]+)"', source)) - {"live_key", "live_parts"}
    assert len(found) > 20
    assert found <= set(kinds.KINDS) and set(kinds.KINDS) >= kinds.EVIDENCE


def test_examples_are_capped_and_all_are_counted() -> None:
    world = story()
    for _ in range(EXAMPLES + 30):
        world.change(2, "order", {"slot": 2, "n": 4}, size=40)
        slot, n = world.send(B)
        world.spread()
        world.change(1, "order", {"slot": slot, "n": n}, size=41)
    for host in (A, B, C):
        world.ack(host)
    made = told(world)
    (group,) = made["findings"]
    assert (group["count"], group["rows"], len(group["examples"])) == (EXAMPLES + 30, EXAMPLES + 30, EXAMPLES)
    assert made["counts"]["findings"]["violation"] == {"facts_differ": EXAMPLES + 30}
    assert "and 127 more" in text(made)


def test_an_empty_night() -> None:
    made = summary(run_night([], DAY, Carried()), about())
    assert made["verdict"] == "undecided" and "there is no log of any station" in made["sentence"]
    assert made["latency"]["p50_us"] is None and len(made["hours"]) == 24
    assert text(made).startswith("UNDECIDED: ")


def test_a_quiet_night() -> None:
    world = story()
    made = summary(night(world), about())
    later = run_night(world.segments(size=1000), "2027-01-20", night(world, size=1000).state)
    quiet = summary(later, about("2027-01-20"))
    assert made["counts"]["deliveries"] == 16
    assert quiet["counts"]["deliveries"] == 0 and sum(quiet["counts"]["messages"].values()) == 0
    assert quiet["counts"]["handoffs"] == 0 and quiet["gaps"]["count"] == 0


# ---- numbers ----


def by_hand(case: Any, since: int = 0) -> tuple[np.ndarray, dict[int, int]]:
    found = case.deliveries(0, len(case.names))
    real = (found["acked"] != 0) & (found["message"] >= 0) & (found["wall"] > 0) & (found["wall"] >= since)
    stations, counts = np.unique(found["station"][real], return_counts=True)
    hours = np.bincount(found["wall"][real] // HOUR % 24, minlength=24)
    return hours, dict(zip(stations.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("rows_max", [1, 10**6])
def test_hours_stations_and_hosts_add_up(rows_max: int) -> None:
    simulation, _ = simulated.run("mixed", 11, skew=0)
    segments = simulated.stretched(simulation, 2)
    run = audit(segments, rows_max=rows_max)
    made = summary(Night(run, Carried(WHOLE)), about(WHOLE))
    hours, stations = by_hand(run.case)
    assert [hour["deliveries"] for hour in made["hours"]] == hours.tolist()
    assert {row["station"]: row["deliveries"] for row in made["stations"] if row["deliveries"]} == stations
    assert sum(hours.tolist()) == made["counts"]["deliveries"] > 0
    assert sum(row["deliveries"] for row in made["hosts"]["worst"]) == made["counts"]["deliveries"]
    timed = made["latency"]["deliveries"] - made["latency"]["negative"]
    assert sum(count for _, _, count in made["latency"]["histogram"]) == timed
    assert run.latencies.equals(audit(segments, rows_max=10**6).latencies)
    assert sum(row["handoffs_in"] for row in made["stations"]) == made["counts"]["handoffs"]


def test_only_what_belongs_to_the_day_counts(tmp_path: Path) -> None:
    simulation, _ = simulated.run("mixed", 11, skew=0)
    segments = simulated.stretched(simulation, 3)
    whole = summary(Night(audit(segments), Carried(WHOLE)), about(WHOLE))
    total, sent, handoffs = 0, 0, 0
    for day in ("2027-01-16", "2027-01-17", "2027-01-18"):
        run = run_night(segments, day, load_before(tmp_path, day), margin=4 * HOUR, grace=100 * simulated.DAY)
        save(tmp_path, run.state)
        made = summary(run, about(day))
        hours, stations = by_hand(run.report.case, run.report.case.options.since)
        assert [hour["deliveries"] for hour in made["hours"]] == hours.tolist()
        assert {row["station"]: row["deliveries"] for row in made["stations"] if row["deliveries"]} == stations
        assert made["counts"]["segments"] == 4
        total += made["counts"]["deliveries"]
        sent += sum(made["counts"]["messages"].values())
        handoffs += made["counts"]["handoffs"]
    assert total == whole["counts"]["deliveries"]
    assert sent == sum(whole["counts"]["messages"].values())
    assert handoffs == whole["counts"]["handoffs"]


def test_percentiles_are_those_of_the_deliveries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 5, 4_000)
    values = np.exp(rng.normal(8, 2, 4_000)).astype(np.int64)
    bucket = (np.log10(np.maximum(values, 1)) * 64).astype(np.int64)
    found = figures.spread(group, bucket, np.ones(4_000, np.int64), 6)
    for i in range(5):
        for share, told_of in ((0.5, found.p50), (0.99, found.p99)):
            right = np.quantile(values[group == i], share, method="inverted_cdf")
            assert right * 0.96 <= told_of[i] <= right * 1.04
    assert found.count[5] == 0 and np.isnan(found.p50[5])


# ---- what must not matter ----


def test_two_runs_differ_in_run_alone() -> None:
    world = skipped(story())
    one, two = (summary(night(world), about(run=run, engine=run)) for run in ("r1", "r2"))
    assert one.pop("run") != two.pop("run")
    assert json.dumps(one) == json.dumps(two)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_time_zone_of_the_machine_does_not_matter(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BL-75."""
    here = json.dumps(told(skipped(story()))), text(told(whole=False))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert (json.dumps(told(skipped(story()))), text(told(whole=False))) == here
    finally:
        monkeypatch.undo()
        time.tzset()


def test_days_that_were_opened_again_are_told() -> None:
    assert summary(night(story()), about(), ["2027-01-14"])["run"]["reopened"] == ["2027-01-14"]


def test_foreign_text_moves_nothing() -> None:
    assert shown("a\x1b[31m\u202eb\n") == r"a\x1b[31m\u202eb\n"
    assert shown("x" * 700, 10) == "x" * 9 + "…"
    assert shown("שלום") == "שלום"


def test_durations_in_words() -> None:
    values = {
        0: "0 µs", 999: "999 µs", 1_000: "1.00 ms", 12_345: "12.3 ms", 123_456: "123 ms", 999_700: "1.00 s",
        59_990_000: "1 min 00 s", 61_000_000: "1 min 01 s", 3_720_000_000: "1 h 02 min", 90_000_000_000: "1 d 01 h",
    }  # fmt: skip
    assert {us: duration(us) for us in values} == values
    assert duration(None) == "–"
