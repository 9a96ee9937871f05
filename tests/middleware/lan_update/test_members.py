"""Membership as keys: joins by way of one sponsor, removals, and those who come back without knowing it."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.records import LanImage
from roamcast.middleware.simulator.lan.keys_node import membership, membership_key


def newcomer(lan: Any, name: str, sponsor: str) -> None:
    """Its disk has the membership entry of its sponsor; it starts, and says that it is there."""
    lan.images[name] = LanImage()
    lan.introduce(sponsor, to=name)
    lan.start(name)
    lan.put(name, membership_key(name), membership(name))


def remove(lan: Any, name: str, by: str) -> None:
    lan.put(by, membership_key(name), membership(name, b"removed"))


def test_a_newcomer_needs_one_sponsor(lan):
    for number in range(30):
        lan.put("b", f"k{number}", b"1")
    lan.deliver()
    newcomer(lan, "d", sponsor="a")
    lan.run(lan.settings.packet_timeout)
    assert lan.is_equal()
    assert [lan.up[name].peers() for name in "ad"] == [("b", "c", "d"), ("a", "b", "c")]


@pytest.mark.parametrize(("mutants", "joined"), [((), True), (("no_repeat",), False)])
def test_a_newcomer_whose_sponsor_is_down_asks_until_it_is_answered(make_lan, mutants, joined):
    lan = make_lan("a", "b", mutants=frozenset(mutants))
    lan.stop("a")
    newcomer(lan, "d", sponsor="a")
    lan.run(3 * lan.settings.exchange_interval)
    lan.start("a")
    lan.run(3 * lan.settings.exchange_interval)
    assert ("d" in lan.up["b"].peers()) is joined
    assert lan.is_equal() is joined


def test_two_that_come_to_know_of_each_other_compare(lan):
    """Neither starts then, but each may have what the other lacks."""
    lan.cut("c")
    lan.put("c", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    newcomer(lan, "d", sponsor="a")
    lan.run(lan.settings.packet_timeout)
    lan.lose = lambda source, target, packet: "c" in (source, target) and "d" not in (source, target)
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.get("d", "k") == b"1"


def test_removed_while_it_was_down_it_is_told_and_its_updates_are_refused(lan):
    lan.cut("c")
    lan.put("c", "k", b"of c")
    lan.put("c", "own", b"of c")
    lan.wire.clear()
    lan.stop("c")
    lan.cut()
    remove(lan, "c", by="a")
    lan.put("a", "k", b"of a")
    lan.deliver()
    before = [dict(lan.images[name].entries) for name in "ab"]
    lan.forget()
    lan.start("c")
    lan.run(5 * lan.settings.exchange_interval)
    assert [lan.images[name].entries for name in "ab"] == before
    assert lan.status("c")["removed"]
    assert "lan-removed" in lan.events("c")
    told = [entry.key for name in "ab" for packet in lan.packets(name, "c") for entry in packet.entries]
    assert set(told) == {"m/c"}


def test_a_removed_node_serves_nothing_and_pushes_nothing(lan):
    remove(lan, "c", by="a")
    lan.deliver()
    assert lan.up["a"].peers() == ("b",)
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    with pytest.raises(LanRefused, match="removed"):
        lan.put("c", "k", b"1")
    lan.stop("c")
    lan.start("c")
    lan.put("a", "j", b"1")
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.packets("c") == []
    assert lan.get("c", "j") is None
    assert [packet for name in "ab" for packet in lan.packets(name, "c")] == []


def test_what_a_node_says_that_does_not_know_of_the_removal_is_answered_with_it(lan):
    lan.lose = lambda source, target, packet: target == "b"
    remove(lan, "c", by="a")
    lan.deliver()
    assert lan.status("c")["removed"]
    lan.lose = lambda source, target, packet: "a" in (source, target)
    lan.put("b", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    assert "c" not in lan.up["b"].peers()
    assert lan.get("c", "k") is None


def test_who_says_itself_that_it_leaves_is_heard_also_later(lan):
    lan.stop("b")
    remove(lan, "c", by="c")
    lan.run(2 * lan.settings.exchange_interval)
    lan.stop("a")
    lan.start("b")
    lan.run(3 * lan.settings.exchange_interval)
    assert "c" not in lan.up["b"].peers()
    lan.start("a")
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.sent == []


def test_nothing_in_the_packet_that_tells_of_its_removal_is_lost_and_nothing_after_it_is_taken(lan):
    lan.delay = 10
    lan.put("c", "k1", b"1")
    lan.put("c", "k2", b"2")
    remove(lan, "c", by="c")
    lan.run(100)
    assert lan.get("a", "k1") == b"1"
    assert "c" not in lan.up["a"].peers()


def test_removed_nodes_are_not_waited_for(lan):
    lan.stop("c")
    lan.put("a", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    remove(lan, "c", by="a")
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.sent == []
    assert lan.status("a")["lapsed"] == []
