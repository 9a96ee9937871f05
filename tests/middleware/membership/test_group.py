"""How views grow and endings are settled, station by station, without a coordinator (composition.md 6 and 7)."""

from __future__ import annotations

import pytest

from roamcast.middleware import effects as fx
from roamcast.middleware.host_frames import Msg
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, Nack


def finals(net) -> list[dict]:
    """What every station that is up holds for settled."""
    return [dict(net.view(slot).final) for slot in net.cores]


@pytest.mark.parametrize(("mutants", "members"), [((), (1, 2, 3)), (("late_member",), (1, 2))])
def test_whom_one_station_counts_all_count_as_soon_as_they_hear_of_it(make_net, mutants, members):
    net = make_net(1, 2, mutants=mutants)
    net.tick(1, lambda core: core.add_station(3))
    net.run(3 * SECOND)
    assert net.cores[2].ledger.view.members == members


def test_a_view_only_grows(make_net):
    net = make_net(1, 2, 3)
    net.run(2 * SECOND)
    old = next(frame for _, target, frame in net.sent if isinstance(frame, Claims) and target == 2)
    net.tick(1, lambda core: core.add_station(4))
    net.lose_station(3)
    view = net.view(2)
    net.hand(1, 2, old)
    assert net.view(2) == net.cores[2].ledger.view == view


@pytest.mark.parametrize(("mutants", "cuts"), [((), 1), (("no_third_party",), 2)])
def test_the_cut_is_what_any_living_station_has_and_all_fetch_it(three, mutants, cuts):
    net, a, _ = three
    net.mutants = frozenset(mutants)
    for slot in net.slots:
        net.restart(slot)
    a.arrive(1)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1 and target == 2
    a.send(b"x")
    net.deliver()
    net.sent.clear()
    net.lose_station(1)
    assert len({net.view(slot).final[1].cut for slot in (2, 3)}) == cuts
    assert [frame.origin for source, _, frame in net.sent if isinstance(frame, Nack) and source == 2] == [1] * (
        cuts == 1
    )


def test_the_end_waits_for_the_claim_of_a_station_that_is_down(three):
    net, *_ = three
    net.crash(3)
    net.lose_station(1)
    net.run(20 * SECOND)
    assert finals(net) == [{}]
    net.start(3)  # its configuration does not say it yet; CLAIMS do
    net.run(3 * SECOND)
    one, other = finals(net)
    assert one == other
    assert one.keys() == {1}


def test_guards_of_all_that_claim_an_end_are_merged(three):
    net, a, w = three
    net.lose = lambda source, target, frame: isinstance(frame, Claims) and (source, target) == (1, 3)
    w.write(b"x")
    a.ack()
    net.run(12 * SECOND)
    rows = [net.cores[slot].ledger.fifo.reduce.claims[1] for slot in (2, 3)]
    assert rows[0] != rows[1], "the third has not heard what the lost one announced last"
    net.lose = lambda *flight: False
    net.lose_station(1)
    assert net.view(2).closed[1] == net.view(3).closed[1] == (0, tuple(rows[0]))


def test_two_that_end_at_once_are_settled_alike_everywhere(make_net):
    net = make_net(1, 2, 3, 4)
    a, b = net.enrol("a", home=1), net.enrol("b", home=2)
    a.arrive(1)
    b.arrive(2)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source + target != 5
    a.send(b"x")  # reaches the fourth alone
    b.send(b"y")  # reaches the third alone
    net.deliver()
    net.lose = lambda *flight: False
    net.crash(1)
    net.crash(2)
    for slot, other in ((3, 1), (3, 2), (4, 2), (4, 1)):
        net.tick(slot, lambda core, o=other: core.close_station(o, 0))
        net.deliver()
    net.run(5 * SECOND)
    one, other = finals(net)
    assert one == other
    assert [one[slot].cut for slot in (1, 2)] == [net.disks[slot].streams[slot].stored for slot in (1, 2)]


def test_what_the_second_lost_station_alone_had_of_the_first_is_waited_for_by_nobody(make_net):
    net = make_net(1, 2, 3, 4)
    a = net.enrol("a")
    a.arrive(1)
    net.run(2 * SECOND)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and target in (3, 4)
    a.send(b"x")  # reaches the second alone
    net.deliver()
    net.lose_station(1)
    assert net.cores[3].ledger.fifo.known[1] > net.disks[3].streams[1].stored
    assert finals(net) == [{1: net.view(2).final[1]}, {}, {}]
    net.lose_station(2)
    net.run(5 * SECOND)
    one, other = finals(net)
    assert one == other
    assert one[1].cut == net.disks[3].streams[1].stored < net.disks[2].streams[1].stored


def test_nothing_of_a_closed_station_is_taken(three):
    net, a, _ = three
    stored = net.disks[2].streams[1].stored
    net.hold = lambda source, target, frame: source == 1
    a.send(b"late")
    net.tick(2, lambda core: core.close_station(1, 0))
    late = next(frame for source, target, frame in net.held if isinstance(frame, DataBatch) and target == 2)
    net.hand(1, 2, late)
    net.hand(3, 2, late)
    assert net.disks[2].streams[1].stored == stored
    assert "bad-origin" in net.rejected()


@pytest.mark.parametrize("told_by", ["configuration", "claims"])
def test_a_station_that_has_ended_stops(three, told_by):
    net, *_ = three
    if told_by == "configuration":
        net.tick(1, lambda core: core.close_station(1, 2))
    else:
        net.tick(2, lambda core: core.close_station(1, 2))
        net.run(2 * SECOND)
    assert [slot for slot, _ in net.told(fx.Halt)] == [1]


def test_an_end_is_durable_before_any_claim_that_names_it_counts(three):
    """Found by the simulator too: late:PutView."""
    net, *_ = three
    net.crash(1)
    net.hold = lambda source, target, frame: isinstance(frame, Claims)
    net.tick(3, lambda core: core.close_station(1, 0))
    net.run(SECOND)
    told = next(frame for source, _, frame in net.held if source == 3 and frame.view.closed)
    effects = net.tick(2, lambda core: core.receive_peer(3, told))
    assert isinstance(effects[0], fx.Persist)
    assert net.view(2).closed.keys() == {1}


# ---- guards ----


@pytest.mark.parametrize(("mutants", "dropped"), [((), frozenset()), (("release_alone",), frozenset({1}))])
def test_a_guard_stands_until_every_station_can_do_without_it(three, mutants, dropped):
    net, *_ = three
    net.mutants = frozenset(mutants)
    net.restart(2)
    net.lose_station(1)
    net.lose = lambda source, target, frame: source == 3
    net.tick(2, lambda core: core.release_station(1))
    net.run(5 * SECOND)
    assert net.view(2).dropped == dropped
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert net.view(2).dropped == net.view(3).dropped == {1}


def guarded_by_the_first(net):
    """A host whose record at station 2 came from station 1, which alone guards a message that it still needs."""
    b, w = net.enrol("b"), net.enrol("w", home=2)
    b.arrive(1)
    w.arrive(2)
    b.misses = (Msg,)
    w.write(b"x")
    net.run(12 * SECOND)
    b.attach(2)
    b.cut()
    return b


@pytest.mark.parametrize(("mutants", "got"), [((), [b"x"]), (("release_alone",), [])])
def test_a_guard_stands_while_a_record_that_came_from_the_lost_station_needs_it(make_net, mutants, got):
    """R here had run ahead of the host before it came; what it still needs only the lost station had guarded."""
    net = make_net(1, 2, 3, mutants=mutants, spool_grace=3_600 * SECOND)
    b = guarded_by_the_first(net)
    net.lose_station(1)
    net.tick(3, lambda core: core.release_station(1))
    net.run(60 * SECOND)
    b.misses = ()
    b.attach(2)
    net.deliver()
    assert b.got == got
    b.ack()
    net.run(30 * SECOND)
    assert net.view(2).dropped == net.view(3).dropped == {1}


def test_guards_go_together(make_net):
    net = make_net(1, 2, 3, 4)
    for lost in (1, 2):
        net.lose_station(lost)
    net.tick(3, lambda core: core.release_station(1))
    net.run(5 * SECOND)
    assert net.view(3).guards().keys() == {1, 2}
    net.tick(4, lambda core: core.release_station(2))
    net.run(5 * SECOND)
    assert net.view(3).guards() == net.view(4).guards() == {}


def test_a_guard_that_was_given_up_does_not_come_back_with_the_next_loss(make_net):
    net = make_net(1, 2, 3)
    net.lose_station(1)
    net.tick(2, lambda core: core.release_station(1))
    net.run(5 * SECOND)
    net.lose_station(2)
    net.restart(3)
    net.run(5 * SECOND)
    assert net.view(3).guards().keys() == {2}


def test_a_guard_is_not_given_up_in_the_tick_in_which_its_station_ends(make_net):
    """The other one can do without it and has said so; that a record here cannot, its end has to show first."""
    net = make_net(1, 2, 3, spool_grace=3_600 * SECOND)
    b = guarded_by_the_first(net)
    net.crash(1)
    net.lose = lambda source, target, frame: (source, target) == (3, 2)
    for slot in (2, 3):
        net.tick(slot, lambda core: core.close_station(1, 0))
    net.tick(3, lambda core: core.release_station(1))
    net.run(5 * SECOND)
    assert finals(net)[0] == {} != finals(net)[1]
    net.lose = lambda *flight: False
    net.run(60 * SECOND)
    assert finals(net)[0] == finals(net)[1]
    assert net.view(2).dropped == frozenset()
    b.misses = ()
    b.attach(2)
    net.deliver()
    assert b.got == [b"x"]
