"""Files -> segments for the audit. A file that cannot be used is one too: it is reported, and the others are read.

Source: docs/protocols/delivery-log.md, 'Segments'; BL-73. The format itself is known to transport/segment.py alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from roamcast.analytics.evidence import DAMAGED, Segment
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import CLOSED, UNSIGNED, SegmentHeader, read_header, read_segment

BYTES_MAX = 1 << 30
"""Of a file: what is larger is no segment."""

Verify = Callable[[bytes, bytes, bytes], bool]
"""As in transport/segment.py: (key id, message, signature) -> whether that key has signed it."""

Keys = Callable[[Mapping[str, Any]], Verify | None]
"""Header -> how to verify its signature; None: signatures of this writer are not looked at."""

HEADER_BYTES = 2 << 20
"""More than any header takes."""

KEYS_NAME = "keys.json"
"""The file beside uploaded segments that is none: see keys.py."""


def files(directory: Path, keys: bool = False) -> list[Path]:
    """All files that may be segments, sorted: all but hidden ones and keys.json. keys: instead, those keys.json."""
    there = (path for path in directory.rglob("*") if (path.name == KEYS_NAME) == keys)
    return sorted(path for path in there if path.is_file() and not path.name.startswith("."))


def no_keys(_key: bytes, _message: bytes, _signature: bytes) -> bool:
    """What a `Keys` returns for a station of which no keys are known: its segments are UNSIGNED."""
    return False


def header_of(path: Path) -> Mapping[str, Any] | None:
    """The header of a file; None: it has none that can be read."""
    try:
        with path.open("rb") as file:
            return header_in(file.read(HEADER_BYTES))
    except OSError:
        return None


def header_in(data: bytes) -> Mapping[str, Any] | None:
    """The header of a file's bytes, its first HEADER_BYTES at least; None: it has none that can be read."""
    try:
        return _mapping(read_header(data[:HEADER_BYTES]))
    except DecodeError:
        return None


def read(path: Path, keys: Keys | None = None) -> Segment:
    """Read one file, whatever it is; what cannot be read has an empty header and is DAMAGED."""
    try:
        return decode(_content(path), _text(path), keys)
    except OSError as error:
        return Segment({}, {}, DAMAGED, f"{_text(path)} ({error.strerror})")


def _text(path: Path) -> str:
    return str(path).encode(errors="backslashreplace").decode()  # a file name may be any bytes


def _content(path: Path) -> bytes:
    if path.stat().st_size > BYTES_MAX:
        raise OSError(errno.EFBIG, "larger than a segment can be")
    return path.read_bytes()


def decode(data: bytes, path: str, keys: Keys | None = None) -> Segment:
    """The segment that `data` is; `path` is for reports. Never raises for what the bytes are.

    With keys, what a station is said to have logged counts only if it has signed it: else anybody could accuse others.
    """
    try:
        header = _mapping(read_header(data))
        verify = keys(header) if keys else None
        found = read_segment(data, None if verify is no_keys else verify)
    except DecodeError as error:
        return Segment({}, {}, DAMAGED, f"{path} ({error.reason})")
    status = found.status
    if header["writer"] == "station" and status in (CLOSED, UNSIGNED):
        status = CLOSED if keys is None else UNSIGNED if verify is no_keys else status
    vouched = keys is None or header["writer"] != "station" or status == CLOSED
    events = {name: _arrays(found.columns(name)) for name in sorted(found.names)} if vouched else {}
    return Segment(
        header,
        {name: columns for name, columns in events.items() if columns},
        status,
        path,
        found.end,
        found.trailer.closed if found.trailer else 0,
        found.events,
    )


def _arrays(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: values if values is None or isinstance(values, list) else np.asarray(values)
        for name, values in columns.items()
    }


def _mapping(header: SegmentHeader) -> dict[str, Any]:
    return {
        "writer": header.writer, "group": header.group, "id": header.id, "seq": header.seq, "prev": header.prev,
        "opened": header.opened, "slot": header.slot, "generation": header.generation,
        "incarnation": header.incarnation, "note": header.note, "peers": dict(header.peers),
    }  # fmt: skip
