"""The stream of a record: the log filtered by audience, and how far the host is in it.

Source: one-order.md 3.2 and the cheap form 3.8. `passed` steps over entries that the host is not owed.
"""

from __future__ import annotations

from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.rows import Vector
from roamcast.middleware.vectors import raised


def first_owed(ledger: Ledger, record: Record) -> int:
    """Position of the first log entry that the host is owed and has not acknowledged; last position + 1 if none."""
    table = ledger.table
    if record.acked_c >= table.last_position:
        return table.last_position + 1
    first = next(table.owed(record.mh[0], record.base, record.acked_c), None)
    return first[0] if first is not None else table.last_position + 1


def passed(ledger: Ledger, record: Record, *, exact: bool = False) -> Vector:
    """The vector after all entries before the first owed one: up to acked_c and over what is not owed behind it.

    `exact` (tests only) stops at acked_c.
    """
    before = min(record.acked_c, ledger.table.last_position) if exact else first_owed(ledger, record) - 1
    return raised(record.base, ledger.table.vector_at(before))


def statement(ledger: Ledger, vector: Vector) -> tuple[tuple[int, int], ...]:
    """`vector` in a WELCOME or PONG: (slot, n); never empty, for nothing is no statement."""
    return tuple((slot, n) for slot, n in enumerate(vector) if n or slot == ledger.own)


def settled(ledger: Ledger, record: Record) -> bool:
    """Whether the host needs nothing any more that its former station guards: it is past the arrival position."""
    return first_owed(ledger, record) > record.t_position
