"""Lines with a checksum of all their columns, for SQLite does not notice a bit that flips in a value."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any


def summed(*columns: Any) -> tuple[Any, ...]:
    """The columns and their checksum. As JSON, which tells types apart; bytes as a list of their digits."""
    text = json.dumps(columns, default=lambda content: [content.hex()])
    return *columns, zlib.crc32(text.encode())


def checked(
    connection: sqlite3.Connection, table: str, names: str, rest: str = "", parameters: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Lines of a table whose last column is their checksum, without it.

    Args:
        names: the other columns, comma-separated.
        rest: what follows the table in the query.

    Raises:
        ValueError: a line is not the one that was written.
    """
    for line in connection.execute(f"SELECT {names}, checksum FROM {table} {rest}", parameters):
        if summed(*line[:-1]) != line:
            raise ValueError(f"line {line[0]!r} of {table} is not the one that was written: its checksum is wrong")
        yield line[:-1]
