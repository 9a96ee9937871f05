"""Is the evidence whole? Segments, chains, heads that peers vouch for, stations that must have a log, known messages.

Source: audit.md 2.4, R4; field reports BL-69 to BL-73. Nothing here is a broken promise of delivery: what is missing or
not to be trusted makes the audit undecided, names the station, and says what is missing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.history import History
from roamcast.analytics.streams import Sessions
from roamcast.analytics.tables import INFO, UNDECIDED, Tables

CLOSED_STATUS = "closed"
UNSIGNED_STATUS = "unsigned"
"""Whole, of a station whose keys are not known."""

Head = tuple[int, str]
"""(seq, chain end in hex)"""

Followed = tuple[int, int, int, str]
"""(slot, generation, seq, chain end in hex) of a segment"""


@dataclass(slots=True)
class Before:
    """What earlier nights have seen: segments up to these were there and in order."""

    heads: Mapping[tuple[int, int], Head] = field(default_factory=dict)
    """(slot, generation) -> last segment before the ones given now."""
    ended: frozenset[int] = frozenset()
    """Stations that had ended by then: no log of them is expected any more."""
    retired: frozenset[int] = frozenset()
    """Stations that have ended in order by now: their logs go on no longer, but must be whole."""
    followed: frozenset[Followed] = frozenset()
    """Ends that a segment of a later day continues: so these logs reach the end of the day."""


def with_ends(before: Before, closed: pa.Table, since: int) -> Before:
    """Also what these rows say of ends. What a lost station had logged and not uploaded is missed in its night only."""
    rows = closed.to_pylist()
    lost = {row["slot"] for row in rows if row["heir"] == 0 and row["wall"] < since}
    return replace(
        before,
        ended=before.ended | lost,
        retired=frozenset(row["slot"] for row in rows if row["heir"] != 0),
    )


@dataclass(slots=True)
class Times:
    """us; as in judgement.Options."""

    until: int
    margin: int
    grace: int


def segments(found: pa.Table, before: Before, until: int = 0) -> list[dict[str, Any]]:
    """Judge the files: status, forks, missing numbers, broken chains, heads that peers saw.

    until: us; every station's log should reach it, 0: no such time. Findings are `segment_STATUS`, `keys_missing`,
    `segment_fork`, `segment_missing`, `chain_broken`, `head_missing`, `head_differs`, `log_ends_early`; all UNDECIDED.
    """
    rows = [row for row in found.to_pylist() if row["writer"] != "journal"]
    made = [_status(row) for row in rows if row["status"] not in (CLOSED_STATUS, UNSIGNED_STATUS)]
    made += [
        _finding("keys_missing", slot, f"there are no public keys of station {slot} ({id}) to check its signatures by")
        for slot, id in sorted({(row["slot"], row["id"]) for row in rows if row["status"] == UNSIGNED_STATUS})
    ]
    lines: dict[tuple[int, int], dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["slot"] and row["status"] != "forged":
            lines[row["slot"], row["generation"]][row["seq"]].append(row)
    for (slot, generation), line in sorted(lines.items()):
        made += _chain(slot, line, before.heads.get((slot, generation)))
    made += _heads(rows, lines, before)
    return made + _early(lines, before, until) if until else made


def _early(
    lines: Mapping[tuple[int, int], Mapping[int, list[dict[str, Any]]]], before: Before, until: int
) -> list[dict[str, Any]]:
    """Stations whose log neither reaches `until` nor goes on in a segment of a later day."""
    last: dict[int, int] = defaultdict(int)
    for (slot, generation), line in lines.items():
        for row in (row for same in line.values() for row in same):
            reached = until if (slot, generation, row["seq"], row["end"].hex()) in before.followed else 0
            last[slot] = max(last[slot], row["closed"], row["wall_last"], row["opened"], reached)
    return [
        _finding("log_ends_early", slot, f"the log of station {slot} ends before the end of the day", wall=wall)
        for slot, wall in sorted(last.items())
        if wall < until and slot not in before.ended | before.retired
    ]


def _finding(kind: str, station: int, witness: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "severity": UNDECIDED, "station": station, "witness": witness, **more}


def _status(row: Mapping[str, Any]) -> dict[str, Any]:
    what = {
        "open": "has no end: it was being written, or was cut off after",
        "torn": "ends in the middle of a block; whole up to",
        "damaged": "was changed or damaged; whole up to",
        "forged": "is not signed by the station it names; it has",
    }.get(row["status"], f"is {row['status']}; it has")
    who = f"station {row['slot']}" if row["slot"] else "an unknown station"
    witness = f"{row['path'] or 'segment'} of {who}, number {row['seq']}, {what} {row['events']} events"
    return _finding(f"segment_{row['status']}", row["slot"], witness, place=row["seq"], wall=row["wall_last"])


def _chain(slot: int, line: Mapping[int, list[dict[str, Any]]], before: Head | None) -> Iterator[dict[str, Any]]:
    """One station's segments of one generation."""
    expected = before[0] + 1 if before else 1
    ends = {before[1]} if before else {""}
    for seq in sorted(line):
        same = line[seq]
        if len({row["end"] for row in same}) > 1:
            yield _finding("segment_fork", slot, f"station {slot} has two different segments {seq}", place=seq)
        if before and seq <= before[0]:
            continue  # read again for what is still open
        if seq > expected:
            text = f"segments {expected} to {seq - 1} of station {slot} are not there"
            text = f"segment {expected} of station {slot} is not there" if seq == expected + 1 else text
            wall = same[0]["wall_first"]
            yield _finding("segment_missing", slot, text, place=expected, other_place=seq - 1, wall=wall)
        elif not any(row["prev"].hex() in ends for row in same):
            text = f"segment {seq} of station {slot} does not continue segment {seq - 1}"
            yield _finding("chain_broken", slot, text, place=seq, wall=same[0]["wall_first"])
        expected = seq + 1
        ends = {row["end"].hex() for row in same}


def _heads(
    rows: list[dict[str, Any]], lines: Mapping[tuple[int, int], Mapping[int, list[dict[str, Any]]]], before: Before
) -> Iterator[dict[str, Any]]:
    """What other stations have seen as closed segments of each station must be there, with that end."""
    vouched: dict[tuple[int, int, str], int] = {}
    for row in rows:
        if row["status"] == "forged":
            continue
        for slot, (seq, end) in json.loads(row["peers"]).items():
            if int(slot) not in (row["slot"], *before.ended) and seq > 0:
                vouched.setdefault((int(slot), seq, end), row["slot"])
    known = {head for (slot, _), head in before.heads.items()}
    for (slot, seq, end), witness in sorted(vouched.items()):
        ends = {
            row["end"].hex()
            for (owner, _), line in lines.items()
            if owner == slot
            for row in line.get(seq, [])
            if row["status"] in (CLOSED_STATUS, UNSIGNED_STATUS)
        }
        old = any(owner == slot and seq <= head[0] for (owner, _), head in before.heads.items())
        if end in ends or (seq, end) in known or (old and not ends):
            continue
        kind = "head_differs" if ends else "head_missing"
        what = "has another end" if ends else "is not there"
        text = f"station {witness} has seen segment {seq} of station {slot} closed with end {end[:16]}; it {what}"
        yield _finding(kind, slot, text, place=seq)


def stations(made: Tables, history: History, sessions: Sessions, before: Before) -> list[dict[str, Any]]:
    """Find stations that exist by anybody's word and have no log: `station_log_missing`; `no_logs`: there is none."""
    found = made["segments"].to_pylist()
    have = {row["slot"] for row in found if row["writer"] != "journal" and row["status"] != "forged"}
    have |= {slot for (slot, generation), head in before.heads.items() if (slot, generation, *head) in before.followed}
    told = {int(slot) for row in found for slot in json.loads(row["peers"])} | set(np.unique(history.slot).tolist())
    told |= {slot for slot, _ in before.heads}
    told |= set(history.slots[sessions.base.max(axis=0, initial=0) > 0].tolist())
    for name, columns in (("handoffs", ("to",)), ("closed", ("slot", "heir"))):
        for column in columns:
            told |= set(tables.column(made[name], column).tolist())
    missing = sorted(told - have - before.ended - {0})
    if not have and not missing:
        return [_finding("no_logs", 0, "there is no log of any station")]
    return [_finding("station_log_missing", slot, f"there is no log of station {slot}") for slot in missing]


def orders(made: Tables, sessions: Sessions) -> list[dict[str, Any]]:
    """Find stations whose hosts have acknowledged more than the station tells to have ordered: `order_short`."""
    last: dict[int, int] = defaultdict(int)
    station, position = tables.column(made["orders"], "station"), tables.column(made["orders"], "position")
    for each in np.unique(station).tolist():
        last[each] = int(position[station == each].max())
    reached: dict[int, int] = defaultdict(int)
    for each, acked in zip(sessions.station.tolist(), sessions.acked.tolist(), strict=True):
        reached[each] = max(reached[each], acked)
    return [
        _finding("order_short", each, f"hosts of station {each} have acknowledged its order up to position {acked}, "
                 f"and its log tells of it up to {last[each]}", place=acked)
        for each, acked in sorted(reached.items())
        if acked > last[each]
    ]  # fmt: skip


def messages(
    history: History, sessions: Sessions, incomplete: set[int], lost: set[int], times: Times
) -> list[dict[str, Any]]:
    """Find messages whose origin does not tell of them, or of which nobody tells.

    incomplete: stations whose log is not whole. lost: stations that were lost for good, with what they had not ordered.
    times.grace after it came a message that its origin's log does not have, though that goes on, is `invented`. Also:
    `origin_log_missing`, `messages_unknown`.
    """
    made: list[dict[str, Any]] = []
    claimed = sessions.base.max(axis=0, initial=0)
    for column, slot in enumerate(history.slots.tolist()):
        rows = np.flatnonzero(history.slot == slot)
        n = history.n[rows]
        first, last = (int(n[0]), int(n[-1])) if len(n) else (int(claimed[column]) + 1, int(claimed[column]))
        unknown = max(last, int(claimed[column])) - first + 1 - len(n)
        if unknown > 0:
            text = f"of station {slot}'s messages {first} to {max(last, int(claimed[column]))} {unknown} are in no log"
            made.append(_finding("messages_unknown", slot, text, slot=slot, n=first, count=unknown))
        made += _not_by_origin(history, slot, rows, slot in incomplete, slot in lost, times)
    return made


def _not_by_origin(
    history: History, slot: int, rows: Any, incomplete: bool, lost: bool, times: Times
) -> list[dict[str, Any]]:
    own = rows[history.by_origin[rows]]
    others = rows[~history.by_origin[rows]]
    order = history.orders.get(slot)
    if len(own):
        others = others[history.n[others] > history.n[own[0]]]  # from before the log of the origin begins
    elif not incomplete and order is None:
        return []
    reach = int(order.wall.max()) if order is not None and len(order.wall) else 0
    made = []
    degrees = _degrees(history.wall[others], reach, incomplete, times)
    if lost:
        degrees = {INFO: np.ones(len(others), bool)}
    for severity, mask in degrees.items():
        which = others[mask]
        if not len(which):
            continue
        x = int(which[0])
        kind = "invented" if severity == "violation" else "origin_log_missing"
        text = f"station {slot} does not tell of its message {history.name(x)}"
        text += f" and {len(which) - 1} more" if len(which) > 1 else ""
        row = _finding(kind, slot, text + ", but another station does", slot=slot, n=history.n[x], count=len(which))
        made.append(row | {"severity": severity, "wall": history.wall[x]})
    return made


def _degrees(wall: Any, reach: int, incomplete: bool, times: Times) -> dict[str, Any]:
    """How sure it is that the origin never had them: severity -> mask."""
    if incomplete:
        return {UNDECIDED: np.ones(len(wall), bool)}
    surely = wall + times.grace < reach
    soon = (times.until > 0) & (wall + times.margin > times.until) & ~surely
    return {"violation": surely, INFO: soon, UNDECIDED: ~surely & ~soon}


def cuts(history: History, cut: Any, lost: set[int]) -> list[dict[str, Any]]:
    """Find messages of an ended station above its cut that another station has ordered: `beyond_cut`.

    What only it and other lost stations had ordered was lost with them, though their hosts may have been given it.
    """
    if not history.count:
        return []
    beyond = np.flatnonzero(history.n > cut[history.column])
    kept = np.zeros(len(beyond), bool)
    for station in history.orders:
        if station not in lost:
            kept |= (history.position_at(station, beyond) > 0) & (history.slot[beyond] != station)
    beyond = beyond[kept]
    return [
        {
            "kind": "beyond_cut", "station": history.slot[x], "slot": history.slot[x], "n": history.n[x],
            "wall": history.wall[x],
            "witness": f"{history.name(x)} was ordered, but the stream of station {history.slot[x]} was cut at "
            f"{cut[history.column[x]]}",
        }
        for x in beyond.tolist()
    ]  # fmt: skip


def concerned(made: Tables, sessions: Sessions, incomplete: set[int], names: list[str]) -> list[dict[str, Any]]:
    """Say of which hosts nothing is sure, because the log of a station that may know more is not whole: `evidence`.

    Those with a session at such a station or a handoff to it, and those enrolled there of whom no session is known.
    """
    if not incomplete:
        return []
    hosts = made["clients"].column("host").to_numpy()
    why: dict[int, str] = {}
    there = np.isin(sessions.station, list(incomplete))
    for client, station in zip(sessions.client[there].tolist(), sessions.station[there].tolist(), strict=True):
        why[client] = f"it had a session at station {station}"
    for row in made["handoffs"].to_pylist():
        if row["to"] in incomplete:
            why.setdefault(row["client"], f"custody was promised to station {row['to']}")
    for client in range(len(names)):
        home = int(hosts[client]) >> 32
        a, b = sessions.range_of[client : client + 2]
        if a == b and home in incomplete:
            why.setdefault(client, f"it was enrolled at station {home}")
    return [
        {"kind": "evidence", "severity": UNDECIDED, "client": client, "host": names[client],
         "witness": f"host {names[client]}: {reason}, whose log is not whole"}
        for client, reason in sorted(why.items())
    ]  # fmt: skip
