"""Segments as numbered files of a folder: their names, which are there, and how the last one ends."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from roamcast.transport.segment_blocks import MAGIC, TRAILER, chained, scan

NAME: Final = re.compile(r"(\d{6,18})\.rclog")


def segment_file(folder: Path, seq: int, digits: int) -> Path:
    """File of segment `seq`."""
    return folder / f"{seq:0{digits}d}.rclog"


def segments_in(folder: Path, digits: int) -> list[int]:
    """Numbers of the segments that are there, ascending. Raises OSError, but not if there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = (int(match[1]) for name in names if (match := NAME.fullmatch(name)))
    there = set(names)
    return sorted(seq for seq in found if segment_file(folder, seq, digits).name in there)


def end_of(data: bytes) -> tuple[bytes, int, bool]:
    """(chain end, bytes of the whole blocks, whether it is closed) of a file, without a look at what the blocks hold.

    The chain end is empty if there is no whole header.
    """
    end, whole, kind = b"", 0, 0
    for start, whole, kind in scan(data) if data.startswith(MAGIC) else ():
        end = chained(end, data[start:whole]) if kind != TRAILER else end
    return end, whole, kind == TRAILER and whole == len(data)
