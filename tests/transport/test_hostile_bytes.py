"""Hostile bytes at every door: refused at once, without memory, always as the product's own error."""

from __future__ import annotations

import os
import random
import runpy
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roamcast.transport.codec import (
    decode_down,
    decode_item,
    decode_join,
    decode_join_answer,
    decode_peer,
    decode_up,
)
from roamcast.transport.errors import DecodeError

EXAMPLES = runpy.run_path(str(Path(__file__).parents[1] / "vectors" / "examples.py"))
DECODERS = (decode_up, decode_down, decode_peer, decode_join, decode_join_answer, decode_item)
STARTS = [
    b"",
    b"\x85\x03\x01\x02\x03\xf6",
    b"\x84\x09\x01\x02",
    b"\x84\x09\x01\x02\x81",
    b"\x83\x18\x28\x03",
    b"\x83\x18\x28\x03\x81",
    b"\x83\x02\x01",
    b"\x84\x02\x01\x02",
    b"\x87\x01\x01",
    b"\x89\x18\x40\x01\xf4\x00",
    b"\x89\x18\x40\x01\xf4\x00\x80\x80",
    b"\x89\x18\x40\x01\xf4\x00\x80\x80\x81\x83\x61k\x84\x00\x00\x61n\x00",
    b"\x89\x18\x40\x01\xf4\x00\x80\x80\x80\x80",
    b"\x89\x18\x40\x01\xf4\x00\x80\x80\x80\x80\x81\x86\x61k\x84\x00\x00\x61n\x00",
    b"\x89\x18\x29\xf4\x80\x80\x80\x00\x00\x80",
    b"\x89\x18\x29\xf4\x80\x80\x80\x00\x00\x80\x87\x40\x40\x40\x40\x40\xf5",
    b"\x84\x18\x42\x01\x02",
    b"\x84\x18\x42\x01\x02\x81\x83",
    b"\x84\x18\x42\x01\x02\x81\x83\x82\x01\x01\x83\x01\x02\x01",
    b"\x82\x18\x43",
    b"\x85\x18\x48",
    b"\x85\x18\x49\x83\x01\x01\x01\x00\x01",
    b"\x8c\x18\x4e\x00\x00\x00",
    b"\x8c\x18\x4e\x00\x00\x00\x80\x81\x86\x01\x01\x83\x00\x00\x00\xf4",
    b"\x8c\x18\x4e\x00\x00\x00\x80\x80\x81\x82\x86\x01\x83\x00\x00\x00\x00\x01\x00\xf4",
    b"\x8c\x18\x4e\x00\x00\x00\x80\x80\x80\xf4\x80\x00\x00\x89\x40\x81\x82\x01\x82\x00",
    b"\x86\x18\x32\x82\x01\x01\x01\x00\x01\x81\x86\x01\x01\x40",
    b"\x87\x18\x18\x01\x02\x03\x08",
    b"\x83\x18\x19\x01\x81\x83\x01\x01",
    b"\x84\x09\x01\x09\x82\x01\x89\x01\x01\x61a\x01\x01\x08\x40",
    b"\x89\x18\x50\x82\x01\x00\x61d\x01",
    b"\x84\x18\x51\x01\x61g\x81",
]
"""Beginnings of frames, each up to a place where the hostile item is a field, an entry, or of a newer version."""


def refused_in(data: bytes) -> float:
    """CPU seconds of the slowest decoder, each at the best of three tries."""
    slowest = 0.0
    for decode in DECODERS:
        best = float("inf")
        for _ in range(3):
            before = time.thread_time()
            with pytest.raises(DecodeError):
                decode(data)
            best = min(best, time.thread_time() - before)
        slowest = max(slowest, best)
    return slowest


HUGE = (1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1)


@pytest.mark.parametrize("length", HUGE)
@pytest.mark.parametrize("major", range(2, 8))
def test_a_huge_length_costs_nothing(major: int, length: int) -> None:
    """BL-64: nine bytes that ask for terabytes, at the start and as a field of each frame."""
    head = bytes([major << 5 | 27]) + length.to_bytes(8, "big")
    tracemalloc.start()
    try:
        for start in STARTS:
            for end in (b"", b"x" * 100):
                assert refused_in(start + head + end) < 0.010
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


DEEP = {
    "arrays": b"\x81", "maps": b"\xa1\x00", "map keys": b"\xa1", "tags": b"\xc1", "open arrays": b"\x9f",
    "open maps": b"\xbf", "open bytes": b"\x5f", "open text": b"\x7f", "long arrays": b"\x9b" + b"\x00" * 7 + b"\x01",
}  # fmt: skip


@pytest.mark.parametrize("unit", DEEP.values(), ids=DEEP.keys())
def test_nesting_without_end_costs_nothing(unit: bytes) -> None:
    """BL-65: 200,000 bytes of each sort, at the start, as a field, and as an element of a newer version."""
    nest = (unit * 200_000)[:200_000]
    for start in STARTS:
        assert refused_in(start + nest) < 0.010


@settings(max_examples=500)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_frame_or_a_decode_error(data: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(data)
        except DecodeError as error:
            assert 0 <= error.offset <= len(data)


def test_random_damage_gives_a_frame_or_a_decode_error() -> None:
    """Frames cut, joined, overwritten and stretched at random. ROAMCAST_SEED repeats a run."""
    seed = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"repeat with ROAMCAST_SEED={seed}")
    rng = random.Random(seed)
    pool = [link.encode(frame) for link, examples in EXAMPLES["LINKS"] for frame in examples.values()]
    for _ in range(20_000):
        data = bytearray(rng.choice(pool))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(4):
                case 0:
                    data[at : at + 1] = rng.randbytes(1)
                case 1:
                    del data[at : at + rng.randrange(1, 9)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
                case 3:
                    other = rng.choice(pool)
                    data[at:] = other[rng.randrange(len(other)) :]
        for decode in DECODERS:
            try:
                decode(bytes(data))
            except DecodeError as error:
                assert 0 <= error.offset <= len(data)
