"""Segments as files, as a station's uploader would leave them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from roamcast.analytics.evidence import Segment
from roamcast.analytics.reading import decode
from roamcast.middleware.delivery_log import EVENTS, INTS
from roamcast.transport.segment import SegmentEncoder, SegmentHeader


def store(segments: list[Segment], directory: Path) -> list[Path]:
    """Write every segment as a file of its own; each writer's are chained in the order in which they are given."""
    directory.mkdir(parents=True, exist_ok=True)
    ends: dict[str, bytes] = {}
    paths = []
    for segment in segments:
        header = segment.header
        made = SegmentHeader(
            writer="station", group="g", id=str(header["id"]), seq=header["seq"], prev=ends.get(header["id"], b""),
            opened=header["opened"], slot=header["slot"], generation=header["generation"],
        )  # fmt: skip
        data = encoded(segment, made)
        ends[header["id"]] = decode(data, "").end
        path = directory / f"{header['id']}-{header['seq']:04}.rclog"
        path.write_bytes(data)
        paths.append(path)
    return paths


def encoded(segment: Segment, header: SegmentHeader) -> bytes:
    """The bytes of one closed segment."""
    encoder = SegmentEncoder(header)
    data = encoder.head()
    encoder.accept(data)
    events = sorted(
        (int(columns["seq"][i]), event, values)
        for event, columns in segment.events.items()
        for i, values in enumerate(_rows(event, columns))
    )
    for at in range(0, len(events), 64):
        block: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for seq, (_, event, values) in enumerate(events[at : at + 64], at):
            block[event].append((seq, *values))
        made = encoder.data(block)
        encoder.accept(made)
        data += made
    return data + encoder.trailer(segment.closed)


def _rows(event: str, columns: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(wall, values of the event's columns) of each row."""
    wall = columns["wall"].tolist()
    made = [wall]
    for name, kind in EVENTS[event].items():
        values = columns[name] if isinstance(columns[name], list) else columns[name].tolist()
        if kind == INTS:
            length = columns[name + "_len"].tolist()
            begin = [sum(length[:i]) for i in range(len(length))]
            values = [values[a : a + n] for a, n in zip(begin, length, strict=True)]
        made.append(values)
    return list(zip(*made, strict=True))
