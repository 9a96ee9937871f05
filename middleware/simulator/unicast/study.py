"""How many s-records and integers a mail carries, beside N^2, the matrix and SES (future work of paper 002)."""

from __future__ import annotations

from roamcast.middleware.simulator.lan.study import Finding, Say
from roamcast.middleware.simulator.lan.svg import Points, line_chart
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.unicast.headers import AT_ACK, AT_SEND, PLAIN, HeaderModel, Sizes, Traffic

NUMBERS = (4, 8, 16, 32)
"""Of stations."""
LOADS = (
    ("uniform", 0.2, 0.0), ("uniform", 1.0, 0.0), ("uniform", 1.0, 0.8), ("uniform", 4.0, 0.0),
    ("fanout", 1.0, 0.8), ("fanout", 4.0, 0.0), ("groups", 1.0, 0.0), ("star", 1.0, 0.8), ("ring", 4.0, 0.0),
    ("pairs", 4.0, 0.0), ("chain", 1.0, 0.8),
)  # fmt: skip
"""(pattern, rate, reply)."""
MAILS = 2_000
"""Measured in each run."""
CURVES = {
    "fanout, rate 4": ("fanout", 4.0, 0.0),
    "uniform, rate 1": ("uniform", 1.0, 0.0),
    "groups, rate 1": ("groups", 1.0, 0.0),
    "star, rate 1": ("star", 1.0, 0.8),
    "ring, rate 4": ("ring", 4.0, 0.0),
}


def study_records(seeds: range, say: Say) -> Finding:
    """The table over all loads; the chart shows the form that stations use."""
    sums: dict[Traffic, Sizes] = {}
    for number in NUMBERS:
        for pattern, rate, reply in LOADS:
            traffic = Traffic(number, pattern, rate, reply)
            sums[traffic] = Sizes()
            for seed in seeds:
                rng = stream(seed, f"headers {number} {pattern} {rate} {reply}")
                sums[traffic].add(HeaderModel(traffic, rng).run(MAILS))
        say(f"{number} stations: done")
    span = f"seeds {seeds[0]} .. {seeds[-1]}"
    broken = any(most > (traffic.stations - 1) ** 2 for traffic, sizes in sums.items() for most in sizes.most.values())
    return Finding("\n".join([*_head(span), *(_line(*item) for item in sums.items())]), _chart(sums, span), broken)


def _head(span: str) -> list[str]:
    return [
        f"Records (average / most) and integers (average) of a header ({span}, {MAILS} mails each)",
        "CMD: paper 002, corrected; once: records superseded at the send; acked: when acknowledged, as stations do it",
        " N  pattern  rate reply |           CMD          once         acked    N^2 |   RST    SES   CMD  once acked",
    ]


def _line(traffic: Traffic, sizes: Sizes) -> str:
    number, mails = traffic.stations, sizes.mails
    means = [sizes.records[form] / mails for form in (PLAIN, AT_SEND, AT_ACK)]
    cells = "".join(
        f"{mean:8.1f} /{sizes.most[form]:4}" for mean, form in zip(means, (PLAIN, AT_SEND, AT_ACK), strict=True)
    )
    ses = number + (number + 1) * sizes.entries / mails
    ints = "".join(f"{number + 3 * mean:6.0f}" for mean in means)
    return (
        f"{number:2}  {traffic.pattern:8}{traffic.rate:5}{traffic.reply:6} |{cells}{number**2:7} |"
        f"{number**2:6}{ses:7.0f}{ints}"
    )


def _chart(sums: dict[Traffic, Sizes], span: str) -> str:
    curves: dict[str, Points] = {"N^2": [(number, number**2) for number in NUMBERS]}
    for name, load in CURVES.items():
        points = ((number, sums[Traffic(number, *load)]) for number in NUMBERS)
        curves[name] = [(number, sizes.records[AT_ACK] / sizes.mails) for number, sizes in points]
    return line_chart(
        f"s-records that a mail carries on average ({span})", "stations", "records",
        (NUMBERS, (0.5, 1, 10, 100, 1_024)), curves, is_logarithmic=True,
    )  # fmt: skip
