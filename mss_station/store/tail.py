"""The tail of the delivery log: events whose facts are durable and which no synced block of a segment holds yet.

It lies in the store, so that an event is durable with the fact that it tells, or not at all; the blocks are written
from memory, and what the tail has beyond them after a crash is written again (`mss_station/log`).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class PutTail:
    """Events of a tick."""

    id: int
    """Ascending."""
    events: bytes


@dataclass(slots=True, frozen=True)
class DropTail:
    """Synced blocks hold the events of all ids up to this one."""

    upto: int


TailWrite = PutTail | DropTail


def write_tail(connection: sqlite3.Connection, writes: list[TailWrite]) -> None:
    """Inside the transaction that the caller has opened. Raises sqlite3.Error."""
    for write in writes:
        match write:
            case PutTail(id, events):
                connection.execute("INSERT INTO log_tail (id, events) VALUES (?,?)", (id, events))
            case DropTail(upto):
                connection.execute("DELETE FROM log_tail WHERE id <= ?", (upto,))


def load_tail(connection: sqlite3.Connection) -> list[PutTail]:
    """What is there, ids ascending. Raises sqlite3.Error."""
    return [PutTail(*line) for line in connection.execute("SELECT id, events FROM log_tail ORDER BY id")]
