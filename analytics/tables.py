"""The tables of the audit: what ingest makes of delivery logs, and what checks return. Columns, types, units.

Source: audit.md 3.1; docs/protocols/delivery-log.md. Times are microseconds since 1970 UTC. A *client* is one
incarnation of a host; it has a dense number that means nothing outside of one run. A message is named (slot, n) and,
inside of one run, by its index in the `messages` table (see history.py). A *place* orders everything that one client
was given or has sent: `middleware.delivery_log.place`; by its journal where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_CLIENT = -1
"""`client` where there is none: rows of control, violations of a station."""

PLACE_SHIFT = 40
PLACE_ZERO = 1 << 39
"""As in middleware/delivery_log.py; a test compares them."""

VIOLATION, UNDECIDED, INFO = "violation", "undecided", "info"
"""Severities: a promise was broken; it cannot be told; worth knowing, and no promise was broken."""


FIRST_CONTROL, FIRST_ON_TOPIC, FIRST_CHANGE, FIRST_PRESENCE, LAST_PRESENCE = 3, 8, 11, 14, 15
"""As in middleware/rows.py, `Kind`; a test compares them."""


def is_sent(kind: Ints) -> Flags:
    """Kinds of rows that a host has sent under a number of its own: messages, subscriptions and their ends."""
    made: Flags = (kind < FIRST_CONTROL) | ((kind >= FIRST_ON_TOPIC) & (kind < FIRST_PRESENCE))
    return made


def is_given(kind: Ints) -> Flags:
    """Kinds of rows that some host is given."""
    made: Flags = (kind < FIRST_CONTROL) | ((kind >= FIRST_ON_TOPIC) & (kind <= LAST_PRESENCE))
    return made


def is_change(kind: Ints) -> Flags:
    """Kinds of subscriptions and their ends: given to their own sender alone."""
    made: Flags = (kind >= FIRST_CHANGE) & (kind < FIRST_PRESENCE)
    return made


def is_on_topic(kind: Ints) -> Flags:
    """Kinds of rows that are given to subscribers of a topic."""
    made: Flags = (kind >= FIRST_ON_TOPIC) & (kind <= LAST_PRESENCE) & ~is_change(kind)
    return made


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns])


_i8, _i32, _i64, _u64, _text = pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.string()

CLIENTS = _schema(("client", _i32), ("host", _i64), ("incarnation", _u64), ("name", _text), ("join", _i64))
"""Sorted by (host, incarnation). `join`: place among the incarnations of the name; 0: the first one, or not known."""

MESSAGES = _schema(
    ("slot", _i32), ("n", _i64), ("kind", _i8), ("client", _i32), ("number", _i64), ("hlc", _i64), ("place", _i64),
    ("addressee", _i64), ("size", _i32), ("wall", _i64), ("origin", pa.bool_()),
)  # fmt: skip
"""One row per message, sorted by (slot, n). `client`: the sender. `number`: its own number. `place`: of the send at the
sender. Presence has no sender: its `number` is the attempt, its `place` that of the host's incarnation among the joins
of its name. `wall`: of the order event of the origin station, else the earliest one. `origin`: the origin station's own
row is there."""

STAMPS = _schema(("slot", _i32), ("entry", _i32), ("n", _i64), ("value", _i64))
"""Changes of stamps, sorted by (slot, entry, n): from row n of `slot` on, its stamp says `value` of slot `entry`."""

ORDERS = _schema(
    ("station", _i32), ("position", _i64), ("slot", _i32), ("n", _i64), ("wall", _i64), ("seg", _i32), ("off", _i32)
)
"""Every station's order, sorted by (station, position). Here and below `seg` and `off` say where it stands in the log
of `station`: `seq` of the segment, and the event's place in it; segment 0: an earlier night has kept it."""

SESSIONS = _schema(
    ("client", _i32), ("station", _i32), ("e", _i64), ("at", _i64), ("le", _i64), ("c", _i64), ("gap", pa.bool_()),
    ("base", pa.list_(_i64)), ("spool", pa.list_(_i64)), ("acked", _i64), ("given", _i64),
    ("wall", _i64), ("seg", _i32), ("off", _i32),
)  # fmt: skip
"""Sorted by (client, e). `base`: n by slot. `spool`: slot, n, slot, n, ... `acked`: the position up to which the host
has acknowledged. `given`: the same, or further if a send of the host says that it had been given more."""

ACKS = _schema(
    ("client", _i32), ("e", _i64), ("c", _i64), ("station", _i32), ("wall", _i64), ("seg", _i32), ("off", _i32)
)
"""Sorted by (client, e, c). What the host says of a session in its next HELLO counts as an acknowledgement, too."""

MEMBERS = _schema(("client", _i32), ("station", _i32), ("what", _i8), ("base", pa.list_(_i64)), ("wall", _i64))
HANDOFFS = _schema(("client", _i32), ("station", _i32), ("e", _i64), ("to", _i32), ("wall", _i64))
CLOSED = _schema(("station", _i32), ("slot", _i32), ("heir", _i32), ("cut", _i64), ("wall", _i64))

CHANGES = _schema(
    ("client", _i32), ("topic", _i64), ("number", _i64), ("sub", pa.bool_()), ("slot", _i32), ("n", _i64),
    ("place", _i64), ("station", _i32), ("position", _i64),
)  # fmt: skip
"""Subscriptions (`sub`) and their ends, by the host itself or refused, at every station that has ordered them; sorted
by (client, topic, number, slot, n, station). `number`: own number. `station` 0: from before its log, at no position;
only the last SUB on a topic is told so, and its number is 0 unless a station has ordered it."""

ENDED = _schema(
    ("client", _i32), ("topic", _i64), ("slot", _i32), ("n", _i64), ("e", _i64), ("c", _i64), ("last", _i64),
    ("station", _i32), ("wall", _i64),
)  # fmt: skip
"""SUBs that others than the host have ended: as in middleware/delivery_log.py. Sorted by (client, e, c, slot, n)."""

POSTS = _schema(
    ("slot", _i32), ("n", _i64), ("to", _i32), ("after", _i64), ("size", _i32), ("vector", pa.list_(_i64)),
    ("wall", _i64), ("seg", _i32), ("off", _i32), ("log", _i64),
)  # fmt: skip
"""Station mail that a station has taken from a program, sorted by (slot, n). `to`: the addressee's slot. `after`:
position of the last mail that had been delivered there by then. `vector`: slot, count, slot, count, ...: entries of its
header that are others than in the mail before. `log`: place among all rows as they were read."""

ARRIVALS = _schema(
    ("station", _i32), ("position", _i64), ("slot", _i32), ("n", _i64), ("wall", _i64), ("seg", _i32), ("off", _i32),
    ("log", _i64),
)  # fmt: skip
"""Station mail (slot, n) that was delivered at `station`, sorted by (station, position)."""

LIVES = _schema(
    ("slot", _i32), ("stamp", _i64), ("client", _i32), ("e", _i64), ("number", _i64), ("kind", _i8),
    ("addressee", _i64), ("delta", _i64), ("deadline", _i64), ("horizon", _i64), ("past", pa.list_(_i64)),
    ("floor", pa.list_(_i64)), ("wall", _i64), ("seg", _i32), ("off", _i32), ("log", _i64),
)  # fmt: skip
"""Live messages (slot, stamp) that station `slot` took from `client` in its session `e`, behind its own message
`number`; sorted by (stamp, slot). `past`: slot, stamp, ...; `floor`: slot, n, ... `log`: place among all live rows of
the station as they were read."""

HANDED = _schema(
    ("station", _i32), ("slot", _i32), ("stamp", _i64), ("position", _i64), ("reading", _i64), ("hosts", _i64),
    ("wall", _i64), ("seg", _i32), ("off", _i32), ("log", _i64),
)  # fmt: skip
"""Live messages that `station` handed to so many hosts behind `position` of its order; sorted by (station, log)."""

MISSED = _schema(("station", _i32), ("cause", _i32), ("slot", _i32), ("count", _i64), ("wall", _i64))
"""Live messages that `station` did not take or hand down, added up. `slot`: whose they were, 0: it does not say."""

UNTOLD = _schema(("station", _i32), ("taken", _i64), ("handed", _i64), ("wall", _i64))
"""Live messages that `station` took and handed down without telling of each."""

SEGMENTS = _schema(
    ("writer", _text), ("id", _text), ("slot", _i32), ("incarnation", _u64), ("generation", _i64), ("seq", _i64),
    ("prev", pa.binary()), ("end", pa.binary()), ("status", _text), ("events", _i64), ("opened", _i64),
    ("closed", _i64), ("wall_first", _i64), ("wall_last", _i64), ("note", _text), ("path", _text), ("peers", _text),
)  # fmt: skip
"""One row per file. `peers`: JSON of the header's {slot: [seq, end in hex]}. `slot` 0 in journals."""

GIVEN = _schema(
    ("client", _i32), ("row", _i64), ("e", _i64), ("c", _i64), ("slot", _i32), ("n", _i64), ("host32", _i64),
    ("number", _i64), ("wall", _i64),
)  # fmt: skip
SENT = _schema(
    ("client", _i32), ("row", _i64), ("number", _i64), ("e", _i64), ("c", _i64), ("addressee", _text), ("wall", _i64)
)
"""Journals: what the application was given, and what it sent; `row` is the order of the journal. A message is given at
position `c` of session `e`; its row may stand behind that of a later send: it is written when it is acknowledged."""

HEARD = _schema(
    ("client", _i32), ("row", _i64), ("e", _i64), ("c", _i64), ("slot", _i32), ("stamp", _i64), ("after", _i64),
    ("left", _i64), ("wall", _i64),
)  # fmt: skip
"""Journals: live messages that the application was given behind position `c` of session `e` and behind its own message
`after`, with so much time `left`, us; sorted by (client, row)."""

HOLES = _schema(("client", _i32), ("low", _i64), ("high", _i64))
"""Holes in journals, where an agent was killed: places above `low` and below `high`."""

DELIVERIES = _schema(
    ("client", _i32), ("place", _i64), ("message", _i64), ("station", _i32), ("e", _i64), ("position", _i64),
    ("wall", _i64), ("acked", pa.bool_()),
)  # fmt: skip
"""Derived, sorted by (client, place); `message` is the index in `messages`, -1: no station tells of it. `wall`: of the
acknowledgement. Not `acked`: a send says that the host had been given it, and no acknowledgement followed."""

VIOLATIONS = _schema(
    ("kind", _text), ("severity", _text), ("client", _i32), ("host", _text), ("station", _i32), ("slot", _i32),
    ("n", _i64), ("other_slot", _i32), ("other_n", _i64), ("place", _i64), ("other_place", _i64), ("wall", _i64),
    ("count", _i64), ("witness", _text),
)  # fmt: skip
"""`wall`: of the event that shows it; its UTC day is the day of the finding. `count`: how many things this row stands
for. `host`: the name, empty where no host is concerned. Numbers that do not apply are 0."""

LATENCIES = _schema(("of", _text), ("id", _i32), ("bucket", _i32), ("count", _i64))
"""Histograms, bucket as in checks/latency.py; rows of many runs may be added up. `of` "station": how long messages took
to get there; of deliveries: "client", "hour" (`id`: hours since 1970) and "home" (`id`: the station of the session)."""

GAPS = _schema(
    ("client", _i32), ("e", _i64), ("former", _i32), ("station", _i32), ("begin", _i64), ("end", _i64), ("wall", _i64)
)
"""Between two sessions: last acknowledgement before and first one behind, us."""

TABLES: dict[str, pa.Schema] = {
    "clients": CLIENTS, "messages": MESSAGES, "stamps": STAMPS, "orders": ORDERS, "sessions": SESSIONS, "acks": ACKS,
    "members": MEMBERS, "handoffs": HANDOFFS, "closed": CLOSED, "segments": SEGMENTS, "given": GIVEN, "sent": SENT,
    "holes": HOLES, "changes": CHANGES, "ended": ENDED, "posts": POSTS, "arrivals": ARRIVALS,
    "lives": LIVES, "handed": HANDED, "missed": MISSED, "untold": UNTOLD, "heard": HEARD,
}  # fmt: skip
"""What ingest makes, by name."""

Tables = dict[str, pa.Table]


def table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """Make a table of columns (arrays or lists of equal length) that are given by name, in the schema's types."""
    return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)


def empty(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return schema.empty_table()


def column(source: pa.Table, name: str) -> Ints:
    """Return a column as int64."""
    values = source.column(name)
    if values.type == pa.bool_():
        values = values.cast(pa.int8())
    return np.ascontiguousarray(values.to_numpy()).astype(np.int64, copy=False)


def violations(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Make a table of violations; columns that a row leaves out are 0, empty, VIOLATION, and a count of 1."""
    usual: dict[str, Any] = {field.name: "" if field.type == _text else 0 for field in VIOLATIONS}
    usual |= {"client": NO_CLIENT, "severity": VIOLATION, "count": 1}
    full = [{**usual, **row} for row in rows]
    return table(VIOLATIONS, {name: [row[name] for row in full] for name in VIOLATIONS.names})
