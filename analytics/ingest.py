"""Segments -> tables: joins what all stations tell, gives clients their numbers, and compares facts.

Source: audit.md 3.1; docs/protocols/delivery-log.md. Facts of a message are told by every station that ordered it;
they must agree. Where they do not, the origin's word is used and the difference is a violation. Nothing here trusts an
order, a clock or a completeness: that is for the checks. Memory: at its peak some 350 bytes for each message and
station, 128 of them the events themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, message_key, starts_of
from roamcast.analytics.evidence import Segment, joined, joined_lists, joined_texts, origin_of, rows, without_copies
from roamcast.analytics.ingest_journals import journal_tables
from roamcast.analytics.ingest_sessions import client_events
from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Ints, Tables

FACTS = ("kind", "host", "incarnation", "number", "hlc", "taken_e", "taken_c", "addressee", "size")
"""What every station's order event says of a message, and what has to be the same everywhere."""

SENDS = (0, 1, 2)
"""Kinds of messages that a host sends: BROADCAST, MAIL, REFUSED."""

OF_HOSTS = ("order", "session", "ack", "member", "handoff")
JOIN = 5


def ingest(segments: Sequence[Segment], carried: Sequence[Segment] = ()) -> tuple[Tables, pa.Table]:
    """Make all tables of `tables.TABLES` from segments.

    carried: events that an earlier night has kept, as segments that are no files (see nights.py).
    Returns the tables, and the violations that are seen here: `facts_differ`, `order_conflict`.
    """
    segments = without_copies(segments)
    stations = [*carried, *(s for s in segments if s.is_station and s.readable)]
    journals = [s for s in segments if not s.is_station and s.readable]
    names = _names(stations)
    clients, client_of = _clients(stations, journals, names)
    orders, order_rows = _orders(stations)
    messages, stamps, differences = _messages(stations, order_rows, client_of)
    clients = _joins(clients, messages)
    made: Tables = {
        "clients": clients,
        "messages": messages,
        "stamps": stamps,
        "orders": orders["table"],
        "segments": _segments(segments),
        **client_events(stations, client_of, messages),
        **journal_tables(journals, clients),
    }
    return made, tables.violations(orders["conflicts"] + differences)


def _names(stations: Sequence[Segment]) -> dict[int, str]:
    """Host number -> name."""
    numbers = joined(stations, "host", "host")
    return dict(zip(numbers.tolist(), joined_texts(stations, "host", "name"), strict=True))


class ClientIndex:
    """(host, incarnation) -> dense number."""

    def __init__(self, host: Ints, incarnation: npt.NDArray[np.uint64]) -> None:
        self.hosts, self.incarnations = np.unique(host), np.unique(incarnation)
        codes = np.unique(self._codes(host, incarnation))
        self.codes: Ints = codes
        width = max(1, len(self.incarnations))
        self.host: Ints = self.hosts[codes // width] if len(codes) else np.zeros(0, np.int64)
        self.incarnation = self.incarnations[codes % width] if len(codes) else np.zeros(0, np.uint64)

    def _codes(self, host: Ints, incarnation: npt.NDArray[np.uint64]) -> Ints:
        i = np.searchsorted(self.hosts, host)
        j = np.searchsorted(self.incarnations, incarnation)
        codes: Ints = i * max(1, len(self.incarnations)) + j
        return codes

    def __call__(self, host: Ints, incarnation: npt.NDArray[np.uint64]) -> Ints:
        """The client's number of each row; all must be known."""
        return found(self.codes, self._codes(host, incarnation))


def _clients(
    stations: Sequence[Segment], journals: Sequence[Segment], names: dict[int, str]
) -> tuple[pa.Table, ClientIndex]:
    """Everybody who is mentioned: senders, members, hosts with a session or a journal."""
    hosts = [joined(stations, event, "host") for event in OF_HOSTS]
    incarnations = [joined(stations, event, "incarnation", np.uint64) for event in OF_HOSTS]
    numbers = {name: number for number, name in names.items()}
    for journal in journals:
        number = numbers.get(str(journal.header.get("id")))
        if number is not None:
            hosts.append(np.array([number], np.int64))
            incarnations.append(np.array([journal.header.get("incarnation") or 0], np.uint64))
    host, incarnation = np.concatenate(hosts), np.concatenate(incarnations)
    index = ClientIndex(host[host != 0], incarnation[host != 0])
    count = len(index.codes)
    return tables.table(
        tables.CLIENTS,
        {
            "client": np.arange(count),
            "host": index.host,
            "incarnation": index.incarnation,
            "name": [names.get(number, f"#{number}") for number in index.host.tolist()],
            "join": np.zeros(count, np.int64),
        },
    ), index


def _joins(clients: pa.Table, messages: pa.Table) -> pa.Table:
    """Fill in the place of each incarnation among the joins of its name, from the JOIN rows."""
    join = tables.column(clients, "join").copy()
    rows_of_join = tables.column(messages, "kind") == JOIN
    join[tables.column(messages, "client")[rows_of_join]] = tables.column(messages, "number")[rows_of_join]
    at = clients.schema.get_field_index("join")
    return clients.set_column(at, clients.schema.field(at), pa.array(join))


def _orders(stations: Sequence[Segment]) -> tuple[dict[str, Any], Ints]:
    """The stations' orders without repeated rows. Returns (table and conflicts, index of all order events)."""
    station = np.array([s.station for s in stations], np.int64)[origin_of(stations, "order")]
    position, slot, n, wall = (joined(stations, "order", name) for name in ("position", "slot", "n", "wall"))
    seq = np.array([int(s.header.get("seq") or 0) for s in stations], np.int64)[origin_of(stations, "order")]
    key = message_key(slot, n)
    by = np.lexsort((key, wall, position, station))
    first = starts_of(station[by], position[by])
    kept = by[first]
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(by))))
    other = np.flatnonzero(key[by] != key[kept][group])
    conflicts = [
        {
            "kind": "order_conflict", "station": station[j], "slot": slot[i], "n": n[i], "other_slot": slot[j],
            "other_n": n[j], "place": position[j], "wall": wall[j],
            "witness": f"station {station[j]} has two messages at position {position[j]} of its order: "
            f"{slot[i]}:{n[i]} and {slot[j]}:{n[j]}",
        }
        for i, j in zip(kept[group[other]].tolist(), by[other].tolist(), strict=True)
    ]  # fmt: skip
    columns = {"station": station, "position": position, "slot": slot, "n": n, "wall": wall, "seg": seq}
    table = tables.table(tables.ORDERS, {name: values[kept] for name, values in columns.items()})
    return {"table": table, "conflicts": conflicts}, station


def _messages(
    stations: Sequence[Segment], station: Ints, client_of: ClientIndex
) -> tuple[pa.Table, pa.Table, list[dict[str, Any]]]:
    """One row per message, the changes of stamps, and where stations tell different facts."""
    slot, n, wall = (joined(stations, "order", name) for name in ("slot", "n", "wall"))
    facts: dict[str, npt.NDArray[Any]] = {name: joined(stations, "order", name) for name in FACTS}
    facts["incarnation"] = joined(stations, "order", "incarnation", np.uint64)
    key = message_key(slot, n)
    own = station == slot
    by = np.lexsort((wall, ~own, key))
    first = starts_of(key[by])
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(by))))
    chosen = by[first]
    differs = np.zeros(len(by), bool)
    for values in facts.values():
        differs |= values[by] != values[chosen][group]
    differences = _differences(facts, slot, n, station, wall, by[differs], chosen[group[differs]])
    told_by = np.zeros(len(first), np.int64)
    pairs = starts_of(np.sort(group * (1 << 20) + station[by])) if len(by) else np.zeros(0, np.int64)
    np.add.at(told_by, np.sort(group * (1 << 20) + station[by])[pairs] >> 20, 1)
    client = np.full(len(chosen), tables.NO_CLIENT, np.int64)
    from_host = facts["host"][chosen] != 0
    picked = chosen[from_host]
    client[from_host] = client_of(facts["host"][picked], facts["incarnation"][picked])
    place = (facts["taken_e"][chosen] << PLACE_SHIFT) | (facts["taken_c"][chosen] + PLACE_ZERO)
    columns = {
        "slot": slot[chosen], "n": n[chosen], "kind": facts["kind"][chosen], "client": client,
        "number": facts["number"][chosen], "hlc": facts["hlc"][chosen], "place": place,
        "addressee": facts["addressee"][chosen], "size": facts["size"][chosen], "wall": wall[chosen],
        "origin": own[chosen], "stations": told_by,
    }  # fmt: skip
    return tables.table(tables.MESSAGES, columns), _stamps(stations, chosen[own[chosen]], slot, n), differences


def _differences(
    facts: dict[str, npt.NDArray[Any]], slot: Ints, n: Ints, station: Ints, wall: Ints, other: Ints, used: Ints
) -> list[dict[str, Any]]:
    made: dict[tuple[int, int], dict[str, Any]] = {}
    for i, j in zip(other.tolist(), used.tolist(), strict=True):
        message = (int(slot[i]), int(n[i]))
        if message in made:
            made[message]["count"] += 1
            continue
        what = [f"{name} {facts[name][i]} and {facts[name][j]}" for name in FACTS if facts[name][i] != facts[name][j]]
        made[message] = {
            "kind": "facts_differ", "station": station[i], "slot": slot[i], "n": n[i], "wall": wall[i], "count": 1,
            "witness": f"stations {station[i]} and {station[j]} tell different facts of message {slot[i]}:{n[i]}: "
            + ", ".join(what),
        }  # fmt: skip
    return list(made.values())


def _stamps(stations: Sequence[Segment], own_rows: Ints, slot: Ints, n: Ints) -> pa.Table:
    """Changes of stamps: what the origins' own rows say."""
    offsets, values = joined_lists(stations, "order", "stamp")
    begin, length = offsets[own_rows], (offsets[own_rows + 1] - offsets[own_rows]) // 2
    row = np.repeat(own_rows, length)
    at = np.repeat(begin, length) + 2 * (np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length))
    entry, value = values[at], values[at + 1]
    by = np.lexsort((n[row], entry, slot[row]))
    columns = {"slot": slot[row], "entry": entry, "n": n[row], "value": value}
    return tables.table(tables.STAMPS, {name: each[by] for name, each in columns.items()})


def _segments(segments: Sequence[Segment]) -> pa.Table:
    """One row per file, whether its events could be used or not."""
    found_rows: dict[str, list[Any]] = {name: [] for name in tables.SEGMENTS.names}
    for segment in segments:
        header = segment.header
        walls = [c["wall"] for c in segment.events.values() if rows(c)]
        peers = {str(k): [int(v[0]), bytes(v[1]).hex()] for k, v in (header.get("peers") or {}).items()}
        row = {
            "writer": str(header.get("writer", "")), "id": str(header.get("id", "")), "slot": segment.station,
            "incarnation": int(header.get("incarnation") or 0), "generation": int(header.get("generation") or 0),
            "seq": int(header.get("seq") or 0), "prev": bytes(header.get("prev") or b""), "end": segment.end,
            "status": segment.status, "events": sum(rows(c) for c in segment.events.values()),
            "opened": int(header.get("opened") or 0), "closed": segment.closed,
            "wall_first": min((int(np.min(w)) for w in walls), default=0),
            "wall_last": max((int(np.max(w)) for w in walls), default=0),
            "note": str(header.get("note") or ""), "path": segment.path, "peers": json.dumps(peers, sort_keys=True),
        }  # fmt: skip
        for name, value in row.items():
            found_rows[name].append(value)
    return tables.table(tables.SEGMENTS, found_rows)
