"""A night as one JSON object: the verdict in a sentence, counts, findings with their places in the logs, numbers.

Source: audit.md section 7. Two runs of the same night give the same object but for `run`. Times in us; what there is
nothing to tell of is null. Findings are always counted in full; of each kind EXAMPLES are told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from roamcast.analytics.days import WHOLE
from roamcast.analytics.nights import Night
from roamcast.analytics.report import figures, live
from roamcast.analytics.report.kinds import EVIDENCE, kind_of
from roamcast.analytics.report.positions import Positions
from roamcast.analytics.report.words import counted, listed, shown
from roamcast.analytics.tables import INFO, NO_CLIENT, PLACE_SHIFT, PLACE_ZERO, UNDECIDED, VIOLATION
from roamcast.analytics.verdict import CLEAN, VIOLATED

SCHEMA = 1
EXAMPLES = 100
"""Findings of a kind that are told one by one."""

WORST, SLOWEST = 100, 12
"""Hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """How a night was run: all that differs between two runs of one night."""

    day: str
    """UTC day, or `nights.WHOLE`."""
    logs: str
    engine: str
    """"spark 4.3.0" or "local"."""
    keys: str
    """How signatures were checked, in words."""
    software: str
    group: str
    run: str
    """Its name, of letters, digits and -."""
    begun: int
    ended: int
    """us"""


def summary(night: Night, about: About, reopened: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON object. reopened: days before this one that were run again for it, since more had come."""
    report, since = night.report, night.report.case.options.since
    moves = figures.moves(report.case.sessions, report.gaps, since)
    rows = report.findings.to_pylist()
    missing = [row for row in rows if row["severity"] == UNDECIDED and row["kind"] in EVIDENCE]
    files, new = figures.files_of_day(report), figures.new_messages(report)
    stations = figures.by_station(report, moves, files, {row["station"] for row in missing})
    hosts = figures.hosts(figures.by_host(report, moves), WORST, SLOWEST)
    latency = figures.of_all(report.latencies)
    made = {
        "schema": SCHEMA,
        "day": about.day,
        "verdict": report.verdict,
        "sentence": "",
        "provisional": night.state.provisional,
        "counts": {
            "messages": new.counts(),
            "deliveries": latency["deliveries"],
            "hosts": report.hosts.num_rows,
            "hosts_active": hosts["active"],
            "stations": len(stations),
            "segments": len(files),
            "handoffs": len(moves.wall),
            "reconnections": moves.again,
            "pending": hosts["pending"],
            "findings": {severity: _by_kind(rows, severity) for severity in (VIOLATION, UNDECIDED, INFO)},
        },
        "missing": _missing(missing),
        "findings": _groups(rows, Positions(report)),
        "stations": stations,
        "live": live.by_station(report),
        "hosts": {name: value for name, value in hosts.items() if name not in ("active", "pending")},
        "latency": latency,
        "gaps": figures.gaps(moves),
        "hours": figures.by_hour(report, new, moves),
        "run": {**asdict(about), "reopened": list(reopened)},
    }
    made["sentence"] = _sentence(made, rows)
    return made


def _by_kind(rows: Iterable[Mapping[str, Any]], severity: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rows:
        if row["severity"] == severity:
            counts[row["kind"]] += row["count"]
    return dict(sorted(counts.items()))


def _missing(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What evidence is missing or cannot be trusted: of which stations, and what."""
    return {
        "stations": sorted({row["station"] for row in rows} - {0}),
        "count": len(rows),
        "list": [
            {"kind": row["kind"], "station": row["station"], "witness": shown(row["witness"])} for row in _capped(rows)
        ],
    }


def _capped(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    seen: Counter[str] = Counter()
    made = []
    for row in rows:
        seen[row["kind"]] += 1
        if seen[row["kind"]] <= EXAMPLES:
            made.append(row)
    return made


def _groups(rows: Iterable[Mapping[str, Any]], positions: Positions) -> list[dict[str, Any]]:
    """Findings by severity and kind, violations first."""
    by: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by[row["severity"], row["kind"]].append(row)
    order = (VIOLATION, UNDECIDED, INFO)
    return [
        {
            "kind": kind, "severity": severity, "count": sum(row["count"] for row in mine), "rows": len(mine),
            "hosts": len({row["host"] for row in mine} - {""}),
            "examples": [_example(row, positions) for row in mine[:EXAMPLES]],
        }
        for (severity, kind), mine in sorted(by.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]  # fmt: skip


def _example(row: Mapping[str, Any], positions: Positions) -> dict[str, Any]:
    names = ("host", "station", "wall", "count", "witness")
    made = {name: shown(row[name]) if isinstance(row[name], str) else row[name] for name in names}
    made["message"], made["other"] = (
        f"{row[slot]}:{row[n]}" if row[slot] else "" for slot, n in (("slot", "n"), ("other_slot", "other_n"))
    )
    place = kind_of(row["kind"]).place
    made["place"], made["other_place"] = (_place(row[name], place, row["client"]) for name in ("place", "other_place"))
    return made | {"log": positions.of(row)}


def _place(place: int, kind: str, client: int) -> dict[str, int] | None:
    """Places at hosts as session and position; in a station's order as position."""
    if not place or not kind:
        return None
    if kind == "session":
        return {"session": place}
    if kind == "order" or client == NO_CLIENT:
        return {"position": place}
    return {"session": place >> PLACE_SHIFT, "position": (place & ((1 << PLACE_SHIFT) - 1)) - PLACE_ZERO}


# ---- the sentence ----


def _sentence(made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    counts = made["counts"]
    when = "In all these logs" if made["day"] == WHOLE else f"On {made['day']}"
    sent = sum(counts["messages"].values())
    traffic = (
        f"{counted(counts['deliveries'], 'delivery', 'deliveries')} to {counted(counts['hosts_active'], 'host')} at "
        f"{counted(counts['stations'], 'station')}; {counted(sent, 'new message')}"
    )
    if made["verdict"] == CLEAN:
        if not counts["deliveries"] and not sent:
            return f"{when} nothing was sent or delivered, and nothing is wrong."
        return f"{when} nothing was lost, doubled or out of order: {traffic}."
    if made["verdict"] == VIOLATED:
        return _violated(when, made, rows)
    return f"{when} nothing wrong was found, but it cannot be told whether all was right: {_why(made)}."


def _violated(when: str, made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = made["counts"]["findings"][VIOLATION]
    total = sum(kinds.values())
    what = listed([f"{kind_of(kind).title.lower()} ({number:,})" for kind, number in kinds.items()])
    broken = [row for row in rows if row["severity"] == VIOLATION]
    hosts = sorted({row["host"] for row in broken} - {""})
    told = listed([shown(host, 48) for host in hosts])
    at = f", at {'host' if len(hosts) == 1 else 'hosts'} {told}" if hosts else ""
    at = f", at {len(hosts):,} hosts" if len(hosts) > 3 else at
    first = f": {what}"
    if len(broken) == 1:
        at, first = "", f": {shown(broken[0]['witness'], 300)}"
    more = f" Evidence is missing, too, so there may be more: {_why(made)}." if _missing_at(made) else ""
    return f"{when} there {'was' if total == 1 else 'were'} {counted(total, 'violation')}{at}{first}.{more}"


def _missing_at(made: Mapping[str, Any]) -> bool:
    return bool(made["missing"]["count"] or made["counts"]["findings"][UNDECIDED])


def _why(made: Mapping[str, Any]) -> str:
    missing, undecided = made["missing"], made["counts"]["findings"][UNDECIDED]
    if missing["stations"]:
        names = {row["station"]: row["id"] for row in made["stations"]}
        who = [_station(slot, names.get(slot, "")) for slot in missing["stations"][:3]]
        more = len(missing["stations"]) - len(who)
        if more > 0:
            who.append(f"{more:,} others")
        plural = "logs of stations" if len(missing["stations"]) > 1 else "log of station"
        return f"the {plural} {listed(who)} {'are' if len(missing['stations']) > 1 else 'is'} not whole or not proven"
    if missing["count"]:
        return shown(missing["list"][0]["witness"], 200)
    return listed([f"{kind_of(kind).title.lower()} ({number:,})" for kind, number in undecided.items()])


def _station(slot: int, name: str) -> str:
    return f"{slot} ({shown(name, 48)})" if name else str(slot)
