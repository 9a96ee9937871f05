"""Wrong clocks: refused at the origin, told once, and never looked at by receivers."""

from __future__ import annotations

import pytest

from roamcast.middleware.effects import Notice
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.settings import DAY, SECOND


def meet(lan) -> None:
    """Everybody hears everybody."""
    lan.restart(*lan.up)


def test_far_off_the_others_no_update_is_taken_but_all_are_passed_on(make_lan):
    lan = make_lan("a", "b", "c", "d")
    lan.skew["a"] = DAY
    meet(lan)
    with pytest.raises(LanRefused, match="86400 s ahead"):
        lan.put("a", "k", b"1")
    lan.lose = lambda source, target, packet: {source, target} == {"b", "c"}
    lan.put("b", "k", b"1")
    lan.deliver()
    assert lan.get("a", "k") == lan.get("c", "k") == b"1"
    assert lan.status("a")["skew_s"] == 86_400
    assert lan.status("b")["skew_s"] == 0


def test_the_operator_is_told_once_and_when_it_is_right_again(lan):
    lan.skew["a"] = -DAY
    meet(lan)
    lan.run(5 * lan.settings.exchange_interval)
    alarms = [notice for notice in lan.of("a", Notice) if notice.level == "alarm"]
    assert [(notice.event, notice.fields) for notice in alarms] == [("lan-clock-off", {"ahead_s": -86_400})]
    lan.skew["a"] = 0
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.events("a")[-1] == "lan-clock-right"
    lan.put("a", "k", b"1")


def test_what_peers_say_of_their_clocks_when_they_are_linked_counts(lan):
    """Before any packet has come: else the first to be asked after a start may be the one that is wrong."""
    for peer, ahead in (("b", -600 * SECOND), ("c", -599 * SECOND)):
        lan.act("a", LanNode.heard, peer, ahead)
    with pytest.raises(LanRefused, match="599 s ahead"):
        lan.put("a", "k", b"1")
    lan.act("a", LanNode.heard, "b", 0)
    lan.put("a", "k", b"1")


def test_a_step_of_the_own_clock_is_noticed_at_the_next_update(lan):
    meet(lan)
    lan.skew["a"] = 301 * SECOND
    with pytest.raises(LanRefused, match="301 s ahead"):
        lan.put("a", "k", b"1")


def test_one_wrong_clock_among_two_peers_does_not_stop_the_others(lan):
    lan.skew["a"] = DAY
    meet(lan)
    lan.put("b", "k", b"1")
    lan.put("c", "j", b"1")
    with pytest.raises(LanRefused):
        lan.put("a", "i", b"1")


def test_of_two_nodes_nobody_knows_which_is_right(make_lan):
    lan = make_lan("a", "b")
    lan.skew["a"] = DAY
    meet(lan)
    for name, word in (("a", "ahead"), ("b", "behind")):
        with pytest.raises(LanRefused, match=word):
            lan.put(name, "k", b"1")


def test_when_a_peers_clock_is_set_right_updates_are_taken_again(make_lan):
    """Nothing else is said between the two, so each asks for the other's clock."""
    lan = make_lan("a", "b")
    lan.skew["a"] = DAY
    meet(lan)
    lan.skew["a"] = 0
    lan.run(2 * lan.settings.exchange_interval)
    lan.put("b", "k", b"1")
    lan.put("a", "j", b"1")
    lan.deliver()
    lan.forget()
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.sent == []


def test_a_version_from_the_future_is_taken_and_passed_on(make_lan):
    """Who refused it would stop passing it on. Anybody who has seen it can overwrite it."""
    lan = make_lan("a", "b", "c", skew_max=10**18)
    lan.skew["a"] = 365 * DAY
    lan.put("a", "k", b"future")
    lan.deliver()
    assert lan.all_get("k") == [b"future"] * 3
    lan.put("b", "k", b"now")
    lan.deliver()
    assert lan.all_get("k") == [b"now"] * 3


def test_a_clock_that_is_off_is_not_noted_as_the_last_time_that_it_was_fresh(lan):
    lan.skew["a"] = 365 * DAY
    before = lan.images["a"].alive
    lan.run(3 * lan.settings.exchange_interval)
    assert lan.images["a"].alive == before
