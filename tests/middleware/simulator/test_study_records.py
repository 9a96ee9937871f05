"""The study of s-records: its model, its table, its chart, and the command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.lan.svg import line_chart
from roamcast.middleware.simulator.unicast import study
from roamcast.middleware.simulator.unicast.headers import AT_ACK, AT_SEND, FORMS, PLAIN, HeaderModel, Sizes, Traffic

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two numbers of stations, few mails."""
    monkeypatch.setattr(study, "NUMBERS", (4, 8))
    monkeypatch.setattr(study, "MAILS", 100)


def sizes(stations: int, pattern: str, rate: float, reply: float) -> Sizes:
    return HeaderModel(Traffic(stations, pattern, rate, reply), Random(f"seed {stations} {pattern}")).run(800)


def test_records_stay_far_below_the_square_and_superseding_saves_some() -> None:
    dense = sizes(8, "uniform", 4.0, 0.0)
    means = {form: dense.records[form] / dense.mails for form in FORMS}
    assert 10 < means[AT_SEND] < means[AT_ACK] < means[PLAIN] < 32
    assert all(dense.most[form] <= 49 for form in FORMS)
    assert means[AT_SEND] < 0.7 * means[PLAIN]


def test_in_thin_traffic_waiting_for_the_acknowledgement_costs_little() -> None:
    thin = sizes(8, "uniform", 0.1, 0.0)
    assert thin.records[AT_SEND] <= thin.records[AT_ACK] < 1.06 * thin.records[AT_SEND]


@pytest.mark.parametrize(("pattern", "records"), [("ring", 1.0), ("pairs", 1.0), ("star", 7.0)])
def test_what_regular_traffic_costs(pattern: str, records: float) -> None:
    regular = sizes(8, pattern, 4.0, 0.8 if pattern == "star" else 0.0)
    assert regular.records[PLAIN] / regular.mails == pytest.approx(records, abs=0.2)
    assert regular.entries / regular.mails == pytest.approx(records, abs=0.3)


def test_runs_are_added_up() -> None:
    one = Sizes(2, dict.fromkeys(FORMS, 5), dict.fromkeys(FORMS, 3), 4)
    one.add(Sizes(1, dict.fromkeys(FORMS, 2), dict.fromkeys(FORMS, 2), 1))
    assert one == Sizes(3, dict.fromkeys(FORMS, 7), dict.fromkeys(FORMS, 3), 5)


@pytest.mark.usefixtures("small")
def test_the_command_prints_a_table_and_draws_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "s-records", "--out", str(tmp_path), "--seeds", "1"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert "seeds 1 .. 1" in lines[0]
    assert len(lines) == 3 + 2 * len(study.LOADS) + 1
    assert {len(line.split("|")) for line in lines[2:-1]} == {3}
    root = ElementTree.fromstring((tmp_path / "s-records.svg").read_text("utf-8"))
    assert len(list(root.iter(f"{SVG}polyline"))) == 1 + len(study.CURVES)
    assert captured.err == "4 stations: done\n8 stations: done\n"


@pytest.mark.usefixtures("small")
def test_more_records_than_can_be_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not study.study_records(range(1, 2), lambda line: None).broken
    monkeypatch.setattr(HeaderModel, "_supersede", lambda self, records, mail: records.update({(99, mail.number): 1}))
    assert study.study_records(range(1, 2), lambda line: None).broken


def test_equal_seeds_give_equal_tables_under_any_hash_seed(outputs_of: Callable[[list[str]], list[str]]) -> None:
    program = (
        "from roamcast.middleware.simulator.unicast import study; study.NUMBERS, study.MAILS = (4, 8), 50;"
        "print(study.study_records(range(1, 2), print))"
    )
    outputs = outputs_of([sys.executable, "-c", program])
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_chart_may_have_logarithmic_axes_and_six_curves() -> None:
    curves = {f"curve {number}": [(1, 1), (10, 10 ** (number / 5)), (100, 100)] for number in range(6)}
    chart = line_chart("t", "x", "y", ((1, 10, 100), (1, 10, 100)), curves, is_logarithmic=True)
    lines = [element.get("points") for element in ElementTree.fromstring(chart).iter(f"{SVG}polyline")]
    assert lines[0] == "80.0,420.0 405.0,420.0 730.0,90.0"
    assert lines[5] == "80.0,420.0 405.0,255.0 730.0,90.0"
