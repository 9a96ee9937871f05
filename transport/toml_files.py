"""The small TOML files that hold keys and addresses: reading, with errors that name the file and the field.

A file with a secret in it must belong to its reader alone (mode 0600 or less) and is refused otherwise. Errors never
quote a value of such a file.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from roamcast.transport.curve import is_key
from roamcast.transport.errors import KeyFileError

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 1 << 20
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Name of a host, a station or a group: it is also the name of a file."""

PORT: Final = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
ENDPOINT: Final = re.compile(rf"tcp://[^\s/]{{1,240}}:{PORT}")
NAME_WANTED: Final = "a name of at most 64 letters, digits, '.', '_' or '-', the first a letter or digit"
ENDPOINT_WANTED: Final = "of the form tcp://ADDRESS:PORT, PORT from 1 to 65535"
PLACE: Final = re.compile(r"\(at [a-z0-9, ]+\)$")


class Table:
    """One table of a file: `values` as they stand, read field by field."""

    def __init__(self, path: Path, values: dict[str, Any], where: str = "") -> None:
        self.path = path
        self.values = values
        self._where = where

    def wrong(self, key: str, wanted: str) -> KeyFileError:
        """The error for a field that is not what it must be."""
        return KeyFileError(f"{self.path}: {self._where}{key} must be {wanted}")

    def text(self, key: str, pattern: re.Pattern[str], wanted: str) -> str:
        """A text that matches the whole of `pattern`."""
        value = self.values.get(key)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.wrong(key, wanted)
        return value

    def name(self, key: str) -> str:
        """A name: letters, digits, dots, dashes and underscores."""
        return self.text(key, NAME, NAME_WANTED)

    def endpoint(self, key: str) -> str:
        """A TCP endpoint, tcp://ADDRESS:PORT."""
        return self.text(key, ENDPOINT, ENDPOINT_WANTED)

    def key(self, key: str) -> str:
        """A CURVE key in Z85."""
        value = self.values.get(key)
        if not isinstance(value, str) or not is_key(value):
            raise self.wrong(key, "a key of 40 signs (Z85)")
        return value

    def integer(self, key: str, least: int, most: int) -> int:
        """An integer within least..most."""
        value = self.values.get(key)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(key, f"an integer from {least} to {most}")
        return value

    def tables(self, key: str) -> list[Table]:
        """The array of tables `key`; none if it is absent."""
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.wrong(key, "an array of tables")
        return [Table(self.path, value, f"{key} {i}: ") for i, value in enumerate(values, start=1)]


def read_table(path: Path, *, private: bool = False) -> Table:
    """The file as a table of format 1.

    Args:
        private: the file holds a secret.

    Raises:
        KeyFileError: missing, unreadable, too large, readable by others though private, no TOML, of another format.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if private and os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
                raise KeyFileError(f"{path} holds a secret and can be read by others: chmod 600 {path}")
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise KeyFileError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        values = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        place = PLACE.search(str(error))  # no more of it: it may quote a secret
        raise KeyFileError(f"{path} is damaged: it is no TOML file {place[0] if place else ''}".rstrip()) from None
    table = Table(path, values)
    if values.get("format") != FORMAT:
        raise table.wrong("format", f"{FORMAT}; a file of another format belongs to another release")
    return table
