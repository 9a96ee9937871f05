"""What clusters with gateways cost and save: table 1 and figure 9 of paper 001, and the cores as measured."""

from __future__ import annotations

from math import isqrt

from roamcast.middleware.fifo_broadcast.cluster_costs import gain
from roamcast.middleware.simulator.clusters.costs import TABLE_1, Shares, shares
from roamcast.middleware.simulator.clusters.layouts import Lines, layout, near_pencil, one_line, pairs, plane
from roamcast.middleware.simulator.clusters.load import LoadModel, Measured
from roamcast.middleware.simulator.lan.study import Finding, Say
from roamcast.middleware.simulator.lan.svg import Points, line_chart
from roamcast.middleware.simulator.scenario import stream

STATIONS = 100
"""n of table 1 and figure 9."""
SHAPES_1: dict[int, Lines] = {1: one_line(4), 4: near_pencil(4), 6: pairs(4)}
CLUSTERS = range(2, 26)
"""h of figure 9."""
MEASURED: tuple[tuple[int, str, int, Lines], ...] = (
    (20, "flat", 1, ()),
    (20, "h=4 g=1", 4, one_line(4)),
    (20, "h=4 g=4", 4, near_pencil(4)),
    (20, "h=4 g=6", 4, pairs(4)),
    (20, "Fano plane", 7, plane(2)),
    (50, "flat", 1, ()),
    (50, "h=7 g=1", 7, one_line(7)),
    (50, "h=7 pairs", 7, pairs(7)),
    (50, "Fano plane", 7, plane(2)),
)
ROWS = 2
"""Of each station, in each run."""
NUMBERS = (20, 50, 100, 200)
COSTS = ((0.5, 0), (0.5, 100), (0.5, 500), (2.3, 100), (2.3, 500), (9.4, 500))
"""(R, F) of rule B."""


def study_clusters(seeds: range, say: Say) -> Finding:
    """The paper's numbers, which the seeds do not change; then the cores, over the seeds; then which to choose."""
    figure = {clusters: shares(STATIONS, clusters, pairs(clusters)) for clusters in CLUSTERS}
    table, is_wrong = _table_1()
    lines = [*table, "", *_figure_9(figure), ""]
    lines += _measured_head(f"seeds {seeds[0]} .. {seeds[-1]}")
    for number, name, clusters, gateways in MEASURED:
        sizes = [number // clusters + (cluster < number % clusters) for cluster in range(clusters)]
        measured = Measured()
        for seed in seeds:
            LoadModel(layout(clusters, gateways, sizes), stream(seed, f"clusters {number} {name}"), measured).run(ROWS)
        lines.append(_measured(number, name, measured))
        say(f"{number} stations, {name}: done")
    return Finding("\n".join([*lines, "", *_rule_b()]), _chart(figure), is_wrong)


def _table_1() -> tuple[list[str], bool]:
    lines = [
        "Table 1: loads as shares of those of a flat cluster (n=100, h=4), as computed / as printed",
        " g   entity",
    ]
    lines[1] = f" g{'CEP/n^3':>22}{'GEP/gn^2':>20}"
    is_wrong = False
    for gateways, (entity, gateway) in TABLE_1.items():
        got = shares(STATIONS, 4, SHAPES_1[gateways])
        is_wrong = is_wrong or f"{got.entity:.6f} {got.gateway:.4f}" != f"{entity:.6f} {gateway:.4f}"
        lines.append(f"{gateways:2}{got.entity:12.6f} / {entity:.6f}{got.gateway:12.4f} / {gateway:.4f}")
    return lines, is_wrong


def _figure_9(figure: dict[int, Shares]) -> list[str]:
    lines = ["Figure 9: the same for h clusters and a gateway for every two (n=100); * least"]
    lines.append(f" h{'(1) entity':>14}{'(2) gateway':>14}{'(3) gateways':>14}{'(4) total':>14}")
    names = ("entity", "gateway", "gateways", "total")
    least = {name: min(figure, key=lambda h, name=name: getattr(figure[h], name)) for name in names}  # type: ignore[misc]
    for clusters, share in figure.items():
        cells = (f"{getattr(share, name):13.4f}{'*' if least[name] == clusters else ' '}" for name in names)
        lines.append((f"{clusters:2}" + "".join(cells)).rstrip())
    return lines


def _measured_head(span: str) -> list[str]:
    return [
        f"The cores, without loss ({span}): frames and cells of one element for one row of the group, hops until all",
        "  n  clusters      sent to all       received           cells touched       level",
        "                 DATA  CLAIMS    station gateway     station gateway       1     2     3",
    ]


def _measured(number: int, name: str, measured: Measured) -> str:
    def cell(value: float | None, width: int, digits: int) -> str:
        return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"

    received = "".join(cell(measured.mean(measured.received, kind), 8, 1) for kind in (0, 1))
    cells = "".join(cell(measured.mean(measured.cells, kind), 8, 0) for kind in (0, 1))
    hops = "".join(f"{measured.hops(level):6.1f}" for level in (1, 2, 3))
    data, claims = measured.data / measured.rows, measured.claims / measured.rows
    return f"{number:3}  {name:11}{data:5.1f}{claims:8.1f}   {received}    {cells}  {hops}"


def _rule_b() -> list[str]:
    lines = [
        "Rule B: load of the busiest process, flat by pairs of sqrt(n) clusters",
        "R: control PDUs of an element for a row of each station; F: what a PDU costs beside its vector, in cells",
        f"{'R':>5}{'F':>6}" + "".join(f"{f'n={number}':>9}" for number in NUMBERS),
    ]
    for controls, fixed in COSTS:
        gains = "".join(_gain(gain(number, controls, fixed)) for number in NUMBERS)
        lines.append(f"{controls:5}{fixed:6}" + gains)
    heads = ", ".join(f"{isqrt(number)} for n={number}" for number in NUMBERS)
    return [
        *lines,
        f"Clusters: {heads}.",
        "Above 1 pairs have less to do. R and F as measured of stations, and what follows: mss-station plan.",
    ]


def _gain(value: float) -> str:
    return f"{value:9.2f}" if value > 1 else f"{'flat':>9}"


def _chart(figure: dict[int, Shares]) -> str:
    curves: dict[str, Points] = {
        "(1) CEP/n^3, one entity": [(h, share.entity) for h, share in figure.items()],
        "(2) GEP/gn^2, one gateway": [(h, share.gateway) for h, share in figure.items()],
        "(3) GEP/n^3, all gateways": [(h, share.gateways) for h, share in figure.items()],
        "(4) TEP/n^3, all": [(h, share.total) for h, share in figure.items()],
    }
    return line_chart(
        f"Loads as shares of those of a flat cluster of {STATIONS}, a gateway for every two clusters", "clusters",
        "share", ((2, 5, 10, 15, 20, 25), (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)), curves,
    )  # fmt: skip
