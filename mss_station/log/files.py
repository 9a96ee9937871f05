"""Where the segments of a station's delivery log lie, and how its writer finds them at a start."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roamcast.mss_station.disk_share import has_room
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import CutHeader, read_segment
from roamcast.transport.segment_files import segment_file, segments_in
from roamcast.transport.segment_writer import SegmentEncoder

FOLDER: Final = "logs"
DIGITS: Final = 8


def segment_path(directory: Path, seq: int) -> Path:
    """File of segment `seq` of the station in `directory`."""
    return segment_file(directory / FOLDER, seq, DIGITS)


def segments(directory: Path) -> list[int]:
    """Numbers of the segments that are there, ascending."""
    return segments_in(directory / FOLDER, DIGITS)


def remove_old(directory: Path, present: int, before: int, is_safe: Callable[[int], bool]) -> int:
    """Remove segments below `present` that were written to last before this time (UTC microseconds), but the newest.

    is_safe: whether a segment is not needed here any more. One that is needed stays until less than a tenth of the disk
    is free. Returns how many of those have gone.
    """
    lost = 0
    for seq in segments(directory)[:-1]:
        path = segment_path(directory, seq)
        with suppress(OSError):
            if seq >= present or path.stat().st_mtime_ns // 1_000 >= before:
                continue
            safe = is_safe(seq)
            if safe or not has_room(directory):
                path.unlink()
                lost += not safe
    return lost


@dataclass(slots=True)
class Resumed:
    """Where the log goes on."""

    seq: int
    """Of the segment that is written next."""
    prev: bytes
    """Chain end of the one before."""
    encoder: SegmentEncoder | None
    """Of a segment that was not closed: it goes on, its file ends with its last whole block. None: a new one begins."""
    note: str = ""
    """What was found wrong, for the next header."""
    reached: int | None = None
    """When the one before was closed, UTC microseconds; 0: not known; None: there is none."""


def resume(directory: Path, known: int) -> Resumed:
    """Look at what the last life has left, and cut off a torn block.

    Args:
        known: number of the highest segment that the store knows of; 0: of none.

    Raises:
        OSError: the files cannot be read or cut.
    """
    seqs = segments(directory)
    last = seqs[-1] if seqs else 0
    if last < known:
        note = f"segments {last + 1} to {known} are not here any more"
        return Resumed(known + 1, b"", None, note, 0)
    if not last:
        return Resumed(1, b"", None)
    path = segment_path(directory, last)
    data = path.read_bytes()
    try:
        segment = read_segment(data)
    except CutHeader:  # nothing was ever logged in it
        path.unlink()
        return resume(directory, known)
    except DecodeError as error:
        return Resumed(last + 1, b"", None, f"segment {last} is damaged ({error})", 0)
    if segment.trailer is not None:
        return Resumed(last + 1, segment.end, None, reached=segment.trailer.closed)
    if segment.status == "damaged":
        note = f"segment {last} is damaged behind {segment.whole_bytes} bytes"
        return Resumed(last + 1, segment.end, None, note, 0)
    note = ""
    if segment.whole_bytes < len(data):
        note = f"segment {last}: a torn block of {len(data) - segment.whole_bytes} bytes was cut off"
        os.truncate(path, segment.whole_bytes)
    return Resumed(last, segment.header.prev, SegmentEncoder.resume(segment), note)
