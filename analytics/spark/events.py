"""Events of many segments as Parquet, by UTC day and event, and back again.

A task writes the segments that it has read as one *part*: files `events/day=D/event=E/PART.parquet` and a list of what
else the segments say. Any tool reads the files; unsigned words are unsigned. `segment` is the place in the part's list,
`row` the place in the segment. Only parts that a finished task has named are read back.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pafs  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from roamcast.analytics.evidence import Segment, rows
from roamcast.analytics.staging import Folder
from roamcast.analytics.tables import Ints
from roamcast.middleware.delivery_log import EVENTS, INTS, TEXT, WORD

DAY = 86_400_000_000
DAYS_MAX = 16
"""Of one segment: one that names more has a clock that is no clock, and all of it goes to UNKNOWN_DAY."""
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
        self._waiting: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
        self._files: dict[tuple[str, str], pq.ParquetWriter] = {}
        self._segments: list[tuple[str, Segment, dict[str, int]]] = []

    def add(self, path: str, segment: Segment) -> None:
        """Take a segment that was read from a path."""
        number = len(self._segments)
        counts = {event: rows(columns) for event, columns in segment.events.items()}
        self._segments.append((path, replace(segment, events={}), counts))
        for event, columns in segment.events.items():
            table = _table(event, number, columns)
            day = np.asarray(columns["wall"]) // DAY
            days = np.unique(day)
            whole = len(days) == 1
            for each in days if len(days) <= DAYS_MAX else [None]:
                name = UNKNOWN_DAY if each is None else str(np.datetime64(int(each), "D"))
                keep = whole or each is None
                self._take((name, event), table if keep else table.filter(pa.array(day == each)))

    def close(self, skipped: Sequence[str]) -> int:
        """Write what remains, and which paths are not wanted. Returns how many files were seen."""
        for key in list(self._waiting):
            self._write(key)
        for file in self._files.values():
            file.close()
        self._folder.put(_list_of(self._name), (self._segments, list(skipped)))
        return len(self._segments) + len(skipped)

    def _take(self, key: tuple[str, str], table: pa.Table) -> None:
        self._waiting[key].append(table)
        if sum(map(len, self._waiting[key])) >= ROWS_MAX:
            self._write(key)

    def _write(self, key: tuple[str, str]) -> None:
        if key not in self._files:
            system, path = self._folder.place(f"events/day={key[0]}/event={key[1]}/{self._name}.parquet")
            system.create_dir(os.path.dirname(path), recursive=True)
            self._files[key] = pq.ParquetWriter(
                path, schema(key[1]), filesystem=system, compression="lz4", use_dictionary=False
            )
        self._files[key].write_table(pa.concat_tables(self._waiting.pop(key)))


def _list_of(part: str) -> str:
    return f"segments/{part}"


def _table(event: str, number: int, columns: Mapping[str, Any]) -> pa.Table:
    kinds, count = schema(event), rows(columns)
    made = []
    for field in kinds:
        if field.name == "segment":
            values = pa.array(np.full(count, number, np.int32))
        elif field.name == "row":
            values = pa.array(np.arange(count, dtype=np.int32))
        elif columns.get(field.name) is None:
            values = pa.nulls(count, field.type)
        elif pa.types.is_list(field.type):
            ends = np.concatenate(([0], np.cumsum(columns[field.name + "_len"], dtype=np.int64)))
            values = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(columns[field.name]))
        else:
            values = pa.array(columns[field.name], field.type)
        made.append(values)
    return pa.table(made, schema=kinds)


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
