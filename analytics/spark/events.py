"""Events of many segments as Parquet, by UTC day and event, and back again.

A task writes the segments that it has read as one *part*: files `events/day=D/event=E/PART.parquet` and a list of what
else the segments say. Any tool reads the files; unsigned words are unsigned. `segment` is the place in the part's list,
`row` the place in the segment. Only parts that a finished task has named are read back.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pafs  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from roamcast.analytics.columns import laid_out
from roamcast.analytics.days import DAY
from roamcast.analytics.evidence import Columns, Segment, rows
from roamcast.analytics.staging import Folder
from roamcast.analytics.tables import Ints
from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT, WORD

DAYS_MAX = 64
"""Of one part: where more are told of, clocks are no clocks, and what is left goes to UNKNOWN_DAY."""
UNKNOWN_DAY = "unknown"

ROWS_MAX = 500_000
"""Of one event, before they are written."""

_TYPES = {WORD: pa.uint64(), TEXT: pa.string(), INTS: pa.list_(pa.int64())}


def schema(event: str) -> pa.Schema:
    """Columns of an event's files."""
    columns = {name: _TYPES.get(kind, pa.int64()) for name, kind in EVENTS[event].items()}
    fields = {"segment": pa.int32(), "row": pa.int32(), "seq": pa.int64(), "wall": pa.int64(), **columns}
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


class PartWriter:
    """Writes one part. name: differs from that of every other part, also of another attempt at the same work."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._waiting: dict[str, list[tuple[int, Columns]]] = defaultdict(list)
        self._rows: dict[str, int] = defaultdict(int)
        self._days: dict[int, str] = {}
        self._files: dict[tuple[str, str], pq.ParquetWriter] = {}
        self._segments: list[tuple[str, Segment, dict[str, int]]] = []

    def add(self, path: str, segment: Segment) -> None:
        """Take a segment that was read from a path."""
        number = len(self._segments)
        counts = {event: rows(columns) for event, columns in segment.events.items()}
        self._segments.append((path, replace(segment, events={}), counts))
        for event, columns in segment.events.items():
            self._waiting[event].append((number, columns))
            self._rows[event] += counts[event]
            if self._rows[event] >= ROWS_MAX:
                self._write(event)

    def close(self, skipped: Sequence[str]) -> int:
        """Write what remains, and which paths are not wanted. Returns how many files were seen."""
        for event in list(self._waiting):
            self._write(event)
        for file in self._files.values():
            file.close()
        self._folder.put(_list_of(self._name), (self._segments, list(skipped)))
        return len(self._segments) + len(skipped)

    def _write(self, event: str) -> None:
        table = _table(event, self._waiting.pop(event))
        self._rows[event] = 0
        day = table.column("wall").to_numpy() // DAY
        names = np.array([self._day(number) for number in np.unique(day).tolist()])
        of = np.unique(day, return_inverse=True)[1]
        for name in np.unique(names).tolist():
            keep = (names == name)[of]
            self._file(name, event).write_table(table if keep.all() else table.filter(pa.array(keep)))

    def _day(self, number: int) -> str:
        if number not in self._days and len(self._days) < DAYS_MAX:
            self._days[number] = str(np.datetime64(number, "D"))
        return self._days.get(number, UNKNOWN_DAY)

    def _file(self, day: str, event: str) -> pq.ParquetWriter:
        if (day, event) not in self._files:
            system, path = self._folder.place(f"events/day={day}/event={event}/{self._name}.parquet")
            system.create_dir(os.path.dirname(path), recursive=True)
            self._files[day, event] = pq.ParquetWriter(
                path, schema(event), filesystem=system, compression="lz4", use_dictionary=False
            )
        return self._files[day, event]


def _list_of(part: str) -> str:
    return f"segments/{part}"


def _table(event: str, parts: list[tuple[int, Columns]]) -> pa.Table:
    """The rows of several segments, given by their numbers."""
    counts = np.array([rows(columns) for _, columns in parts], np.int64)
    made = {
        "segment": pa.array(np.repeat(np.array([number for number, _ in parts], np.int32), counts)),
        "row": pa.array(laid_out(np.zeros(len(parts), np.int64), counts)[1].astype(np.int32)),
    }
    for field in schema(event):
        if field.name in made:
            continue
        given = [columns.get(field.name) for _, columns in parts]
        missing = np.repeat(np.array([values is None for values in given]), counts)
        if pa.types.is_string(field.type):
            texts = [values or [None] * count for values, count in zip(given, counts.tolist(), strict=True)]
            made[field.name] = pa.array([text for part in texts for text in part], field.type)
            continue
        dtype = field.type.value_type if pa.types.is_list(field.type) else field.type
        zeros = counts * 0 if pa.types.is_list(field.type) else counts
        flat = np.concatenate(
            [np.zeros(n, dtype.to_pandas_dtype()) if v is None else v for v, n in zip(given, zeros, strict=True)]
        )
        if pa.types.is_list(field.type):
            lengths = [
                np.zeros(n, np.int64) if v is None else columns[field.name + "_len"]
                for v, n, (_, columns) in zip(given, counts, parts, strict=True)
            ]
            ends = np.concatenate(([0], np.cumsum(np.concatenate(lengths), dtype=np.int64))).astype(np.int32)
            mask = pa.array(missing) if missing.any() else None
            made[field.name] = pa.ListArray.from_arrays(pa.array(ends), pa.array(flat), mask=mask)
        else:
            made[field.name] = pa.array(flat, field.type, mask=missing if missing.any() else None)
    return pa.table([made[name] for name in schema(event).names], schema=schema(event))


def read_parts(folder: Folder, parts: Sequence[str]) -> dict[str, Segment | None]:
    """Path -> segment of the parts with these names; None: it is not wanted.

    Raises:
        ValueError: a part has not all the rows that were put into it.
    """
    system, root = folder.place("events")
    files: dict[tuple[str, str], list[str]] = defaultdict(list)
    for info in system.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True)):
        if info.type == pafs.FileType.File:
            event = os.path.basename(os.path.dirname(info.path)).removeprefix("event=")
            files[info.base_name.removesuffix(".parquet"), event].append(info.path)
    made: dict[str, Segment | None] = {}
    for part in parts:
        segments, skipped = folder.get(_list_of(part))
        made |= dict.fromkeys(skipped)
        events: list[dict[str, Any]] = [{} for _ in segments]
        for event in sorted({event for _, _, counts in segments for event in counts}):
            by_day = [pq.read_table(path, filesystem=system, partitioning=None) for path in files[part, event]]
            _read(event, by_day, events)
        for (path, segment, counts), found in zip(segments, events, strict=True):
            if {event: rows(columns) for event, columns in found.items()} != counts:
                raise ValueError(f"of {path} not all rows were staged")
            made[path] = replace(segment, events=found)
    return made


def _read(event: str, by_day: list[pa.Table], events: list[dict[str, Any]]) -> None:
    """Give each segment of a part its rows of an event."""
    if not by_day:
        return
    table = pa.concat_tables(by_day).combine_chunks()
    segment: Ints = table.column("segment").to_numpy()
    if len(by_day) > 1:
        by = np.lexsort((table.column("row").to_numpy(), segment))
        table, segment = table.take(pa.array(by)), segment[by]
    cuts = np.append(np.flatnonzero(np.diff(segment, prepend=-1)), len(segment)).tolist()
    for name in table.column_names[2:]:
        values = table.column(name)
        values = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
        whole = values.null_count == 0
        flat = values.to_numpy(zero_copy_only=False) if whole and pa.types.is_integer(values.type) else None
        for a, b in pairwise(cuts):
            into = events[segment[a]].setdefault(event, {})
            if flat is not None:
                into[name] = flat[a:b]
            else:
                _set(into, name, values[a:b])


def _set(columns: dict[str, Any], name: str, values: pa.Array) -> None:
    """A column of one segment that is text, ragged, or not there."""
    ragged, missing = pa.types.is_list(values.type), values.null_count > 0
    if missing:
        columns[name] = None
    elif ragged:
        columns[name] = values.flatten().to_numpy()
    elif pa.types.is_integer(values.type):
        columns[name] = values.to_numpy()
    else:
        columns[name] = values.to_pylist()
    if ragged:
        columns[name + "_len"] = None if missing else np.diff(values.offsets.to_numpy()).astype(np.uint32)
