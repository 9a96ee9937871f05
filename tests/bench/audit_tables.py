"""What an audit costs, as text."""

from __future__ import annotations

from bench.audit import FLOOR, GATES, TARGETS
from bench.child import Json
from bench.tables import table


def report(found: Json) -> str:
    """All tables."""
    return "\n".join([*(size(one) for one in found["audit"]), hard(found["hard"])])


def size(found: Json) -> str:
    """One number of deliveries."""
    ways = found["ways"]
    floor = ways[FLOOR]
    rows = []
    for name, one in ways.items():
        ratio = one["cpu_s"] / floor["cpu_s"]
        target = TARGETS.get(name)
        cells = [f"{one['wall_s']:.2f}", f"{one['cpu_s']:.2f}", f"{1e6 * one['cpu_s'] / found['deliveries']:.2f}"]
        rows.append([name, *cells, f"{ratio:.2f} x", "" if target is None else f"{target:g} x"])
    head = ["", "wall, s", "CPU, s", "us a delivery", "CPU, floors", "target"]
    notes = [
        f"50 stations, 200 hosts, {found['events']:,} events in files; local[2], heap 1 GiB; CPU of driver, JVM and",
        "workers together. checks: from tables to the verdict, by buckets of hosts; nothing is shuffled, for logs tell",
        "ranges. from files: decoding, chains, ingest and checks. The SQL looks at less than the checks do.",
        f"most memory, MiB: {memory(found['peak_mib'])}",
    ]
    return table(f"Audit of {found['deliveries']:,} deliveries", head, rows, notes)


def hard(found: Json) -> str:
    """Skew and small files."""
    rows = [
        [one["name"], f"{one['deliveries']:,}", f"{one['files']:,}", f"{one['wall_s']:.1f}", f"{one['cpu_s']:.1f}",
         memory(one["peak_mib"])]
        for one in found
    ]  # fmt: skip
    head = ["", "deliveries", "files", "wall, s", "CPU, s", "most memory, MiB"]
    return table("Hard shapes, from files, on Spark with a heap of 1 GiB", head, rows, [])


def memory(peaks: Json) -> str:
    """Names and peaks of processes, the largest first."""
    return ", ".join(f"{name.split()[0]} {mib:,}" for name, mib in sorted(peaks.items(), key=lambda one: -one[1]))


GATED = 2_000_000
"""Deliveries below which what every run costs outweighs the rest."""


def is_good(found: Json) -> bool:
    """Whether Spark's ways are within their gates at all sizes at which that means something."""
    return not any(over(one) for one in found["audit"] if one["deliveries"] >= GATED)


def over(found: Json) -> list[str]:
    """Ways that took more than their gate."""
    ways = found["ways"]
    return [name for name, gate in GATES.items() if ways[name]["cpu_s"] > gate * ways[FLOOR]["cpu_s"]]
