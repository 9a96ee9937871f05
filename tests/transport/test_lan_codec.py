"""Frames of the LAN update layer: a packet comes back, all that is none is refused, at a cost that is linear."""

from __future__ import annotations

import runpy
import string
import time
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from cbor2 import dumps, loads
from hypothesis import given
from hypothesis import strategies as st

from roamcast.middleware.errors import InvariantError
from roamcast.middleware.lan_update.records import BUCKETS, Entry, LanAck, LanPacket, Version
from roamcast.middleware.lan_update.settings import LanSettings
from roamcast.transport import limits
from roamcast.transport.codec import decode_peer, encode_peer
from roamcast.transport.errors import DecodeError
from roamcast.transport.lan_codec import signed_bytes

EXAMPLES = runpy.run_path(str(Path(__file__).parents[1] / "vectors" / "examples.py"))
LIVE: Entry = EXAMPLES["LIVE"]
DELETED: Entry = EXAMPLES["DELETED"]

naturals = st.integers(0, limits.INT64_MAX)
nodes = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
versions = st.builds(Version, naturals, naturals, nodes, st.integers(0, limits.UINT64_MAX))
keys = st.text(min_size=1, max_size=50).filter(lambda text: text.encode(errors="ignore").decode() == text)
holders = st.frozensets(nodes, max_size=4)
signatures = st.binary(min_size=64, max_size=64)
live = st.builds(Entry, keys, versions, st.binary(max_size=99), st.none() | versions, signatures)
deleted = st.builds(Entry, keys, versions, st.none(), st.none() | versions, signatures, holders)
packets = st.builds(
    LanPacket,
    naturals,
    st.booleans(),
    naturals,
    st.just(()) | st.lists(st.integers(0, limits.UINT64_MAX), min_size=BUCKETS, max_size=BUCKETS).map(tuple),
    st.frozensets(st.integers(0, BUCKETS - 1), max_size=9).map(lambda buckets: tuple(sorted(buckets))),
    st.lists(st.tuples(keys, versions, holders), max_size=4).map(tuple),
    st.lists(keys, max_size=4).map(tuple),
    st.lists(live | deleted, max_size=4).map(tuple),
)


@given(packets)
def test_any_packet_comes_back(packet: LanPacket) -> None:
    assert decode_peer(encode_peer(packet)) == packet


@given(naturals)
def test_any_ack_comes_back(number: int) -> None:
    assert decode_peer(encode_peer(LanAck(number))) == LanAck(number)


def test_the_bounds_are_within() -> None:
    many = frozenset(f"{i:04}" + "x" * 60 for i in range(limits.STATIONS_MAX))
    version = Version(limits.INT64_MAX, limits.INT64_MAX, "n" * 64, limits.UINT64_MAX)
    key, value = "\u00e4" * 100, bytes(limits.LAN_VALUE_BYTES_MAX)
    entries = (Entry(key, version, value, version, bytes(64)), Entry(key, version, None, version, bytes(64), many))
    packet = LanPacket(limits.INT64_MAX, True, limits.INT64_MAX, (limits.UINT64_MAX,) * 256, tuple(range(256)))
    packet = replace(packet, versions=((key, version, many),), want=(key,), entries=entries)
    assert decode_peer(encode_peer(packet)) == packet
    thousand = replace(packet, versions=(), entries=(LIVE,) * limits.LAN_ENTRIES_MAX)
    assert decode_peer(encode_peer(thousand)) == thousand


VERSION = [5, 0, "hill", 7]
SIGNATURE = bytes(64)
ENTRY = ["k", VERSION, b"", None, SIGNATURE, []]
TOMB = ["k", VERSION, None, VERSION, SIGNATURE, ["a", "b"]]
BAD_VERSIONS = [
    None, [], VERSION[:3], [*VERSION, 1], [-1, 0, "hill", 7], [1 << 63, 0, "hill", 7], [5, -1, "hill", 7],
    [5, 1 << 63, "hill", 7], [5, 0, "", 7], [5, 0, "h/l", 7], [5, 0, ".l", 7], [5, 0, "h\u00e4", 7], [5, 0, "h\n", 7],
    [5, 0, "h" * 65, 7], [5, 0, b"hill", 7], [5, 0, "hill", -1], [5.0, 0, "hill", 7], {5: 0},
]  # fmt: skip
BAD_KEYS = ["", "k" * 201, b"k", 1, None]
BAD_HOLDERS = [["b", "a"], ["a", "a"], [""], ["a/b"], [1], None, "a", [f"{i:04}" for i in range(1025)]]


def packet_with(element: int, content: Any) -> bytes:
    """A packet with nothing in it but `content`."""
    plain: list[Any] = [64, 1, False, 0, [], [], [], [], []]
    plain[element] = content
    return dumps(plain)


def test_the_packets_that_are_damaged_below_are_good_before() -> None:
    for element, content in ((6, [["k", VERSION, ["a", "b"]]]), (7, ["k"]), (8, [ENTRY, TOMB])):
        decode_peer(packet_with(element, content))


@pytest.mark.parametrize(
    "sums", [[0], [0] * 255, [0] * 257, [0] * 255 + [1 << 64], [0] * 255 + [-1], [0] * 255 + [b""], [0] * 255 + [None]]
)
def test_sums_are_none_or_all(sums: list[Any]) -> None:
    with pytest.raises(DecodeError):
        decode_peer(packet_with(4, sums))


@pytest.mark.parametrize("buckets", [[1, 1], [2, 1], [256], [-1], [0, 256], [-1, 0], [0, 300, 5], [None]])
def test_buckets_ascend_and_are_buckets(buckets: list[Any]) -> None:
    with pytest.raises(DecodeError):
        decode_peer(packet_with(5, buckets))


@pytest.mark.parametrize(
    "line",
    [
        *([key, VERSION, []] for key in BAD_KEYS),
        *(["k", version, []] for version in BAD_VERSIONS),
        *(["k", VERSION, holders] for holders in BAD_HOLDERS),
        ["k", VERSION], ["k", VERSION, [], 1], [], None,
    ],
)  # fmt: skip
def test_a_bad_line_of_versions_is_refused(line: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(packet_with(6, [line]))


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_bad_key_that_is_wanted_is_refused(key: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(packet_with(7, [key]))


@pytest.mark.parametrize(
    "entry",
    [
        *([key, *ENTRY[1:]] for key in BAD_KEYS),
        *(["k", version, *ENTRY[2:]] for version in BAD_VERSIONS),
        *(["k", VERSION, value, *ENTRY[3:]] for value in ("", 0, [], bytes(16_385))),
        *(["k", VERSION, b"", version, SIGNATURE, []] for version in BAD_VERSIONS[1:]),
        *(["k", VERSION, b"", None, signature, []] for signature in (b"", bytes(63), bytes(65), None, "x" * 64)),
        *([*TOMB[:5], holders] for holders in BAD_HOLDERS),
        [*ENTRY[:5], ["a"]],  # not deleted, so nobody holds its deletion
        ENTRY[:5], [*ENTRY, 1], [], None,
    ],
)  # fmt: skip
def test_a_bad_entry_is_refused(entry: Any) -> None:
    with pytest.raises(DecodeError):
        decode_peer(packet_with(8, [entry]))


def test_an_entry_without_its_signature_is_never_sent() -> None:
    for signature in (b"", bytes(63)):
        with pytest.raises(InvariantError, match="without its signature"):
            encode_peer(LanPacket(1, False, 1, entries=(replace(LIVE, signature=signature),)))


def test_what_a_core_may_put_by_default_is_what_the_wire_takes() -> None:
    settings = LanSettings()
    assert settings.key_bytes_max == limits.LAN_KEY_BYTES_MAX
    assert settings.value_bytes_max == limits.LAN_VALUE_BYTES_MAX
    assert settings.entries_max <= limits.LAN_ENTRIES_MAX
    assert settings.entries_bytes_max + settings.value_bytes_max < limits.PEER_FRAME_BYTES_MAX // 2


SIGNS = string.digits + string.ascii_uppercase + string.ascii_lowercase
HOLDERS = dumps(sorted(one + other for one in SIGNS for other in SIGNS)[: limits.STATIONS_MAX])


def full(element: int, unit: bytes, bytes_max: int) -> bytes:
    """A packet that is `unit` again and again in one of its arrays."""
    before, after = packet_with(element, None).split(b"\xf6")
    most = limits.LAN_ENTRIES_MAX if element == 8 else limits.LAN_KEYS_MAX
    count = min(most, (bytes_max - 30) // len(unit))
    head = dumps(count)
    return before + bytes([head[0] | 0x80]) + head[1:] + unit * count + after


HEAVY = {
    "holders of lines": (6, b"\x83\x61k" + dumps(VERSION) + HOLDERS),
    "holders of entries": (8, b"\x86" + b"".join(map(dumps, TOMB[:5])) + HOLDERS),
    "lines": (6, dumps(["k", VERSION, []])),
    "keys": (7, dumps("k")),
    "entries": (8, dumps(ENTRY)),
}


@pytest.mark.parametrize(("element", "unit"), HEAVY.values(), ids=HEAVY.keys())
def test_the_heaviest_packets_cost_what_their_size_says(element: int, unit: bytes) -> None:
    """Measured: 0.3 us and 30 bytes of memory a byte; a packet of 4 MiB that is all names takes 1 s."""
    per_byte = []
    for bytes_max in (1 << 16, 1 << 19):
        data = full(element, unit, bytes_max)
        tracemalloc.start()
        packet = decode_peer(data)
        assert tracemalloc.get_traced_memory()[1] < 60 * len(data) + (1 << 16)
        tracemalloc.stop()
        assert encode_peer(packet) == data
        best = float("inf")
        for _ in range(3):
            before = time.thread_time()
            decode_peer(data)
            best = min(best, time.thread_time() - before)
        per_byte.append(best / len(data))
    assert max(per_byte) < 10e-6
    assert per_byte[1] < 4 * per_byte[0], "eight times the size must not cost more than eight times"


def test_what_is_signed_is_all_but_signature_and_holders() -> None:
    assert signed_bytes("fleet", DELETED) == dumps(
        [b"roamcast-lan-1", "fleet", "topics/\u96ea", list(DELETED.version), None, list(DELETED.after or ())]
    )
    others: dict[str, Any] = {
        "key": "other", "version": EXAMPLES["OLD"], "value": b"", "after": None,
        "signature": b"", "holders": frozenset(),
    }  # fmt: skip
    assert others.keys() == {field.name for field in fields(Entry)}
    for name, value in others.items():
        same = signed_bytes("fleet", replace(DELETED, **{name: value})) == signed_bytes("fleet", DELETED)
        assert same == (name in ("signature", "holders")), name
    assert signed_bytes("float", DELETED) != signed_bytes("fleet", DELETED)
    assert loads(signed_bytes("fleet", LIVE))[4] == LIVE.value
