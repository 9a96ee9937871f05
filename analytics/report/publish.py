"""Puts a day's report in its place: as a whole, or not at all.

OUT/DAY has report.json, report.html, state.json and tables/*.parquet. All is written to a hidden folder and synced,
then takes its place by renaming; an older report of the day is moved aside just before, and back if that fails.
Whoever runs an audit holds OUT/.lock from before it reads the states until it has published. BL-74.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from roamcast.analytics import carried
from roamcast.analytics.nights import Night
from roamcast.analytics.report.figures import by_host, moves
from roamcast.analytics.report.page import page
from roamcast.analytics.report.summary import About, summary

LOCK, PART, OLD = ".lock", ".part", ".old"
JSON, HTML, TABLES = "report.json", "report.html", "tables"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class PublishError(Exception):
    """The report cannot be written; nothing half of it is there. The text says what is wrong."""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder of the reports, which is made if need be, for a whole run. What dead runs have left goes.

    Raises:
        PublishError: another audit runs on it, or it cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("ab")
    except OSError as error:
        raise PublishError(f"{out}: reports cannot be written here ({error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PublishError(f"{out}: another audit is running on this folder") from None
        try:
            _remove_stale(out)
        except OSError as error:
            raise PublishError(f"{out}: what an earlier run has left cannot be removed ({error})") from None
        yield


def publish(out: Path, night: Night, about: About, reopened: Sequence[str] = ()) -> Path:
    """Write the report of a night into OUT/DAY, in place of an older one. The caller holds `locked(out)`.

    reopened: as in `summary`. Returns the folder.

    Raises:
        PublishError: it could not be written; an older report of the day is as it was.
    """
    if not (_NAME.fullmatch(about.day) and _NAME.fullmatch(about.run)):
        raise ValueError(f"day {about.day!r} or run {about.run!r} is no name of a folder")
    target, part = out / about.day, out / f".{about.day}.{about.run}{PART}"
    try:
        try:
            _write(part, night, about, reopened)
            _swap(part, target, out / f".{about.day}.{about.run}{OLD}")
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except (OSError, pa.ArrowException) as error:
        raise PublishError(f"{target}: the report could not be written ({error}); nothing was changed") from None
    return target


def _write(part: Path, night: Night, about: About, reopened: Sequence[str]) -> None:
    report = night.report
    told = summary(night, about, reopened)
    (part / TABLES).mkdir(parents=True)
    _text(part / JSON, json.dumps(told, indent=1, ensure_ascii=True, allow_nan=False) + "\n")
    _text(part / HTML, page(told))
    carried.write(part / carried.STATE, night.state)
    found = moves(report.case.sessions, report.gaps, report.case.options.since)
    tables: dict[str, Any] = {
        **report.tables,
        "findings": report.findings,
        "hosts": by_host(report, found),
        "latencies": report.latencies,
        "gaps": report.gaps,
    }
    for name, table in tables.items():
        with (part / TABLES / f"{name}.parquet").open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            _sync(file.fileno())
    for folder in (part / TABLES, part):
        _sync_folder(folder)


def _text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        _sync(file.fileno())


def _swap(part: Path, target: Path, old: Path) -> None:
    """Let `part` take the place of `target`."""
    had = target.exists()
    if had:
        os.rename(target, old)
    try:
        os.rename(part, target)
    except BaseException:
        if had:
            os.rename(old, target)
        raise
    with suppress(OSError):  # it is there, and whole: at worst a power cut brings the older one back
        _sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _remove_stale(out: Path) -> None:
    """Remove what dead runs have left; one that died between its two renames had a report that is put back."""
    for path in sorted(out.glob(f".*{OLD}")):
        target = out / path.name[1:].split(".")[0]
        if target.exists():
            shutil.rmtree(path)
        else:
            os.rename(path, target)
    for path in sorted(out.glob(f".*{PART}")):
        shutil.rmtree(path)


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems sync no folders
            raise
    finally:
        os.close(descriptor)
