"""The view in CLAIMS, records for an heir, and slots: what is sent comes back, and all else is refused."""

from __future__ import annotations

import runpy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from cbor2 import dumps, loads
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware import station_frames as sf
from roamcast.middleware.custody.record import EVERYWHERE
from roamcast.middleware.errors import InvariantError
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.membership.view import Closing, GroupView
from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.writes import RecordImage
from roamcast.transport import limits
from roamcast.transport.codec import decode_peer, encode_peer
from roamcast.transport.errors import DecodeError
from roamcast.transport.group_codec import RECORD_STATES

EXAMPLES = runpy.run_path(str(Path(__file__).parents[1] / "vectors" / "examples.py"))
CLAIMS: sf.Claims = EXAMPLES["PEER_EXAMPLES"]["claims"]

naturals = st.integers(0, limits.INT64_MAX)
uint64s = st.integers(0, limits.UINT64_MAX)
counters = st.integers(0, limits.COUNTER_MAX)
slots = st.integers(0, limits.SLOT_MAX)
members = st.integers(1, limits.SLOT_MAX)
slot_sets = st.frozensets(members, max_size=9).map(lambda chosen: tuple(sorted(chosen)))
places = st.integers(-limits.PLACE_MAX - 1, limits.PLACE_MAX)
shifts = st.integers(0, limits.PLACE_MAX)
vectors = st.lists(counters, max_size=6).map(tuple)
flags = st.booleans()
mhs = st.tuples(naturals, uint64s)
keys = st.tuples(naturals, uint64s, naturals)
plain_items = st.builds(
    lambda slot, n, item: SpoolItem(slot, n, item, len(item)), slots, counters, st.binary(max_size=40)
)
topics, subs = st.integers(1, limits.INT64_MAX), st.tuples(slots, counters)
spool_items = plain_items | st.builds(
    lambda plain, topic, sub: replace(plain, topic=topic, sub=sub), plain_items, topics, subs
)


def key_order(key: str) -> tuple[int, bytes]:
    return len(key.encode()), key.encode()


ext_keys = st.text("b\u00e4\u96ea\x00", min_size=1, max_size=10)
exts = st.dictionaries(ext_keys, st.binary(max_size=9), max_size=4).map(
    lambda ext: tuple((key, ext[key]) for key in sorted(ext, key=key_order))
)
images = st.builds(
    RecordImage, mhs, naturals, st.sampled_from(RECORD_STATES), st.none() | st.integers(EVERYWHERE, limits.SLOT_MAX),
    flags, vectors, places, flags, naturals, naturals, naturals, vectors, places, flags, naturals,
    st.tuples(slots, counters), vectors, st.none() | st.tuples(slots, naturals), flags, shifts, flags, flags, flags,
    naturals, exts, shifts,
)  # fmt: skip


def part_of(data: st.DataObject, whole: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(slot for slot in whole if data.draw(flags))


@given(st.data(), slot_sets, flags, counters)
def test_any_view_comes_back(data: st.DataObject, group: tuple[int, ...], serving: bool, number: int) -> None:
    closed = part_of(data, group)
    released = part_of(data, closed)
    closings = tuple(Closing(s, data.draw(slots), number, 3, data.draw(vectors)) for s in part_of(data, closed))
    view = GroupView(group, closed, part_of(data, closed), released, part_of(data, released), serving, closings)
    frame = replace(CLAIMS, view=view)
    assert decode_peer(encode_peer(frame)) == frame
    assert encode_peer(replace(CLAIMS, view=replace(view, closings=closings[::-1]))) == encode_peer(frame)


@given(images, st.integers(0, limits.SPOOL_PARTS_MAX), shifts, shifts)
def test_any_record_comes_back(image: RecordImage, parts: int, shift: int, order: int) -> None:
    frame = sf.Adopt(image, parts, shift, order)
    assert decode_peer(encode_peer(frame)) == frame


@given(mhs, st.lists(spool_items, max_size=5))
def test_any_part_of_a_spool_comes_back(mh: tuple[int, int], entries: list[SpoolItem]) -> None:
    frame = sf.SpoolPart(mh, 1, 0, 1, tuple(entries))
    assert decode_peer(encode_peer(frame)) == frame


@given(keys, st.dictionaries(places, spool_items, max_size=5))
def test_any_part_of_its_spool_comes_back(key: tuple[int, int, int], entries: dict[int, SpoolItem]) -> None:
    frame = sf.AdoptPart(key, 0, 1, tuple(sorted(entries.items())))
    assert decode_peer(encode_peer(frame)) == frame


@given(members, uint64s, flags, slots, naturals)
def test_any_short_frame_comes_back(slot: int, generation: int, fine: bool, highest: int, number: int) -> None:
    for frame in (
        sf.Adopted((number, generation, number)),
        sf.Reserve(slot, generation),
        sf.Reserved(slot, generation, fine, highest),
        sf.SnapshotReq(number, number, number),
        sf.Claimed((number, generation), number),
        sf.Noted((number, generation), number),
        sf.GroupQuery((number, generation), number),
    ):
        assert decode_peer(encode_peer(frame)) == frame


# ---- what gateways tell in CLAIMS ----


def gateway_claims(beyond: Any) -> bytes:
    return dumps([*loads(encode_peer(CLAIMS))[:-1], beyond])


BEYOND = [9, [0, 9, 3, 7], [3, 6], [], b"\x20"]


def test_what_a_gateway_tells_comes_back_and_costs_others_one_byte() -> None:
    frame = decode_peer(gateway_claims(BEYOND))
    assert frame == replace(CLAIMS, beyond=Beyond(9, ((0, 9), (3, 7)), ((3, 6),), (), (5,)))
    assert len(gateway_claims(None)) == len(dumps(loads(encode_peer(CLAIMS))[:-1])) + 1


@pytest.mark.parametrize(
    "beyond",
    [
        [0, *BEYOND[1:]], [1 << 48, *BEYOND[1:]], ["9", *BEYOND[1:]], BEYOND[:-1], [*BEYOND, 1], 9, [], {},
        *([*BEYOND[:at], wrong, *BEYOND[at + 1 :]] for at in (1, 2, 3) for wrong in ([3], [3, 7, 0, 9], [1024, 1], 5)),
        *([*BEYOND[:4], wrong] for wrong in (b"\x00", [5], "x", None)),
    ],
)  # fmt: skip
def test_what_a_gateway_tells_in_another_form_is_refused(beyond: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(gateway_claims(beyond))


# ---- the view in CLAIMS ----


def claims_with(view: Any) -> bytes:
    return dumps([*loads(encode_peer(CLAIMS))[:-2], view, None])


@pytest.mark.parametrize(
    ("group", "size"), [((1, 2, 3), 2), (tuple(range(1, 8)), 2), ((1, 8), 3), (tuple(range(1, 33)), 6), ((1023,), 130)]
)
def test_where_no_station_has_ended_claims_say_the_members_alone(group: tuple[int, ...], size: int) -> None:
    plain = loads(encode_peer(CLAIMS))
    without = len(dumps([*plain[:-2], plain[-1]]))
    assert len(encode_peer(replace(CLAIMS, view=GroupView(group)))) == without + size


def test_claims_are_never_sent_without_a_view() -> None:
    with pytest.raises(InvariantError, match="without a view"):
        encode_peer(replace(CLAIMS, view=None))
    with pytest.raises(DecodeError):
        decode_peer(claims_with(None))


VIEW = [b"\x0e", b"\x0c", b"\x04", b"\x08", b"\x08", True, [[2, 0, 5, 6, [0, 7]], [3, 0, 5, 6, []]]]
BAD_SLOTS = [b"\x0e\x00", b"\x00", b"\x01", b"\x0f", b"\x02" * 129, "x", 14, None]
BAD_VECTORS = [[-1], [1 << 40], [None], ["x"], [0] * 1025, b"", None, 0]


def test_the_view_that_is_damaged_below_is_good_before() -> None:
    frame = decode_peer(claims_with(VIEW))
    assert isinstance(frame, sf.Claims)
    closings = (Closing(2, 0, 5, 6, (0, 7)), Closing(3, 0, 5, 6, ()))
    assert frame.view == GroupView((1, 2, 3), (2, 3), (2,), (3,), (3,), True, closings)


@pytest.mark.parametrize(
    "view",
    [
        *BAD_SLOTS,
        *([*VIEW[:at], wrong, *VIEW[at + 1 :]] for at in range(5) for wrong in [*BAD_SLOTS, [1, 2, 3]]),
        *([*VIEW[:5], wrong, []] for wrong in (0, 1, None, b"")),
        VIEW[:-1], [*VIEW, 1], [], {},
        [b"\x0e", b"", b"", b"", b"", True, []],  # the short form says the same
    ],
)  # fmt: skip
def test_a_view_in_another_form_is_refused(view: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(claims_with(view))


@pytest.mark.parametrize(
    "view",
    [
        pytest.param([b"\x0e", b"\x10", b"", b"", b"", True, []], id="closed without being a member"),
        pytest.param([b"\x0e", b"\x04", b"\x08", b"", b"", True, []], id="final without being closed"),
        pytest.param([b"\x0e", b"\x04", b"", b"\x08", b"", True, []], id="released without being closed"),
        pytest.param([b"\x0e", b"\x04", b"", b"", b"", True, [[3, 0, 5, 6, []]]], id="closing without being closed"),
        pytest.param([b"\x0e", b"\x04", b"", b"", b"\x04", True, []], id="off without being released"),
    ],
)
def test_a_view_that_contradicts_itself_is_refused(view: Any) -> None:
    with pytest.raises(DecodeError, match="contradicts itself"):
        decode_peer(claims_with(view))


CLOSING = [2, 0, 5, 6, []]


@pytest.mark.parametrize(
    "closings",
    [
        [[3, *CLOSING[1:]], CLOSING], [CLOSING, CLOSING], [CLOSING[:-1]], [[*CLOSING, 1]], [[]], [2], None, 0,
        *([[slot, 0, 5, 6, []]] for slot in (0, 1024, -1, b"\x04", None)),
        *([[2, heir, 5, 6, []]] for heir in (1024, -1, None)),
        *([[2, 0, stored, 6, []]] for stored in (-1, 1 << 40)),
        *([[2, 0, 5, given, []]] for given in (-1, 1 << 40)),
        *([[2, 0, 5, 6, guard]] for guard in BAD_VECTORS),
    ],
)  # fmt: skip
def test_a_bad_closing_is_refused(closings: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(claims_with([*VIEW[:-1], closings]))


# ---- records for an heir ----

ADOPT = loads(encode_peer(EXAMPLES["PEER_EXAMPLES"]["adopt"]))
IMAGE = dict(zip([field.name for field in fields(RecordImage)], ADOPT[1], strict=True))
ENTRY = [-1, [3, 5, b"item"]]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("mh", wrong) for wrong in ([1], [1, -1], [1, 1 << 64], [-1, 1], None)),
        *(("state", wrong) for wrong in (4, -1, "open", None)),
        *(("prev", wrong) for wrong in (-2, 1024, "x", [])),
        *((name, wrong) for name in ("t_vector", "base", "sdep") for wrong in BAD_VECTORS),
        *((name, wrong) for name in ("t_position", "base_c") for wrong in (1 << 62, -(1 << 62) - 1, None)),
        *((name, wrong) for name in ("shift", "join") for wrong in (-1, 1 << 62, None)),
        *((name, wrong) for name in ("arr", "le", "sess", "ep", "lastseq", "away_since") for wrong in (-1, 1 << 63)),
        *((name, wrong) for name in ("last_id", "moved_to") for wrong in ([1024, 1], [-1, 1], [1, -1], [1], 1)),
        *((name, 0) for name in ("link", "ready", "closed", "succ_ok", "gap", "exp_acked", "ephemeral")),
        *(("ext", wrong) for wrong in ([], {"": b""}, {"x" * 33: b""}, {"x": 1}, {1: b""}, None)),
    ],
)
def test_a_bad_field_of_a_record_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(dumps([72, list({**IMAGE, name: wrong}.values()), *ADOPT[2:]]))


def test_a_record_of_another_length_is_refused() -> None:
    for image in (ADOPT[1][:-1], [*ADOPT[1], 0], [], None):
        with pytest.raises(DecodeError):
            decode_peer(dumps([72, image, *ADOPT[2:]]))


@pytest.mark.parametrize(
    "entries",
    [
        [ENTRY, ENTRY], [[0, ENTRY[1]], ENTRY],
        *([[position, ENTRY[1]]] for position in (1 << 62, -(1 << 62) - 1, None)),
        *([[0, item]] for item in ([1024, 5, b""], [3, 1 << 40, b""], [3, 5, ""], [3, 5], [3, 5, b"", 1], b"", None)),
        *([[0, [3, 5, b"", *more]]] for more in ([1, 3], [1, 3, 4, 5], [0, 3, 4], [-1, 3, 4], [1 << 63, 3, 4])),
        *([[0, [3, 5, b"", 1, *sub]]] for sub in ([1024, 4], [-1, 4], [3, 1 << 40], [3, -1], [3, None])),
        [ENTRY[:1]], [[*ENTRY, 1]], [[0, 3, 5, b""]], [None], None,
    ],
)  # fmt: skip
def test_a_bad_entry_of_a_spool_is_refused(entries: Any) -> None:
    decode_peer(dumps([73, [1, 1, 1], 0, 1, [ENTRY]]))
    with pytest.raises(DecodeError):
        decode_peer(dumps([73, [1, 1, 1], 0, 1, entries]))


def test_a_spool_item_without_its_bytes_is_never_sent() -> None:
    with pytest.raises(InvariantError, match="without its item"):
        encode_peer(sf.AdoptPart((1, 1, 1), 0, 1, ((1, SpoolItem(1, 1, None, 4)),)))


def test_the_heaviest_part_of_a_spool_fits_a_frame() -> None:
    """1 MiB of the smallest items, each with the longest numbers."""
    first, top, key = (1 << 62) - 1 - 81_000, limits.INT64_MAX, (1023, limits.COUNTER_MAX)
    for size, more in ((13, ()), (16, (top, key))):
        entry = SpoolItem(*key, bytes(size), size, *more)
        entries = tuple((first + i, entry) for i in range((1 << 20) // size))
        frame = sf.AdoptPart((top, limits.UINT64_MAX, top), 0, 1, entries)
        assert decode_peer(encode_peer(frame)) == frame


def test_positions_that_are_shifted_stay_within_64_bits() -> None:
    lowest, highest = -limits.PLACE_MAX - 1, limits.PLACE_MAX
    assert lowest - highest >= limits.INT64_MIN and 2 * highest <= limits.INT64_MAX
