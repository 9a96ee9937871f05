"""The stale rule: who was away too long brings nothing back, loses nothing that is certain, and gives no orders."""

from __future__ import annotations

import pytest

from roamcast.middleware.lan_update.digest import bucket_of
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import LanImage, LanPacket
from roamcast.middleware.simulator.lan.keys_node import copy_image, membership, membership_key


def restore(lan, name: str, image: LanImage) -> None:
    """The node stops, its disk holds a backup, and it starts."""
    if name in lan.up:
        lan.stop(name)
    lan.images[name] = copy_image(image)
    lan.start(name)


@pytest.fixture
def forgotten(lan):
    """A backup of c has a key that was deleted, and purged, since; and one that nobody else ever had."""
    lan.put("a", "k", b"1")
    lan.deliver()
    lan.cut("c")
    lan.put("c", "own", b"unsent")
    lan.backup = copy_image(lan.images["c"])
    lan.cut()
    lan.run(lan.settings.exchange_interval)
    lan.put("b", "k", None)
    lan.put("b", "own", None)
    lan.deliver()
    lan.purge()
    assert "k" not in lan.images["a"].entries
    return lan


def test_a_backup_older_than_that_brings_nothing_back(forgotten):
    lan = forgotten
    restore(lan, "c", lan.backup)
    lan.deliver()
    assert lan.all_get("k") == [None] * 3
    assert lan.is_equal()
    assert not lan.status("c")["stale"]


def test_what_is_in_doubt_goes_to_lost_and_found_and_is_told(forgotten):
    lan = forgotten
    restore(lan, "c", lan.backup)
    lan.deliver()
    assert sorted((found.entry.key, found.entry.value) for found in lan.images["c"].found) == [
        ("k", b"1"),
        ("own", b"unsent"),
    ]
    assert [event for event in lan.events("c") if event != "lan-clock-right"] == [
        "lan-stale", "lan-set-aside", "lan-set-aside", "lan-fresh",
    ]  # fmt: skip


def test_a_stale_node_takes_no_updates_until_it_is_equal_to_a_fresh_one(forgotten):
    lan = forgotten
    lan.cut("c")
    restore(lan, "c", lan.backup)
    with pytest.raises(LanRefused, match="away for so long"):
        lan.put("c", "j", b"")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    lan.put("c", "j", b"2")
    lan.deliver()
    assert lan.all_get("j") == [b"2"] * 3


def test_without_the_stale_rule_the_deleted_key_is_back(make_lan):
    lan = make_lan("a", "b", mutants=frozenset({"never_stale"}))
    lan.put("a", "k", b"1")
    lan.deliver()
    backup = copy_image(lan.images["b"])
    lan.put("a", "k", None)
    lan.deliver()
    lan.purge()
    restore(lan, "b", backup)
    lan.deliver()
    assert lan.all_get("k") == [b"1"] * 2


@pytest.mark.parametrize(("mutants", "outcome"), [((), None), (("fresh_on_list",), b"1")])
def test_fresh_after_the_first_list_is_too_early(make_lan, mutants, outcome):
    """The list still has the tombstone; it is purged before it is asked for."""
    lan = make_lan("a", "b", mutants=frozenset(mutants))
    lan.put("a", "k", b"1")
    lan.deliver()
    backup = copy_image(lan.images["b"])
    lan.put("a", "k", None)
    lan.deliver()
    lan.run(lan.settings.exchange_interval)
    lan.stop("b")
    lan.now += lan.settings.purge_after - lan.settings.exchange_interval
    lan.act("a", LanNode.expire)
    lan.delay = lan.settings.packet_timeout // 2
    restore(lan, "b", backup)
    lan.run(lan.delay)
    assert [bool(packet.described) for packet in lan.packets("a", "b")][-1]
    assert "k" in lan.images["a"].entries
    lan.now += 2 * lan.settings.exchange_interval
    lan.act("a", LanNode.expire)
    assert "k" not in lan.images["a"].entries
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [outcome] * 2


def test_a_stale_node_passes_nothing_on(make_lan):
    """Two backups with a deleted key, one with a newer value: told by one to the other, it must not go further."""
    for mutants, outcome in (((), [None] * 3), (("stale_relays",), [b"2"] * 3)):
        lan = make_lan("a", "b", "c", mutants=frozenset(mutants))
        lan.put("a", "k", b"1")
        lan.deliver()
        one = copy_image(lan.images["b"])
        lan.put("a", "k", b"2")
        lan.deliver()
        other = copy_image(lan.images["c"])
        lan.put("a", "k", None)
        lan.deliver()
        lan.purge()
        lan.cut("a")
        lan.stop("b", "c")
        restore(lan, "b", one)
        restore(lan, "c", other)
        lan.deliver()
        assert lan.get("b", "k") == b"2"
        lan.cut("c")
        lan.run(2 * lan.settings.exchange_interval)
        lan.cut()
        lan.run(2 * lan.settings.exchange_interval)
        assert lan.all_get("k") == outcome


def test_two_old_backups_do_not_call_back_what_each_alone_could_not(make_lan):
    """One has an old tombstone, the other what was set after that; the tombstone that was purged is newer than both."""
    lan = make_lan("a", "b", "c", "d")
    lan.put("a", "k", None)
    lan.deliver()
    one = copy_image(lan.images["c"])
    lan.put("a", "k", b"deleted later")
    lan.deliver()
    other = copy_image(lan.images["d"])
    lan.put("a", "k", None)
    lan.deliver()
    lan.purge()
    lan.stop("c", "d")
    restore(lan, "c", one)
    lan.deliver()
    restore(lan, "d", other)
    lan.deliver()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [None] * 4
    assert lan.is_equal()


def test_what_a_fresh_peer_told_meanwhile_is_not_in_doubt(lan):
    """Stale c gets a new key from a; b does not have it yet when it tells c what it has."""
    lan.stop("c")
    lan.now += lan.settings.stale_after + 1
    lan.start("c")
    lan.lose = lambda source, target, packet: "c" in (source, target)
    lan.put("a", "new", b"1")
    told = lan.packets("a", "c")[-1]
    assert [entry.key for entry in told.entries] == ["new"]
    lan.hand("a", "c", told)
    lan.hand("b", "c", LanPacket(1, False, lan.wall("b"), described=(bucket_of("new"),)))
    assert lan.status("c")["stale"]
    assert lan.get("c", "new") == b"1"
    assert lan.images["c"].found == []


def test_a_membership_entry_is_never_in_doubt(lan):
    """It is never purged, so who lacks it never had it."""
    lan.cut("c")
    lan.put("c", "m/x", membership("x"))
    image = copy_image(lan.images["c"])
    lan.stop("c")
    lan.leap(lan.settings.stale_after + 1)
    lan.cut()
    restore(lan, "c", image)
    lan.deliver()
    assert lan.images["c"].found == []
    assert all("x" in lan.up[name].peers() for name in "abc")


@pytest.fixture
def night(lan):
    """All were off for longer than A, each with an update that nobody else has."""
    for name in "abc":
        lan.cut(name)
        lan.put(name, f"of {name}", name.encode())
        lan.wire.clear()
    lan.stop("a", "b", "c")
    lan.cut()
    lan.now += lan.settings.stale_after + 1
    lan.forget()
    return lan


def test_nothing_is_lost_when_all_were_away(night):
    lan = night
    lan.start("a", "b", "c")
    lan.run(2 * lan.settings.exchange_interval)
    assert [lan.all_get(f"of {name}") for name in "abc"] == [[b"a"] * 3, [b"b"] * 3, [b"c"] * 3]
    assert not any(lan.images[name].found for name in "abc")
    assert not any(lan.status(name)["stale"] or lan.status(name)["former"] for name in "abc")


def test_a_former_gives_no_orders(night):
    """a has met all; b and c have not met each other when a, a former now, tells them what it has."""
    lan = night
    lan.lose = lambda source, target, packet: {source, target} == {"b", "c"}
    lan.start("a", "b", "c")
    lan.deliver()
    assert [lan.status(name)["stale"] for name in "abc"] == [False, True, True]
    assert lan.status("a")["former"]
    lan.run(3 * lan.settings.exchange_interval)
    lan.cut()
    lan.run(3 * lan.settings.exchange_interval)
    assert not any(lan.images[name].found for name in "abc")
    assert lan.all_get("of c") == [b"c"] * 3


def test_when_formers_speak_with_authority_updates_are_lost(make_lan):
    lan = make_lan("a", "b", "c", mutants=frozenset({"former_speaks"}))
    for name in "abc":
        lan.cut(name)
        lan.put(name, f"of {name}", name.encode())
        lan.wire.clear()
    lan.stop("a", "b", "c")
    lan.now += lan.settings.stale_after + 1
    lan.lose = lambda source, target, packet: {source, target} == {"b", "c"}
    lan.start("a", "b", "c")
    lan.deliver()
    lan.run(3 * lan.settings.exchange_interval)
    assert lan.images["c"].found or lan.images["b"].found


def test_a_former_takes_no_updates_which_would_be_in_doubt_after_a_restart(night):
    lan = night
    lan.lose = lambda source, target, packet: {source, target} == {"b", "c"}
    lan.start("a", "b", "c")
    lan.deliver()
    assert lan.status("a")["former"]
    with pytest.raises(LanRefused, match="away for so long"):
        lan.put("a", "j", b"1")
    lan.cut()
    lan.run(3 * lan.settings.exchange_interval)
    lan.put("a", "j", b"1")
    lan.deliver()
    assert lan.all_get("j") == [b"1"] * 3


def test_a_former_is_still_stale_at_its_next_start_if_it_had_no_proof(night):
    """Else it would give orders then, before the others have told it what they have."""
    lan = night
    lan.lose = lambda source, target, packet: {source, target} == {"b", "c"}
    lan.start("a", "b", "c")
    lan.deliver()
    lan.stop("a")
    lan.start("a")
    lan.deliver()
    assert lan.status("a")["former"] or lan.status("a")["stale"]


def test_alone_in_the_group_nobody_can_have_purged(make_lan):
    lan = make_lan("a")
    lan.stop("a")
    lan.now += lan.settings.stale_after + 1
    lan.start("a")
    assert not lan.status("a")["stale"] and not lan.status("a")["former"]


def test_the_operators_word_ends_the_wait_for_a_member_that_does_not_come(night):
    lan = night
    lan.start("a", "b")
    lan.run(3 * lan.settings.exchange_interval)
    assert lan.status("a")["stale"] and lan.status("b")["stale"]
    lan.act("a", LanNode.declare_fresh)
    lan.act("b", LanNode.declare_fresh)
    lan.run(2 * lan.settings.exchange_interval)
    assert [lan.all_get("of a"), lan.all_get("of b")] == [[b"a"] * 2, [b"b"] * 2]
    lan.put("a", "j", b"1")
    lan.put("b", "m/c", membership("c", b"removed"))
    lan.run(2 * lan.settings.exchange_interval)
    assert not lan.status("a")["former"] and not lan.status("b")["former"]
    assert lan.all_get("j") == [b"1"] * 2


def test_a_newcomer_gives_no_orders_to_a_stale_sponsor(make_lan):
    lan = make_lan("a")
    lan.put("a", "k", b"1")
    lan.stop("a")
    lan.now += lan.settings.stale_after + 1
    lan.images["b"] = LanImage()
    lan.introduce("a", to="b")
    lan.start("b")
    lan.put("b", membership_key("b"), membership("b"))
    lan.start("a")
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"1"] * 2
    assert lan.images["a"].found == []
    assert not lan.status("b")["former"]


def test_a_node_that_was_away_for_less_is_not_stale(lan):
    lan.stop("c")
    lan.now += lan.settings.stale_after - lan.settings.exchange_interval
    lan.start("c")
    assert not lan.status("c")["stale"]
