"""Packed events: what goes in comes out, of the tail and of a data block; and bytes that nobody wrote are refused."""

from __future__ import annotations

import os
import random
import struct
from typing import Any

import pytest

from roamcast.middleware.delivery_log import EVENTS, INT, INTS, LOST, TEXT
from roamcast.middleware.errors import InvariantError
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import SegmentEncoder, SegmentHeader, read_segment
from roamcast.transport.segment_rows import LAYOUTS, Event, Packed, numbered, pack
from roamcast.transport.tail_codec import decode_tail, encode_tail

HEADER = SegmentHeader(writer="station", group="g", id="s", seq=1, prev=b"", opened=1, slot=1, generation=1)


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"ROAMCAST_SEED={chosen}")
    return chosen


def value(rng: random.Random, kind: str) -> Any:
    if kind == INTS:
        return [rng.randint(-(1 << 63), (1 << 63) - 1) for _ in range(rng.choice((0, 1, 2, 7, 100)))]
    if kind == TEXT:
        return "".join(rng.choice("ab€\x00 ") for _ in range(rng.randrange(9)))
    return rng.randint(*((-(1 << 63), (1 << 63) - 1) if kind == INT else (0, (1 << 64) - 1)))


def drawn(rng: random.Random, count: int) -> list[Event]:
    return [
        (event, rng.randrange(1 << 60), tuple(value(rng, kind) for kind in EVENTS[event].values()))
        for event in rng.choices(list(EVENTS), k=count)
    ]


def packed(events: list[Event], first: int) -> list[Packed]:
    return [pack(event, number, wall, values) for number, (event, wall, values) in enumerate(events, first)]


def as_columns(events: list[Event], data: bytes) -> None:
    """A segment with this data block says just that."""
    encoder = SegmentEncoder(HEADER)
    head = encoder.head()
    segment = read_segment(head + data)
    assert segment.status == "open" and segment.events == len(events), segment.reason
    for event, kinds in EVENTS.items():
        mine = [(number, wall, values) for number, (name, wall, values) in enumerate(events) if name == event]
        columns = segment.columns(event)
        assert list(columns.get("seq", ())) == [number for number, _, _ in mine]
        assert list(columns.get("wall", ())) == [wall for _, wall, _ in mine]
        for i, (name, kind) in enumerate(kinds.items()):
            told = [values[i] for _, _, values in mine]
            if kind == INTS:
                assert list(columns.get(name, ())) == [number for each in told for number in each]
                assert list(columns.get(name + "_len", ())) == list(map(len, told))
            else:
                assert list(columns.get(name, ())) == told


def test_what_goes_in_comes_out(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        events = drawn(rng, rng.randrange(1, 60))
        first = rng.choice((0, 5))
        synced = rng.choice((None, 0, first))
        segment, number, found, kept = decode_tail(encode_tail(7, first, packed(events, first), synced))
        assert (segment, number, found) == (7, first, packed(events, first))
        assert kept == (first if synced is None else synced)
        encoder = SegmentEncoder(HEADER)
        encoder.accept(encoder.head())
        as_columns(events, encoder.data([numbered(each, number) for number, each in enumerate(found)]))


def test_bytes_that_nobody_wrote(seed: int) -> None:
    rng = random.Random(seed)
    assert decode_tail(encode_tail(3, 4, [])) == (3, 4, [], 4)
    for _ in range(300):
        data = bytearray(encode_tail(1, 0, packed(drawn(rng, 5), 0)))
        if rng.random() < 0.5:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode_tail(bytes(data))
        except DecodeError as error:
            assert "no tail of a log" in error.reason


@pytest.mark.parametrize(
    ("event", "values"),
    [("order", (1,) * 11), ("order", (1,) * 12), ("session", (1,) * 7), ("ack", (1,) * 5), ("ack", (1 << 63, 0, 0, 0))],
)
def test_what_is_no_such_event(event: str, values: tuple[int, ...]) -> None:
    with pytest.raises(struct.error):
        pack(event, 0, 1, values)
    with pytest.raises(InvariantError, match="no event"):
        pack("nothing", 0, 1, values)
    assert pack(LOST, 0, 1, ())[2] == b""


def test_an_event_keeps_its_code_for_stores_hold_it() -> None:
    """Format 3 had the first eleven; whatever came since is behind them."""
    codes = {layout.event: layout.code[0] for layout in LAYOUTS.values()}
    events = [
        "ack",
        "gap",
        "host",
        "lost",
        "sent",
        "given",
        "order",
        "closed",
        "member",
        "handoff",
        "session",
        "ended",
        "subscribed",
        "posted",
        "arrived",
        "live",
        "handed",
        "missed",
        "untold",
        "heard",
    ]
    assert codes == {event: code for code, event in enumerate(events)}
    assert list(LAYOUTS) == sorted(EVENTS, key=lambda event: (len(event), event)), "the order of keys in a data block"
