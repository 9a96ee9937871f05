"""The nasty scenarios of lan-update.md C.d that have no test of their own elsewhere (docs/faults.md lists them all)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice, permutations
from random import Random
from typing import Any

import pytest

from roamcast.middleware.lan_update.digest import bucket_of
from roamcast.middleware.lan_update.effects import Acknowledge, LanPersist
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.settings import DAY, SECOND
from roamcast.middleware.simulator.lan.keys_node import copy_image
from roamcast.middleware.simulator.lan.keys_options import draw_keys
from roamcast.middleware.simulator.lan.keys_run import KeysRun
from roamcast.middleware.simulator.lan.schedule import Schedule


@pytest.mark.parametrize("seed", range(6))
def test_1_day_and_night_with_one_overlap_of_just_k_tw_and_two_relays(seed):
    wanted = {"nodes": 4, "keys": 1, "slow": True, "updates": 0, "crashes": 0, "crash_per_effect": 0.0}
    options = draw_keys(seed, {"story": "plain", **wanted})
    w = options.window
    runs = (((0, w + 1),), ((0, 2 * w + 2),), ((w + 1, 3 * w + 3),), ((2 * w + 2, 4 * w),))
    run = KeysRun(seed, options, schedule=Schedule("chain", runs, 4 * w))
    run.set_up()
    run.world.at(0, run.adversary.put, run.nodes[0], "k0", b"1")
    run.advance(4 * w)
    run.judge.check_theorem_1(run.power.runs(), w, 4 * w)
    assert run.judge.checks == 3, "one for each other node"
    assert run.judge.has(3)["k0"].value == b"1"


def test_2_the_source_stops_after_its_first_send(lan):
    lan.put("a", "k", b"1")
    lan.wire = [flight for flight in lan.wire if flight[1][1] == "b"]
    lan.stop("a")
    lan.deliver()
    assert lan.all_get("k") == [b"1"] * 2


def test_2_the_source_stops_between_its_write_and_its_first_send(lan):
    lan.put("a", "k", b"1")
    lan.wire.clear()
    lan.stop("a")
    lan.start("a")
    lan.deliver()
    assert lan.all_get("k") == [b"1"] * 3


def test_3_a_packet_is_acknowledged_only_when_what_it_changed_is_durable(lan):
    lan.put("a", "k", b"1")
    node = lan.up["b"]
    node.begin(lan.now, lan.wall("b"))
    node.receive("a", lan.packets("a", "b")[0])
    kinds = [type(effect) for effect in node.flush()]
    assert kinds.index(LanPersist) < kinds.index(Acknowledge)


def test_3_a_receiver_that_stops_before_its_store_is_told_again(lan):
    lan.put("a", "k", b"1")
    lan.wire.clear()
    lan.stop("b")
    lan.run(lan.settings.packet_timeout)
    lan.start("b")
    lan.deliver()
    assert lan.get("b", "k") == b"1"


def test_4_a_send_that_failed_though_it_arrived_is_harmless(lan):
    lan.lose_ack = lambda source, target: target == "a"
    lan.put("a", "k", b"1")
    lan.deliver()
    lan.run(lan.settings.packet_timeout)
    assert lan.all_get("k") == [b"1"] * 3
    assert lan.status("a")["lapsed"] == ["b", "c"]
    lan.lose_ack = lambda source, target: False
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.status("a")["lapsed"] == []
    assert lan.is_equal()


def test_4_an_old_packet_that_comes_when_its_sender_is_dead_is_merged_like_any_other(lan):
    lan.cut("a")
    lan.put("a", "k", b"old")
    old = lan.packets("a", "b")[0]
    lan.stop("a")
    lan.now += 1
    lan.put("c", "k", b"new")
    lan.deliver()
    lan.hand("a", "b", old)
    lan.deliver()
    assert lan.all_get("k") == [b"new"] * 2


def test_5_one_key_at_two_nodes_in_the_same_tick(lan):
    lan.put("a", "k", b"a")
    lan.put("b", "k", b"b")
    lan.deliver()
    assert lan.all_get("k") == [b"b"] * 3


def test_5_twice_in_one_tick_and_a_clock_that_steps_back_between(lan):
    lan.put("a", "k", b"1")
    lan.put("a", "k", b"2")
    lan.skew["a"] = -200 * SECOND
    lan.put("a", "k", b"3")
    lan.deliver()
    assert lan.all_get("k") == [b"3"] * 3


@pytest.mark.parametrize("order", ["receive first", "put first"])
def test_6_a_local_update_and_a_received_one_in_the_same_tick(lan, order):
    """Comparing and storing is one step: there is no moment between them."""
    lan.put("a", "k", b"received")
    received = lan.packets("a", "b")[0]
    lan.wire.clear()
    lan.skew["b"] = -SECOND
    node = lan.up["b"]
    node.begin(lan.now, lan.wall("b"))
    if order == "receive first":
        node.receive("a", received)
        node.put("k", b"put")
    else:
        node.put("k", b"put")
        node.receive("a", received)
    lan.perform("b", node)
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"put" if order == "receive first" else b"received"] * 3


def test_7_put_delete_put_on_three_that_meet_one_after_the_other(lan):
    lan.lose = lambda source, target, packet: True
    lan.put("a", "k", b"first")
    lan.now += 1
    lan.put("b", "k", None)
    lan.now += 1
    lan.put("c", "k", b"last")
    for pair in ({"c", "a"}, {"a", "b"}, {"b", "c"}):
        lan.lose = lambda source, target, packet, pair=pair: {source, target} != pair
        lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"last"] * 3


def test_8_a_young_backup_catches_up_and_its_own_lost_updates_come_back(lan):
    backup = copy_image(lan.images["c"])
    lan.put("c", "mine", b"1")
    lan.put("a", "k", b"1")
    lan.put("b", "m", None)
    lan.deliver()
    lan.stop("c")
    lan.images["c"] = backup
    lan.leap(10 * DAY)
    lan.start("c")
    lan.deliver()
    assert lan.is_equal()
    assert lan.get("c", "mine") == b"1"


@pytest.mark.parametrize(("mutants", "equal"), [((), True), (("no_boot",), False)])
def test_8_a_backup_and_a_clock_that_is_set_back_give_no_version_twice(make_lan, mutants, equal):
    lan = make_lan("a", "b", mutants=frozenset(mutants))
    backup = copy_image(lan.images["b"])
    then = lan.now
    lan.put("b", "k", b"first")
    lan.deliver()
    lan.stop("b")
    lan.images["b"] = backup
    lan.now += 100 * SECOND
    lan.skew["b"] = then - lan.now
    lan.cut("b")
    lan.start("b")
    lan.put("b", "k", b"second")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.is_equal() is equal


def test_12_two_halves_that_both_run_on_and_heal_without_any_start(make_lan):
    lan = make_lan("a", "b", "c", "d")
    lan.cut("a", "b")
    for number, name in enumerate("abcd"):
        lan.now += 1
        lan.put(name, f"of {name}", b"1")
        lan.put(name, "all", name.encode())
        lan.put(name, f"gone {number % 2}", None)
    lan.run(3 * lan.settings.exchange_interval)
    assert lan.is_equal("a", "b") and lan.is_equal("c", "d")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.is_equal()
    assert lan.get("a", "all") == b"d"


@pytest.mark.parametrize("kinds", list(permutations("ab", 2)))
def test_12_without_the_repeated_exchange_the_halves_stay_apart(make_lan, kinds):
    lan = make_lan("a", "b", mutants=frozenset({"no_repeat"}))
    lan.cut("a")
    lan.put(kinds[0], "k", b"1")
    lan.run(lan.settings.packet_timeout)
    lan.cut()
    lan.run(20 * lan.settings.exchange_interval)
    assert not lan.is_equal()


def one_bucket() -> Iterator[str]:
    return (key for number in count() if bucket_of(key := f"k{number}") == 0)


def windows_needed(make_lan: Any, packets: int, *mutants: str) -> list[int]:
    """How many of 500 keys b has after each window of so many packet times; a runs on in between."""
    lan = make_lan("a", "b", mutants=frozenset(mutants), entries_max=10, exchange_interval=10**9 * SECOND)
    lan.stop("b")
    for key in islice(one_bucket(), 500):
        lan.put("a", key, b"1")
    lan.run(2 * lan.settings.packet_timeout)
    lan.delay = lan.settings.packet_timeout * 9 // 10
    progress = []
    while len(progress) < 100 and (not progress or progress[-1] < 500):
        lan.start("b")
        lan.run(packets * lan.settings.packet_timeout)
        lan.stop("b")
        lan.run(2 * lan.settings.packet_timeout)
        progress.append(len(lan.images["b"].entries) - 2)
    return progress


@pytest.mark.parametrize(("packets", "most"), [(6, 9), (4, 13), (3, 18), (2, 25)])
def test_13_many_keys_of_one_bucket_cross_in_short_windows_step_by_step(make_lan, packets, most):
    progress = windows_needed(make_lan, packets)
    assert progress[-1] == 500
    assert progress == sorted(progress)
    assert len(progress) <= most


def test_13_in_windows_shorter_than_the_legs_only_what_is_remembered_crosses(make_lan):
    progress = windows_needed(make_lan, 2, "kept_forgotten")
    assert progress[-1] < 500
    assert progress[-1] == progress[50]


def test_14_a_clock_a_day_ahead_then_right_leaves_its_keys_writable_by_all(make_lan):
    lan = make_lan("a", "b", "c", skew_max=2 * DAY)
    lan.skew["a"] = DAY
    lan.put("a", "k", b"ahead")
    lan.put("a", "j", None)
    lan.deliver()
    lan.skew["a"] = 0
    lan.restart("a")
    for value, name in enumerate("abc"):
        lan.put(name, "k", b"%d" % value)
        lan.put(name, "j", b"%d" % value)
        lan.deliver()
    assert lan.all_get("k") == lan.all_get("j") == [b"2"] * 3


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_any_packets_ends_equal(make_lan, seed):
    """Packets of three lives, lost, doubled and reordered at will; then one exchange."""
    print(f"seed {seed}")
    rng = Random(seed)
    lan = make_lan("a", "b", "c")
    for _ in range(150):
        name = rng.choice("abc")
        lan.now += rng.choice((0, 1, SECOND))
        if rng.random() < 0.1:
            lan.stop(name)
            lan.start(name)
        lan.put(name, f"k{rng.randrange(8)}", rng.choice((b"%d" % rng.randrange(99), None)))
        rng.shuffle(lan.wire)
        for _, flight in lan.wire[: rng.randrange(4)]:
            lan.hand(*flight)
        lan.wire = lan.wire[rng.randrange(3) :][:50]
    lan.wire.clear()
    lan.run(5 * lan.settings.exchange_interval)
    assert lan.is_equal()
    lan.act("a", LanNode.expire)
    assert lan.wire == []
