"""Standard output of the commands: that it cannot be written is told in plain words, and once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from roamcast.middleware.errors import Error


class OutputLost(Error):
    """Standard output takes nothing."""


def write(line: str) -> None:
    """Write a line, as far as the encoding has its signs. Raises OutputLost; BrokenPipeError: its reader has gone."""
    with _output():
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def flush() -> None:
    """Return once all that was written has left this process. Raises as `write`."""
    with _output():
        sys.stdout.flush()


@contextmanager
def _output() -> Iterator[None]:
    if sys.stdout is None:
        raise OutputLost("the output cannot be written: it is closed")
    try:
        yield
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or else the interpreter tries again at its end
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputLost(f"the output cannot be written: {error.strerror}") from error
