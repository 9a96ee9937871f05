"""The studies of the LAN: their tables, their charts, and the command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from roamcast.middleware.simulator.cli import STUDIES, main
from roamcast.middleware.simulator.lan import study
from roamcast.middleware.simulator.lan.study import Curve, study_theorems, study_windows
from roamcast.middleware.simulator.lan.svg import line_chart

SVG = "{http://www.w3.org/2000/svg}"


def silent(line: str) -> None:
    """Nobody hears of the progress."""


def numbers(line: str, name: str) -> list[float]:
    return [float(word) for word in line.removeprefix(name).split()]


def test_windows_of_the_bound_are_enough_and_much_shorter_ones_are_not() -> None:
    finding = study_windows(range(1, 41), silent)
    assert not finding.broken
    lines = finding.table.splitlines()
    assert "40 (seeds 1 .. 40)" in lines[0]
    for line, curve in zip(lines[2:], study.CURVES, strict=True):
        counts = numbers(line, curve.name)
        assert counts[:2] == [0, 0]
        assert counts[-1] > counts[-2] > 0


def test_a_late_update_at_the_bound_itself_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "CURVES", (Curve("never", lambda seed, share: False), Curve("odd", is_odd)))
    finding = study_windows(range(1, 6), silent)
    assert finding.broken
    assert numbers(finding.table.splitlines()[2], "never") == [0] * 8
    assert numbers(finding.table.splitlines()[3], "odd") == [3] * 8


def is_odd(seed: int, share: float) -> bool:
    return seed % 2 == 1


def test_theorems_are_summed_up_per_number_of_nodes() -> None:
    said: list[str] = []
    finding = study_theorems(range(1, 61), said.append)
    assert not finding.broken
    assert said == ["[60/60] 0 broken"]
    rows = [numbers(line, "") for line in finding.table.splitlines()[2:]]
    assert [row[0] for row in rows] == [2, 3, 4, 5, 6, 7]
    assert sum(row[1] for row in rows) == 60
    assert all(row[4] <= row[5] for row in rows)


def test_a_chart_has_its_words_and_one_line_per_curve() -> None:
    chart = line_chart("a < b", "x", "y & z", ((0, 1, 2), (0, 50, 100)), {"one": [(0, 0), (2, 100)], "two": [(1, 50)]})
    root = ElementTree.fromstring(chart)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[:3] == ["a < b", "x", "y & z"]
    assert texts[-2:] == ["one", "two"]
    lines = [element.get("points") for element in root.iter(f"{SVG}polyline")]
    assert lines == ["80.0,420.0 730.0,90.0", "405.0,255.0"]
    assert len(list(root.iter(f"{SVG}circle"))) == 3


@pytest.mark.parametrize("name", ["lan", "lan-theorems"])
def test_the_command_prints_a_table_and_draws_a_chart(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", name, "--out", str(tmp_path / "deep"), "--seeds", "3"]) == 0
    captured = capsys.readouterr()
    assert "seeds 1 .. 3" in captured.out
    path = tmp_path / "deep" / f"{name}.svg"
    assert captured.out.endswith(f"chart: {path}\n")
    assert ElementTree.fromstring(path.read_text("utf-8")).tag == f"{SVG}svg"
    assert captured.err


def test_the_command_says_which_studies_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"{name}: " in out for name in STUDIES)
    assert main(["--help"]) == 0
    assert ", ".join(STUDIES) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "arguments",
    [["study"], ["study", "mars"], ["study", "lan", "--seeds", "0"], ["study", "lan", "--seeds", "x"], ["lan"]],
)
def test_wrong_use_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


def test_a_chart_that_cannot_be_written_is_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["study", "lan", "--seeds", "1", "--out", str(tmp_path / "file")]) == 3
    assert "File exists" in capsys.readouterr().err


def test_equal_seeds_give_equal_tables_under_any_hash_seed(
    tmp_path: Path, outputs_of: Callable[[list[str]], list[str]]
) -> None:
    command = [sys.executable, "-m", "roamcast.middleware.simulator.cli", "study", "lan-theorems", "--seeds", "30"]
    outputs = outputs_of([*command, "--out", str(tmp_path)])
    assert outputs[0] == outputs[1] == outputs[2]
