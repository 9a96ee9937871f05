"""What is not signed by its author is dropped, counted, reported, and never passed on."""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.effects import Reject
from roamcast.middleware.lan_update.records import Entry, LanPacket, Version
from roamcast.middleware.simulator.lan.keys_node import membership, membership_key, sign_as


def signed(author: str, key: str, value: bytes | None, time: int = 1 << 60, by: str = "") -> Entry:
    entry = Entry(key, Version(time, 0, author, 7), value)
    return replace(entry, signature=sign_as(by or author)(entry))


def packet(*entries: Entry, number: int = 1) -> LanPacket:
    return LanPacket(number, False, 1_800_001_000 * 1_000_000, entries=entries)


def test_a_forged_entry_is_dropped_counted_told_and_never_passed_on(lan):
    forged = signed("b", "k", b"1", by="c")
    tampered = replace(signed("b", "j", b"1"), value=b"2")
    lan.hand("b", "a", packet(forged, tampered, signed("b", "i", b"good")))
    lan.deliver()
    assert lan.all_get("k") == lan.all_get("j") == [None] * 3
    assert lan.all_get("i") == [b"good"] * 3
    assert lan.status("a")["dropped"] == {"bad-signature": 2}
    assert [(reject.source, reject.code) for reject in lan.of("a", Reject)] == [("b", "bad-signature")]
    assert lan.events("a") == ["lan-entries-refused"]
    sent = [entry.key for _, _, each in lan.sent for entry in each.entries]
    assert "k" not in sent and "j" not in sent


def test_a_forged_entry_hides_nothing_and_is_no_loser(lan):
    lan.put("a", "k", b"1")
    lan.deliver()
    lan.hand("b", "a", packet(signed("c", "k", b"0", time=1, by="b")))
    assert len(lan.images["a"].history["k"]) == 1


def test_authors_of_a_packet_are_known_before_what_they_wrote(lan):
    """In whatever order: x came by way of y, who came by way of a member."""
    y = signed("a", membership_key("y"), membership("y"))
    x = signed("y", membership_key("x"), membership("x"))
    lan.hand("b", "a", packet(signed("x", "k", b"1"), x, y))
    assert lan.get("a", "k") == b"1"
    assert lan.status("a")["dropped"] == {}


def test_a_newcomer_may_sign_its_own_membership_entry(lan):
    lan.hand("b", "a", packet(signed("x", membership_key("x"), membership("x"))))
    assert "x" in lan.up["a"].peers()


def test_an_entry_of_an_unknown_author_is_asked_for_again_once_the_author_is_known(lan):
    lan.cut("c")
    entry = signed("x", "k", b"1")
    author = signed("x", membership_key("x"), membership("x"))
    lan.images["b"].entries |= {"k": entry, author.key: author}
    lan.stop("b")
    lan.start("b")
    lan.wire.clear()
    lan.run(lan.settings.packet_timeout)
    lan.forget()
    lan.hand("b", "a", packet(entry))
    assert lan.status("a")["dropped"] == {"unknown-author": 1}
    assert lan.get("a", "k") is None
    lan.hand("b", "a", packet(author, number=2))
    lan.deliver()
    assert lan.get("a", "k") == b"1"


def test_an_entry_of_an_unknown_author_is_asked_for_again_at_the_next_interval(lan):
    lan.hand("b", "a", packet(signed("x", "k", b"1")))
    lan.forget()
    lan.run(lan.settings.exchange_interval)
    assert len([each for each in lan.packets("a", "b") if each.sums]) == 1
    lan.forget()
    lan.run(lan.settings.exchange_interval)
    assert lan.packets("a", "b") == []


def test_a_replayed_old_entry_is_ignored_and_answered(lan):
    lan.put("a", "k", b"1")
    old = lan.packets("a", "b")[0]
    lan.deliver()
    lan.now += 5
    lan.put("b", "k", b"2")
    lan.deliver()
    lan.forget()
    lan.hand("c", "a", old)
    assert lan.get("a", "k") == b"2"
    assert [entry.value for each in lan.packets("a", "c") for entry in each.entries] == [b"2"]
    assert len(lan.images["a"].history["k"]) == 2


def test_an_entry_that_cannot_be_is_refused(make_lan):
    lan = make_lan("a", "b", value_bytes_max=50, key_bytes_max=5)
    large = signed("b", "k", bytes(51))
    held = replace(signed("b", "j", b"1"), holders=frozenset({"b"}))
    long_key = signed("b", "kékék", b"1")
    lan.hand("b", "a", packet(large, held, long_key))
    assert lan.status("a")["dropped"] == {"bad-entry": 3}
    assert list(lan.images["a"].entries) == ["m/a", "m/b"]


def test_what_an_author_made_before_its_removal_stays_good_by_way_of_others(lan):
    lan.put("c", "k", b"1")
    entry = lan.packets("c", "b")[0].entries[0]
    lan.wire.clear()
    lan.stop("c")
    lan.put("a", "m/c", membership("c", b"removed"))
    lan.deliver()
    lan.hand("b", "a", packet(entry))
    assert lan.get("a", "k") == b"1"
