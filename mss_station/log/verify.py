"""Do the segments of a station's delivery log hold, follow each other, and reach the head that all stations know?

Source: audit.md 2.4; docs/protocols/delivery-log.md, 'Segments'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roamcast.mss_station.log.files import segment_path, segments
from roamcast.mss_station.schema import LogHead
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import CLOSED, OPEN, TORN, Segment, read_segment
from roamcast.transport.segment_keys import SignedBy
from roamcast.transport.station_files import StationCard

MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one segment."""

    seq: int
    status: str
    """As in transport/segment.py, or MISSING."""
    events: int
    opened: int
    """UTC microseconds; 0: not known."""
    problem: str
    """Empty: none."""


def verify_log(
    directory: Path, card: StationCard, publics: Sequence[bytes], head: LogHead | None, say: Callable[[str], None]
) -> Iterator[Verdict]:
    """Judge every segment of the station in `directory`, and those that must be there and are not.

    Args:
        publics: keys that the station has signed with, ever.
        head: its newest closed segment, as the configuration has it.
        say: hears of the progress.

    Raises:
        OSError: a file cannot be read.
    """
    verify = SignedBy(publics)
    seqs = segments(directory)
    before: Segment | None = None
    for place, seq in enumerate(seqs, 1):
        say(f"{place} of {len(seqs)} segments")
        if place > 1 and seqs[place - 2] != seq - 1:
            yield from (_missing(gone) for gone in range(seqs[place - 2] + 1, seq))
            before = None
        data = segment_path(directory, seq).read_bytes()
        try:
            segment = read_segment(data, verify)
        except DecodeError as error:
            yield Verdict(seq, "damaged", 0, 0, error.reason)
            before = None
            continue
        yield Verdict(
            seq, segment.status, segment.events, segment.header.opened, _problem(segment, card, seq, before, head)
        )
        before = segment
    if head is not None:
        yield from (_missing(gone) for gone in range((seqs[-1] if seqs else 0) + 1, head.seq + 1))


def _missing(seq: int) -> Verdict:
    return Verdict(seq, MISSING, 0, 0, "the file is not here")


def _problem(segment: Segment, card: StationCard, seq: int, before: Segment | None, head: LogHead | None) -> str:
    header = segment.header
    mine = (card.group, card.id, card.slot, card.generation, seq)
    if (header.group, header.id, header.slot, header.generation, header.seq) != mine:
        return f"it says that it is segment {header.seq} of {header.id} in {header.group}"
    if segment.status not in (CLOSED, OPEN, TORN):
        return segment.reason or segment.status
    if before is not None and header.prev != before.end:
        return "it does not follow the segment before"
    if head is not None and seq == head.seq and (segment.end != head.end or segment.status != CLOSED):
        return "it does not end as this station has told the others"
    if header.note:
        return header.note
    return "ends inside a block" if segment.status == TORN else ""
