"""One night after the other: a day's run over what is new and what is not settled, and the state that it leaves.

Source: audit.md 3.4; BL-74, BL-75. An event belongs to the UTC day of its own clock; a run sees no event of a later
day, so it does not depend on when it is made, but for one thing: a log that goes on in a segment of a later day proves
that nothing is missing at the end of this one. The cut W is the least T of a message that somebody is still owed or
that a station has not ordered, and at most MARGIN before midnight; everything below W is settled and not read again.
What a run finds is what no earlier night has reported. While evidence is missing the cut stays and the day
is provisional. A clock is held only against messages that are not settled: a settled one came first everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from roamcast.analytics import tables, verdict
from roamcast.analytics.bounds import chosen
from roamcast.analytics.carried import Carried, Log, load_before
from roamcast.analytics.checks.completeness import Followed
from roamcast.analytics.days import DAY, WHOLE, span
from roamcast.analytics.engine import (
    EVENTS,
    HEADER,
    NOTHING,
    Engine,
    EngineError,
    Report,
    Say,
    Wanted,
    silent,
    sorted_findings,
)
from roamcast.analytics.engine_local import LocalEngine
from roamcast.analytics.evidence import OK, OPEN, TORN, UNSIGNED, Segment, rows
from roamcast.analytics.ingest import ingest
from roamcast.analytics.judgement import GRACE, Options
from roamcast.analytics.reading import Keys
from roamcast.analytics.settling import MARGIN, came_back, given_up, settled
from roamcast.analytics.tables import UNDECIDED, Tables

HOLD = 7 * DAY
"""us; a host that has acknowledged nothing for so long does not hold the cut back."""


@dataclass(slots=True)
class Night:
    """A day's run."""

    report: Report
    """Only what no earlier night has reported; what is undecided is told each night."""
    state: Carried
    group: str = ""


@dataclass(frozen=True)
class WantedOfNight:
    """What a night that ends at `until`, us, reads of a segment. read_from, cut: as in `Carried`."""

    read_from: Mapping[Log, int]
    cut: int
    until: int
    group: str | None = None
    """None: any."""

    def __call__(self, header: Mapping[str, Any]) -> int:
        """NOTHING, HEADER or EVENTS."""
        if not header:
            return EVENTS
        if self.group is not None and header.get("group") != self.group:
            return NOTHING
        opened = int(header.get("opened") or 0)
        later = opened >= self.until
        if header.get("writer") == "journal":  # a segment of it holds a day at most
            return NOTHING if later or opened + 2 * DAY < self.cut else EVENTS
        if later:
            return HEADER
        log = (int(header.get("slot") or 0), int(header.get("generation") or 0))
        return EVENTS if int(header.get("seq") or 0) >= self.read_from.get(log, 0) else NOTHING


def wanted(carried: Carried, until: int, group: str | None = None) -> WantedOfNight:
    """What a night that ends at `until` reads, from the state of an earlier one."""
    return WantedOfNight(carried.read_from, carried.cut, until, group)


@dataclass(frozen=True)
class WantedOfAll:
    """A `Wanted` of every segment, or of every one of a group."""

    group: str | None = None

    def __call__(self, header: Mapping[str, Any]) -> int:
        """NOTHING or EVENTS."""
        return NOTHING if header and self.group is not None and header.get("group") != self.group else EVENTS


everything = WantedOfAll()
"""A `Wanted` of every segment."""


def group_of(segments: Sequence[Segment]) -> str:
    """The group whose stations have closed segments here; empty: there is none. Raises EngineError: there are several.

    A file that no station has signed must not keep an audit from running, whatever group it names.
    """
    groups = sorted({str(each.header["group"]) for each in segments if each.is_station and each.status == OK})
    if len(groups) > 1:
        names = " and ".join(map(ascii, groups))
        raise EngineError(f"there are logs of the groups {names}: say of which one (--group)")
    return groups[0] if groups else ""


def of_one_group(segments: Sequence[Segment]) -> tuple[list[Segment], list[dict[str, Any]]]:
    """The segments of the group, and `segment_of_other_group` for the others. Raises EngineError as `group_of`."""
    group = group_of(segments)
    mine = [each for each in segments if not group or each.header.get("group", group) == group]
    kept = set(map(id, mine))
    return mine, [
        {"kind": "segment_of_other_group", "severity": UNDECIDED,
         "witness": f"{each.path} is of group {each.header['group']!a}, and no station of that has signed it"}
        for each in segments
        if id(each) not in kept
    ]  # fmt: skip


def goes_on(segments: Iterable[Segment], verified: bool) -> frozenset[Followed]:
    """The ends of logs that these segments of later days continue. verified: one that nobody has signed is no proof."""
    good = (OK,) if verified else (OK, OPEN, TORN, UNSIGNED)
    return frozenset(
        (
            each.station,
            int(each.header.get("generation") or 0),
            int(each.header["seq"]) - 1,
            bytes(each.header["prev"] or b"").hex(),
        )
        for each in segments
        if each.status in good
    )


def clipped(segment: Segment, until: int) -> Segment:
    """The segment without events of `until` and later."""
    if all(not rows(columns) or int(np.max(columns["wall"])) < until for columns in segment.events.values()):
        return segment
    kept = {event: chosen(columns, np.asarray(columns["wall"]) < until) for event, columns in segment.events.items()}
    made = Segment(segment.header, kept, segment.status, segment.path, segment.end, segment.closed)
    made.count = segment.count
    return made


def run_night(
    segments: Iterable[Segment],
    day: str,
    carried: Carried,
    *,
    hold: int = HOLD,
    margin: int = MARGIN,
    grace: int = GRACE,
    verified: bool = False,
    more: Sequence[Mapping[str, Any]] = (),
    engine: Engine | None = None,
    say: Say = silent,
) -> Night:
    """Judge one day.

    segments: at least those that are `wanted`; carried: the state of an earlier day; verified: signatures were.
    more: findings of who has read them (keys.py).
    """
    engine = engine or LocalEngine()
    since, until = span(day)
    needs = wanted(carried, until)
    given = [(segment, needs(segment.header)) for segment in segments]
    read = [clipped(segment, until) for segment, what in given if what == EVENTS]
    followed = goes_on((segment for segment, what in given if what == HEADER), verified)
    made, differences = ingest(read, carried.segments())
    options = Options(
        since,
        until,
        margin,
        grace,
        before=replace(carried.before(), followed=followed),
        floor=carried.floor,
        stamps_start=carried.floor,
        numbers=carried.numbers,
        mail_unsure=carried.mail_unsure,
        has_subscriptions=carried.has_subscriptions,
    )
    report = engine.judge(above(made, carried), differences, made["orders"], options, say)
    of_nights = [_of_left_behind(report, carried), _given_up(report, carried, day), tables.violations(more)]
    report.findings = sorted_findings(pa.concat_tables([report.findings, *of_nights]))
    keys = [key_of(row) for row in report.findings.to_pylist()]
    report.findings, all_keys = _new(report.findings, keys, carried), frozenset(keys)
    report.verdict = verdict.overall(report.findings)
    pending = {client: len(messages) for client, messages in report.outcome.pending.items()}
    report.hosts = verdict.per_host(made["clients"], report.findings, pending)
    state = settled(read, report, carried, day, (hold, margin))
    state.reported = all_keys
    return Night(report, state, group_of(read))


def _of_left_behind(report: Report, carried: Carried) -> pa.Table:
    """Hosts that come back to messages which are settled without them: their order is not known any more."""
    since = report.case.options.since
    text = (
        "was away for so long that earlier nights have settled without it what it was given now: its order is not known"
    )
    return tables.violations(
        {"kind": "below_window", "severity": UNDECIDED, "client": client, "host": name, "wall": since,
         "witness": f"host {name} {text}"}
        for client, name in came_back(report.case, carried).items()
    )  # fmt: skip


def _given_up(report: Report, carried: Carried, day: str) -> pa.Table:
    """That this night stops waiting for logs."""
    if not report.case.incomplete or not given_up(carried, day):
        return tables.empty(tables.VIOLATIONS)
    who = ", ".join(map(str, sorted(report.case.incomplete)))
    text = f"logs of stations {who} have been missing since {carried.held_since}: they are not waited for any longer"
    return tables.violations([{"kind": "logs_given_up", "severity": UNDECIDED, "witness": text}])


def run_whole(
    segments: Iterable[Segment], engine: Engine, say: Say = silent, more: Sequence[Mapping[str, Any]] = ()
) -> Night:
    """Judge all that there is in one run: of a group that was stopped. The state it leaves is of no use to a night.

    more: as in `run_night`.
    """
    read = list(segments)
    made, differences = ingest(read)
    differences = pa.concat_tables([differences, tables.violations(more)])
    report = engine.judge(made, differences, made["orders"], Options(), say)
    return Night(report, Carried(WHOLE), group_of(read))


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the logs are, and how they are read."""

    engine: Engine
    logs: str
    group: str | None = None
    """None: there is only one."""
    keys: Keys | None = None
    doubts: Sequence[Mapping[str, Any]] = ()
    """Both as `keys.load` has returned them."""
    say: Say = silent

    def read(self, needs: Wanted) -> tuple[list[Segment], list[Mapping[str, Any]]]:
        """Read what is needed; also what is doubtful of it. Raises EngineError: no engine, or several groups."""
        segments, strange = of_one_group(self.engine.read(self.logs, needs, self.keys, self.say))
        return segments, [*self.doubts, *strange]


def audit_whole(source: Source) -> Night:
    """Judge all that there is. Raises EngineError."""
    segments, doubts = source.read(WantedOfAll(source.group))
    return run_whole(segments, source.engine, source.say, doubts)


def audit_night(source: Source, states: Path, day: str) -> Night:
    """Judge one day, from the state of an earlier day. The state it leaves is not saved.

    states: the folder that has the states (carried.py).

    Raises:
        ValueError: the state of the earlier day cannot be read.
        EngineError: see `Source.read`.
    """
    carried, until = load_before(states, day), span(day)[1]
    segments, doubts = source.read(wanted(carried, until, source.group))
    verified = source.keys is not None
    return run_night(segments, day, carried, verified=verified, more=doubts, engine=source.engine, say=source.say)


def above(made: Tables, carried: Carried) -> Tables:
    """The tables without settled messages, and with the stamps of the last settled ones."""
    if not carried.floor:
        return made
    result = dict(made)
    for name in ("messages", "orders", "given"):
        slot, n = tables.column(made[name], "slot"), tables.column(made[name], "n")
        floor = np.zeros(int(max(slot.max(initial=0), *carried.floor)) + 1, np.int64)
        floor[list(carried.floor)] = list(carried.floor.values())
        result[name] = made[name].filter(pa.array(n >= floor[slot]))
    stamps = made["stamps"]
    slot, n = tables.column(stamps, "slot"), tables.column(stamps, "n")
    floor = np.zeros(int(max(slot.max(initial=0), *carried.floor)) + 1, np.int64)
    floor[list(carried.floor)] = list(carried.floor.values())
    old = [
        (slot, entry, carried.floor[slot] - 1, value)
        for slot, stamp in carried.stamps.items()
        for entry, value in stamp.items()
    ]
    kept = (
        tables.table(tables.STAMPS, dict(zip(tables.STAMPS.names, zip(*old, strict=True), strict=True)))
        if old
        else None
    )
    fresh = stamps.filter(pa.array(n >= floor[slot]))
    result["stamps"] = pa.concat_tables([kept, fresh]) if kept is not None else fresh
    return result


def key_of(row: Mapping[str, Any]) -> str:
    """What makes a finding the same one in two nights."""
    names = ("kind", "severity", "host", "slot", "n", "other_slot", "other_n")
    where = 0 if row["host"] or row["kind"] == "facts_differ" else row["station"]
    return hashlib.sha256(repr([where, *(row[name] for name in names)]).encode()).hexdigest()[:20]


def _new(findings: pa.Table, keys: Sequence[str], carried: Carried) -> pa.Table:
    fresh = pa.array([key not in carried.reported for key in keys], pa.bool_())
    return findings.filter(pc.or_(fresh, pc.equal(findings.column("severity"), UNDECIDED)))
