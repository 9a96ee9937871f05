"""A station is retired in order: its hosts move, an heir takes its place for those that sleep."""

from __future__ import annotations

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Move, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Adopt, Adopted, AdoptPart


@pytest.fixture
def house(make_net):
    """Two stations; a sleeps at the first with a message had and two waiting, w writes at the second."""
    net = make_net(1, 2)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    w.write(b"had")
    a.ack()
    net.deliver()
    a.cut()
    w.write(b"one", b"two")
    net.run(20 * SECOND)
    return net, a, w


def test_attached_hosts_are_sent_away_and_lose_nothing(make_net):
    net = make_net(1, 2)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    net.tick(1, lambda core: core.retire(2))
    assert a.words(Move)
    a.arrive(2)
    w.write(b"x")
    assert a.got == [b"x"]


def test_nothing_is_handed_over_before_the_driver_has_nothing_in_the_way(house):
    """Station mail that would be lost; and it goes on at once when that is settled."""
    net, _, _ = house
    net.tick(1, lambda core: core.heir.set_elsewhere(("a mail waits",)), lambda core: core.retire(2))
    net.run(30 * SECOND)
    assert net.told(fx.HandedOver) == [] and not net.cores[1].ledger.view.handing
    assert net.cores[1].heir.obstacles() == ["a mail waits"]
    net.tick(1, lambda core: core.heir.set_elsewhere(()))
    assert net.cores[1].ledger.view.handing
    net.run(10 * SECOND)
    assert [(slot, effect.heir) for slot, effect in net.told(fx.HandedOver)] == [(1, 2)]


def test_a_host_that_slept_finds_what_waits_for_it_at_the_heir(house):
    net, a, w = house
    net.hand_over(1, 2)
    net.end(1, 2)
    assert [slot for slot, _ in net.told(fx.Halt)] == [1]
    w.write(b"three")
    a.attach(2)
    net.deliver()
    assert a.got == [b"had", b"one", b"two", b"three"]
    a.ack()
    net.run(60 * SECOND)
    assert net.disks[2].rows == {}
    assert [record.state for record in net.records(2, a)] == ["open"]


def test_a_claim_of_a_position_at_the_retired_station_is_understood(make_net):
    net = make_net(1, 2)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    w.write(b"one", b"two", b"three")
    a.c = a.in_hand  # had and acknowledged by the application; the station has not heard of it
    a.cut()
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    a.attach(2)
    net.deliver()
    assert a.got == [b"one", b"two", b"three"]


def test_what_a_host_sends_after_follows_what_it_had_before(house):
    net, a, w = house
    net.hand_over(1, 2)
    net.end(1, 2)
    a.arrive(2)
    a.write(b"reply")
    assert w.got[-1] == b"reply"
    assert net.records(2, a)[0].sdep[2] >= 3


def test_a_spool_goes_in_parts_that_may_be_lost_and_doubled(make_net):
    net = make_net(1, 2, spool_part_bytes=30)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    a.cut()
    w.write(*(b"%d" % n for n in range(30)))
    net.run(20 * SECOND)
    net.lose = lambda source, target, frame: isinstance(frame, AdoptPart | Adopted) and len(net.sent) % 3 == 0
    net.tick(1, lambda core: core.retire(2))
    net.run(60 * SECOND)
    for frame in net.frames(Adopt, AdoptPart):
        net.hand(1, 2, frame)
    net.lose = lambda *flight: False
    net.run(10 * SECOND)
    net.end(1, 2)
    a.attach(2)
    net.deliver()
    assert a.got == [b"%d" % n for n in range(30)]


@pytest.mark.parametrize("dies", [1, 2])
@pytest.mark.parametrize("after", range(12))
def test_a_crash_anywhere_on_either_side_loses_nothing(house, dies, after):
    net, a, w = house
    net.doom[dies] = after
    net.tick(1, lambda core: core.retire(2))
    net.run(5 * SECOND)
    net.doom.clear()
    if dies not in net.cores:
        net.start(dies)
    net.tick(1, lambda core: core.retire(2))
    net.run(20 * SECOND)
    net.end(1, 2)
    w.arrive(2)
    w.write(b"three")
    a.attach(2)
    net.deliver()
    assert a.got == [b"had", b"one", b"two", b"three"]


def test_while_it_hands_over_nothing_is_dropped_that_the_heir_lacks(house):
    net, _, w = house
    net.lose = lambda source, target, frame: isinstance(frame, Adopted)
    net.tick(1, lambda core: core.retire(2))
    net.run(10 * SECOND)
    assert net.view(1).handing
    w.write(b"meanwhile")
    net.run(60 * SECOND)
    assert net.disks[2].rows


def test_the_heir_is_another_one_if_the_first_has_ended(make_net):
    net = make_net(1, 2, 3)
    a, w = net.enrol("a"), net.enrol("w", home=3)
    a.arrive(1)
    w.arrive(3)
    a.cut()
    w.write(b"x")
    net.run(20 * SECOND)
    net.lose = lambda source, target, frame: isinstance(frame, Adopted)
    net.tick(1, lambda core: core.retire(2))
    net.run(5 * SECOND)
    net.lose = lambda *flight: False
    net.lose_station(2)
    net.tick(1, lambda core: core.retire(3))
    net.run(10 * SECOND)
    net.end(1, 3)
    a.attach(3)
    net.deliver()
    assert a.got == [b"x"]


def test_who_waits_for_a_station_that_ends_is_served_by_its_heir(house):
    net, a, _ = house
    net.tick(1, lambda core: core.retire(2))
    net.run(10 * SECOND)
    a.hello(2)
    net.deliver()
    assert a.words(Welcome) == []
    assert isinstance(a.heard, list)
    net.end(1, 2)
    assert a.words(Welcome) or a.words(Wait)
    net.deliver()
    assert a.got == [b"had", b"one", b"two"]
