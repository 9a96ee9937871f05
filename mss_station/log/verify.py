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
from roamcast.transport.segment import CLOSED, OPEN, TORN, CutHeader, Segment, Verify, read_segment
from roamcast.transport.segment_files import end_of
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
    note: str = ""
    """Worth knowing; nothing is wrong."""


def verify_log(
    directory: Path,
    card: StationCard,
    publics: Sequence[bytes],
    head: LogHead | None,
    reach: tuple[int, int],
    say: Callable[[str], None],
) -> Iterator[Verdict]:
    """Judge every segment of the station in `directory`, and those that must be there and are not.

    Args:
        publics: keys that the station has signed with, ever.
        head: its newest closed segment, as the configuration has it.
        reach: segment, and events in it, that had been written when the station has last noted that in its store.
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
        is_last = place == len(seqs)
        try:
            segment = _read(directory, seq, verify, is_last)
        except CutHeader:
            if is_last and reach <= (seq, 0):
                yield Verdict(seq, TORN, 0, 0, "", "incomplete: it was about to begin")
                continue
            yield Verdict(seq, "damaged", 0, 0, "it has no header")
            before = None
            continue
        except DecodeError as error:
            yield Verdict(seq, "damaged", 0, 0, error.reason)
            before = None
            continue
        problem = _problem(segment, card, seq, before, head) or _short(segment, seq, reach, is_last)
        if not problem and place == 1 and seq > 1 and not segment.header.prev:
            problem = f"it follows none, though {seq - 1} came before it"
        yield Verdict(seq, segment.status, segment.events, segment.header.opened, problem, _note(segment))
        before = segment
    needed = max(0 if head is None else head.seq, reach[0] if reach[1] else reach[0] - 1)
    yield from (_missing(gone) for gone in range((seqs[-1] if seqs else 0) + 1, needed + 1))


def _read(directory: Path, seq: int, verify: Verify, is_last: bool) -> Segment:
    """One segment. One that ends inside a block may just be being written: it is read again."""
    path = segment_path(directory, seq)
    data = path.read_bytes()
    while is_last and end_of(data)[1] < len(data):
        again = path.read_bytes()
        if len(again) <= len(data):
            break
        data = again
    return read_segment(data, verify)


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
    return ""


def _short(segment: Segment, seq: int, reach: tuple[int, int], is_last: bool) -> str:
    if seq == reach[0] and segment.events < reach[1]:
        return f"events {segment.events} to {reach[1] - 1} are not here any more"
    if segment.status != CLOSED and not is_last:
        return f"it has no end: whole up to byte {segment.whole_bytes}, {segment.events} events"
    return ""


def _note(segment: Segment) -> str:
    """Of a segment that is written, or whose station was killed; and what its writer had found before it."""
    what = {
        OPEN: f"incomplete: whole up to byte {segment.whole_bytes}, it goes on or was not closed",
        TORN: f"incomplete: whole up to byte {segment.whole_bytes}, what was written behind is written again",
    }.get(segment.status, "")
    return "; ".join(filter(None, (what, segment.header.note)))
