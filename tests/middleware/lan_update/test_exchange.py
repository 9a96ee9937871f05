"""The exchange between nodes: legs, one packet under way, failures, bounds, silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.effects import Reject
from roamcast.middleware.lan_update.node import LanNode
from roamcast.middleware.lan_update.records import BUCKETS, LanPacket
from roamcast.middleware.lan_update.talk import entry_bytes


def parts(packet: LanPacket) -> str:
    """'s', 'v', 'w', 'e' for sums, versions, wants, entries."""
    names = (("s", packet.sums), ("v", packet.described), ("w", packet.want), ("e", packet.entries))
    return "".join(name for name, part in names if part)


def test_an_update_is_one_packet_to_each_and_is_passed_on(lan):
    lan.put("a", "k", b"1")
    assert [(one, other, parts(packet)) for one, other, packet in lan.sent] == [("a", "b", "e"), ("a", "c", "e")]
    lan.deliver()
    assert lan.all_get("k") == [b"1"] * 3


def test_what_is_newer_elsewhere_crosses_in_four_legs(make_lan):
    lan = make_lan("a", "b")
    lan.stop("a")
    lan.put("b", "k", b"1")
    lan.stop("b")
    lan.wire.clear()
    lan.start("b")
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.start("a")
    lan.deliver()
    assert [(one, parts(packet)) for one, _, packet in lan.sent] == [("a", "s"), ("b", "v"), ("a", "w"), ("b", "e")]
    assert lan.get("a", "k") == b"1"


def test_equal_nodes_say_only_their_sums_at_a_start_and_then_nothing(lan):
    lan.stop("b")
    lan.start("b")
    lan.deliver()
    assert [(one, other, parts(packet)) for one, other, packet in lan.sent] == [("b", "a", "s"), ("b", "c", "s")]
    lan.forget()
    lan.run(20 * lan.settings.exchange_interval)
    assert lan.sent == []


def test_one_packet_is_under_way_to_a_peer_and_the_next_tells_the_newest(lan):
    lan.delay = 10
    for value in (b"1", b"2", b"3"):
        lan.put("a", "k", value)
    assert [packet.entries[0].value for packet in lan.packets("a", "b")] == [b"1"]
    lan.run(100)
    assert [packet.entries[0].value for packet in lan.packets("a", "b")] == [b"1", b"3"]
    assert lan.all_get("k") == [b"3"] * 3


def test_a_failed_packet_is_said_again_once_the_peer_speaks(lan):
    lan.lose = lambda source, target, packet: target == "b"
    lan.put("a", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    assert lan.status("a")["lapsed"] == ["b"]
    assert lan.status("a")["unsent"] == {"b": 1}
    lan.cut()
    lan.forget()
    lan.put("b", "j", b"2")
    lan.deliver()
    assert parts(lan.packets("a", "b")[0]) == "se"
    assert lan.all_get("k") == [b"1"] * 3
    assert lan.status("a")["lapsed"] == []


def test_a_driver_may_say_at_once_that_a_packet_failed(lan):
    lan.lose = lambda source, target, packet: True
    lan.put("a", "k", b"1")
    lan.act("a", LanNode.failed, "b", lan.packets("a", "b")[0].number)
    assert lan.status("a")["lapsed"] == ["b"]
    lan.act("a", LanNode.failed, "c", 12345)
    assert lan.status("a")["lapsed"] == ["b"]


def test_lapsed_peers_are_told_the_sums_every_interval(lan):
    lan.cut("b")
    lan.put("a", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.run(3 * lan.settings.exchange_interval)
    assert [parts(packet) for packet in lan.packets("a", "b")] == ["s"] * 3
    assert lan.packets("a", "c") == []
    lan.cut()
    lan.run(lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"1"] * 3


def test_a_sign_of_life_begins_the_exchange_but_not_in_a_storm(lan):
    lan.lose = lambda source, target, packet: target == "b"
    lan.put("a", "k", b"1")
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    for _ in range(5):
        lan.act("a", LanNode.heard, "b")
    assert lan.packets("a", "b") == []
    lan.run(lan.settings.packet_timeout)
    for _ in range(5):
        lan.act("a", LanNode.heard, "b")
        lan.act("a", LanNode.failed, "b", lan.packets("a", "b")[-1].number)
    assert [parts(packet) for packet in lan.packets("a", "b")] == ["se"]


def test_an_acknowledgement_of_the_life_before_acknowledges_nothing(lan):
    lan.lose = lambda source, target, packet: target == "b"
    lan.put("a", "k", b"1")
    old = lan.packets("a", "b")[-1].number
    lan.stop("a")
    lan.start("a")
    lan.act("a", LanNode.acked, "b", old)
    lan.run(lan.settings.packet_timeout)
    assert lan.status("a")["lapsed"] == ["b"]
    assert old not in [packet.number for packet in lan.packets("a", "b")[1:]]


def test_a_late_acknowledgement_is_a_sign_of_life(lan):
    lan.lose = lambda source, target, packet: target == "b"
    lan.put("a", "k", b"1")
    number = lan.packets("a", "b")[0].number
    lan.run(2 * lan.settings.packet_timeout)
    lan.act("a", LanNode.acked, "b", number)
    assert lan.status("a")["lapsed"] == []


def test_packets_are_bounded_in_number_and_bytes_of_entries(make_lan):
    lan = make_lan("a", "b", entries_max=7, entries_bytes_max=3_000)
    lan.delay = 10
    for number in range(60):
        lan.put("a", f"k{number}", bytes(1 + 37 * number % 900))
    lan.put("a", "large", bytes(5_000))
    lan.run(10_000)
    assert lan.is_equal()
    for _, _, packet in lan.sent:
        sizes = list(map(entry_bytes, packet.entries))
        assert len(sizes) <= 7
        assert len(sizes) == 1 or sum(sizes) <= 3_000
    assert max(len(packet.entries) for _, _, packet in lan.sent) == 7


def test_versions_and_wants_are_bounded_too_but_a_bucket_goes_whole(make_lan):
    lan = make_lan("a", "b", entries_bytes_max=2_000)
    lan.stop("b")
    for number in range(800):
        lan.put("a", f"k{number}", b"")
    lan.start("b")
    lan.run(1_000_000)
    assert lan.is_equal()
    described = [packet for packet in lan.packets("a", "b") if packet.described]
    assert len(described) > 10
    for packet in described:
        size = sum(len(key) + 36 for key, _, _ in packet.versions)
        assert size <= 2_000 or len(packet.described) == 1
    assert max(sum(map(len, packet.want)) for packet in lan.packets("b", "a")) <= 2_000


def test_memory_per_peer_is_bounded_and_the_digests_find_the_rest(make_lan):
    lan = make_lan("a", "b", "c", kept_max=5, entries_max=3)
    lan.cut("b")
    for number in range(60):
        lan.put("a", f"k{number}", b"")
    assert lan.status("a")["unsent"]["b"] <= 5
    lan.run(3 * lan.settings.packet_timeout)
    assert lan.status("a")["unsent"]["b"] <= 10
    lan.cut()
    lan.run(lan.settings.exchange_interval)
    assert lan.is_equal()


def test_a_thousand_packets_at_a_node_whose_own_hang_leave_nothing_behind(lan):
    """What comes is merged at once: there is no queue to fill."""
    lan.lose = lambda source, target, packet: source == "c"
    for number in range(1_000):
        lan.put("a", "k", b"%d" % number)
        lan.deliver()
    assert len(lan.packets("c")) == 1
    assert sum(lan.status("c")["unsent"].values()) <= 1
    assert lan.get("c", "k") == b"999"


def test_who_tells_something_older_is_answered(lan):
    lan.cut("b")
    lan.put("b", "k", b"older")
    lan.now += 10
    lan.put("a", "k", b"newer")
    lan.deliver()
    older = lan.packets("b", "a")[0]
    lan.cut()
    lan.forget()
    lan.run(lan.settings.packet_timeout)
    lan.hand("b", "a", replace(older, number=1))
    assert [entry.value for packet in lan.packets("a", "b") for entry in packet.entries] == [b"newer"]


def test_the_same_packet_twice_changes_nothing_the_second_time(lan):
    lan.put("a", "k", None)
    first = lan.packets("a", "b")[0]
    lan.deliver()
    before = dict(lan.images["b"].entries)
    lan.forget()
    for _ in range(3):
        lan.hand("a", "b", first)
        lan.deliver()
    assert lan.images["b"].entries == before
    assert lan.told["b"] == []


def test_a_stranger_is_answered_and_then_forgotten(lan):
    lan.hand("x", "a", LanPacket(1, True, lan.wall("x"), sums=(1,) * BUCKETS))
    assert [parts(packet) for packet in lan.packets("a", "x")] == ["v"]
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.put("a", "k", b"1")
    lan.run(3 * lan.settings.exchange_interval)
    assert lan.packets("a", "x") == []


def test_a_packet_that_speaks_of_buckets_that_do_not_exist_is_refused(lan):
    for packet in (LanPacket(1, False, 0, sums=(1, 2)), LanPacket(2, False, 0, described=(BUCKETS,))):
        lan.hand("b", "a", packet)
    assert [reject.code for reject in lan.of("a", Reject)] == ["bad-packet", "bad-packet"]
    assert lan.packets("a", "b") == []


@pytest.mark.parametrize("count", [5, 10])
def test_the_last_of_many_nodes_gets_everything(make_lan, count):
    names = [f"n{number}" for number in range(count)]
    lan = make_lan(*names)
    lan.stop(names[-1])
    for name in names[:-1]:
        lan.put(name, f"k {name}", name.encode())
    lan.run(lan.settings.packet_timeout)
    lan.start(names[-1])
    lan.run(lan.settings.packet_timeout)
    assert lan.is_equal()
