"""What the audit starts from: segments, read and verified, with their events as columns.

Source: docs/protocols/delivery-log.md. A reader makes one `Segment` per file; ingest joins them. No file is
read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from roamcast.analytics.tables import Ints

OK, OPEN, TORN, DAMAGED, FORGED, UNSIGNED = "closed", "open", "torn", "damaged", "forged", "unsigned"
"""Status of a file. Of a damaged file the blocks before the damage count; of a forged one nothing does."""

Columns = Mapping[str, Any]
"""Column -> array; a ragged column NAME is NAME_len (per row) and NAME (flattened); text is a list of text."""


@dataclass(slots=True)
class Segment:
    """One file: its header, its events as far as they hold, and how sound it is."""

    header: Mapping[str, Any]
    events: Mapping[str, Columns]
    status: str = OK
    path: str = ""
    end: bytes = b""
    """Chain behind the last data block."""
    closed: int = 0
    """When it was closed, us; 0: it was not."""
    count: int = field(default=0)
    """Events in it."""

    @property
    def station(self) -> int:
        """Slot of the station that wrote it; 0: a journal."""
        return int(self.header.get("slot") or 0) if self.is_station else 0

    @property
    def is_station(self) -> bool:
        """Whether a station wrote it (else an agent: it is a journal)."""
        return str(self.header.get("writer", "station")) == "station"

    @property
    def readable(self) -> bool:
        """Whether its events may be used at all."""
        return self.status != FORGED and bool(self.header)


def rows(columns: Columns) -> int:
    """How many events there are."""
    return len(columns["wall"]) if columns else 0


def joined(segments: Sequence[Segment], event: str, name: str, dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """One column of one event over all segments, in their order; 0 where a segment does not have the column."""
    parts = []
    for segment in segments:
        columns = segment.events.get(event) or {}
        values = columns.get(name)
        count = rows(columns)
        part = np.zeros(count, dtype) if values is None else np.asarray(values)
        parts.append(part.astype(dtype, copy=False))
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def joined_lists(segments: Sequence[Segment], event: str, name: str) -> tuple[Ints, Ints]:
    """A ragged column: (offsets, length rows + 1; flattened values)."""
    lengths: list[Ints] = []
    values: list[Ints] = []
    for segment in segments:
        columns = segment.events.get(event) or {}
        length = columns.get(name + "_len")
        if length is None:
            lengths.append(np.zeros(rows(columns), np.int64))
        else:
            lengths.append(np.asarray(length).astype(np.int64))
            values.append(np.asarray(columns[name]).astype(np.int64, copy=False))
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return offsets, np.concatenate(values) if values else np.zeros(0, np.int64)


def joined_texts(segments: Sequence[Segment], event: str, name: str) -> list[str]:
    """A column of text."""
    found: list[str] = []
    for segment in segments:
        columns = segment.events.get(event) or {}
        values = columns.get(name)
        found += [""] * rows(columns) if values is None else [str(value) for value in values]
    return found


def origin_of(segments: Sequence[Segment], event: str) -> Ints:
    """For each row of `joined`: the index of its segment."""
    counts = [rows(segment.events.get(event) or {}) for segment in segments]
    return np.repeat(np.arange(len(segments), dtype=np.int64), counts)


def without_copies(segments: Iterable[Segment]) -> list[Segment]:
    """Sort segments by writer, generation and seq, and leave out files that are the same segment under another name.

    Two segments of one number that end differently both stay: the check of segments reports the fork. Of two copies
    with one end the sounder one stays (a copy may have been cut).
    """
    best: dict[tuple[Any, ...], Segment] = {}
    sound = [OK, UNSIGNED, OPEN, TORN, DAMAGED, FORGED]
    for segment in segments:
        header = segment.header
        key: tuple[Any, ...] = (
            str(header.get("writer", "station")), segment.station, str(header.get("id", "")),
            int(header.get("incarnation") or 0), int(header.get("generation") or 0), int(header.get("seq") or 0),
            segment.end if segment.status in (OK, UNSIGNED, FORGED) else bytes(header.get("prev") or b""),
            "" if header else segment.path,
        )  # fmt: skip
        other = best.get(key)
        if other is None or (sound.index(segment.status), -segment.count, segment.path) < (
            sound.index(other.status), -other.count, other.path,
        ):  # fmt: skip
            best[key] = segment
    closed = {key[:6] for key, segment in best.items() if segment.status in (OK, UNSIGNED)}
    kept = [k for k, s in best.items() if s.status not in (OPEN, TORN) or k[:6] not in closed]
    return [best[key] for key in sorted(kept)]
