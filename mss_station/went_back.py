"""The note DIR/went-back: the last start has shown that this directory is an old copy, so no command may change it.

A start removes it, for the newer directory may have been brought back, and is stopped again if it was not.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import replace_file

NOTE = "went-back"


def note(path: Path, text: str) -> None:
    """Leave the note in the directory of a station; on a full disk there is none."""
    with suppress(KeyFileError):
        replace_file(path / NOTE, text + "\n")


def noted(path: Path) -> str | None:
    """What the note says; None: there is none."""
    try:
        return (path / NOTE).read_text("utf-8").strip()
    except (OSError, ValueError):
        return None


def clear(path: Path) -> None:
    """A new start decides anew."""
    (path / NOTE).unlink(missing_ok=True)
