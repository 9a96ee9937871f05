"""Segments against `segment.cddl`, of other versions, and of whoever wants to harm: bounds, growth, no memory."""

from __future__ import annotations

import random
import re
import struct
import time
import tracemalloc
import zlib
from dataclasses import fields
from importlib.resources import files
from typing import Any

import pytest
from cbor2 import dumps, loads
from hypothesis import given, settings
from hypothesis import strategies as st

from roamcast.middleware.delivery_log import ACK, EVENTS, HOST, INT, INTS, SESSION, TEXT, WORD
from roamcast.transport import limits
from roamcast.transport import segment as segment_module
from roamcast.transport import segment_blocks as blocks
from roamcast.transport.errors import DecodeError
from roamcast.transport.segment import (
    NewerSegment,
    SegmentEncoder,
    SegmentHeader,
    SegmentTrailer,
    read_header,
    read_segment,
)
from roamcast.transport.segment_blocks import (
    DATA,
    HEADER,
    MAGIC,
    TRAILER,
    block,
    encode_header,
    encode_sorted,
    encode_trailer,
    key_order,
)

HEAD = encode_header(
    SegmentHeader(
        writer="station", group="demo", id="north", seq=1, prev=b"", opened=1, slot=1, generation=2, key=b"12345678",
        peers={2: (7, bytes(32))}, software="roamcast", note="note",
    )
)  # fmt: skip


# ---- other versions ----


def data_block(plain: dict[str, dict[str, Any]]) -> bytes:
    """A block of these events; the keys of the columns are put into their order."""
    return block(DATA, zlib.compress(encode_sorted({event: in_order(plain[event]) for event in plain})))


def in_order(columns: dict[str, Any]) -> dict[str, Any]:
    return {key: columns[key] for key in sorted(columns, key=key_order)}


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def test_unknown_columns_and_events_are_stepped_over() -> None:
    plain = {
        "ack": {"c": numbers(5), "e": numbers(4), "seq": numbers(1), "host": numbers(1), "wall": numbers(9),
                "later": [1, "x", {"y": None}], "newest": b"123", "incarnation": numbers(7)},
        "later": {"seq": numbers(0, 2), "wall": numbers(1, 3), "other": numbers(1, 2)},
    }  # fmt: skip
    segment = read_segment(HEAD + data_block(plain))
    assert (segment.status, segment.events, segment.names) == ("open", 3, {"ack", "later"})
    assert {name: list(column) for name, column in segment.columns(ACK).items()} == {
        "seq": [1], "wall": [9], "host": [1], "incarnation": [7], "e": [4], "c": [5],
    }  # fmt: skip
    assert segment.columns("later") == {}


def test_missing_columns_are_none() -> None:
    old = {"session": {"c": numbers(5), "seq": numbers(0), "base": numbers(1, 2), "wall": numbers(9),
                       "base_len": struct.pack("<I", 2)}}  # fmt: skip
    columns = read_segment(HEAD + data_block(old)).columns(SESSION)
    assert list(columns) == [
        "seq", "wall", "host", "incarnation", "e", "at", "le", "c", "gap", "base", "base_len", "spool", "spool_len",
    ]  # fmt: skip
    there = {name: list(column) for name, column in columns.items() if column is not None}
    assert there == {"seq": [0], "wall": [9], "c": [5], "base_len": [2], "base": [1, 2]}
    full = {"session": {**old["session"], "seq": numbers(1), "spool": b"", "spool_len": bytes(4)}}
    both = read_segment(HEAD + data_block(old) + data_block(full))
    assert both.events == 2 and list(both.columns(SESSION)["c"]) == [5, 5]
    assert both.columns(SESSION)["spool"] is None, "only one of two blocks has it: nothing is made up"


@pytest.mark.parametrize("more", [{}, {"opened": "a text"}, {"id": 7}])
def test_a_larger_schema_is_refused_as_such(more: dict[str, Any]) -> None:
    plain = loads(HEAD[len(MAGIC) + 9 :]) | {"schema": 2} | more
    for read in (read_segment, read_header):
        with pytest.raises(NewerSegment):
            read(MAGIC + block(ord("H"), encode_sorted(plain)))


# ---- the contract ----

TEXT_OF = (files("roamcast.transport") / "segment.cddl").read_text()


def read_rules(text: str) -> dict[str, str]:
    """Rule name to right-hand side, comments and line breaks removed."""
    parts = re.split(r"^([a-z][a-z0-9-]*) *= *", re.sub(r";.*", "", text), flags=re.MULTILINE)
    return {name: " ".join(side.split()) for name, side in zip(parts[1::2], parts[2::2], strict=True)}


RULES = read_rules(TEXT_OF)


def entries(rule: str) -> dict[str, str]:
    """Key -> type of a map rule."""
    return {key: kind.strip() for key, kind in re.findall(r'"([a-z0-9_]+)": ([^,{}]+|\{[^}]*\})', rule)}


@pytest.mark.parametrize("event", EVENTS)
def test_columns_of_the_contract_are_those_of_the_events(event: str) -> None:
    names = {INT: "i64s", WORD: "u64s", TEXT: "texts"}
    expected = {"seq": "i64s", "wall": "i64s"}
    for name, kind in EVENTS[event].items():
        expected |= {f"{name}_len": "u32s", name: "i64s"} if kind == INTS else {name: names[kind]}
    assert list(entries(RULES[event]).items()) == list(expected.items())


def test_a_data_block_may_hold_every_event() -> None:
    assert entries(RULES["data"]) == {event: event for event in EVENTS}


def test_fields_of_the_contract_are_those_of_header_and_trailer() -> None:
    assert set(entries(RULES["header"])) == {field.name for field in fields(SegmentHeader)} | {"schema"}
    assert set(entries(RULES["trailer"])) == {field.name for field in fields(SegmentTrailer)}
    written = loads(HEAD[len(MAGIC) + 9 :])
    assert set(written) | {"incarnation"} == set(entries(RULES["header"])), "all but the field of a journal"


def test_bounds_of_the_contract_are_those_of_the_code() -> None:
    header = RULES["header"]
    assert f'"schema": {blocks.SCHEMA},' in header
    assert f'"writer": "{blocks.STATION}" / "{blocks.JOURNAL}"' in header
    assert header.count(f"tstr .size (1..{limits.NAME_BYTES_MAX})") == 2
    assert header.count(f"tstr .size (0..{limits.TEXT_BYTES_MAX})") == 2
    assert header.count(f"0..{limits.UINT64_MAX}") == 2
    assert f"*{limits.STATIONS_MAX} 0..{limits.SLOT_MAX} =>" in header
    assert f'"key": bstr .size {blocks.KEY_ID_BYTES} / empty' in header
    assert f'"signature": bstr .size {limits.SIGNATURE_BYTES} / empty' in RULES["trailer"]
    assert (RULES["natural"], RULES["hash"]) == (f"0..{limits.INT64_MAX}", f"bstr .size {blocks.HASH_BYTES}")
    assert f"at most {blocks.RAW_BYTES_MAX} bytes and {blocks.BLOCK_EVENTS_MAX} events" in TEXT_OF
    assert f'"{MAGIC.decode().strip()}", group' in RULES["signed-segment"]


BAD_FIELDS: list[tuple[str, Any]] = [
    ("group", ""), ("group", "x" * 65), ("id", b"x"), ("seq", -1), ("seq", 1 << 63), ("prev", b"x" * 31),
    ("slot", 1024), ("key", b"x" * 7), ("opened", None), ("generation", 1 << 64), ("note", "x" * 513),
    ("writer", "nobody"), ("peers", {}),
    ("peers", {1: [1, b"x"]}), ("peers", {1024: [1, bytes(32)]}), ("peers", {1: [1, bytes(32), 0]}), ("schema", 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS, ids=str)
def test_header_fields_out_of_bounds_are_refused(name: str, value: Any) -> None:
    plain = loads(HEAD[len(MAGIC) + 9 :])
    data = MAGIC + block(HEADER, encode_sorted(plain | {name: value}))
    if value == {}:
        assert read_header(data).peers == {}
        return
    with pytest.raises(DecodeError):
        read_header(data)


@pytest.mark.parametrize(
    "name", ["schema", "writer", "group", "id", "seq", "prev", "key", "opened", "slot", "generation"]
)
def test_a_header_without_a_needed_field_is_none(name: str) -> None:
    plain = loads(HEAD[len(MAGIC) + 9 :])
    del plain[name]
    with pytest.raises(DecodeError):
        read_header(MAGIC + block(HEADER, encode_sorted(plain)))


GOOD_ACK = {
    "seq": numbers(0, 1), "wall": numbers(1, 1), "host": numbers(1, 1), "incarnation": numbers(1, 1),
    "e": numbers(1, 1), "c": numbers(1, 2),
}  # fmt: skip
GOOD_HOST = {"seq": numbers(0, 1), "wall": numbers(1, 1), "host": numbers(1, 2), "name": ["ada", "bob"]}
BAD_COLUMNS: list[tuple[str, dict[str, Any]]] = [
    (ACK, GOOD_ACK | {"c": numbers(1)}), (ACK, GOOD_ACK | {"c": numbers(1, 2)[:-1]}), (ACK, GOOD_ACK | {"c": [1, 2]}),
    (ACK, GOOD_ACK | {"seq": numbers(0, 0)}), (ACK, GOOD_ACK | {"seq": numbers(1, 2)}),
    (ACK, GOOD_ACK | {"seq": numbers(0, 2)}), (ACK, GOOD_ACK | {"seq": b""}), (ACK, {"c": numbers(1)}), (ACK, {}),
    (HOST, GOOD_HOST | {"name": ["ada"]}), (HOST, GOOD_HOST | {"name": ["ada", "bob", "eve"]}),
    (HOST, GOOD_HOST | {"name": ["ada", 1]}), (HOST, GOOD_HOST | {"name": ["ada", "x" * 257]}),
    (SESSION, GOOD_ACK | {"base": numbers(1), "base_len": struct.pack("<2I", 1, 1)}),
    (SESSION, GOOD_ACK | {"base": numbers(1), "base_len": struct.pack("<I", 1)}),
    (SESSION, GOOD_ACK | {"base": numbers(1), "base_len": struct.pack("<2I", 0xFFFFFFFF, 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "columns"), BAD_COLUMNS)
def test_columns_that_do_not_fit_are_damage(event: str, columns: dict[str, Any]) -> None:
    good = HEAD + data_block({ACK: GOOD_ACK})
    assert read_segment(good).status == "open"
    assert read_segment(HEAD + data_block({HOST: GOOD_HOST})).status == "open"
    segment = read_segment(HEAD + data_block({event: columns}))
    assert (segment.status, segment.events, segment.whole_bytes) == ("damaged", 0, len(HEAD))


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x80", b"\xa0\x00", dumps({1: 2}), b"\xbf\xff", dumps({"seq": 1}), b"\xa1\x63ack\xa2\x61c\x40\x61c\x40"],
)
def test_data_that_is_no_map_of_events_is_damage(raw: bytes) -> None:
    assert read_segment(HEAD + block(DATA, zlib.compress(raw))).status == "damaged"
    assert read_segment(HEAD + block(DATA, raw)).status == "damaged"
    assert read_segment(HEAD + block(DATA, zlib.compress(raw) + b"x")).status == "damaged"


def test_blocks_of_unknown_types_are_damage() -> None:
    for type in (0, 255, HEADER):
        assert read_segment(HEAD + block(type, b"x")).status == "damaged"
    with pytest.raises(DecodeError):
        read_segment(MAGIC + data_block({ACK: GOOD_ACK}))


# ---- memory and time ----

BOMBS = {
    "zeros": bytes(1 << 21),
    "texts": b"\xa1\x64host\xa1\x64name\x9a\x00\x1f\xff\x00" + b"\x60" * 0x1FFF00,
    "arrays": b"\xa1\x64host" + b"\x81" * (1 << 20),
    "unknown": b"\xa1\x64host\xa1\x65later\x9a\x00\x0f\xff\x00" + b"\x81" * 0xFFF00,
    "maps": b"\xba\x00\x1f\xff\xf0" + b"\x61a\xa0" * (1 << 19),
    "length": b"\xa1\x63ack\xa1\x61c\x5b" + b"\xff" * 8,
}


@pytest.mark.parametrize("raw", BOMBS.values(), ids=BOMBS)
def test_bombs_cost_what_they_hold_and_no_more(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = HEAD + block(DATA, zlib.compress(raw, 9))
    monkeypatch.setattr(segment_module, "RAW_BYTES_MAX", 1 << 21)
    tracemalloc.start()
    try:
        before = time.thread_time()
        assert read_segment(data).status == "damaged"
        assert time.thread_time() - before < 0.5
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_what_is_too_large_inflated_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "RAW_BYTES_MAX", 1 << 20)
    data = HEAD + block(DATA, zlib.compress(bytes(1 << 26), 9))
    tracemalloc.start()
    try:
        assert read_segment(data).status == "damaged"
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_all_blocks_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HEAD + data_block({ACK: GOOD_ACK}) + data_block({ACK: GOOD_ACK | {"seq": numbers(2, 3)}})
    assert read_segment(data).events == 4
    monkeypatch.setattr(segment_module, "SEGMENT_RAW_MAX", read_segment(data).raw_bytes - 1)
    segment = read_segment(data)
    assert (segment.status, segment.events) == ("damaged", 2)


# ---- any bytes ----

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.binary(max_size=16) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seq", "wall", "c", "x"]), inner),
    max_leaves=8,
)


def looked_at(data: bytes) -> None:
    """Everything that a reader may do with it."""
    try:
        segment = read_segment(data, lambda *_: True)
    except DecodeError as error:
        assert error.offset >= 0
        return
    assert segment.status in ("closed", "open", "torn", "damaged", "forged", "unsigned")
    for event in segment.names | set(EVENTS):
        segment.columns(event)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_segment_or_an_error(data: bytes) -> None:
    looked_at(data)
    looked_at(MAGIC + data)
    looked_at(HEAD + data)
    for type in (HEADER, DATA, TRAILER):
        looked_at(MAGIC + block(type, data))
        looked_at(HEAD + block(type, data))
        looked_at(HEAD + block(type, zlib.compress(data)))


@settings(max_examples=300, deadline=None)
@given(PLAIN, st.sampled_from(list(EVENTS)))
def test_any_value_in_any_place_is_a_segment_or_an_error(value: Any, event: str) -> None:
    looked_at(MAGIC + block(HEADER, dumps(value)))
    for raw in (
        dumps(value),
        dumps({event: value}),
        dumps({event: {"seq": value}}),
        dumps({"seq": numbers(0), "x": value}),
    ):
        looked_at(HEAD + block(DATA, zlib.compress(raw)))
    for key in ("blocks", "events", "end", "closed", "signature"):
        plain = {"blocks": 0, "events": 0, "end": bytes(32), "closed": 0, "signature": b""} | {key: value}
        looked_at(HEAD + block(TRAILER, encode_sorted(plain)))


def test_random_damage_is_a_segment_or_an_error() -> None:
    """Payloads overwritten, cut and stretched at random under checksums that hold."""
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    encoder = SegmentEncoder(read_header(HEAD))
    encoder.accept(encoder.head())
    raw = encode_sorted({ACK: in_order(GOOD_ACK)})
    trailer = encode_trailer(SegmentTrailer(0, 0, encoder.end, 1, bytes(64)))
    assert read_segment(HEAD + trailer).status == "closed"
    for _ in range(5_000):
        type, payload = rng.choice([(HEADER, HEAD[len(MAGIC) + 9 :]), (DATA, raw), (TRAILER, trailer[9:])])
        damaged = bytearray(payload)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            match rng.randrange(3):
                case 0:
                    damaged[at] = rng.randrange(256)
                case 1:
                    del damaged[at : at + rng.randrange(1, 5)]
                case 2:
                    damaged[at:at] = rng.randbytes(rng.randrange(1, 5))
            damaged = damaged or bytearray(1)
        stored = zlib.compress(damaged) if type == DATA else bytes(damaged)
        looked_at((MAGIC if type == HEADER else HEAD) + block(type, stored))
