"""Deleted keys: every member holds the tombstone before it goes, and it does not come back."""

from __future__ import annotations

import pytest

from roamcast.middleware.lan_update.effects import Dropped
from roamcast.middleware.simulator.lan.keys_node import membership

ALL = frozenset("abc")


def holders(lan, name: str, key: str = "k") -> frozenset[str]:
    return lan.images[name].entries[key].holders


@pytest.fixture
def deleted(lan):
    """A key that was set, and deleted while c was away."""
    lan.put("a", "k", b"1")
    lan.deliver()
    lan.stop("c")
    lan.put("b", "k", None)
    lan.run(lan.settings.packet_timeout)
    return lan


def test_everybody_comes_to_know_all_holders(lan):
    lan.put("a", "k", None)
    lan.deliver()
    assert [holders(lan, name) for name in "abc"] == [ALL] * 3


def test_a_tombstone_goes_everywhere_once_all_have_held_it_long_enough(lan):
    lan.put("a", "k", None)
    lan.deliver()
    lan.run(lan.settings.exchange_interval)
    lan.leap(lan.settings.purge_after - 2 * lan.settings.exchange_interval)
    assert "k" in lan.images["a"].entries
    lan.run(3 * lan.settings.exchange_interval)
    assert ["k" in lan.images[name].entries for name in "abc"] == [False] * 3
    assert lan.of("a", Dropped) == [Dropped("k")]
    assert lan.is_equal()


def test_it_stays_while_one_member_does_not_hold_it_however_long(deleted):
    deleted.purge()
    deleted.purge()
    assert holders(deleted, "a") == frozenset("ab")


def test_the_time_counts_from_when_all_held_it_and_survives_restarts(deleted):
    deleted.leap(deleted.settings.purge_after)
    deleted.skew["c"] = -deleted.settings.purge_after
    deleted.start("c")
    deleted.skew["c"] = 0
    deleted.run(2 * deleted.settings.exchange_interval)
    assert [holders(deleted, name) for name in "abc"] == [ALL] * 3
    deleted.run(3 * deleted.settings.exchange_interval)
    assert "k" in deleted.images["a"].entries
    deleted.leap(deleted.settings.stale_after - deleted.settings.exchange_interval)
    deleted.restart("a", "b", "c")
    deleted.leap(deleted.settings.purge_after - deleted.settings.stale_after)
    deleted.run(3 * deleted.settings.exchange_interval)
    assert ["k" in deleted.images[name].entries for name in "abc"] == [False] * 3


def test_a_member_that_was_removed_need_not_hold_it(deleted):
    deleted.put("a", "m/c", membership("c", b"removed"))
    deleted.purge()
    assert ["k" in deleted.images[name].entries for name in "ab"] == [False, False]


def test_a_new_member_must_hold_it(lan):
    lan.put("a", "k", None)
    lan.deliver()
    lan.put("a", "m/d", membership("d"))
    lan.deliver()
    lan.purge()
    assert holders(lan, "a") == ALL
    assert "d" not in holders(lan, "b")


def test_membership_entries_are_never_purged(lan):
    lan.put("a", "m/x", None)
    lan.deliver()
    lan.purge()
    assert holders(lan, "b", "m/x") == ALL


def test_nobody_takes_back_what_was_purged_there(lan):
    """Nodes purge one after the other and compare in between: each would bring it back to the others, for ever."""
    lan.put("a", "k", None)
    lan.deliver()
    lan.run(lan.settings.exchange_interval)
    lan.stop("c")
    lan.leap(lan.settings.purge_after)
    lan.run(2 * lan.settings.exchange_interval)
    lan.skew["c"] = -2 * lan.settings.exchange_interval
    assert "k" not in lan.images["a"].entries and "k" in lan.images["c"].entries
    lan.images["c"].alive += lan.settings.purge_after
    lan.start("c")
    lan.deliver()
    lan.restart("a", "b")
    assert "k" not in lan.images["a"].entries and "k" not in lan.images["b"].entries
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.is_equal()


def test_without_that_rule_it_comes_back(make_lan):
    lan = make_lan("a", "b", mutants=frozenset({"purged_retaken"}))
    lan.put("a", "k", None)
    lan.deliver()
    lan.run(lan.settings.exchange_interval)
    lan.stop("b")
    lan.leap(lan.settings.purge_after)
    lan.run(2 * lan.settings.exchange_interval)
    assert "k" not in lan.images["a"].entries
    lan.images["b"].alive += lan.settings.purge_after
    lan.start("b")
    lan.deliver()
    assert "k" in lan.images["a"].entries


def test_a_clock_that_is_off_purges_nothing(lan):
    lan.put("a", "k", None)
    lan.deliver()
    lan.run(lan.settings.exchange_interval)
    lan.skew["a"] = 2 * lan.settings.purge_after
    lan.run(3 * lan.settings.exchange_interval)
    assert "k" in lan.images["a"].entries


def test_by_age_alone_a_node_that_was_away_brings_it_back(make_lan):
    """Holders need no clock: here that of the node that was away is wrong, so that it does not know how long it was."""
    for mutants, outcome in ((frozenset(), [None] * 3), (frozenset({"purge_by_age"}), [b"1"] * 3)):
        lan = make_lan("a", "b", "c", mutants=mutants)
        lan.put("a", "k", b"1")
        lan.deliver()
        lan.stop("c")
        lan.put("b", "k", None)
        lan.purge()
        lan.skew["c"] = -lan.settings.purge_after
        lan.start("c")
        lan.run(2 * lan.settings.exchange_interval)
        assert lan.all_get("k") == outcome


def test_a_key_may_be_set_again_before_and_after_the_purge(lan):
    lan.put("a", "k", None)
    lan.deliver()
    lan.put("b", "k", b"again")
    lan.deliver()
    assert lan.all_get("k") == [b"again"] * 3
    lan.put("c", "k", None)
    lan.deliver()
    lan.purge()
    lan.put("a", "k", b"anew")
    lan.deliver()
    assert lan.all_get("k") == [b"anew"] * 3
