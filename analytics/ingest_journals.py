"""Journals of agents -> the tables `given` and `sent`.

Source: docs/protocols/delivery-log.md, 'A journal of an agent'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.evidence import Segment, joined, joined_texts, origin_of
from roamcast.analytics.tables import Ints, Tables


def journal_tables(journals: Sequence[Segment], clients: pa.Table) -> Tables:
    """Make `given` and `sent`. `row` is the order of the events of one client over all its segments.

    journals: sorted by generation and seq. clients: the table; journals of names that no station knows are left out.
    """
    pairs = zip(clients.column("name").to_pylist(), clients.column("incarnation").to_pylist(), strict=True)
    known = {pair: i for i, pair in enumerate(pairs)}
    owner = [known.get((str(j.header.get("id")), int(j.header.get("incarnation") or 0)), -1) for j in journals]
    given, sent = _rows(journals, owner, "given"), _rows(journals, owner, "sent")
    given |= {name: joined(journals, "given", name) for name in ("e", "c", "slot", "n", "host32", "number", "wall")}
    sent |= {name: joined(journals, "sent", name) for name in ("number", "e", "c", "wall")}
    addressee = joined_texts(journals, "sent", "addressee")
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
    }


def _rows(journals: Sequence[Segment], owner: list[int], event: str) -> dict[str, Ints]:
    """Client and row of each event: segments one behind the other, events by `seq` in them."""
    at = origin_of(journals, event)
    row = (at << 32) | joined(journals, event, "seq")
    return {"client": np.array(owner, np.int64)[at], "row": row}
