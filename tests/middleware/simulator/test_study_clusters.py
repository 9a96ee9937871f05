"""The study of clusters: the paper's numbers, rule B of fifo-broadcast.md (e5), the cores as measured."""

from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from roamcast.middleware.fifo_broadcast.cluster_costs import gain
from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.clusters import study
from roamcast.middleware.simulator.clusters.costs import TABLE_1, shares
from roamcast.middleware.simulator.clusters.layouts import Lines, layout, near_pencil, one_line, pairs
from roamcast.middleware.simulator.clusters.load import LoadModel, Measured

SVG = "{http://www.w3.org/2000/svg}"


def test_table_1_is_exact() -> None:
    for gateways, lines in ((1, one_line(4)), (4, near_pencil(4)), (6, pairs(4))):
        got = shares(100, 4, lines)
        assert (round(got.entity, 6), round(got.gateway, 4)) == TABLE_1[gateways]


def test_figure_9_has_its_minima_where_they_are() -> None:
    """Only the first two curves are least at h = 10 (C3)."""
    figure = {h: shares(100, h, pairs(h)) for h in study.CLUSTERS}
    least = [
        min(figure, key=lambda h: figure[h].entity),
        min(figure, key=lambda h: figure[h].gateway),
        min(figure, key=lambda h: figure[h].gateways),
        min(figure, key=lambda h: figure[h].total),
    ]
    assert least == [10, 10, 2, 7]
    at_ten, at_seven = figure[10], figure[7]
    assert [f"{x:.4f}" for x in (at_ten.entity, at_ten.gateway, at_ten.total, at_seven.total)] == [
        "0.0361", "0.0726", "0.0688", "0.0585",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("controls", "fixed", "gains"),
    [
        (0.5, 0, (1.42, 2.36, 3.44, 4.98)), (0.5, 100, (0, 0, 1.14, 1.64)), (0.5, 500, (0, 0, 0, 0)),
        (2.3, 100, (0, 1.36, 1.92, 2.94)), (2.3, 500, (0, 1.10, 1.33, 1.66)), (9.4, 500, (1.12, 1.60, 2.16, 3.02)),
    ],
)  # fmt: skip
def test_rule_b_gives_the_gains_of_the_specification(controls: float, fixed: float, gains: tuple[float, ...]) -> None:
    """0: flat is best."""
    for stations, expected in zip(study.NUMBERS, gains, strict=True):
        found = gain(stations, controls, fixed)
        assert found == pytest.approx(expected, abs=0.021) if expected else found <= 1.02


def measured(clusters: int, lines: Lines) -> Measured:
    sums = Measured()
    LoadModel(layout(clusters, lines, clusters * [20 // clusters]), Random("load"), sums).run(2)
    return sums


def test_a_station_of_a_small_cluster_hears_and_computes_less_and_knows_later() -> None:
    flat, split = measured(1, ()), measured(4, pairs(4))
    assert (flat.rows, split.rows, flat.data, split.data) == (40, 40, 40, 160)
    assert flat.hops(1) == 1 and split.hops(1) == 2
    assert (split.mean(split.received, 0) or 0) < 0.6 * (flat.mean(flat.received, 0) or 0)
    assert (split.mean(split.cells, 0) or 0) < 0.5 * (flat.mean(flat.cells, 0) or 0)
    assert split.hops(2) > 1.5 * flat.hops(2) and split.hops(3) > 1.5 * flat.hops(3)
    assert flat.mean(flat.received, 1) is None


def test_the_command_prints_the_table_and_draws_figure_9(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(study, "MEASURED", study.MEASURED[1:3])
    assert main(["study", "clusters", "--seeds", "1", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0.074275 / 0.074275" in out and "0.0361*" in out and "h=4 g=4" in out
    root = ElementTree.parse(tmp_path / "clusters.svg").getroot()
    assert len(root.findall(f"{SVG}polyline")) == 4


def test_a_number_that_is_not_the_papers_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MEASURED", ())
    assert not study.study_clusters(range(1, 2), lambda line: None).broken
    monkeypatch.setitem(study.SHAPES_1, 4, pairs(4))
    assert study.study_clusters(range(1, 2), lambda line: None).broken
