"""The note DIR/went-back: a start has shown that this directory is an old copy: nothing may start on it or change it.

It stays: that start has counted itself, so the next one would no more look older to those peers that judge by starts.
Who has brought back the newer files into the same directory removes the note.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from roamcast.mss_station.errors import StoreWentBack
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


def check(path: Path) -> None:
    """Raises StoreWentBack: the directory has the note."""
    if (text := noted(path)) is not None:
        hint = f"If it was brought back into this directory, remove {path / NOTE}"
        raise StoreWentBack(f"{path}: nothing is changed here: {text}. {hint}")
