"""Files -> segments for the audit. A file that cannot be used is one too: it is reported, and the others are read.

Source: docs/protocols/delivery-log.md, 'Segments'; BL-73. The format itself is known to transport/segment.py alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
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


def files(directory: Path) -> list[Path]:
    """All files that may be segments, sorted; hidden ones are left out."""
    return sorted(p for p in directory.rglob("*") if p.is_file() and not p.name.startswith("."))


def header_of(path: Path) -> Mapping[str, Any] | None:
    """The header of a file; None: it has none that can be read."""
    try:
        return header_in(_content(path))
    except OSError:
        return None


def header_in(data: bytes) -> Mapping[str, Any] | None:
    """The header of a file's bytes; None: it has none that can be read."""
    try:
        return _mapping(read_header(data))
    except DecodeError:
        return None


def read(path: Path, keys: Keys | None = None) -> Segment:
    """Read one file, whatever it is; what cannot be read has an empty header and is DAMAGED."""
    try:
        return decode(_content(path), str(path), keys)
    except OSError as error:
        return Segment({}, {}, DAMAGED, f"{path} ({error.strerror})")


def read_all(paths: Iterable[Path], keys: Keys | None = None) -> list[Segment]:
    """Read many files."""
    return [read(path, keys) for path in paths]


def _content(path: Path) -> bytes:
    if path.stat().st_size > BYTES_MAX:
        raise OSError(errno.EFBIG, "larger than a segment can be")
    return path.read_bytes()


def decode(data: bytes, path: str, keys: Keys | None = None) -> Segment:
    """The segment that `data` is; `path` is for reports. Never raises for what the bytes are."""
    try:
        header = _mapping(read_header(data))
        found = read_segment(data, keys(header) if keys else None)
    except DecodeError as error:
        return Segment({}, {}, DAMAGED, f"{path} ({error.reason})")
    events = {name: _arrays(found.columns(name)) for name in sorted(found.names)}
    status = CLOSED if found.status == UNSIGNED and keys is None else found.status
    return Segment(
        header,
        {name: columns for name, columns in events.items() if columns},
        UNSIGNED if found.status == UNSIGNED and header["writer"] == "journal" else status,
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
