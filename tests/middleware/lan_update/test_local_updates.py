"""What a local update does at its own node: its version, its effects, and when it is refused."""

from __future__ import annotations

import pytest

from roamcast.middleware.lan_update.effects import Changed, LanPersist, SendLan
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import PutEntry
from roamcast.middleware.settings import SECOND


def test_is_durable_before_it_leaves_and_told(lan):
    node = lan.up["a"]
    node.begin(lan.now, lan.wall("a"))
    version = node.put("k", b"1")
    effects = node.flush()
    assert isinstance(effects[0], LanPersist)
    assert isinstance(effects[0].writes[0], PutEntry)
    assert effects[1] == Changed(node.entries["k"])
    assert [effect.peer for effect in effects if isinstance(effect, SendLan)] == ["b", "c"]
    assert node.entries["k"].version == version


def test_version_is_the_clock_and_above_what_was_there_whatever_the_clock(lan):
    first = lan.put("a", "k", b"1")
    same_tick = lan.put("a", "k", b"2")
    lan.skew["a"] = -SECOND
    stepped_back = lan.put("a", "k", b"3")
    lan.skew["a"] = 0
    lan.now += 1
    later = lan.put("a", "k", b"4")
    assert (first.time, first.count, first.node) == (lan.wall("a") - 1, 0, "a")
    assert [version[:2] for version in (same_tick, stepped_back)] == [(first.time, 1), (first.time, 2)]
    assert later[:2] == (lan.wall("a"), 0)
    assert first < same_tick < stepped_back < later


def test_says_what_it_had_seen(lan):
    first = lan.put("a", "k", b"1")
    assert lan.up["a"].entries["k"].after is None
    lan.deliver()
    lan.put("b", "k", b"2")
    assert lan.up["b"].entries["k"].after == first


def test_a_deleted_key_is_a_tombstone_that_its_author_holds(lan):
    lan.put("a", "k", b"1")
    lan.put("a", "k", None)
    entry = lan.up["a"].entries["k"]
    assert (entry.value, entry.holders) == (None, frozenset({"a"}))
    assert lan.of("a", Changed)[-1].entry.value is None


def test_is_refused_where_it_would_do_harm_and_nothing_changes(make_lan):
    lan = make_lan("a", "b", "c", value_bytes_max=40, key_bytes_max=5)
    with pytest.raises(LanRefused, match="larger than 40 bytes"):
        lan.put("a", "k", bytes(41))
    with pytest.raises(LanRefused, match="longer than 5 bytes"):
        lan.put("a", "kékék", b"")
    lan.skew["a"] = 301 * SECOND
    lan.put("b", "k", b"1")
    lan.deliver()
    with pytest.raises(LanRefused, match="301 s ahead"):
        lan.put("a", "j", b"")
    assert list(lan.images["a"].entries) == ["m/a", "m/b", "m/c", "k"]


def test_a_value_and_a_key_of_the_greatest_size_are_taken_and_travel(make_lan):
    lan = make_lan("a", "b", value_bytes_max=100, key_bytes_max=5, entries_bytes_max=50)
    lan.put("a", "kkkkk", bytes(100))
    lan.deliver()
    assert lan.get("b", "kkkkk") == bytes(100)


def test_next_deadline_is_none_before_the_start(lan):
    image = lan.images["a"]
    node = LanNode("a", image, 1, lan.settings, lambda key, value: None, lambda entry: b"", lambda entry, entries: True)
    assert node.next_deadline() is None
