"""Copies of closed segments to where audits read them: a folder, or whatever fsspec reaches (s3://, hdfs://, ...).

A segment appears under its name whole or not at all, and is read back once. What is there already is left alone, so
that an upload that was cut short goes on where it was. Source: issue of the audit; audit.md 5.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]

from roamcast.middleware.errors import Error
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.transport.segment_files import end_of
from roamcast.transport.segment_keys import KEYS_NAME
from roamcast.transport.station_files import StationCard


class UploadError(Error):
    """The destination cannot be written, or holds something else."""


class OtherFile(UploadError):
    """There is another file under a segment's name."""


COPIED, THERE, NOT_CLOSED = "copied", "there", "not closed"


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of one segment."""

    seq: int
    state: str
    """COPIED, THERE or NOT_CLOSED."""
    bytes: int


def upload(
    directory: Path, card: StationCard, destination: str, keys: str, say: Callable[[str], None]
) -> Iterator[Uploaded]:
    """Copy what is closed and not there yet, as DEST/GROUP/ID-GENERATION/SEQ.rclog, oldest first; then keys.json.

    Of what is there only the size is compared. keys: what keys.json holds from now on. say: hears of the progress.

    Raises:
        UploadError: the destination cannot be written.
        OtherFile: it has another file under a segment's name; told at the end, when all others are there.
        OSError: a segment cannot be read.
    """
    if not destination:
        raise UploadError("the destination is empty")
    try:
        system, root = fsspec.core.url_to_fs(destination)
        folder = f"{root.rstrip('/')}/{card.group}/{card.id}-{card.generation:016x}"
        system.makedirs(folder, exist_ok=True)
        system.invalidate_cache()
        sizes = {one["name"].rpartition("/")[2]: one["size"] for one in system.ls(folder, detail=True)}
    except (OSError, ValueError, ImportError) as error:
        raise UploadError(f"{shown(destination)}: cannot be written ({shown(str(error))})") from error
    seqs = segments(directory)
    others: list[OtherFile] = []
    for place, seq in enumerate(seqs, 1):
        say(f"{place} of {len(seqs)} segments")
        try:
            done = _copy(system, folder, segment_path(directory, seq), sizes)
        except OtherFile as error:
            others.append(error)
            continue
        except FileNotFoundError:  # it was old, and is gone meanwhile
            continue
        yield Uploaded(seq, *done)
    _put(system, keys.encode(), f"{folder}/{KEYS_NAME}")
    if others:
        raise others[0]


def shown(text: str) -> str:
    """A text with a URL in it, without its user and password."""
    return re.sub(r"://[^/@\s]*@", "://", text)


def _copy(system: Any, folder: str, path: Path, sizes: Mapping[str, int]) -> tuple[str, int]:
    """(state, bytes) of one segment."""
    target, size = f"{folder}/{path.name}", path.stat().st_size
    if path.name in sizes:
        if sizes[path.name] != size:
            raise OtherFile(f"{target}: there is another file under this name; closed segments never change")
        return THERE, size
    data = path.read_bytes()
    if not end_of(data)[2]:
        return NOT_CLOSED, len(data)
    _put(system, data, target)
    return COPIED, len(data)


def _put(system: Any, data: bytes, target: str) -> None:
    """Write a file that is there whole, or as it was before. Raises UploadError."""
    folder, _, name = target.rpartition("/")
    part = f"{folder}/.{name}.{secrets.token_hex(4)}"  # of this upload: another one may run beside it
    try:
        try:
            _write_and_read(system, data, part)
            try:
                system.mv(part, target)
            except FileExistsError:  # a file system that does not replace
                system.rm(target)
                system.mv(part, target)
        except BaseException:
            with suppress(OSError):
                system.rm(part)
            raise
    except OSError as error:
        raise UploadError(f"{target}: cannot be written ({shown(str(error))})") from error


def _write_and_read(system: Any, data: bytes, path: str) -> None:
    with system.open(path, "wb") as file:
        file.write(data)
    with system.open(path, "rb") as file:
        if hashlib.sha256(file.read()).digest() != hashlib.sha256(data).digest():
            raise UploadError(f"{path}: is not what was written")
