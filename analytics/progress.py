"""What a person sees while an audit runs: on a terminal one line that changes, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TextIO

EVERY_S = 10.0
"""Between two lines in a file."""


class Progress:
    """A `Say` on stderr."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._told_at = time.monotonic()
        self._width = 0

    def __call__(self, text: str) -> None:
        """Say how far it is."""
        if self._live:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif time.monotonic() >= self._told_at + EVERY_S:
            self._told_at = time.monotonic()
            self._stream.write(f"roamcast-audit: {text}\n")
        self._stream.flush()

    def done(self) -> None:
        """Take the changing line away."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
