"""Last values of topics in the store. Their items lie with the messages, then with the spool's."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from roamcast.middleware.writes import LastValue
from roamcast.mss_station.store.columns import message_id, message_key
from roamcast.mss_station.store.sums import checked, summed

NAMES: Final = "topic, first, second, third, message, position, cleared"
PUT_VALUE: Final = f"INSERT OR REPLACE INTO last_value ({NAMES}, checksum) VALUES (?,?,?,?,?,?,?,?)"


def write_values(connection: sqlite3.Connection, values: Mapping[int, LastValue | None]) -> None:
    """The last word on each topic; None: it has none any more. Raises sqlite3.Error."""
    gone = [(topic,) for topic, value in values.items() if value is None]
    connection.executemany("DELETE FROM last_value WHERE topic = ?", gone)
    connection.executemany(PUT_VALUE, [_columns(value) for value in values.values() if value is not None])


def _columns(value: LastValue) -> tuple[int, ...]:
    place = message_key(value.slot, value.n), value.position
    return summed(value.topic, *value.order, *place, int(value.cleared))


def load_values(connection: sqlite3.Connection) -> dict[int, LastValue]:
    """By topic. Raises sqlite3.Error, ValueError: the store does not hold what was written."""
    found = {}
    for topic, first, second, third, message, position, cleared in checked(
        connection, "last_value", NAMES, "ORDER BY topic"
    ):
        found[topic] = LastValue(topic, (first, second, third), *message_id(message), position, bool(cleared))
    return found
