"""The bucket sums: kept up with every change at the cost of one hash, and equal exactly where the stores are."""

from __future__ import annotations

from random import Random

import pytest

from roamcast.middleware.lan_update import digest
from roamcast.middleware.lan_update.digest import Digest, bucket_of, entry_hash
from roamcast.middleware.lan_update.records import BUCKETS, Entry, Version


def entry(key: str, time: int = 1, *holders: str, node: str = "a", boot: int = 0) -> Entry:
    return Entry(key, Version(time, 0, node, boot), None if holders else b"", holders=frozenset(holders))


def recomputed(entries: list[Entry]) -> list[int]:
    sums = [0] * BUCKETS
    for one in entries:
        sums[bucket_of(one.key)] = (sums[bucket_of(one.key)] + entry_hash(one)) % (1 << 64)
    return sums


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_those_of_all_entries_after_any_changes(seed):
    print(f"seed {seed}")
    rng = Random(seed)
    made, held = Digest(), {}
    for time in range(1, 400):
        key = f"k{rng.randrange(60)}"
        if key in held and rng.random() < 0.3:
            made.drop(key)
            del held[key]
        else:
            held[key] = entry(key, time, *rng.sample(("a", "b", "c"), rng.randrange(3)))
            made.put(held[key])
    assert made.sums == recomputed(list(held.values()))
    assert sorted(key for bucket in made.keys for key in bucket) == sorted(held)
    assert all(bucket_of(key) == number for number, bucket in enumerate(made.keys) for key in bucket)


def test_a_change_costs_one_hash_however_many_keys_there_are(monkeypatch, make_lan):
    lan = make_lan("a", "b")
    for number in range(2_000):
        lan.put("a", f"k{number}", b"")
    lan.deliver()
    hashed = []
    monkeypatch.setattr(digest, "entry_hash", lambda entry: hashed.append(entry.key) or entry_hash(entry))
    lan.put("a", "k7", b"new")
    lan.deliver()
    assert hashed == ["k7", "k7"]


def test_order_does_not_matter():
    entries = [entry(f"k{number}", number) for number in range(50)]
    one, other = Digest(), Digest()
    for each in entries:
        one.put(each)
    for each in reversed(entries):
        other.put(each)
    assert one.sums == other.sums


def test_the_hash_tells_every_part_apart():
    entries = [
        entry("k"), entry("k", 2), entry("k", node="b"), entry("k", boot=1), entry("j"),
        entry("k", 1, "a"), entry("k", 1, "a", "b"), entry("k", 1, "ab"), entry("k", 1, "a,b"), entry("k1", 1),
        entry("", 1, "1:k"), entry("1:k", 1),
    ]  # fmt: skip
    hashes = [entry_hash(one) for one in entries]
    assert len(dict.fromkeys(hashes)) == len(entries)
    assert all(0 <= one < 1 << 64 for one in hashes)


def test_the_hash_is_the_same_on_every_machine():
    """What other stations compute: a change here is a change of the wire."""
    assert bucket_of("hosts/h1") == 135
    assert entry_hash(Entry("k", Version(1, 2, "a", 3), None, holders=frozenset({"b", "a"}))) == 7468479193055529963
