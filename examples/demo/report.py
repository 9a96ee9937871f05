"""The table at the end of a run, from the judge's verdict and the applications' logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demo.history import History
from demo.verdict import Verdict


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lies (nearest rank); 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def handoffs_us(history: History, asleep: frozenset[str] = frozenset()) -> list[int]:
    """Times from a call of move() to the session at that station, microseconds.

    Moves that were overtaken, and those of hosts that slept, are left out.
    """
    times = []
    asked: dict[str, tuple[object, int]] = {}
    moving = ("move", "attached")
    entries = [entry for entry in history.others if entry["event"] in moving and entry["host"] not in asleep]
    for entry in sorted(entries, key=lambda entry: int(str(entry["t"]))):
        host, t = str(entry["host"]), int(str(entry["t"]))
        if entry["event"] == "move":
            asked[host] = (entry["station"], t)
        elif host in asked:
            station, since = asked.pop(host)
            if station == entry["station"]:
                times.append(t - since)
    return times


def milliseconds(values_us: Sequence[float], share: float) -> str:
    """A percentile for the table."""
    return f"{percentile(values_us, share) / 1000:,.1f} ms"


def count(history: History, kind: str, state: str = "") -> int:
    """How many events of this kind the applications were given."""
    return sum(event.kind == kind and event.state == state for events in history.events.values() for event in events)


def table(verdict: Verdict, history: History, faults: dict[str, int], asleep: Iterable[str]) -> str:
    """The figures of a run, one a line. `asleep`: hosts whose latency is their sleep, left out of the percentiles."""
    skip = frozenset(asleep)
    latencies = [value for host, values in verdict.latencies_us.items() if host not in skip for value in values]
    moves = handoffs_us(history, skip)
    rows = {
        "messages": f"{verdict.messages:,}",
        "deliveries": f"{verdict.deliveries:,}",
        "on topics": f"{verdict.on_topics:,}",
        "last values": f"{count(history, 'value'):,}",
        "subscriptions": f"{count(history, 'change', 'subscribed'):,}",
        "handoffs": f"{len(moves):,}",
        **{name: f"{count:,}" for name, count in faults.items()},
        "latency p50": milliseconds(latencies, 0.50),
        "latency p99": milliseconds(latencies, 0.99),
        "handoff p50": milliseconds(moves, 0.50),
        "handoff p99": milliseconds(moves, 0.99),
    }
    if verdict.gaps:
        rows["discontinuities"] = f"{verdict.gaps:,}"
    wide = max(map(len, rows))
    return "\n".join(f"  {name:<{wide}}  {value:>12}" for name, value in rows.items())
