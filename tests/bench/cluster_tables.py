"""The tables of `bench --clusters`, as text."""

from __future__ import annotations

from bench.child import Json
from bench.cluster_load import CLAIMS, COMPOSITE, DATA, FLAT_GROUP
from bench.tables import table


def report(found: Json) -> str:
    """Both tables."""
    cores = [row for one in found["cores"] for row in _rows(one)]
    head = ["stations", "clusters", "who", "DATA", "CLAIMS", "CPU us", "busiest us", "flat / this"]
    return "\n".join(
        [
            table("Cores in one process: received and used for each message of the group", head, cores),
            table("Processes", head, _rows(found["processes"])),
        ]
    )


def _rows(one: Json) -> list[list[str]]:
    rows = []
    for name, clusters in ((FLAT_GROUP, 1), (COMPOSITE, one["clusters"])):
        told = one[name]
        gain = one[FLAT_GROUP]["busiest"]["us"] / told["busiest"]["us"]
        ends = [f"{told['busiest']['us']:.0f}", f"{gain:.2f}"]
        for who in ("station", "gateway"):
            if told[who] is not None:
                load = [f"{told[who][DATA]:.2f}", f"{told[who][CLAIMS]:.2f}", f"{told[who]['us']:.0f}"]
                rows.append([str(one["stations"]), str(clusters), who, *load, *ends])
                ends = ["", ""]
    return rows
