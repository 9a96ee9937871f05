"""Keys and values of topics, rights and groups: one form, read strictly, unknown fields kept."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.mss_station import topic_schema as schema
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.topic_schema import TopicCard
from roamcast.transport.limits import LAN_KEY_BYTES_MAX, LAN_VALUE_BYTES_MAX, TOPIC_BYTES_MAX
from roamcast.transport.map_codec import decode_map, encode_map

CARD = TopicCard("weather", (1 << 32) - 1, ("send", "receive"))


def test_values_come_back() -> None:
    for card in (CARD, TopicCard("t", 1), TopicCard("t", 1, ("receive",))):
        assert schema.read_topic(schema.topic_key(card.name), schema.topic_value(card)) == card
    for key in ("topics/t/send", "groups/crew"):
        for who in ((), ("ann",), ("ann", "bob.2")):
            assert schema.read_who(key, schema.who_value(who)) == who


def test_fields_that_are_not_known_here_survive_a_change_of_the_rest() -> None:
    before = encode_map(decode_map(schema.topic_value(TopicCard("weather", 7))) | {"class": "live"})
    assert decode_map(schema.topic_value(CARD, before)) == {
        "number": CARD.number,
        "lists": [*CARD.lists],
        "class": "live",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 0}, {"number": 1 << 32}, {"number": -1}, {"number": "7"}, {"number": True}, {"number": None},
        {"lists": "send"}, {"lists": ["see"]}, {"lists": [7]}, {"lists": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_of_a_topic_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=f"topics/weather: {next(iter(wrong))} must be"):
        schema.read_topic("topics/weather", encode_map(decode_map(schema.topic_value(CARD)) | wrong))


@pytest.mark.parametrize("name", ["", "a/b", "$presence", "$x", "x" * 65, "a b", "sch\u00f6n", "-a", ".a", "a\n"])
def test_a_name_that_no_topic_or_group_can_have(name: str) -> None:
    with pytest.raises(SchemaError):
        schema.read_topic(schema.topic_key(name), schema.topic_value(CARD))
    with pytest.raises(SchemaError, match="not acceptable"):
        schema.check_topic(name)
    with pytest.raises(SchemaError, match="not acceptable"):
        schema.check_group(name)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "9", "x" * 64, "send", "receive", "a.send"])
def test_a_name_that_a_topic_can_have_and_its_keys(name: str) -> None:
    schema.check_topic(name)
    assert schema.split_topic(schema.topic_key(name)) == (name, "")
    for right in schema.RIGHTS:
        key = schema.right_key(name, right)
        assert schema.split_topic(key) == (name, right) and schema.topic_of(key) == name
        assert len(key) <= LAN_KEY_BYTES_MAX and len(name) <= TOPIC_BYTES_MAX


@pytest.mark.parametrize("key", ["topics/t/see", "topics/t/send/x", "topics/t/", "topics//send"])
def test_a_key_that_is_none_of_a_topic(key: str) -> None:
    with pytest.raises(SchemaError):
        schema.split_topic(key)


@pytest.mark.parametrize("key", ["topics/t/send", "groups/crew"])
@pytest.mark.parametrize(
    "who", ["ann", None, [7], [b"ann"], [""], ["a b"], ["a/b"], ["@"], ["@a/b"], ["@*"], [["ann"]]]
)
def test_a_list_of_anything_else_than_names_is_refused(key: str, who: Any) -> None:
    with pytest.raises(SchemaError, match=key):
        schema.read_who(key, encode_map({"who": who}))


def test_groups_and_everybody_stand_in_rights_only() -> None:
    assert schema.check_who("topics/t/send", ["bob", "@crew", "bob"]) == ("@crew", "bob")
    assert schema.check_who("topics/t/send", ["bob", "*"]) == ("*",)
    for name in ("@crew", "*"):
        with pytest.raises(SchemaError, match="is not the name of a host"):
            schema.check_who("groups/all", ["ann", name])


def test_the_longest_list_fits_an_entry_and_a_longer_one_is_refused_with_its_length() -> None:
    for length in (1, 5, 22, 23, 24, 64):
        count = schema.LIST_BYTES_MAX // (length + 2)
        names = [format(i, "x").rjust(length, "0") for i in range(min(count, 16**length))]
        value = schema.who_value(schema.check_who("groups/g", names))
        assert len(value) <= LAN_VALUE_BYTES_MAX
    with pytest.raises(SchemaError, match="names are too many for one list"):
        schema.check_who("groups/g", [f"host{i:04}" for i in range(2_000)])


def test_lists_as_people_write_and_read_them() -> None:
    assert schema.names_in(" ann,@crew ,, bob ") == ["ann", "@crew", "bob"] and schema.names_in("") == []
    assert [schema.shown_who(who) for who in (None, (), ("*",), ("@crew", "ann"))] == ["*", "nobody", "*", "@crew, ann"]
