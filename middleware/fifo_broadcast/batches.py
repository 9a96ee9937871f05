"""Rows in frames: cut by number and bytes; of mail whose body only some stations get, the others get the header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from roamcast.middleware.effects import Broadcast, Effect, SendPeer
from roamcast.middleware.rows import Row
from roamcast.middleware.settings import Settings
from roamcast.middleware.station_frames import DataBatch


def batches(origin: int, rows: Sequence[Row], settings: Settings) -> Iterator[DataBatch]:
    """Cut rows into frames; without `position`, which is this station's alone."""
    start = size = 0
    most, most_bytes = settings.nack_rows_max, settings.nack_bytes_max
    for i, row in enumerate(rows):
        if i > start and (i - start >= most or size + row.held > most_bytes):
            yield DataBatch(origin, tuple(rows[start:i]))
            start, size = i, 0
        size += row.held
    if start < len(rows):
        yield DataBatch(origin, tuple(rows[start:]))


def first_sends(
    cut: Iterable[DataBatch],
    peers: Sequence[int],
    settings: Settings,
    body_to: Callable[[Row], frozenset[int] | None],
    everybody: bool,
) -> list[Effect]:
    """Rows to `peers` (`everybody`: these are all): one frame for all, or one for each if some get less than others."""
    to = None if everybody else tuple(peers)
    if not settings.lean_bytes:
        return [Broadcast(batch, to) for batch in cut]
    out: list[Effect] = []
    for batch in cut:
        targets = {row.n: whole for row in batch.rows if (whole := body_to(row)) is not None}
        headers = {row.n: replace(row, item=None, lean=True) for row in batch.rows if row.n in targets}
        if not targets:
            out.append(Broadcast(batch, to))
            continue
        for peer in peers:
            rows = (headers[row.n] if peer not in targets.get(row.n, (peer,)) else row for row in batch.rows)
            out.append(SendPeer(peer, DataBatch(batch.origin, tuple(rows))))
    return out
