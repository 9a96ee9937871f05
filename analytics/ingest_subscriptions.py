"""Subscriptions, their ends, and SUBs that others than the host have ended: from events to tables.

Source: docs/protocols/delivery-log.md, 'Topics'. There are few of these rows, beside messages. What of a host is in
force where is for subscriptions.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.columns import message_key, starts_of
from roamcast.analytics.evidence import Segment
from roamcast.analytics.ingest_orders import OrderRows
from roamcast.analytics.ingest_sessions import Clients, columns_of_event
from roamcast.analytics.tables import Ints, Tables
from roamcast.middleware.delivery_log import ENDED, SUBSCRIBED


def subscription_tables(stations: Sequence[Segment], order: OrderRows, client_of: Clients) -> Tables:
    """Make `changes` and `ended`."""
    made = order.changes(client_of)
    made = {
        name: np.concatenate((made[name], values)) for name, values in _of_before(stations, client_of, made).items()
    }
    by = np.lexsort([made[name] for name in ("position", "station", "n", "slot", "number", "topic", "client")])
    by = by[starts_of(*(made[name][by] for name in ("client", "topic", "number", "slot", "n", "station")))]
    ended = columns_of_event(stations, ENDED, client_of, "topic", "slot", "n", "e", "c", "last")
    to = np.lexsort([ended[name] for name in ("station", "wall", "n", "slot", "c", "e", "client")])
    return {
        "changes": tables.table(tables.CHANGES, {name: values[by] for name, values in made.items()}),
        "ended": tables.table(tables.ENDED, {name: values[to] for name, values in ended.items()}),
    }


def _of_before(stations: Sequence[Segment], client_of: Clients, ordered: dict[str, Ints]) -> dict[str, Ints]:
    """SUBs that an earlier night has kept, or a log that begins later than its host was subscribed."""
    told = columns_of_event(stations, SUBSCRIBED, client_of, "topic", "slot", "n")
    key = message_key(ordered["slot"], ordered["n"])
    by = np.argsort(key, kind="stable")
    wanted = message_key(told["slot"], told["n"])
    at = np.searchsorted(key[by], wanted)
    known = np.append(key[by], -1)[at] == wanted
    facts = {name: np.append(ordered[name][by], 0)[at] for name in ("number", "place")}
    count = len(wanted)
    return {
        **{name: told[name] for name in ("client", "topic", "slot", "n")},
        **{name: np.where(known, values, 0) for name, values in facts.items()},
        "sub": np.ones(count, bool), "station": np.zeros(count, np.int64), "position": np.zeros(count, np.int64),
    }  # fmt: skip
