"""Frames between a newcomer and its sponsor: what is sent comes back, and all else is refused."""

from __future__ import annotations

import runpy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from cbor2 import dumps
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.transport import limits
from roamcast.transport.codec import (
    decode_join,
    decode_join_answer,
    decode_peer,
    encode_join,
    encode_join_answer,
    encode_peer,
)
from roamcast.transport.errors import DecodeError, OtherVersion, UnknownKind

EXAMPLES = runpy.run_path(str(Path(__file__).parents[1] / "vectors" / "examples.py"))
JOIN: Join = EXAMPLES["JOIN_EXAMPLES"]["join"]

texts = st.text("b\u00e4\u96ea\x00", min_size=1, max_size=20)
uint64s = st.integers(0, limits.UINT64_MAX)


@given(texts, uint64s, texts, st.text("aZ9#", min_size=40, max_size=40))
def test_any_join_comes_back(name: str, generation: int, endpoint: str, key: str) -> None:
    frame = Join((1, 7), name, generation, endpoint, endpoint, key, key, "0f" * 32)
    assert decode_join(encode_join(frame)) == frame


@given(st.integers(1, limits.SLOT_MAX), texts, st.booleans())
def test_any_answer_comes_back(slot: int, text: str, wait: bool) -> None:
    for frame in (Joined(slot, text, (EXAMPLES["LIVE"], EXAMPLES["DELETED"])), JoinRefused(text, text, wait)):
        assert decode_join_answer(encode_join_answer(frame)) == frame


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""}, {"id": "x" * 65}, {"id": b"x"}, {"hosts": ""}, {"stations": "x" * 257}, {"key": "k" * 39},
        {"key": "k" * 41}, {"key": b"k" * 40}, {"host_key": ""}, {"signing_key": "0" * 63}, {"signing_key": "0" * 65},
        {"generation": 1 << 64}, {"generation": -1}, {"version": (1,)}, {"version": None},
    ],
)  # fmt: skip
def test_a_bad_join_is_refused(change: dict[str, Any]) -> None:
    changed = replace(JOIN, **change)
    with pytest.raises(DecodeError):
        decode_join(dumps([80, *(getattr(changed, field.name) for field in fields(Join))]))


@pytest.mark.parametrize(
    "plain",
    [
        [81, 0, "fleet", []], [81, 1024, "fleet", []], [81, 1, "", []], [81, 1, "fleet", [[]]], [81, 1, "fleet", None],
        [82, "x", "x", 0], [82, "x" * 65, "x", True], [82, "x", "x" * 513, True],
    ],
)  # fmt: skip
def test_a_bad_answer_is_refused(plain: list[Any]) -> None:
    with pytest.raises(DecodeError):
        decode_join_answer(dumps(plain))


def test_each_direction_takes_its_own_frames_alone() -> None:
    for frame in EXAMPLES["PEER_EXAMPLES"].values():
        with pytest.raises(DecodeError):
            decode_join(encode_peer(frame))
    for decode in (decode_join_answer, decode_peer):
        with pytest.raises(UnknownKind):
            decode(encode_join(JOIN))
    with pytest.raises(UnknownKind):
        decode_join(encode_join_answer(JoinRefused("", "", True)))


def test_a_join_is_small_and_leaves_a_newer_minor_version_its_room() -> None:
    longest = Join((1, 0), "x" * 64, limits.UINT64_MAX, "x" * 256, "x" * 256, "k" * 40, "k" * 40, "0" * 64)
    data = encode_join(longest)
    assert decode_join(data) == longest
    assert len(data) + limits.EXTRA_BYTES_MAX <= 2_048
    with pytest.raises(DecodeError, match="at most 2048"):
        decode_join(data + bytes(2_048))


def test_a_newcomer_of_another_major_version_is_told_apart() -> None:
    assert decode_join(encode_join(replace(JOIN, version=(2, 0)))).version == (2, 0)
    with pytest.raises(OtherVersion, match=r"version 2\.0 is spoken there"):
        decode_join(dumps([80, [2, 0], {"id": "dale"}]))


def test_everybody_that_was_ever_a_member_fits_an_answer() -> None:
    entry = replace(EXAMPLES["LIVE"], value=bytes(2_000))
    answer = Joined(1, "fleet", (entry,) * limits.SLOT_MAX)
    assert decode_join_answer(encode_join_answer(answer)) == answer
