"""What a night has settled, and what the next one still needs. Source: audit.md 3.4."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.carried import Carried, Log, Row
from roamcast.analytics.checks.stamps import UNKNOWN
from roamcast.analytics.engine import Report
from roamcast.analytics.evidence import Segment
from roamcast.analytics.history import NEVER
from roamcast.analytics.judgement import Case
from roamcast.analytics.settling_mails import mails
from roamcast.analytics.settling_topics import subscriptions
from roamcast.analytics.tables import Ints, is_sent

MARGIN = 600_000_000
"""us before midnight that are never settled: clocks of stations differ, and a row is ordered after it was made."""

GIVE_UP_DAYS = 7
"""Days after which logs that are missing are taken for lost."""


def settled(segments: Sequence[Segment], report: Report, carried: Carried, day: str, times: tuple[int, int]) -> Carried:
    """The state after a night: with a new cut, or the old one where evidence is missing. times: hold and margin, us.

    What has been missing for GIVE_UP_DAYS is not waited for any longer: else each night would read more than the last.
    """
    case = report.case
    if case.incomplete and not given_up(carried, day):
        return Carried(
            day, True, carried.held_since or day, carried.cut, carried.heads, carried.read_from, carried.floor,
            carried.stamps, carried.numbers, carried.ended, carried.events, carried.left_behind,
            carried.has_subscriptions, mail_unsure=carried.mail_unsure,
        )  # fmt: skip
    cut = _cut(report, *times)
    floor = _floor(case, carried, cut)
    heads = dict(carried.heads)
    for segment in segments:
        if segment.is_station and segment.header:
            log = (segment.station, int(segment.header.get("generation") or 0))
            seq = int(segment.header["seq"])
            if seq > heads.get(log, (0, ""))[0]:
                heads[log] = (seq, segment.end.hex())
    return Carried(
        day,
        False,
        "",
        max(cut, carried.cut),
        heads,
        _read_from(segments, heads, floor, case.options.until),
        floor,
        _stamps(case, carried, floor),
        _numbers(case, carried, floor),
        carried.ended | set(tables.column(case.made["closed"], "slot").tolist()),
        _events(case, floor),
        _left_behind(report, carried, floor),
        carried.has_subscriptions,
        mail_unsure=carried.mail_unsure | case.incomplete,
    )


def given_up(carried: Carried, day: str) -> bool:
    """Whether what was missing in the nights before `day` has been missing for too long."""
    since = carried.held_since
    return bool(since) and (date.fromisoformat(day) - date.fromisoformat(since)).days >= GIVE_UP_DAYS


def came_back(case: Case, carried: Carried) -> dict[int, str]:
    """Clients that were left behind and have acknowledged something in this night, and their names."""
    clients = case.made["clients"]
    pairs = zip(clients.column("host").to_pylist(), clients.column("incarnation").to_pylist(), strict=True)
    behind = [i for i, pair in enumerate(pairs) if pair in carried.left_behind]
    acks = case.made["acks"]
    active = np.unique(tables.column(acks, "client")[tables.column(acks, "wall") >= case.options.since])
    return {client: case.names[client] for client in behind if client in active}


def _left_behind(report: Report, carried: Carried, floor: dict[int, int]) -> frozenset[tuple[int, int]]:
    case = report.case
    history, clients = case.history, case.made["clients"]
    hosts, incarnations = clients.column("host").to_pylist(), clients.column("incarnation").to_pylist()
    limit = np.array([floor.get(slot, 0) for slot in history.slots.tolist()], np.int64)
    back = {(hosts[client], incarnations[client]) for client in came_back(case, carried)}
    behind = {
        (hosts[client], incarnations[client])
        for client, messages in report.outcome.pending.items()
        if len(messages) and (history.n[messages] < limit[history.column[messages]]).any()
    }
    return (carried.left_behind - back) | behind


def _cut(report: Report, hold: int, margin: int) -> int:
    """W: T of the oldest message that is not settled, us."""
    case = report.case
    history, until = case.history, case.options.until
    cut = until - margin
    acks = case.made["acks"]
    heard = np.zeros(len(case.names), np.int64)
    np.maximum.at(heard, tables.column(acks, "client"), tables.column(acks, "wall"))
    members = case.made["members"]
    np.maximum.at(heard, tables.column(members, "client"), tables.column(members, "wall"))
    for client, messages in report.outcome.pending.items():
        if len(messages) and heard[client] >= until - hold and client not in case.unsure:
            cut = min(cut, int(history.hlc[messages].min()))
    ordered = np.zeros(history.count, np.int64)
    living = 0
    for station, order in history.orders.items():
        if station in case.incomplete or case.membership.cut[history.column_of_slot[station]] < NEVER:
            continue
        living += 1
        last = np.full(len(history.slots), -1)
        real = order.message[order.message >= 0]
        np.maximum.at(last, history.column[real], history.n[real])
        ordered += (last[history.column] < 0) | (history.n <= last[history.column])
    waiting = (ordered < living) & (history.n <= case.membership.cut[history.column]) if history.count else ordered > 0
    return min(cut, int(history.hlc[waiting].min())) if waiting.any() else cut


def _floor(case: Case, carried: Carried, cut: int) -> dict[int, int]:
    """Slot -> the first number that is not settled."""
    history = case.history
    floor = dict(carried.floor)
    for slot in np.unique(history.slot).tolist():
        mine = np.flatnonzero(history.slot == slot)
        late = mine[history.hlc[mine] >= cut]
        first = history.n[late].min() if len(late) else history.n[mine].max() + 1
        floor[slot] = max(int(first), floor.get(slot, 0))
    return floor


def _read_from(
    segments: Sequence[Segment], heads: dict[Log, tuple[int, str]], floor: dict[int, int], until: int
) -> dict[Log, int]:
    """The first segment of each log with an order event that is not settled, or that was clipped."""
    made = {log: head[0] + 1 for log, head in heads.items()}
    for segment in segments:
        if not segment.is_station or not segment.header:
            continue
        log = (segment.station, int(segment.header.get("generation") or 0))
        orders = segment.events.get("order") or {}
        open_rows = False
        if orders and len(orders["wall"]):
            slot, n = np.asarray(orders["slot"]), np.asarray(orders["n"])
            open_rows = bool(np.any(n >= np.array([floor.get(s, 0) for s in slot.tolist()], np.int64)))
        held = sum(len(columns["wall"]) for columns in segment.events.values())
        if open_rows or held < segment.count or segment.closed >= until:
            made[log] = min(made[log], int(segment.header["seq"]))
    return made


def _stamps(case: Case, carried: Carried, floor: dict[int, int]) -> dict[int, dict[int, int]]:
    """The stamp of the last settled message of each station, as far as it is known."""
    history = case.history
    made = dict(carried.stamps)
    for slot, first in floor.items():
        at = history.find(np.array([slot]), np.array([first - 1]))
        if at[0] < 0:
            continue
        columns = np.arange(len(history.slots))
        says = case.stamps.value(np.repeat(at, len(columns)), columns)
        made[slot] = {
            int(history.slots[k]): int(says[k])
            for k in columns.tolist()
            if says[k] != UNKNOWN and history.slots[k] != slot
        }
    return made


def _numbers(case: Case, carried: Carried, floor: dict[int, int]) -> dict[tuple[int, int], int]:
    history = case.history
    made = dict(carried.numbers)
    limit = np.array([floor.get(slot, 0) for slot in history.slots.tolist()], np.int64)
    closed = np.flatnonzero((history.client >= 0) & is_sent(history.kind))
    closed = closed[history.n[closed] < limit[history.column[closed]]] if len(closed) else closed
    clients = case.made["clients"]
    hosts, incarnations = clients.column("host").to_pylist(), clients.column("incarnation").to_pylist()
    for client in np.unique(history.client[closed]).tolist():
        key = (hosts[client], incarnations[client])
        last = int(history.number[closed[history.client[closed] == client]].max())
        made[key] = max(made.get(key, 0), last)
    return made


def _events(case: Case, floor: dict[int, int]) -> dict[int, dict[str, list[Row]]]:
    """Membership; sessions in which something that is not settled may have been given; how far they came; what stands
    of subscriptions.
    """
    made: dict[int, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    tables_of = case.made
    clients = tables_of["clients"]
    hosts, incarnations = clients.column("host").to_pylist(), clients.column("incarnation").to_pylist()
    kept = _kept(case, floor)
    rows = tables_of["sessions"].to_pylist()
    epochs: dict[int, set[int]] = defaultdict(set)
    known: dict[int, set[int]] = defaultdict(set)
    for row, keep in zip(rows, kept, strict=True):
        known[row["client"]].add(row["e"])
        if keep:
            epochs[row["client"]].add(row["e"])
    for row, keep in zip(rows, kept, strict=True):
        if keep:
            client = row["client"]
            gone = row["le"] in known[client] and row["le"] not in epochs[client]
            le, c = (0, 0) if gone else (row["le"], row["c"])
            told = (row["e"], row["at"], le, c, int(row["gap"]), row["base"], row["spool"])
            made[row["station"]]["session"].append((row["wall"], (hosts[client], incarnations[client], *told)))
    for row in _last_acks(tables_of["acks"]):
        if row["e"] in epochs[row["client"]]:
            of = (hosts[row["client"]], incarnations[row["client"]])
            made[row["station"]]["ack"].append((row["wall"], (*of, row["e"], row["c"])))
    for row in tables_of["members"].to_pylist():
        of = (hosts[row["client"]], incarnations[row["client"]])
        made[row["station"]]["member"].append((row["wall"], (*of, row["what"], row["base"])))
    for row in tables_of["closed"].to_pylist():
        made[row["station"]]["closed"].append((row["wall"], (row["slot"], row["heir"], row["cut"])))
    for station, event, row_of in (*subscriptions(case, floor, kept), *mails(case)):
        made[station][event].append(row_of)
    for host, name in sorted(set(zip(hosts, case.names, strict=True))):
        if not name.startswith("#"):
            made[int(host) >> 32]["host"].append((0, (host, name)))
    return {slot: {event: _without_copies(of) for event, of in events.items()} for slot, events in made.items()}


def _without_copies(rows: list[Row]) -> list[Row]:
    return list({repr(row): row for row in rows}.values())


def _kept(case: Case, floor: dict[int, int]) -> list[bool]:
    """Per session: no later one of its client was seen, or the next such one's base covers something not settled."""
    sessions, history = case.sessions, case.history
    limit = np.array([floor.get(slot, 0) for slot in history.slots.tolist()], np.int64)
    seen = np.flatnonzero(sessions.seen)
    kept = np.ones(len(sessions.e), bool)
    at = np.searchsorted(seen, np.arange(len(kept)), side="right")
    known = np.flatnonzero(at < len(seen))
    later = seen[at[known]]
    same = sessions.client[later] == sessions.client[known]
    known, later = known[same], later[same]
    kept[known] = (sessions.base[later] >= np.maximum(limit, 1)).any(axis=1)
    flags: list[bool] = kept.tolist()
    return flags


def _last_acks(acks: Any) -> list[dict[str, Any]]:
    """The furthest acknowledgement of each session; the table is sorted by (client, e, c)."""
    client: Ints = tables.column(acks, "client")
    e = tables.column(acks, "e")
    last = np.ones(len(client), bool)
    last[:-1] = (client[1:] != client[:-1]) | (e[1:] != e[:-1])
    rows: list[dict[str, Any]] = acks.take(np.flatnonzero(last)).to_pylist()
    return rows
