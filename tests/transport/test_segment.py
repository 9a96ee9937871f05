"""Segments: what was written is read again, and nothing of it can be altered, left out, forged or cut off unnoticed."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from cbor2 import loads

from roamcast.middleware.delivery_log import ACK, EVENTS, GIVEN, HOST, INTS, ORDER, SESSION, TEXT, WORD
from roamcast.middleware.errors import Error
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import (
    CutHeader,
    Segment,
    SegmentEncoder,
    SegmentHeader,
    SegmentTrailer,
    key_id,
    read_header,
    read_segment,
    scan,
)
from roamcast.transport.segment_blocks import (
    MAGIC,
    RAW_BYTES_MAX,
    RAW_BYTES_WANTED,
    chained,
    encode_header,
    encode_trailer,
    signed_message,
)

KEY, OTHER_KEY = b"the key of station north", b"the key of somebody else"
HEADER = SegmentHeader(
    writer="station", group="demo", id="north", seq=3, prev=bytes(range(32)), opened=1_790_000_000_000_000, slot=1,
    generation=(1 << 64) - 1, key=key_id(KEY), software="roamcast 0.1.0", note="a torn tail",
    peers={2: (7, b"\x02" * 32), 3: (1, b"\x03" * 32)},
)  # fmt: skip
JOURNAL = SegmentHeader(writer="journal", group="demo", id="ada", seq=1, prev=b"", opened=1, incarnation=5)


def signer(key: bytes) -> Callable[[bytes], bytes]:
    return lambda message: hashlib.blake2b(message, key=key).digest()


def verify(named: bytes, message: bytes, signature: bytes) -> bool:
    return named == key_id(KEY) and signature == signer(KEY)(message)


def a_row(rng: random.Random, event: str, number: int) -> tuple[Any, ...]:
    """Any row, with the bounds of every type among them."""

    def integer() -> int:
        return rng.choice([0, 1, -1, rng.getrandbits(40), (1 << 63) - 1, -(1 << 63)])

    row: list[Any] = [number, 1_790_000_000_000_000 + number]
    for kind in EVENTS[event].values():
        if kind == TEXT:
            row.append(rng.choice(["", "ada", "b\u00f6b", "x" * 64]))
        elif kind == INTS:
            row.append(tuple(integer() for _ in range(rng.choice([0, 2, 6]))))
        else:
            row.append(rng.choice([0, (1 << 64) - 1, rng.getrandbits(64)]) if kind == WORD else integer())
    return tuple(row)


def some_rows(rng: random.Random, first: int, count: int, events: Iterable[str] = EVENTS) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for number in range(first, first + count):
        event = rng.choice(list(events))
        rows.setdefault(event, []).append(a_row(rng, event, number))
    return rows


def written(header: SegmentHeader, *batches: dict[str, list[Any]], key: bytes | None = KEY) -> list[bytes]:
    """Head, data, trailer."""
    encoder = SegmentEncoder(header)
    parts = [encoder.head()]
    encoder.accept(parts[-1])
    for batch in batches:
        parts.append(encoder.data(batch))
        encoder.accept(parts[-1])
    parts.append(encoder.trailer(header.opened + 1, None if key is None else signer(key)))
    encoder.accept(parts[-1])
    return parts


def rows_of(segment: Segment, event: str) -> list[tuple[Any, ...]]:
    """The rows, from the columns."""
    columns = segment.columns(event)
    if not columns:
        return []
    parts: list[Any] = [columns["seq"], columns["wall"]]
    for name, kind in EVENTS[event].items():
        values = columns[name]
        if kind == INTS:
            at, lists = 0, []
            for length in columns[name + "_len"]:
                lists.append(tuple(values[at : at + length]))
                at += length
            assert at == len(values)
            values = lists
        parts.append(values)
    return list(zip(*parts, strict=True))


@pytest.fixture
def rng() -> random.Random:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def small() -> list[bytes]:
    """A closed segment of three blocks, small enough to look at every byte."""
    rng = random.Random(1)
    return written(HEADER, *(some_rows(rng, first, 2, (ACK, HOST, SESSION)) for first in (0, 2, 4)))


# ---- what was written is read ----


@pytest.mark.parametrize("event", EVENTS)
def test_rows_of_every_event_come_back(event: str, rng: random.Random) -> None:
    batches = [{event: [a_row(rng, event, first + i) for i in range(50)]} for first in (0, 50)]
    segment = read_segment(b"".join(written(HEADER, *batches)), verify)
    assert (segment.status, segment.events, segment.blocks, segment.names) == ("closed", 100, 2, {event})
    assert rows_of(segment, event) == batches[0][event] + batches[1][event]


def test_events_of_a_block_come_back_with_their_places(rng: random.Random) -> None:
    batches = [some_rows(rng, first, 200) for first in (0, 200)]
    segment = read_segment(b"".join(written(HEADER, *batches)), verify)
    for event in EVENTS:
        assert rows_of(segment, event) == [row for batch in batches for row in batch.get(event, [])]


def test_columns_are_buffers_of_little_endian_numbers(small: list[bytes]) -> None:
    columns = read_segment(b"".join(small)).columns(ACK)
    assert [memoryview(columns[name]).format for name in ("seq", "c", "incarnation")] == ["q", "q", "Q"]
    assert read_segment(b"".join(small)).columns(ORDER) == {}
    assert read_segment(b"".join(small)).columns("nothing") == {}


@pytest.mark.parametrize("header", [HEADER, JOURNAL, replace(HEADER, prev=b"", peers={}, note="", software="")])
def test_header_comes_back(header: SegmentHeader) -> None:
    assert read_header(encode_header(header)) == header
    assert read_segment(encode_header(header)).header == header


def test_note_is_cut_and_not_refused() -> None:
    assert read_header(encode_header(replace(HEADER, note="\u00e4" * 400))).note == "\u00e4" * 256


def test_trailer_says_what_it_signs(small: list[bytes]) -> None:
    segment = read_segment(b"".join(small), verify)
    end = b""
    for part in [small[0].removeprefix(MAGIC), *small[1:-1]]:
        end = hashlib.sha256(end + part).digest()
    assert segment.end == end
    trailer = segment.trailer
    assert trailer == SegmentTrailer(3, 6, end, HEADER.opened + 1, trailer.signature if trailer else b"")
    message = ["RCLOG1", "demo", "north", (1 << 64) - 1, 3, bytes(range(32)), end, 6, HEADER.opened + 1]
    assert loads(signed_message(HEADER, 6, end, HEADER.opened + 1)) == message


def test_blocks_that_were_not_kept_do_not_count(rng: random.Random) -> None:
    encoder = SegmentEncoder(HEADER)
    encoder.accept(encoder.head())
    lost = encoder.data(some_rows(rng, 0, 3))
    kept = encoder.data(some_rows(rng, 0, 2))
    with pytest.raises(Error):
        encoder.accept(lost)
    kept = encoder.data(some_rows(rng, 0, 2))
    encoder.accept(kept)
    assert (encoder.events, encoder.blocks, encoder.size) == (2, 1, len(encode_header(HEADER)) + len(kept))
    with pytest.raises(Error):
        encoder.accept(kept)


def test_an_open_segment_goes_on(rng: random.Random) -> None:
    first, second = some_rows(rng, 0, 20), some_rows(rng, 20, 20)
    parts = written(HEADER, first, second)
    encoder = SegmentEncoder.resume(read_segment(b"".join(parts[:2])))
    assert encoder.size == len(parts[0]) + len(parts[1])
    data = encoder.data(second)
    encoder.accept(data)
    assert [data, encoder.trailer(HEADER.opened + 1, signer(KEY))] == parts[2:]


def test_what_is_too_much_for_a_block_becomes_several() -> None:
    spool = tuple(range(1 << 20))
    rows = [(i, 1, 1, 1, 1, 0, 0, 0, 0, (), spool) for i in range(3)]
    acks = [(i, 1, 1, 1, 1, i) for i in range(3, 10)]
    parts = written(HEADER, {SESSION: rows, ACK: acks})
    data = b"".join(parts)
    segment = read_segment(data, verify)
    assert segment.status == "closed" and segment.events == 10
    assert segment.blocks > 1 and segment.raw_bytes / segment.blocks < RAW_BYTES_WANTED < RAW_BYTES_MAX
    assert list(segment.columns(SESSION)["spool_len"]) == [1 << 20] * 3
    assert list(segment.columns(ACK)["c"]) == list(range(3, 10))


@pytest.mark.parametrize("rows", [{ACK: [(0, 1, 1)]}, {"nothing": [(0, 1)]}, {ACK: [(0, 1, 1, 1, 1, 1 << 63)]}])
def test_rows_that_are_none_are_refused(rows: dict[str, list[Any]]) -> None:
    with pytest.raises((Error, struct.error)):
        SegmentEncoder(HEADER).data(rows)


# ---- cut off, altered ----


def test_every_cut_leaves_the_whole_blocks(small: list[bytes]) -> None:
    data = b"".join(small)
    ends = [sum(map(len, small[: i + 1])) for i in range(len(small))]
    for cut in range(len(data)):
        if cut < ends[0]:
            with pytest.raises(CutHeader):
                read_segment(data[:cut], verify)
            continue
        segment = read_segment(data[:cut], verify)
        blocks = sum(end <= cut for end in ends) - 1
        assert segment.status == ("open" if cut in ends else "torn"), cut
        assert (segment.whole_bytes, segment.blocks, segment.events) == (ends[blocks], blocks, 2 * blocks)
        assert sum(len(rows_of(segment, event)) for event in EVENTS) == 2 * blocks
    assert read_segment(data, verify).status == "closed"


def test_a_tail_of_zeros_is_a_torn_one(small: list[bytes]) -> None:
    segment = read_segment(b"".join(small[:2]) + bytes(5_000))
    assert (segment.status, segment.blocks) == ("torn", 1)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_altered_byte_is_noticed(small: list[bytes], flip: int) -> None:
    data = b"".join(small)
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= flip
        try:
            segment = read_segment(bytes(altered), verify)
        except DecodeError:
            assert at < len(small[0])
            continue
        assert segment.status in ("torn", "damaged"), at
        assert segment.whole_bytes <= at


def reordered(parts: list[bytes], *order: int) -> bytes:
    return b"".join([parts[0], *(parts[i] for i in order), parts[-1]])


@pytest.mark.parametrize("order", [(1, 2), (1, 3), (2, 3), (1, 3, 2), (1, 1, 2, 3), (1, 2, 3, 3), ()])
def test_dropped_swapped_and_doubled_blocks_are_noticed(small: list[bytes], order: tuple[int, ...]) -> None:
    segment = read_segment(reordered(small, *order), verify)
    assert segment.status == "damaged"
    assert segment.blocks <= 3


def test_bytes_behind_the_trailer_are_noticed(small: list[bytes]) -> None:
    for behind in (b"\0", small[1], small[-1], b"x" * 100):
        assert read_segment(b"".join(small) + behind, verify).status == "damaged"


# ---- forged ----


def forged(small: list[bytes], header: SegmentHeader, key: bytes | None, order: tuple[int, ...] = (1, 2, 3)) -> bytes:
    """The blocks behind another header, with a chain and a trailer that fit."""
    end = chained(b"", encode_header(header)[len(MAGIC) :])
    for i in order:
        end = chained(end, small[i])
    events = 2 * len(order)
    signature = b"" if key is None else signer(key)(signed_message(header, events, end, HEADER.opened + 1))
    trailer = encode_trailer(SegmentTrailer(len(order), events, end, HEADER.opened + 1, signature))
    return b"".join([encode_header(header), *(small[i] for i in order), trailer])


def test_the_owner_of_the_key_could_have_written_it(small: list[bytes]) -> None:
    assert forged(small, HEADER, KEY) == b"".join(small)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (HEADER, OTHER_KEY),
        (replace(HEADER, key=key_id(OTHER_KEY)), OTHER_KEY),
        (replace(HEADER, key=key_id(OTHER_KEY)), KEY),
        (replace(HEADER, key=b""), None),
        (replace(HEADER, key=b""), KEY),
        (HEADER, None),
    ],
)
def test_who_does_not_have_the_key_cannot_sign(small: list[bytes], header: SegmentHeader, key: bytes | None) -> None:
    segment = read_segment(forged(small, header, key), verify)
    assert segment.status == "forged" and segment.reason


@pytest.mark.parametrize(
    "other", [{"seq": 4}, {"prev": bytes(32)}, {"id": "south"}, {"group": "other"}, {"generation": 1}, {"note": ""}]
)
def test_the_place_of_a_segment_is_signed(small: list[bytes], other: dict[str, Any]) -> None:
    header = replace(HEADER, **other)
    moved = b"".join([encode_header(header), *small[1:]])
    assert read_segment(moved, verify).status == "damaged"
    signature = read_segment(b"".join(small)).trailer
    assert signature is not None
    end = read_segment(forged(small, header, KEY)).end
    fitting = encode_trailer(replace(signature, end=end))
    assert read_segment(b"".join([encode_header(header), *small[1:-1], fitting]), verify).status == "forged"


def test_counts_and_time_of_the_trailer_are_signed(small: list[bytes]) -> None:
    trailer = read_segment(b"".join(small)).trailer
    assert trailer is not None
    for other, status in (({"closed": 1}, "forged"), ({"events": 5}, "damaged"), ({"blocks": 2}, "damaged")):
        assert read_segment(b"".join([*small[:-1], encode_trailer(replace(trailer, **other))]), verify).status == status


def test_signatures_are_not_looked_at_unless_asked_for(small: list[bytes]) -> None:
    assert read_segment(forged(small, HEADER, OTHER_KEY)).status == "closed"
    assert read_segment(forged(small, replace(HEADER, key=b""), None)).status == "unsigned"


def test_a_journal_is_not_signed() -> None:
    data = b"".join(written(JOURNAL, {GIVEN: [(0, 1, 1, 1, 1, 1, 1, 1)]}, key=None))
    assert read_segment(data, verify).status == "unsigned"


def test_a_signature_belongs_to_a_header_with_a_key() -> None:
    encoder = SegmentEncoder(HEADER)
    encoder.accept(encoder.head())
    with pytest.raises(Error):
        encoder.trailer(1)


def test_blocks_can_be_seen_without_reading_them(small: list[bytes]) -> None:
    data = b"".join(small)
    assert [data[start:end] for start, end, _ in scan(data)] == [small[0].removeprefix(MAGIC), *small[1:]]
    assert bytes(type for *_, type in scan(data)) == b"HDDDT"
