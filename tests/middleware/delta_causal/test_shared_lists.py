"""One list for all destinations that share it, against a list for each: the same tags, the same deliveries.

`Plain` is delta-causal.md B.b as written, a dictionary for each destination. It shares no code with the core.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from random import Random

import pytest

from roamcast.middleware.delta_causal.messages import Deliver, LiveMessage

DELTA, N, ALL = 40, 5, -1
"""ALL: the list of whoever was never addressed alone."""


@dataclass
class Listing:
    newest: dict[int, int]
    horizon: int

    def entries(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((stamp, sender) for sender, stamp in self.newest.items()))

    def cut(self, limit: int | None) -> None:
        entries = self.entries()
        gone = entries[: max(0, len(entries) - limit)] if limit is not None else ()
        self.horizon = max([self.horizon, *(stamp for stamp, _ in gone)])
        self.newest = {sender: stamp for sender, stamp in self.newest.items() if stamp > self.horizon}


class Plain:
    """One station with a list for each destination. strict: nobody's own messages stand in the list for it."""

    def __init__(self, me: int, limit: int | None, strict: bool) -> None:
        self.me, self.limit, self.strict = me, limit, strict
        self.last = 0
        self.lists = {k: Listing({}, 0) for k in (ALL, *range(N))}
        self.done: set[tuple[int, int]] = set()
        self.wait: list[tuple[int, int, frozenset[int], dict[int, Listing]]] = []

    def addressed(self, to: Iterable[int] | None, src: int) -> frozenset[int]:
        if to is not None:
            return frozenset(to)
        return frozenset(range(N)) - {src} if self.strict else frozenset((ALL, *range(N)))

    def send(self, to: list[int] | None, clock: int) -> tuple[int, int, frozenset[int], dict[int, Listing]]:
        self.last = max(clock, self.last + 1)
        self.expire(self.last)
        goes_to = self.addressed(to, self.me)
        message = (self.last, self.me, goes_to, deepcopy(self.lists))
        for k in goes_to:
            self.lists[k] = Listing({self.me: self.last}, 0)
            self.lists[k].cut(self.limit)
        self.mine()
        return message

    def expire(self, at: int) -> None:
        for listing in self.lists.values():
            listing.newest = {sender: stamp for sender, stamp in listing.newest.items() if stamp + DELTA >= at}
            if listing.horizon + DELTA < at:
                listing.horizon = 0

    def mine(self) -> None:
        self.lists[self.me] = Listing({}, 0) if self.strict else deepcopy(self.lists[ALL])

    def poll(self, clock: int) -> list[tuple[int, int]]:
        found = []
        for message in sorted(self.wait, key=lambda message: message[:2]):
            stamp, src, goes_to, tag = message
            settled = all(
                entry in self.done or entry[1] == self.me or clock > entry[0] + DELTA
                for entry in tag[self.me].entries()
            )
            if settled and (not tag[self.me].horizon or clock > tag[self.me].horizon + DELTA):
                self.wait.remove(message)
                self.done.add((stamp, src))
                self.last = max(self.last, stamp)
                for k in self.lists.keys() - {self.me}:
                    self.merge(k, tag[k], (stamp, src) if k in goes_to else None)
                self.expire(max(clock, self.last))
                self.mine()
                found.append((stamp, src))
        return found

    def merge(self, k: int, its: Listing, message: tuple[int, int] | None) -> None:
        mine = self.lists[k]
        if message:  # it stands for what it waits for at k
            mine.newest = {x: s for x, s in mine.newest.items() if s > max(its.newest.get(x, 0), its.horizon)}
            mine.horizon = mine.horizon if mine.horizon > its.horizon else 0
            its = Listing({message[1]: message[0]}, 0)
        for sender, stamp in its.newest.items():
            mine.newest[sender] = max(stamp, mine.newest.get(sender, 0))
        mine.horizon = max(mine.horizon, its.horizon)
        mine.cut(self.limit)


def traffic(seed: int, broadcasts: float) -> list[tuple[int, int, int, list[int] | None, dict[int, int]]]:
    """(time, number, sender, destinations, delay to each that it reaches), from one seed."""
    rng = Random(f"shared {seed}")
    sends = []
    for number in range(40):
        sender = rng.randrange(N)
        others = [k for k in range(N) if k != sender]
        to = None if rng.random() < broadcasts else sorted(rng.sample(others, rng.randint(1, 3)))
        delays = {k: rng.choice((1, 3, 10, 30, 60)) for k in (others if to is None else to) if rng.random() < 0.9}
        sends.append((1_000 + rng.randrange(300), number, sender, to, delays))
    return sorted(sends)


def lockstep(group, seed: int, broadcasts: float, limit: int | None, strict: bool) -> tuple[int, int]:
    """Both kinds of stations hear the same at the same time. Returns deliveries, and broadcasts with several lists."""
    net = group(N, delta=DELTA, skew=400, entries_max=limit)
    plains = [Plain(k, limit, strict) for k in range(N)]
    sends = traffic(seed, broadcasts)
    sequence = len(sends)
    events = [(time, number, "send", sender, (to, delays)) for time, number, sender, to, delays in sends]
    heapq.heapify(events)
    deliveries = split = 0
    while events:
        now, _, kind, k, what = heapq.heappop(events)
        if kind == "send":
            to, delays = what
            message, plain = net.up[k].send(to, b"", now), plains[k].send(to, now)
            split += to is None and bool(message.past.each)
            assert message.stamp == plain[0]
            if not strict:
                tag = {slot: (message.past.of(slot).entries, message.past.of(slot).horizon) for slot in range(N)}
                assert tag == {slot: (plain[3][slot].entries(), plain[3][slot].horizon) for slot in range(N)}, seed
            for slot, delay in delays.items():
                sequence += 1
                heapq.heappush(events, (now + delay, sequence, "come", slot, (message, plain)))
            continue
        effects = []
        if kind == "come":
            message, plain = what
            assert isinstance(message, LiveMessage)
            effects = net.up[k].receive(message.src, message, now)
            if now <= message.stamp + DELTA:
                plains[k].wait.append(plain)
        else:
            effects = net.up[k].expire(now)
        delivered = [effect.message.id for effect in effects if isinstance(effect, Deliver)]
        assert sorted(delivered) == sorted(plains[k].poll(now)), f"seed {seed} at {now}"
        deliveries += len(delivered)
        if (due := net.up[k].next_deadline()) is not None:
            sequence += 1
            heapq.heappush(events, (due, sequence, "timer", k, None))
    assert not any(plain.wait for plain in plains)
    return deliveries, split


@pytest.mark.parametrize("limit", [0, 1, 2, 4, None])
def test_tags_and_deliveries_are_those_of_a_list_for_each_destination(group, limit):
    totals = [lockstep(group, seed, 0.5, limit, False) for seed in range(16)]
    assert sum(count for count, _ in totals) > 500 and sum(split for _, split in totals) > 60


def test_that_own_messages_stand_in_the_shared_list_delays_nothing(group):
    """Against lists as strict as B.b wants them, at every mixture of broadcasts and messages to some."""
    for seed in range(40):
        lockstep(group, seed, (0.0, 0.3, 0.7, 1.0)[seed % 4], None, True)


def test_a_broadcast_among_broadcasts_carries_one_list(group):
    for seed in range(10):
        assert lockstep(group, seed, 1.0, 4, False)[1] == 0
