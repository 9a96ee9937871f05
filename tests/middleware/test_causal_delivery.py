"""Causal delivery at a station: order, waiting, stamps, recovery (paper 000; hot-path.md rule 18)."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from roamcast.middleware.causal_delivery import CausalDelivery
from roamcast.middleware.membership.view import Ending, View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.simulator.disk import copy_state
from roamcast.middleware.writes import DurableState, PlaceRow, PutRow

MEMBERS = (1, 2, 3, 4)
ALL = 1 << 60
"""Every own row may be delivered: enough stations have it."""


class Station:
    """Table and causal delivery of one station, with what it would have stored."""

    def __init__(self, own: int, mutants: frozenset[str] = frozenset()) -> None:
        self.own = own
        self.mutants = mutants
        self.image = DurableState()
        self.order: list[tuple[int, int]] = []
        self.start()

    def start(self) -> None:
        self.table = MessageTable(MEMBERS, copy_state(self.image))
        self.causal = CausalDelivery(self.own, View(MEMBERS), self.table, [], self.mutants)

    def send(self, kind: Kind = Kind.BROADCAST) -> Row:
        """A new own row, delivered here at once."""
        stamp = self.causal.stamp()
        row = Row(self.own, self.causal.sent[self.own], stamp, 0, kind, 1, 1, 1, (0, 0), 0, b"x", 1, None)
        self.accept(row)
        self.deliver(self.own)
        return self.copy(row)

    @staticmethod
    def copy(row: Row) -> Row:
        return Row(
            row.slot, row.n, row.stamp, row.hlc, row.kind, 1, 1, 1, (0, 0), row.addressee, row.item, row.size, None
        )

    def accept(self, row: Row) -> None:
        """The row is stored; nothing is delivered yet."""
        self.table.append(row)
        self.image.apply((PutRow(self.copy(row)),))

    def receive(self, row: Row) -> None:
        self.accept(self.copy(row))
        self.deliver(row.slot)

    def deliver(self, slot: int) -> None:
        for row in self.causal.deliver(slot, ALL):
            self.order.append(row.id)
            self.image.apply((PlaceRow(row.slot, row.n, row.position or 0, 0),))


@pytest.fixture
def abc() -> list[Row]:
    """BL-16: b depends on a, c depends on a and b; three senders."""
    one, two, three = Station(1), Station(2), Station(3)
    a = one.send()
    two.receive(a)
    b = two.send()
    three.receive(a)
    three.receive(b)
    return [a, b, three.send()]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_all_six_orders_give_one(abc, order):
    receiver = Station(4)
    for i in order:
        receiver.receive(abc[i])
        done = set(receiver.order)
        assert (abc[1].id not in done or abc[0].id in done) and (abc[2].id not in done or abc[1].id in done)
    assert receiver.order == [abc[0].id, abc[1].id, abc[2].id]
    assert not receiver.causal.blocked()


def test_a_blocked_head_waits_for_exactly_one(abc):
    """c waits for a; when a has come, for b; nothing else is looked at."""
    receiver = Station(4)
    receiver.receive(abc[2])
    assert receiver.causal.blocked() == {3: (1, 1)}
    receiver.receive(abc[0])
    assert receiver.causal.blocked() == {3: (2, 1)}
    receiver.receive(abc[1])
    assert receiver.causal.blocked() == {}


def test_what_a_delivery_enables_is_delivered_at_once(abc):
    """A5: the fixpoint. A chain that waits for its first link comes whole, and the queue behind each head with it."""
    receiver = Station(4)
    late = Station(3)
    for row in abc[:2]:
        late.receive(row)
    c, d = late.send(), late.send()
    for row in (c, d, abc[1]):
        receiver.receive(row)
    assert receiver.order == []
    receiver.receive(abc[0])
    assert receiver.order == [(1, 1), (2, 1), (3, 1), (3, 2)]


def test_concurrent_messages_do_not_wait():
    one, two, receiver = Station(1), Station(2), Station(4)
    first, other = one.send(), two.send()
    receiver.receive(other)
    receiver.receive(first)
    assert receiver.order == [(2, 1), (1, 1)]


def test_only_changed_entries_are_stamped(abc):
    """The entries left out hold already: the row before was delivered first."""
    two = Station(2)
    two.receive(abc[0])
    assert two.send().stamp == ((1, 1),)
    assert two.send().stamp == ()


def test_the_first_row_of_a_life_carries_all_entries(abc):
    two = Station(2)
    two.receive(abc[0])
    assert two.send().stamp == ((1, 1),)
    two.start()
    assert two.send().stamp == ((1, 1),)


def test_a_start_delivers_what_the_last_life_only_accepted(abc):
    """B17 and I10: accepted rows wait across a crash and come in the same order."""
    receiver = Station(4)
    receiver.accept(receiver.copy(abc[2]))
    receiver.accept(receiver.copy(abc[1]))
    receiver.start()
    assert [row for slot in range(receiver.table.width) for row in receiver.causal.deliver(slot, ALL)] == []
    receiver.receive(abc[0])
    assert receiver.order == [(1, 1), (2, 1), (3, 1)]


def test_delivered_rows_keep_their_order_over_a_start(abc):
    receiver = Station(4)
    for row in abc:
        receiver.receive(row)
    receiver.start()
    assert [receiver.table.row_at(p).id for p in (1, 2, 3)] == receiver.order
    assert [row for slot in range(receiver.table.width) for row in receiver.causal.deliver(slot, ALL)] == []


def test_a_host_brings_its_past(abc):
    """B7: what is sent here after a host came from elsewhere follows what that host has sent and seen."""
    new, receiver = Station(4), Station(1)
    new.causal.depend((0, 0, 1))
    mail = new.send()
    assert mail.stamp == ((2, 1),)
    assert new.order == [], "the station itself waits too"
    receiver.accept(receiver.copy(abc[0]))
    receiver.receive(mail)
    assert (4, 1) not in receiver.order


def test_sent_holds_the_stamps_of_own_rows_after_a_start():
    """own_stamps: an own row still waits here for what its host had seen; the next one must follow that, too."""
    for mutants, stamp in ((frozenset(), ((2, 5),)), (frozenset({"own_stamps"}), ())):
        station = Station(1, mutants)
        station.causal.depend((0, 0, 5))
        station.send()
        assert station.order == []
        station.start()
        assert station.send().stamp == stamp


def test_mail_apart_breaks_one_order():
    """one-order.md 7, scenario 1: mail that does not wait overtakes the broadcast that it follows."""
    for mutants, order in ((frozenset(), [(1, 1), (2, 1)]), (frozenset({"mail_apart"}), [(2, 1), (1, 1)])):
        one, two, receiver = Station(1), Station(2), Station(4, mutants)
        broadcast = one.send()
        two.receive(broadcast)
        mail = two.send(Kind.MAIL)
        receiver.receive(mail)
        receiver.receive(broadcast)
        assert receiver.order == order


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_are_linear_extensions(seed):
    """Four stations, random delays; happens-before is rebuilt from who had delivered what when it sent."""
    rng = Random(seed)
    stations = {slot: Station(slot) for slot in MEMBERS}
    queues: dict[tuple[int, int], list[Row]] = {(i, j): [] for i in MEMBERS for j in MEMBERS if i != j}
    past: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for _ in range(200):
        if rng.random() < 0.3:
            slot = rng.choice(MEMBERS)
            before = set(stations[slot].order)
            row = stations[slot].send()
            past[row.id] = before
            for other in MEMBERS:
                if other != slot:
                    queues[slot, other].append(row)
        else:
            i, j = rng.choice(list(queues))
            if queues[i, j]:
                stations[j].receive(queues[i, j].pop(0))
    for (_, j), queue in queues.items():
        for row in queue:
            stations[j].receive(row)
    for station in stations.values():
        seen: set[tuple[int, int]] = set()
        for message in station.order:
            assert past[message] <= seen, f"seed {seed}: {message} too early at {station.own}"
            seen.add(message)
        assert len(seen) == len(past)
        assert not station.causal.blocked()


def test_a_head_that_waits_for_an_ended_stream_goes_on_at_its_cut():
    one, two, receiver = Station(1), Station(2), Station(4)
    rows = [one.send() for _ in range(3)]
    for row in rows:
        two.receive(row)
    receiver.causal.follow(View(MEMBERS, closed={1: (0, ())}, final={1: Ending(0, 2, ())}))
    late = two.send()
    receiver.receive(late)
    assert receiver.causal.blocked() == {2: (1, 2)}
    for row in rows[:2]:
        receiver.receive(row)
    assert receiver.order[-1] == late.id
