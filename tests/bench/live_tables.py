"""The tables of live messages, as text."""

from __future__ import annotations

import textwrap

from bench.child import Json
from bench.live_flood import ELSEWHERE, FLOODED, OWN_FLOODED, OWN_UNLOADED, TIMES, UNLOADED
from bench.live_load import BARE, CAUSES, DEADLINE_US, HOSTS_EACH, STATION
from bench.tables import table

BESIDE = {UNLOADED: UNLOADED, ELSEWHERE: UNLOADED, FLOODED: UNLOADED, OWN_UNLOADED: OWN_UNLOADED,
          OWN_FLOODED: OWN_UNLOADED}  # fmt: skip
"""What each is a multiple of."""


def report(found: Json) -> str:
    """All tables."""
    return "\n".join([load(found["load"]), flood(found["flood"]), reverse(found["flood"]["reverse"])])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 116)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share > 0.0005 else "0"


def _four(told: Json) -> list[str]:
    return [f"{told[way][share]:.1f}" for way in ("one", "two") for share in ("p50", "p99")]


def load(found: list[Json]) -> str:
    """Latency and what is missing, by offered load."""
    rows, capacities = [], []
    for one in found:
        ours, bare = (one["capacity"][name] for name in (STATION, BARE))
        capacities.append(f"{one['stations']} stations: {ours:,.0f} messages a second, bare {bare:,.0f}.")
        for cell in one["cells"]:
            told, beside = cell[STATION], cell[BARE]
            rows.append(
                [
                    f"{one['stations']} stations, {cell['factor']:g} x",
                    f"{told['rate']:,.0f}",
                    *_four(told),
                    _percent(told["missing"]),
                    " / ".join(_percent(told["causes"][cause]) for cause in CAUSES),
                    *_four(beside),
                    _percent(beside["missing"]),
                ]
            )
    head = ["of the capacity", "offered/s", "same p50", "p99", "other p50", "p99", "missing %", " / ".join(CAUSES)]
    notes = _wrapped(
        f"Live broadcasts of 128 bytes, deadline {DEADLINE_US // 1_000} ms, by all of {HOSTS_EACH} hosts at each "
        "station in turn. ms from the call to the arrival at hosts of the same and of other stations; missing: of "
        "what all others were to be given, %. By cause: shed by the sender's station, unread; lost between stations, "
        "no time or a full queue; over its deadline or overtaken; the host had not been sent all it is owed, or its "
        "queue was full. bare: PUB and SUB with CURVE between relays, the same sockets for hosts. Best round of each. "
        "Capacity (less than 1 % missing): " + " ".join(capacities)
    )
    return table(
        "Live messages against offered load", [*head, "bare p50", "p99", "p50", "p99", "missing %"], rows, notes
    )


def flood(found: Json) -> str:
    """Durable messages beside a flood."""
    rows = []
    for name, told in found["flood"].items():
        beside, flooding = found["flood"][BESIDE[name]], told["flood"]
        ratios = [
            told[way][share] / max(0.001, beside[way][share]) for way in ("one", "two") for share in ("p50", "p99")
        ]
        rates = ["", "", ""]
        if flooding:
            counts, seconds = told["counts"], flooding["seconds"]
            through = flooding["sent"] - flooding["untaken"]
            taken = counts.get("taken", 0) if name != ELSEWHERE else 0
            rates = [f"{number / seconds:,.0f}" for number in (flooding["sent"], through, taken)]
        rows.append(
            [
                name,
                *_four(told),
                *(f"{ratio:.1f} x" if told is not beside else "" for ratio in ratios),
                *rates,
                f"{told['lost']}",
            ]
        )
    head = ["", "one p50", "p99", "two p50", "p99", "one p50", "p99", "two p50", "p99"]
    notes = _wrapped(
        f"ms host to host over one and over two stations, 100 durable broadcasts a second, durability FULL; then as a "
        f"multiple of unloaded. flooded: four other hosts, in a process with the least priority, send live broadcasts "
        f"at {TIMES} x the capacity: {found['asked']:,.0f} a second. elsewhere: the same at two other stations on this "
        "machine; what is more at the flooded ones is theirs. own connection: a flooding host sends the durable ones "
        "too. offered, through, taken: live messages a second that were tried, that the hosts' sockets took, and that "
        "the stations took. lost: durable messages, of all rounds. Best round of each."
    )
    return table(
        "Durable messages beside a flood of live ones", [*head, "offered", "through", "taken", "lost"], rows, notes
    )


def reverse(found: list[Json]) -> str:
    """Live messages beside a flood of broadcasts."""
    rows = []
    for told in found:
        beside = f"{told['durable_rate']:,.0f} broadcasts/s" if told["broadcasts"] else "alone"
        most = max(told[way]["most"] for way in ("one", "two"))
        causes = " / ".join(_percent(told["causes"][cause]) for cause in CAUSES)
        rows.append(
            [
                f"deadline {told['deadline_us'] / 1_000:g} ms, {beside}",
                *_four(told),
                f"{most:.1f}",
                _percent(told["missing"]),
                causes,
                f"{told['past']['count']}",
                f"{told['late_in_all']}",
                f"{told['lost']}",
            ]
        )
    head = ["100 live messages/s", "same p50", "p99", "other p50", "p99", "oldest", "missing %", " / ".join(CAUSES)]
    notes = _wrapped(
        "ms from the call to the arrival. over: given beyond the deadline, counted from when the station took it; "
        "late: for certain, less the shortest way to the host, and what the measuring process had been busy with since "
        "it last waited for something to come (all rounds). Shown is the round with the latest. Of four hosts that "
        "send and are measured; causes of all hosts (what these four found too old counts twice). lost: durable."
    )
    return table(
        "Live messages beside broadcasts as fast as they are taken", [*head, "over", "late", "lost"], rows, notes
    )
