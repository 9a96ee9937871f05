"""Copies of closed segments to where audits read them: a folder, or whatever fsspec reaches (s3://, hdfs://, ...).

A segment appears under its name whole or not at all, and is read back once. What is there already is left alone, so
that an upload that was cut short goes on where it was. Source: issue of the audit; audit.md 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]

from roamcast.middleware.errors import Error
from roamcast.mss_station.log.files import segment_path, segments
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import read_segment
from roamcast.transport.segment_keys import KEYS_NAME
from roamcast.transport.station_files import StationCard


class UploadError(Error):
    """The destination cannot be written, or holds something else."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of one segment."""

    seq: int
    state: str
    """copied | there | not closed"""
    bytes: int


def upload(
    directory: Path, card: StationCard, destination: str, keys: str, say: Callable[[str], None]
) -> Iterator[Uploaded]:
    """Copy what is closed and not there yet, as DEST/GROUP/ID-GENERATION/SEQ.rclog, oldest first; then keys.json.

    keys: what keys.json holds from now on.

    Raises:
        UploadError: the destination cannot be written, or has another file under a segment's name.
        OSError: a segment cannot be read.
    """
    try:
        system, root = fsspec.core.url_to_fs(destination)
        folder = f"{root.rstrip('/')}/{card.group}/{card.id}-{card.generation:016x}"
        system.makedirs(folder, exist_ok=True)
    except (OSError, ValueError, ImportError) as error:
        raise UploadError(f"{destination}: cannot be written ({error})") from error
    seqs = segments(directory)
    for place, seq in enumerate(seqs, 1):
        say(f"{place} of {len(seqs)} segments")
        data = segment_path(directory, seq).read_bytes()
        target = f"{folder}/{seq:08d}.rclog"
        try:
            state = _copy(system, data, target) if _is_closed(data) else "not closed"
        except OSError as error:
            raise UploadError(f"{target}: cannot be written ({error})") from error
        yield Uploaded(seq, state, len(data))
    try:
        _put(system, keys.encode(), f"{folder}/{KEYS_NAME}")
    except OSError as error:
        raise UploadError(f"{folder}/{KEYS_NAME}: cannot be written ({error})") from error


def _is_closed(data: bytes) -> bool:
    try:
        return read_segment(data).trailer is not None
    except DecodeError:
        return False


def _copy(system: Any, data: bytes, target: str) -> str:
    if system.exists(target):
        if system.size(target) != len(data):
            raise UploadError(f"{target}: there is another file under this name; closed segments never change")
        return "there"
    _put(system, data, target)
    return "copied"


def _put(system: Any, data: bytes, target: str) -> None:
    """Write a file that is there whole, or as it was before."""
    part = target.rpartition("/")[0] + "/." + target.rpartition("/")[2] + ".part"
    with system.open(part, "wb") as file:
        file.write(data)
    with system.open(part, "rb") as file:
        if hashlib.sha256(file.read()).digest() != hashlib.sha256(data).digest():
            raise UploadError(f"{part}: is not what was written")
    try:
        system.mv(part, target)
    except FileExistsError:  # a file system that does not replace
        system.rm(target)
        system.mv(part, target)
