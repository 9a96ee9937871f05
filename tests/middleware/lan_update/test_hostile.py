"""Packets of a peer that says anything at all: nothing raises, nothing unsigned is taken, memory stays bounded."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import BUCKETS, Entry, LanPacket, Version

NAMES = ("a", "b", "c", "x", "")
KEYS = ("k", "j", "m/a", "m/b", "m/x", "m/", "", "k" * 300)


def version(rng: Random) -> Version:
    time = rng.choice((0, 1, 1_800_001_000_000_000, (1 << 63) - 1))
    return Version(time, rng.choice((0, (1 << 63) - 1)), rng.choice(NAMES), rng.getrandbits(64))


def holders(rng: Random) -> frozenset[str]:
    return frozenset(rng.sample(NAMES, rng.randrange(len(NAMES))))


def entry(rng: Random, known: list[Entry]) -> Entry:
    """Made up, or a true one, perhaps with holders that are made up."""
    if known and rng.random() < 0.3:
        one = rng.choice(known)
        return Entry(one.key, one.version, one.value, one.after, one.signature, holders(rng))
    value = rng.choice((None, b"", b"active key of x", b"removed", bytes(20_000)))
    after = rng.choice((None, version(rng)))
    return Entry(rng.choice(KEYS), version(rng), value, after, rng.choice((b"", bytes(64))), holders(rng))


def packet(rng: Random, known: list[Entry]) -> LanPacket:
    described = tuple(rng.sample(range(-1, BUCKETS + 1), rng.randrange(5)))
    return LanPacket(
        number=rng.getrandbits(63),
        stale=rng.random() < 0.5,
        wall=rng.choice((0, (1 << 63) - 1, 1_800_001_000_000_000)),
        sums=tuple(rng.getrandbits(64) for _ in range(rng.choice((0, 0, 1, BUCKETS)))),
        described=described,
        versions=tuple((rng.choice(KEYS), version(rng), holders(rng)) for _ in range(rng.randrange(6))),
        want=tuple(rng.choice(KEYS) for _ in range(rng.randrange(4))),
        entries=tuple(entry(rng, known) for _ in range(rng.randrange(4))),
    )


@pytest.mark.parametrize("seed", range(12))
def test_any_packets_at_all(make_lan: Any, seed: int) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    lan = make_lan("a", "b", "c", kept_max=20)
    lan.put("a", "k", b"1")
    lan.put("b", "j", None)
    lan.deliver()
    known = list(lan.images["a"].entries.values())
    true = {(one.key, one.version): one.value for one in known}
    lan.lose = lambda source, target, packet: True
    for _ in range(300):
        lan.hand(rng.choice(("b", "c", "x", "y")), "a", packet(rng, known))
        if rng.random() < 0.1:
            lan.run(rng.choice((1, lan.settings.packet_timeout, lan.settings.exchange_interval)))
    for one in lan.images["a"].entries.values():
        assert true[one.key, one.version] == one.value
    status = lan.status("a")
    assert all(count <= 2 * (20 + len(KEYS)) for count in status["unsent"].values())
    assert status["dropped"].keys() <= {"bad-entry", "bad-signature", "unknown-author"}
