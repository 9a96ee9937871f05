"""Rows on their first way: steps there and back, small, in one form, and nothing else is taken."""

from __future__ import annotations

from typing import Any

import pytest
from cbor2 import dumps, loads
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware import station_frames as sf
from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import CLOCK_MAX, Kind, Row, Steps
from roamcast.transport import limits
from roamcast.transport.codec import decode_peer, encode_peer
from roamcast.transport.errors import DecodeError
from roamcast.transport.steps_field import STEPS_BYTES_MAX

COUNTERS = st.integers(1, limits.COUNTER_MAX)


def row(n: int, steps: Steps | None, stamp: Any = (), hlc: int = 0) -> Row:
    return Row(3, n, stamp, hlc, Kind.MAIL, 7, 8, n, (1, 2), 4, b"x", 1, None, False, steps)


def steps_of(*rows: Row) -> list[bytes]:
    """What stands in the frame for their steps."""
    _, _, plain, _ = loads(encode_peer(sf.DataBatch(3, rows)))
    return [one[8] for one in plain]


@st.composite
def short_rows(draw: Any) -> Row:
    entries = draw(st.dictionaries(st.integers(0, limits.SLOT_MAX), st.tuples(COUNTERS, st.booleans()), max_size=12))
    told = sorted(entries.items())
    values = tuple((slot, n) for slot, (n, is_step) in told if not is_step)
    steps = tuple((slot, n) for slot, (n, is_step) in told if is_step)
    clock = draw(st.integers(0, CLOCK_MAX))
    hlc = 0 if clock else draw(st.integers(0, CLOCK_MAX))
    return row(draw(COUNTERS), Steps(clock, steps), values, hlc)


@given(st.lists(short_rows(), max_size=4, unique_by=lambda one: one.n))
def test_any_steps_come_back(rows: list[Row]) -> None:
    batch = sf.DataBatch(3, tuple(sorted(rows, key=lambda one: one.n)))
    assert decode_peer(encode_peer(batch)) == batch


def test_rows_in_values_and_rows_in_steps_go_in_one_frame() -> None:
    batch = sf.DataBatch(3, (row(7, None, ((1, 9),), 5), row(8, Steps(1, ((1, 2),))), row(10, None, (), 6)))
    assert decode_peer(encode_peer(batch)) == batch


def test_the_largest_comes_back() -> None:
    every = tuple((slot, limits.COUNTER_MAX) for slot in range(limits.SLOT_MAX + 1))
    for one in (row(1, Steps(CLOCK_MAX, every)), row(1, Steps(0, ()), every, CLOCK_MAX)):
        assert decode_peer(encode_peer(sf.DataBatch(3, (one,)))) == sf.DataBatch(3, (one,))
        assert len(steps_of(one)[0]) <= STEPS_BYTES_MAX


def test_an_entry_has_one_byte_where_neighbours_send_as_often_as_the_sender() -> None:
    everybody = tuple((slot, 1 + slot % 31) for slot in range(1, 101))
    assert len(steps_of(row(7, Steps(100_000, everybody)))[0]) == 3 + 100
    assert len(steps_of(row(7, Steps(100_000, ((50, 1), (54, 31)))))[0]) == 3 + 2 + 2


def test_the_clock_is_said_once() -> None:
    """What its steps say is not said again, whatever the row of the sender still has."""
    short = row(7, Steps(9, ()), (), 1 << 50)
    (came,) = decode_peer(encode_peer(sf.DataBatch(3, (short,)))).rows
    assert came.hlc == 0 and steps_of(short) == [b"\x09"]


def decode(steps: Any) -> sf.DataBatch:
    _, _, ((*head, _, item),), live = loads(encode_peer(sf.DataBatch(3, (row(7, Steps(1, ())),))))
    frame = decode_peer(dumps([40, 3, [[*head, steps, item]], live]))
    assert isinstance(frame, sf.DataBatch)
    return frame


def test_steps_byte_by_byte() -> None:
    """Clock 300; slot 1 by 1; slot 4 by 2; slot 9, 4 and 1 more above: the value 5."""
    (came,) = decode(bytes([0xAC, 0x02, 1 << 2 | 1, 2 << 2 | 2, 3, 1, 5])).rows
    assert (came.hlc, came.stamp, came.steps) == (0, ((9, 5),), Steps(300, ((1, 1), (4, 2))))


@pytest.mark.parametrize(
    "steps",
    [
        b"",
        b"\x80",  # ends within a number
        b"\x00",  # no clock
        b"\x81\x00",  # not the shortest form
        b"\x01\x84\x00",
        b"\x01\x00",  # no value
        b"\x01\x03",  # no gap
        b"\x01\x07\xff",
        b"\x80" * 9 + b"\x02",  # above 63 bits
        b"\xff" * 10_000,
        b"\x00" + b"\xff" * 9 + b"\x01",
        b"\x01" + b"\x80" * 6 + b"\x01",  # a step above 40 bits
        b"\x01\x00\x80\x80\x80\x80\x80\x20",  # a value above 40 bits
        b"\x01\x07\xfd\x07",  # slot 1024
        b"\x01" + b"\x06" * 342,  # slot 1025
        b"\x01" + b"\x04" * 1_025,
        bytes(STEPS_BYTES_MAX + 1),
        0,
        None,
        "x",
        [],
        [1, 1],
    ],
    ids=repr,
)
def test_steps_that_nobody_sends_are_refused(steps: Any) -> None:
    with pytest.raises(DecodeError):
        decode(steps)


def test_a_snapshot_has_no_rows_in_steps() -> None:
    """Nobody could resolve them: the rows before are not there."""
    plain = loads(encode_peer(sf.Snapshot(0, 0, 0, ((5, row(8, None)),), (), (), False, (), 0, 0, View((1,)))))
    placed = plain[4][0]
    placed[2] = [*placed[2][:1], *placed[2][2:9], b"\x01", b"x"]
    with pytest.raises(DecodeError, match="row of 11"):
        decode_peer(dumps(plain))
