"""Who was given what and when, as Parquet for Spark, DuckDB or whatever reads it: day=D/bucket=K/part.parquet.

Deliveries are derived anyway, bucket by bucket of hosts. A day's folder has those that were acknowledged in that day,
and those not acknowledged yet (`wall` 0). It appears as a whole, in place of what an earlier run has left there. Units
and meaning: `tables.DELIVERIES`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pafs  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from roamcast.analytics.days import WHOLE
from roamcast.analytics.engine import EngineError
from roamcast.analytics.judgement import Case
from roamcast.analytics.staging import Folder, Staging
from roamcast.analytics.streams import Deliveries

SCHEMA = pa.schema([
    pa.field("host", pa.dictionary(pa.int32(), pa.string())), pa.field("incarnation", pa.uint64()),
    pa.field("place", pa.int64()), pa.field("slot", pa.int32()), pa.field("n", pa.int64()),
    pa.field("station", pa.int32()), pa.field("e", pa.int64()), pa.field("position", pa.int64()),
    pa.field("wall", pa.int64()), pa.field("acked", pa.bool_()),
])  # fmt: skip
"""Sorted by (host number, incarnation, place). `host`: the name. (slot, n): the message."""


@dataclass(frozen=True)
class DeliveryFolder:
    """Where buckets of one day are written before all is whole."""

    folder: Folder
    day: str

    def write(self, case: Case, bucket: int, found: Deliveries) -> None:
        """Write a bucket's deliveries, as `Case.deliveries` makes them."""
        since = case.options.since
        told = np.flatnonzero((found["wall"] >= since) | (found["wall"] == 0))
        rows = {name: values[told] for name, values in found.items()}
        clients = case.made["clients"]
        names = pa.DictionaryArray.from_arrays(
            pa.array(rows["client"].astype(np.int32)), clients.column("name").combine_chunks()
        )
        columns = {
            **rows,
            "host": names,
            "incarnation": clients.column("incarnation").to_numpy()[rows["client"]],
            "acked": rows["acked"] != 0,
        }
        made = pa.table([pa.array(columns[field.name]).cast(field.type) for field in SCHEMA], schema=SCHEMA)
        system, path = self.folder.place(f"day={self.day}/bucket={bucket}")
        system.create_dir(path, recursive=True)
        pq.write_table(made, f"{path}/part.parquet", filesystem=system, compression="zstd")

    def publish(self, where: str) -> None:
        """Put the day in its place."""
        system, source = self.folder.place(f"day={self.day}")
        _, target = Folder(where).place(f"day={self.day}")
        system.create_dir(source, recursive=True)
        if system.get_file_info(target).type != pafs.FileType.NotFound:
            system.delete_dir(target)
        system.move(source, target)


@contextmanager
def published(where: str | None, since: int) -> Iterator[DeliveryFolder | None]:
    """A folder for the deliveries of a run that counts from `since` on, us; put into its place at a good end.

    where: None: nobody wants them.

    Raises:
        EngineError: they cannot be written.
    """
    if where is None:
        yield None
        return
    staging = Staging(where)
    day = str(np.datetime64(since, "us").astype("datetime64[D]")) if since else WHOLE
    try:
        made = DeliveryFolder(staging.folder, day)
        yield made
        made.publish(where if "://" in where else os.path.abspath(where))
    except OSError as error:
        raise EngineError(f"{where}: the deliveries cannot be written here ({error})") from None
    finally:
        staging.close()
