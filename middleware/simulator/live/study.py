"""What MAX_CB costs and saves: waits and tags, by the paper's rule and with a horizon (future work of paper 003)."""

from __future__ import annotations

from roamcast.middleware.delta_causal.settings import LiveSettings, Rule
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.lan.study import Finding, Say
from roamcast.middleware.simulator.lan.svg import Points, line_chart
from roamcast.middleware.simulator.live.load import DELTA, Load, LoadModel, Measured
from roamcast.middleware.simulator.scenario import stream

NUMBERS = (8, 16)
"""Of stations."""
GAPS = (1, 5, 20)
"""Between two messages of a station: delta divided by this."""
BOUNDS = (1, 2, 4, 8, 16)
"""MAX_CB."""
MESSAGES = 4_000
"""Measured in each run; of broadcasts a tenth."""

Column = tuple[Rule, int | None]
UNBOUNDED: Column = (Rule.HORIZON, None)
COLUMNS: tuple[Column, ...] = (UNBOUNDED, *((rule, bound) for bound in BOUNDS for rule in (Rule.PAPER, Rule.HORIZON)))


def study_max_cb(seeds: range, say: Say) -> Finding:
    """The table over all loads; the chart shows waits among the larger number of stations."""
    sums: dict[tuple[Load, Column], Measured] = {}
    for is_broadcast in (False, True):
        for number in NUMBERS:
            for gap in GAPS:
                load = Load(number, DELTA // gap, is_broadcast)
                for column in COLUMNS:
                    sums[load, column] = _measured(load, column, seeds)
            say(f"{number} stations, {'broadcasts' if is_broadcast else 'to one'}: done")
    span = f"seeds {seeds[0]} .. {seeds[-1]}"
    lines = [*_head(span), *(_line(load, bound, sums) for load in _loads(sums) for bound in BOUNDS)]
    broken = any(_is_broken(load, column, measured) for (load, column), measured in sums.items())
    return Finding("\n".join(lines), _chart(sums, span), broken)


def _measured(load: Load, column: Column, seeds: range) -> Measured:
    rule, bound = column
    total = Measured()
    for seed in seeds:
        rng = stream(seed, f"load {load.stations} {load.gap} {load.is_broadcast}")
        model = LoadModel(load, LiveSettings(rule=rule, entries_max=bound), rng)
        total.add(model.run(MESSAGES // 10 if load.is_broadcast else MESSAGES))
    return total


def _loads(sums: dict[tuple[Load, Column], Measured]) -> list[Load]:
    return list(dict.fromkeys(load for load, _ in sums))


def _is_broken(load: Load, column: Column, measured: Measured) -> bool:
    """A tag has at most MAX_CB entries a list, and nothing waits beyond its deadline."""
    bound = column[1]
    lists = 1 if load.is_broadcast else load.stations - 1
    is_long = bound is not None and measured.entries > bound * lists * measured.messages
    return is_long or measured.waited > measured.until_deadline


def _head(span: str) -> list[str]:
    return [
        f"Mean wait after arrival in ms / mean entries of a tag ({span}, {MESSAGES} messages each, broadcasts a tenth)",
        "O(1): every message waits until its deadline; paper: paper 003; horizon: one entry a sender and a horizon",
        " N  to      gap        |   O(1)    unbounded     | MAX_CB        paper         horizon",
    ]


def _line(load: Load, bound: int, sums: dict[tuple[Load, Column], Measured]) -> str:
    cells = [
        f"{measured.wait_ms:5.1f} / {measured.mean_entries:5.1f}"
        for column in (UNBOUNDED, (Rule.PAPER, bound), (Rule.HORIZON, bound))
        for measured in [sums[load, column]]
    ]
    to = "all" if load.is_broadcast else "one"
    gap = "delta" if load.gap == DELTA else f"delta/{DELTA // load.gap}"
    return (
        f"{load.stations:2}  {to:6}  {gap:9}  |{sums[load, UNBOUNDED].deadline_ms:7.1f}{cells[0]:>17}    |"
        f"{bound:6}{cells[1]:>17}{cells[2]:>16}"
    )


def _chart(sums: dict[tuple[Load, Column], Measured], span: str) -> str:
    curves: dict[str, Points] = {}
    for gap in GAPS[1:]:
        load = Load(NUMBERS[-1], DELTA // gap)
        for name, rule in (("paper", Rule.PAPER), ("horizon", Rule.HORIZON)):
            curves[f"{name}, delta/{gap}"] = [(bound, sums[load, (rule, bound)].wait_ms) for bound in BOUNDS]
        least = sums[load, UNBOUNDED].wait_ms
        curves[f"unbounded, delta/{gap}"] = [(BOUNDS[0], least), (BOUNDS[-1], least)]
    return line_chart(
        f"Wait after arrival, {NUMBERS[-1]} stations, delta {DELTA // MS} ms ({span})", "MAX_CB", "mean wait, ms",
        (BOUNDS, (1, 2, 5, 10, 20, 50, 100)), curves, is_logarithmic=True,
    )  # fmt: skip
