"""Cases of the field reports BL-46, BL-47 and BL-50 to BL-55, at the level of the nodes."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from roamcast.middleware.lan_update.effects import Changed
from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.records import LanImage
from roamcast.middleware.settings import DAY, SECOND
from roamcast.middleware.simulator.lan.keys_node import copy_image, membership, membership_key


def test_bl_46_a_removed_node_comes_back_and_does_not_know_it(lan):
    lan.put("c", "k", b"1")
    lan.deliver()
    lan.stop("c")
    lan.put("a", "m/c", membership("c", b"removed"))
    lan.put("a", "k", b"2")
    lan.put("b", "j", None)
    lan.deliver()
    before = dict(lan.images["a"].entries)
    lan.start("c")
    lan.run(3 * lan.settings.exchange_interval)
    with pytest.raises(LanRefused, match="removed from the group"):
        lan.put("c", "k", b"3")
    assert lan.images["a"].entries == lan.images["b"].entries == before
    lan.images["d"] = LanImage()
    lan.introduce("a", to="d")
    lan.start("d")
    lan.put("d", membership_key("d"), membership("d"))
    lan.run(lan.settings.exchange_interval)
    assert lan.get("d", "k") == b"2"


@pytest.mark.parametrize("parts", [("ab", "cde"), ("a", "bcde"), ("ab", "cd", "e")])
def test_bl_47_a_healed_partition_is_merged_whole(make_lan, parts):
    lan = make_lan(*"abcde")
    lan.lose = lambda source, target, packet: not any(source in part and target in part for part in parts)
    for number in range(40):
        for name in "abcde":
            lan.now += 1
            lan.put(name, f"{name}{number}", name.encode())
            lan.put(name, f"shared{number}", name.encode())
    lan.run(300 * SECOND)
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.is_equal()
    assert len(lan.images["a"].entries) == 5 + 40 * 6
    assert all(lan.get("a", f"shared{number}") == b"e" for number in range(40))


def test_bl_50_a_later_write_at_a_slow_clock_wins_or_is_refused(lan):
    lan.skew["b"] = -240 * SECOND
    lan.restart("a", "b", "c")
    for number in range(100):
        lan.put("a", f"k{number}", b"1")
        lan.deliver()
        lan.put("b", f"k{number}", b"2")
    lan.deliver()
    assert all(lan.all_get(f"k{number}") == [b"2"] * 3 for number in range(100))
    lan.skew["b"] = -600 * SECOND
    with pytest.raises(LanRefused, match="600 s behind"):
        lan.put("b", "k0", b"3")


def test_bl_51_a_write_from_the_future_is_refused_or_overwritten(make_lan):
    lan = make_lan("a", "b", "c")
    lan.put("b", "j", b"1")
    lan.deliver()
    lan.skew["a"] = 365 * DAY
    for key, value in (("k", b"future"), ("j", None)):
        with pytest.raises(LanRefused, match="ahead"):
            lan.put("a", key, value)
    assert lan.all_get("k") == [None] * 3
    lan = make_lan("a", "b", "c", skew_max=1 << 60)
    lan.put("b", "j", b"1")
    lan.deliver()
    lan.skew["a"] = 365 * DAY
    lan.put("a", "k", b"future")
    lan.put("a", "j", None)
    lan.deliver()
    lan.skew["a"] = 0
    lan.put("b", "k", b"2")
    lan.put("c", "j", b"2")
    lan.put("c", "other", b"2")
    lan.deliver()
    assert lan.all_get("k") == lan.all_get("j") == [b"2"] * 3
    assert lan.images["a"].entries["other"].version.time == lan.wall("c"), "other keys are not dragged along"


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_bl_52_of_equal_stamps_all_keep_the_same_one_in_any_order_of_exchange(make_lan, names):
    outcomes = []
    for order in permutations([(one, other) for one in names for other in names if one < other]):
        lan = make_lan(*names)
        lan.lose = lambda source, target, packet: True
        for name in names:
            for number in range(60):
                lan.put(name, f"k{number}", name.encode())
        for one, other in (*order, *order):
            lan.lose = lambda source, target, packet, pair=(one, other): {source, target} != {*pair}
            lan.stop(names[-1])
            lan.start(names[-1])
            lan.run(2 * lan.settings.exchange_interval)
        lan.cut()
        lan.run(lan.settings.exchange_interval)
        assert lan.is_equal()
        outcomes.append([lan.get("a", f"k{number}") for number in range(60)])
    assert all(outcome == [names[-1].encode()] * 60 for outcome in outcomes)


@pytest.mark.parametrize("halted", [("c",), ("b", "c")])
def test_bl_53_deleted_keys_stay_deleted_after_a_long_halt(make_lan, halted):
    lan = make_lan("a", "b", "c", "d")
    for number in range(50):
        lan.put("a", f"k{number}", b"1")
    lan.deliver()
    for name in halted:
        lan.stop(name)
        lan.run(60 * SECOND)
    for number in range(50):
        lan.put("a", f"k{number}", None)
    lan.purge()
    lan.purge()
    lan.start(*halted)
    lan.run(2 * lan.settings.exchange_interval)
    assert all(lan.all_get(f"k{number}") == [None] * 4 for number in range(50))
    lan.purge()
    assert not any("k0" in lan.images[name].entries for name in "abcd")


@pytest.mark.parametrize("seed", range(20))
def test_bl_54_a_watcher_ends_with_the_newest_value(make_lan, seed):
    """It reads what is there when it begins, and follows what is told from then on."""
    print(f"seed {seed}")
    rng = Random(seed)
    lan = make_lan("a", "b")
    lan.delay = 50_000
    begin = rng.randint(0, 1_000_000)
    seen = None
    events = sorted([(rng.randint(0, 1_000_000), value) for value in (b"1", b"2", b"3")])
    watching = False
    for time in range(0, 1_200_001, 50_000):
        lan.run(50_000)
        if rng.random() < 0.1 and not watching:
            lan.stop("b")
            lan.start("b")
        while events and events[0][0] <= time:
            lan.put("a", "k", events.pop(0)[1])
        if not watching and time >= begin:
            watching = True
            entry = lan.up["b"].entries.get("k")
            seen = entry.value if entry else None
            lan.told["b"].clear()
    lan.run(lan.settings.packet_timeout)
    for change in lan.of("b", Changed):
        seen = change.entry.value
    assert seen == lan.get("a", "k") == lan.get("b", "k")


def test_bl_55_deletions_made_while_a_node_was_away_are_passed_on(make_lan):
    lan = make_lan("a", "b", "c")
    for key in ("deleted", "deleted and set", "kept"):
        lan.put("a", key, b"1")
    lan.deliver()
    before = copy_image(lan.images["c"])
    lan.stop("c")
    lan.put("a", "deleted", None)
    lan.put("a", "deleted and set", None)
    lan.put("a", "deleted and set", b"2")
    lan.put("a", "set and deleted", b"3")
    lan.put("a", "set and deleted", None)
    lan.run(30 * SECOND)
    lan.start("c")
    lan.run(lan.settings.packet_timeout)
    assert before.entries["deleted"].value == b"1"
    lan.stop("a", "b")
    lan.images["d"] = LanImage()
    lan.introduce("c", to="d")
    lan.start("d")
    lan.put("d", membership_key("d"), membership("d"))
    lan.run(lan.settings.exchange_interval)
    keys = ("deleted", "deleted and set", "set and deleted", "kept")
    assert [[lan.get(name, key) for key in keys] for name in "acd"] == [[None, b"2", None, b"1"]] * 3
