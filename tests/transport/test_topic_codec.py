"""Topics on the host link: messages on them, subscriptions, last values, ends; both directions, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from cbor2 import dumps
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware import host_frames as hf
from roamcast.middleware.rows import Kind
from roamcast.transport import limits
from roamcast.transport.codec import decode_down, decode_up, encode_down, encode_item, encode_msg, encode_up
from roamcast.transport.errors import DecodeError

names = st.text(min_size=1, max_size=16).filter(
    lambda text: len(text.encode(errors="ignore")) == len(text.encode(errors="replace")) <= 64
)
naturals = st.integers(0, limits.INT64_MAX)
positions = st.integers(limits.INT64_MIN, limits.INT64_MAX)
slots = st.integers(0, limits.SLOT_MAX)

SUBSCRIBED = [3, 1, "anna", 1, 1, 11, b"", "t", 1]
VALUE = [3, 1, "zoe", 1, 1, 9, b"21.5", "t", 1]


@pytest.mark.parametrize("kind", [Kind.RETAINED, Kind.ONLINE, Kind.OFFLINE])
def test_a_last_value_has_the_position_of_the_subscription_that_it_comes_with(kind: Kind) -> None:
    value = [*VALUE[:5], int(kind), *VALUE[6:]]
    frame = decode_down(dumps([9, 100, 110, [3, SUBSCRIBED, 0, value, 2, SUBSCRIBED]]))
    assert isinstance(frame, hf.Msg)
    assert [(at, item.kind) for at, item in frame.entries] == [(103, Kind.SUB), (103, kind), (105, Kind.SUB)]
    assert encode_msg(100, 110, [(at, encode_item(item)) for at, item in frame.entries]) == encode_down(frame)


@pytest.mark.parametrize(
    "entries",
    [
        [1, [3, 1, "anna", 1, 1, 8, b""]],  # on no topic
        [1, [3, 1, "anna", 1, 1, 8, b"", "t"]],
        [1, [3, 1, "anna", 1, 1, 8, b"", "", 1]],
        [1, [3, 1, "anna", 1, 1, 8, b"", "t", -1]],
        [1, [3, 1, "anna", 1, 1, 8, b"", "\u96ea" * 33, 1]],
        [1, [3, 1, "anna", 1, 1, 16, b"", "t", 1]],
        [1, SUBSCRIBED, -1, VALUE],
        [1, SUBSCRIBED, 0, [*VALUE[:7], "other", 1]],  # the value of another topic than the one subscribed to
        [1, SUBSCRIBED, 0, [*VALUE[:5], 8, *VALUE[6:]]],  # no last value
        [1, SUBSCRIBED, 0, SUBSCRIBED],
        [1, SUBSCRIBED, 0, VALUE, 0, VALUE],
        [1, VALUE, 0, SUBSCRIBED],
        [0, SUBSCRIBED],
    ],
)
def test_an_entry_that_is_wrong_about_topics_is_refused(entries: list[Any]) -> None:
    with pytest.raises(DecodeError):
        decode_down(dumps([9, 100, 110, entries]))


@given(naturals, naturals, positions, st.sampled_from([8, 9, 11, 12]), names, st.binary(max_size=300))
def test_any_data_on_a_topic_comes_back(e: int, number: int, c: int, kind: int, topic: str, body: bytes) -> None:
    frame = hf.TopicData(e, number, c, Kind(kind), topic, body)
    assert decode_up(encode_up(frame)) == frame


@given(naturals, st.lists(st.tuples(slots, st.integers(0, limits.COUNTER_MAX), names | st.just("")), max_size=6))
def test_any_end_of_subscriptions_comes_back(e: int, ended: list[tuple[int, int, str]]) -> None:
    for frame in (hf.Unsubscribed(e, tuple(ended)), hf.Welcome((1, 1), e, 0, False, 0, 1, 1, ended=tuple(ended))):
        assert decode_down(encode_down(frame)) == frame
