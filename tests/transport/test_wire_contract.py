"""The codec against `wire.cddl`: every rule has its frame, every bound of the contract is the bound of the decoder."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from cbor2 import dumps, loads

from roamcast.middleware import host_frames as hf
from roamcast.middleware import station_frames as sf
from roamcast.middleware.lan_update.records import BUCKETS
from roamcast.middleware.membership.frames import Join, Joined, JoinRefused
from roamcast.middleware.membership.view import Closing, GroupView, View
from roamcast.middleware.rows import Kind
from roamcast.middleware.writes import HostEntry, LastValue, RecordImage
from roamcast.transport import limits
from roamcast.transport.codec import DOWN, JOIN, JOIN_ANSWER, PEER, UP, decode_item, encode_item
from roamcast.transport.errors import DecodeError
from roamcast.transport.group_codec import RECORD_STATES
from roamcast.transport.join_codec import JOIN_BYTES_MAX
from roamcast.transport.lan_codec import DOMAIN
from roamcast.transport.station_fields import ROW_KINDS, SLOTS_BYTES_MAX
from roamcast.transport.steps_field import STEPS_BYTES_MAX
from roamcast.transport.toml_files import NAME

EXAMPLES = runpy.run_path(str(Path(__file__).parents[1] / "vectors" / "examples.py"))
LINKS = {"up-frame": UP, "down-frame": DOWN, "peer-frame": PEER, "join-frame": JOIN, "join-answer": JOIN_ANSWER}
UNIONS = {
    "up-frame": get_args(hf.UpFrame),
    "down-frame": get_args(hf.DownFrame),
    "peer-frame": get_args(sf.StationFrame),
    "join-frame": (Join,),
    "join-answer": (Joined, JoinRefused),
}
TEXT = (files("roamcast.transport") / "wire.cddl").read_text()


def read_rules(text: str) -> dict[str, str]:
    """Rule name to right-hand side, comments and line breaks removed."""
    bare = re.sub(r";.*", "", text)
    parts = re.split(r"^([a-z][a-z0-9-]*) *= *", bare, flags=re.MULTILINE)
    return {name: " ".join(side.split()) for name, side in zip(parts[1::2], parts[2::2], strict=True)}


RULES = read_rules(TEXT)


def elements(rule: str) -> list[str]:
    """The elements of an array rule, split at its own commas."""
    inner = rule.strip()[1:-1]
    depth, start, found = 0, 0, []
    for at, sign in enumerate(inner):
        depth += (sign in "[({") - (sign in "])}")
        if sign == "," and depth == 0:
            found.append(inner[start:at].strip())
            start = at + 1
    return [*found, inner[start:].strip()]


def resolve(element: str) -> str:
    """The type of an element: its label is cut off, names are followed to what they stand for."""
    kind = re.sub(r"^[a-z0-9-]+: ", "", element)
    while kind in RULES:
        kind = RULES[kind]
    return kind


def beyond(kind: str) -> tuple[list[Any], list[Any]]:
    """Values at the bounds of a type, and values just outside of it, as far as they can be told one by one."""
    if match := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", kind):
        least, most = int(match[1]), int(match[2])
        outside = [value for value in (least - 1, most + 1) if -(1 << 64) <= value < 1 << 64]
        return [least, most], [*outside, b"", "", None, True, [], 1.5]
    if match := re.fullmatch(r"([tb])str \.size \((\d+)\.\.(\d+)\)", kind):
        unit: Any = "x" if match[1] == "t" else b"x"
        least, most = int(match[2]), int(match[3])
        return [unit * least, unit * most], [unit * (most + 1), *([unit[:0]] if least else []), 0, None, [], {}]
    if kind == "bool":
        return [False, True], [0, 1, None, "", []]
    if match := re.match(r"\[\*(\d+) ", kind):
        return [], [0, None, {}, [b"\xff"] * 1, [None]]
    if re.match(r"\[[a-z]", kind):
        return [], [[], [0], [0, 0, 0, 0, 0, 0, 0], None, 0]
    return [], [1.5, {1: 2}] if kind.startswith("{") else [1.5]


def frame_rules() -> list[tuple[str, str]]:
    return [(union, name) for union in LINKS for name in RULES[union].split(" / ")]


@pytest.mark.parametrize(("union", "rule"), frame_rules())
def test_every_bound_of_the_contract_is_the_bound_of_the_decoder(union: str, rule: str) -> None:
    link = LINKS[union]
    kind, *parts, growth = elements(RULES[rule])
    assert growth == "growth"
    plain = loads(bytes.fromhex((EXAMPLES["FOLDER"] / f"{rule}.hex").read_text()))
    assert plain[0] == int(kind)
    assert len(plain) == 1 + len(parts)
    for at, part in enumerate(parts, start=1):
        inside, outside = beyond(resolve(part))
        for value in inside:
            if rule != "msg":  # its fields depend on each other: see below
                link.decode(dumps([*plain[:at], value, *plain[at + 1 :]]))
        for value in outside:
            with pytest.raises(DecodeError):
                link.decode(dumps([*plain[:at], value, *plain[at + 1 :]]))


@pytest.mark.parametrize(("union", "rule"), frame_rules())
def test_every_array_is_as_long_as_the_contract_allows_and_no_longer(union: str, rule: str) -> None:
    _, *parts, _ = elements(RULES[rule])
    plain = loads(bytes.fromhex((EXAMPLES["FOLDER"] / f"{rule}.hex").read_text()))
    for at, part in enumerate(parts, start=1):
        if match := re.match(r"[\[{]\*(\d+) (\()?", resolve(part)):
            most = int(match[1]) * (2 if match[2] else 1)
            before = b"".join(dumps(value) for value in plain[:at])
            head = bytes([0x80 | len(plain)]) + before
            start = 0xBA if resolve(part).startswith("{") else 0x9A
            if most >= 1 << 16:
                with pytest.raises(DecodeError, match=f"at most {most} allowed"):
                    LINKS[union].decode(head + bytes([start]) + (most + 1).to_bytes(4, "big") + bytes(most + 2))
            else:
                short = dumps(["x"] * 0 or most + 1)  # the head of an integer has the same argument
                with pytest.raises(DecodeError, match=f"at most {most} allowed"):
                    LINKS[union].decode(head + bytes([short[0] | (start & 0xE0)]) + short[1:] + bytes(most + 2))


def test_a_frame_a_kind_number_a_rule_and_a_vector_go_together() -> None:
    kinds: list[int] = []
    for union, link in LINKS.items():
        frames = [layout.frame for layout in link.layouts]
        assert sorted(frame.__name__ for frame in frames) == sorted(frame.__name__ for frame in UNIONS[union]), (
            "every frame of the union is in the table, and nothing else"
        )
        rules = RULES[union].split(" / ")
        assert [layout.kind for layout in link.layouts] == [int(elements(RULES[rule])[0]) for rule in rules]
        for layout, rule in zip(link.layouts, rules, strict=True):
            assert len(elements(RULES[rule])) == 2 + len(fields(layout.frame)), rule
            assert type(link.decode(bytes.fromhex((EXAMPLES["FOLDER"] / f"{rule}.hex").read_text()))) is layout.frame
        kinds += [layout.kind for layout in link.layouts]
    assert len(set(kinds)) == len(kinds), "a kind number tells the direction too"


def test_labels_of_the_contract_are_the_fields_of_the_frames() -> None:
    other_words = {"message-bytes": "message_bytes_max", "window": "window_entries", "ping": "ping_s"}
    for union, link in LINKS.items():
        for layout, rule in zip(link.layouts, RULES[union].split(" / "), strict=True):
            for part, field in zip(elements(RULES[rule])[1:-1], fields(layout.frame), strict=True):
                label = part.split(":")[0] if ":" in part else None
                if label:
                    assert other_words.get(label, label.replace("-", "_")) == field.name, rule


NESTED = {
    "group-view": GroupView,
    "closing": Closing,
    "record-image": RecordImage,
    "host-entry": HostEntry,
    "durable-view": View,
    "last-value": LastValue,
}


@pytest.mark.parametrize(("rule", "kind"), NESTED.items())
def test_labels_within_frames_are_the_fields_of_what_they_carry(rule: str, kind: type) -> None:
    *_, array = RULES[rule].partition("[")
    parts = elements("[" + array)
    assert len(parts) == len(fields(kind))
    for part, field in zip(parts, fields(kind), strict=True):
        if ":" in part.split("[")[0]:
            assert part.split(":")[0].replace("-", "_") == field.name


def test_sizes_of_limits_py_are_those_of_the_contract() -> None:
    assert RULES["body"] == f"bstr .size (0..{limits.BODY_BYTES_MAX})"
    assert RULES["item-bytes"] == f"bstr .size (0..{limits.ITEM_BYTES_MAX})"
    assert RULES["name"] == f"tstr .size (1..{limits.NAME_BYTES_MAX})"
    assert RULES["topic-name"] == f"tstr .size (1..{limits.TOPIC_BYTES_MAX})"
    assert RULES["ended"] == f"[slot, n: counter, topic: tstr .size (0..{limits.TOPIC_BYTES_MAX})]"
    assert f"values: [*{limits.VALUES_MAX} [" in RULES["snapshot"]
    assert RULES["code"] == f"tstr .size (0..{limits.CODE_BYTES_MAX})"
    assert RULES["sentence"] == f"tstr .size (0..{limits.TEXT_BYTES_MAX})"
    assert RULES["slot"] == f"0..{limits.SLOT_MAX}"
    assert RULES["counter"] == f"0..{limits.COUNTER_MAX}"
    assert RULES["lan-key"] == f"tstr .size (1..{limits.LAN_KEY_BYTES_MAX})"
    assert RULES["lan-value"] == f"bstr .size (0..{limits.LAN_VALUE_BYTES_MAX}) / null"
    assert f"signature: bstr .size {limits.SIGNATURE_BYTES}," in RULES["lan-entry"]
    assert RULES["member"] == f"1..{limits.SLOT_MAX}"
    assert f"steps: bstr .size (1..{STEPS_BYTES_MAX})," in RULES["short-row"]
    assert RULES["slots"] == f"bstr .size (0..{SLOTS_BYTES_MAX})"
    assert RULES["place"] == f"{-limits.PLACE_MAX - 1}..{limits.PLACE_MAX}"
    assert RULES["shift"] == f"0..{limits.PLACE_MAX}"
    assert f"replaced: [*{limits.REPLACED_MAX} uint64]" in RULES["host-entry"]
    assert f"taken: [*{limits.TAKEN_MAX} [" in RULES["host-entry"]
    assert f"state: 0..{len(RECORD_STATES) - 1}" in RULES["record-image"]
    assert RULES["holders"] == f"[*{limits.STATIONS_MAX} node]"
    assert RULES["node"] == f'tstr .regexp "{NAME.pattern}"'
    assert RULES["bucket"] == f"0..{BUCKETS - 1}"
    assert f"'{DOMAIN.decode()}'" in RULES["lan-signed"]
    assert f"mails: [*{limits.MAILS_MAX} mail]" in RULES["mails"]
    assert f"[*{limits.STATIONS_MAX} (slot: member, mail-number)]" in RULES["mail"]
    assert f"[*{limits.MAIL_RECORDS_MAX} (sender: member, receiver: member, mail-number)]" in RULES["mail"]
    assert RULES["mail-number"] == f"1..{limits.INT64_MAX}"
    assert RULES["growth"] == f"(*{limits.EXTRA_ELEMENTS_MAX} extra)"
    assert f"bstr .size (0..{limits.EXTRA_BYTES_MAX})" in RULES["extra"]
    assert f"at most {limits.EXTRA_BYTES_MAX} bytes together, arrays at most {limits.NESTING_MAX} deep" in TEXT
    sizes = re.search(
        r"up at most (\d+) bytes, down at most (\d+), between\n; stations at most (\d+), a JOIN (\d+),", TEXT
    )
    assert sizes is not None
    assert [int(size) for size in sizes.groups()] == [
        limits.UP_FRAME_BYTES_MAX, limits.DOWN_FRAME_BYTES_MAX, limits.PEER_FRAME_BYTES_MAX, JOIN_BYTES_MAX,
    ]  # fmt: skip


def test_kinds_of_rows_are_those_of_the_contract() -> None:
    for rule in ("row", "short-row"):
        *_, kind = [part for part in elements(RULES[rule]) if part.startswith("kind")]
        assert kind == f"kind: 0..{len(Kind) - 1}"
    assert [int(kind) for kind in ROW_KINDS] == list(range(len(Kind))), "the index is the number"


def numbers_of(kinds: str) -> list[int]:
    """`0..2` or `8 / 9 / 11`, number by number."""
    first, _, last = kinds.partition("..")
    return list(range(int(first), int(last) + 1)) if last else [int(one) for one in kinds.split(" / ")]


def kinds_in(rule: str) -> list[int]:
    """What the element `kind` of an array rule may be."""
    (kinds,) = [part.removeprefix("kind: ") for part in elements(rule) if part.startswith("kind: ")]
    return numbers_of(kinds)


def test_kinds_of_items_are_those_of_the_contract() -> None:
    plain, on_topic = RULES["item"].split("] / [")
    for rule, examples in (
        (plain + "]", [3, 1, "a", 0, 1, None, b""]),
        ("[" + on_topic, [3, 1, "a", 0, 1, None, b"", "t", 9]),
    ):
        assert len(elements(rule)) == len(examples) + 1
        for kind in range(-1, len(Kind) + 1):
            data = dumps([kind if value is None else value for value in examples])
            if kind in kinds_in(rule):
                assert decode_item(data).kind == kind and encode_item(decode_item(data)) == data
            elif len(examples) == 9 and 0 <= kind <= 2:
                assert decode_item(data).topic == "", "elements of a newer minor version, as far as is known"
            else:
                with pytest.raises(DecodeError):
                    decode_item(data)


def test_kinds_that_a_host_sends_on_topics_are_those_of_the_contract() -> None:
    for kind in range(len(Kind) + 1):
        data = dumps([24, 1, 1, 0, kind, "t", b""])
        if kind in kinds_in(RULES["topic-data"]):
            frame = UP.decode(data)
            assert isinstance(frame, hf.TopicData) and frame.kind is Kind(kind)
        else:
            with pytest.raises(DecodeError, match=f"nothing of kind {kind}"):
                UP.decode(data)


def test_golden_vectors_are_what_the_code_makes() -> None:
    made = EXAMPLES["vectors"]()
    there = {path.name: path.read_text() for path in EXAMPLES["FOLDER"].iterdir() if path.suffix in (".hex", ".txt")}
    assert made == there, "the wire has changed: `python tests/vectors/examples.py` shows what"
