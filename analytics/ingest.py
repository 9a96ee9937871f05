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
from roamcast.analytics.bounds import only_possible
from roamcast.analytics.columns import found
from roamcast.analytics.evidence import Segment, joined, joined_texts, rows, without_copies
from roamcast.analytics.ingest_journals import journal_tables
from roamcast.analytics.ingest_live import live_tables
from roamcast.analytics.ingest_mails import mail_tables
from roamcast.analytics.ingest_orders import OrderRows
from roamcast.analytics.ingest_sessions import client_events
from roamcast.analytics.ingest_subscriptions import subscription_tables
from roamcast.analytics.tables import Ints, Tables

OF_HOSTS = ("session", "ack", "member", "handoff", "ended", "subscribed", "live")
JOIN = 5


def ingest(segments: Sequence[Segment], carried: Sequence[Segment] = ()) -> tuple[Tables, pa.Table]:
    """Make all tables of `tables.TABLES` from segments.

    carried: events that an earlier night has kept, as segments that are no files (see nights.py).
    Returns the tables, and the violations that are seen here: `facts_differ`, `order_conflict`.
    """
    segments = without_copies(map(only_possible, segments))
    stations = [*carried, *(s for s in segments if s.is_station and s.readable)]
    journals = [s for s in segments if not s.is_station and s.readable]
    names = _names(stations)
    order = OrderRows(stations)
    orders, conflicts = order.table()
    clients, client_of = _clients(stations, journals, names, order)
    messages, differences = order.messages(client_of)
    clients = _joins(clients, messages)
    made: Tables = {
        "clients": clients,
        "messages": messages,
        "stamps": order.stamps(),
        "orders": orders,
        "segments": _segments(segments),
        **client_events(stations, client_of, messages),
        **subscription_tables(stations, order, client_of),
        **journal_tables(journals, clients),
        **mail_tables(stations),
        **live_tables(stations, journals, clients, client_of),
    }
    return made, tables.violations(conflicts + differences)


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
    stations: Sequence[Segment], journals: Sequence[Segment], names: dict[int, str], order: OrderRows
) -> tuple[pa.Table, ClientIndex]:
    """Everybody who is mentioned: senders, members, hosts with a session or a journal."""
    hosts = [order.fact("host"), *(joined(stations, event, "host") for event in OF_HOSTS)]
    incarnations = [
        order.fact("incarnation"),
        *(joined(stations, event, "incarnation", np.uint64) for event in OF_HOSTS),
    ]
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
