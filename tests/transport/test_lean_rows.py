"""Rows without their item, and the frames by which the items come: there and back, and nothing else is taken."""

from __future__ import annotations

from typing import Any

import pytest
from cbor2 import dumps, loads

from roamcast.middleware import station_frames as sf
from roamcast.middleware.errors import InvariantError
from roamcast.middleware.membership.view import View
from roamcast.middleware.rows import Kind, Row, SpoolItem
from roamcast.transport import limits
from roamcast.transport.codec import decode_peer, encode_peer
from roamcast.transport.errors import DecodeError


def row(n: int, item: bytes | None, size: int = 0) -> Row:
    lean = item is None
    return Row(3, n, ((1, 9),), 5, Kind.MAIL, 7, 8, n, (1, 2), 4, item, size or len(item or b""), None, lean)


def body(n: int, item: bytes = b"item") -> SpoolItem:
    return SpoolItem(3, n, item, len(item))


FRAMES = [
    sf.DataBatch(3, (row(7, b"whole"), row(8, None, 70_000), row(9, None, 1))),
    sf.Pull(3, 1 << 40, (1, 70_000)),
    sf.Pull(3, 0, ()),
    sf.Body(3, 1 << 40, (body(1), body(9, b"x")), (2, 5)),
    sf.Body(3, 0, (), (1,)),
    sf.Keep(3, (1, 2, 70_000)),
    sf.Kept(3, (70_000,)),
    sf.Snapshot(0, 0, 0, ((5, row(8, None, 300)),), (), (), False, (), 0, 0, View((1,), serving=False)),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_frames_come_back(frame: sf.PeerFrame) -> None:
    assert decode_peer(encode_peer(frame)) == frame


def test_a_header_is_as_large_as_a_row_without_item() -> None:
    empty, header = (len(encode_peer(sf.DataBatch(3, (one,)))) for one in (row(7, b""), row(7, None, 100_000)))
    assert header == empty + 4


def changed(frame: sf.PeerFrame, *places: int, to: Any) -> bytes:
    """The frame with one of its elements replaced."""
    plain = loads(encode_peer(frame))
    inner = plain
    for place in places[:-1]:
        inner = inner[place]
    inner[places[-1]] = to
    return dumps(plain)


@pytest.mark.parametrize("wrong", [0, -1, limits.ITEM_BYTES_MAX + 1, None, "x", [], True, 1.5])
def test_an_item_is_bytes_or_a_size(wrong: Any) -> None:
    assert decode_peer(changed(FRAMES[0], 2, 1, 10, to=limits.ITEM_BYTES_MAX))
    with pytest.raises(DecodeError):
        decode_peer(changed(FRAMES[0], 2, 1, 10, to=wrong))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ((3,), [[9, b"x"], [1, b"y"]]),  # not ascending
        ((3,), [[1, b"x"], [1, b"y"]]),
        ((3,), [[1, b""]]),
        ((3,), [[1, b"x", 0]]),
        ((3,), [[1]]),
        ((3,), [1]),
        ((4,), [2, 2]),
        ((4,), [5, 2]),
        ((4,), [-1]),
        ((1,), limits.SLOT_MAX + 1),
        ((2,), -1),
    ],
)
def test_a_body_frame_that_makes_no_sense_is_refused(place: tuple[int, ...], wrong: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(changed(FRAMES[3], *place, to=wrong))


@pytest.mark.parametrize("frame", [FRAMES[1], FRAMES[5], FRAMES[6]], ids=lambda frame: type(frame).__name__)
def test_numbers_ascend_and_are_bounded(frame: sf.PeerFrame) -> None:
    at = len(loads(encode_peer(frame))) - 1
    assert decode_peer(changed(frame, at, to=list(range(limits.NUMBERS_MAX))))
    for wrong in ([2, 1], [1, 1], list(range(limits.NUMBERS_MAX + 1)), [limits.COUNTER_MAX + 1], 7):
        with pytest.raises(DecodeError):
            decode_peer(changed(frame, at, to=wrong))


@pytest.mark.parametrize("frame", [sf.DataBatch(3, (row(7, b"x"),)), sf.Body(3, 0, (body(1),), ())])
def test_what_is_whole_is_never_sent_without_its_bytes(frame: Any) -> None:
    if isinstance(frame, sf.DataBatch):
        frame.rows[0].item = None
    else:
        frame = sf.Body(3, 0, (SpoolItem(3, 1, None, 4),), ())
    with pytest.raises(InvariantError):
        encode_peer(frame)
