"""The local history: what held here, and which concurrent writes lost to which."""

from __future__ import annotations

from roamcast.middleware.lan_update.records import HISTORY_MAX


def lines(lan, name: str, key: str = "k") -> list[tuple[bytes | None, bytes | None]]:
    """(value, value of the entry it lost to) by version."""
    history = lan.images[name].history.get(key, {})
    values = {version: line.entry.value for version, line in history.items()}
    return [(history[version].entry.value, values.get(history[version].lost_to)) for version in sorted(history)]


def test_an_overwrite_by_one_who_had_seen_it_loses_nothing(lan):
    lan.put("a", "k", b"1")
    lan.deliver()
    lan.put("b", "k", b"2")
    lan.deliver()
    assert [lines(lan, name) for name in "abc"] == [[(b"1", None), (b"2", None)]] * 3


def test_the_older_of_two_concurrent_writes_is_kept_with_what_it_lost_to_everywhere(lan):
    lan.cut("b")
    lan.put("a", "k", b"loser")
    lan.now += 5
    lan.put("b", "k", b"winner")
    lan.deliver()
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"winner"] * 3
    assert [lines(lan, name) for name in "abc"] == [[(b"loser", b"winner"), (b"winner", None)]] * 3


def test_when_it_came_is_kept_when_it_loses(lan):
    lan.cut("b")
    version = lan.put("a", "k", b"loser")
    came = lan.wall("a")
    lan.deliver()
    lan.now += 5_000_000
    lan.put("b", "k", b"winner")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.images["a"].history["k"][version].wall == came
    assert lan.images["b"].history["k"][version].wall > came


def test_own_updates_are_no_losers_when_they_are_made(lan):
    lan.put("a", "k", b"1")
    lan.put("a", "k", b"2")
    assert lines(lan, "a") == [(b"1", None), (b"2", None)]


def test_a_deletion_can_lose_too(lan):
    lan.put("a", "k", b"0")
    lan.deliver()
    lan.cut("b")
    lan.now += 5
    lan.put("a", "k", None)
    lan.now += 5
    lan.put("b", "k", b"kept")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    assert lan.all_get("k") == [b"kept"] * 3
    assert lines(lan, "c")[1:] == [(None, b"kept"), (b"kept", None)]


def test_what_was_overwritten_knowingly_elsewhere_is_not_noted_when_it_comes_late(lan):
    lan.put("a", "k", b"1")
    first = lan.packets("a", "c")[0]
    lan.lose = lambda source, target, packet: target == "c"
    lan.deliver()
    lan.wire.clear()
    lan.put("a", "k", b"2")
    lan.cut()
    lan.run(2 * lan.settings.exchange_interval)
    before = lines(lan, "c")
    lan.hand("a", "c", first)
    assert lines(lan, "c") == before


def test_the_history_of_a_key_is_bounded(lan):
    for number in range(HISTORY_MAX + 20):
        lan.put("a", "k", b"%d" % number)
    lan.deliver()
    assert len(lan.images["a"].history["k"]) == HISTORY_MAX
    assert lines(lan, "a")[-1] == (b"%d" % (HISTORY_MAX + 19), None)


def test_a_node_does_not_hold_in_memory_what_is_there_for_people_alone(lan):
    """The versions that the author of the present one had seen; all of them are durable."""
    for i in range(9):
        lan.put("a", "k", b"%d" % i)
        lan.deliver()
    assert [len(lan.images[name].history["k"]) for name in lan.up] == [9, 9, 9]
    assert [len(node._replica.image.history["k"]) for node in lan.up.values()] == [1, 1, 1]
