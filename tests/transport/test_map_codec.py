"""The map that a configuration entry holds: one form for one value, and hostile bytes are no map."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cbor2 import dumps

from roamcast.transport.errors import DecodeError
from roamcast.transport.limits import LAN_VALUE_BYTES_MAX
from roamcast.transport.map_codec import decode_map, encode_map

VALUE: dict[str, Any] = {
    "slot": 1, "name": "ä", "bytes": b"\0", "yes": True, "no": False, "none": None, "negative": -(1 << 63),
    "list": [1, "x", {"k": [2]}], "": 0,
}  # fmt: skip


def test_a_value_comes_back_in_one_form() -> None:
    data = encode_map(VALUE)
    assert decode_map(data) == VALUE
    turned = dict(reversed(VALUE.items()))
    assert encode_map(turned) == data == encode_map(decode_map(data))
    assert encode_map({"list": (1, 2)}) == encode_map({"list": [1, 2]})


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80", b"\x01", b"\xf6", b"\xa1", b"\xa1\x61a", b"\xa2\x61a\x01\x61a\x02", b"\xa2\x61b\x01\x61a\x02",
        b"\xa1\x61a\xfb" + bytes(8), b"\xa1\x61a\xc1\x01", b"\xa1\x61a\x18\x01", b"\xbf\xff", b"\xa1\x01\x01",
        b"\xa1\x61a\x5f\xff", b"\xa1\x61a\x1b" + b"\xff" * 8, b"\xa1\x61\xff\x01", b"\xbb" + b"\xff" * 8,
        b"\xa0\x00", b"\xa1\x61a" + b"\x81" * 9 + b"\x01",
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_what_is_no_such_map_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_map(data)


def test_a_map_above_the_limit_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_map(dumps({"x": b"x" * LAN_VALUE_BYTES_MAX}))


def test_hostile_bytes_are_a_map_or_an_error() -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng, data = random.Random(seed), encode_map(VALUE)
    for _ in range(5_000):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        try:
            value = decode_map(bytes(broken[: rng.randint(0, len(broken))] if rng.random() < 0.3 else broken))
        except DecodeError:
            continue
        assert decode_map(encode_map(value)) == value
