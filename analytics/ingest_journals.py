"""Journals of agents -> the tables `given`, `sent` and `holes`.

Source: docs/protocols/delivery-log.md, 'A journal of an agent'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import place_of
from roamcast.analytics.evidence import OPEN, TORN, Segment, joined, joined_texts, origin_of
from roamcast.analytics.tables import Ints, Tables


def journal_tables(journals: Sequence[Segment], clients: pa.Table) -> Tables:
    """Make `given`, `sent` and `holes`. `row` is the order of the events of one client over all its segments.

    journals: sorted by generation and seq. clients: the table; journals of names that no station knows are left out.
    """
    owner = owners(journals, clients)
    given, sent = rows_of(journals, owner, "given"), rows_of(journals, owner, "sent")
    given |= {name: joined(journals, "given", name) for name in ("e", "c", "slot", "n", "host32", "number", "wall")}
    sent |= {name: joined(journals, "sent", name) for name in ("number", "e", "c", "wall")}
    addressee = joined_texts(journals, "sent", "addressee")
    holes = _holes(journals, owner, place_of(given["e"], given["c"]))
    known_given, known_sent = given["client"] >= 0, sent["client"] >= 0
    by = np.lexsort((given["row"], given["client"]))
    by = by[known_given[by]]
    to = np.lexsort((sent["row"], sent["client"]))
    to = to[known_sent[to]]
    return {
        "given": tables.table(tables.GIVEN, {name: values[by] for name, values in given.items()}),
        "sent": tables.table(
            tables.SENT,
            {**{name: values[to] for name, values in sent.items()}, "addressee": [addressee[i] for i in to.tolist()]},
        ),
        "holes": holes,
    }


def owners(journals: Sequence[Segment], clients: pa.Table) -> list[int]:
    """The client of each journal; -1: no station knows it."""
    pairs = zip(clients.column("name").to_pylist(), clients.column("incarnation").to_pylist(), strict=True)
    known = {pair: i for i, pair in enumerate(pairs)}
    return [known.get((str(j.header.get("id")), int(j.header.get("incarnation") or 0)), -1) for j in journals]


def _holes(journals: Sequence[Segment], owner: list[int], place: Ints) -> pa.Table:
    """Where segments were not closed: between what they have and what the next one of the same client has."""
    at = origin_of(journals, "given")
    made: dict[str, list[int]] = {"client": [], "low": [], "high": []}
    for i, journal in enumerate(journals):
        if owner[i] < 0 or journal.status not in (OPEN, TORN):
            continue
        mine = np.array(owner, np.int64)[at] == owner[i]
        made["client"].append(owner[i])
        made["low"].append(int(place[mine & (at <= i)].max(initial=-1)))
        made["high"].append(int(place[mine & (at > i)].min(initial=np.iinfo(np.int64).max)))
    return tables.table(tables.HOLES, made)


def rows_of(journals: Sequence[Segment], owner: list[int], event: str) -> dict[str, Ints]:
    """Client and row of each event: segments one behind the other, events by `seq` in them."""
    at = origin_of(journals, event)
    row = (at << 32) | joined(journals, event, "seq")
    return {"client": np.array(owner, np.int64)[at], "row": row}
