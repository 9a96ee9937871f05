"""Custody that a lost station had a part in: who has it now, and how all come to agree (CLAIMED, GROUP_QUERY)."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ask, Msg, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import (
    Accept,
    Cancel,
    Claimed,
    Claims,
    DataBatch,
    GroupQuery,
    Noted,
    Released,
    State,
)


def states(net, host) -> dict[int, list[tuple[int, str, bool]]]:
    """(attempt, state, linked) of all records of the host at the stations that are up."""
    return {slot: [(record.arr, record.state, record.link) for record in net.records(slot, host)] for slot in net.cores}


@pytest.mark.parametrize(("mutants", "linked"), [((), False), (("no_claimed",), True)])
def test_all_note_where_the_host_of_a_lost_station_is_now(three, mutants, linked):
    net, a, _ = three
    a.cut()
    net.mutants = frozenset(mutants)
    for slot in (2, 3):
        net.restart(slot)
    net.lose_station(1)
    net.admit(a, 2, stands=((2, 0),))
    a.ack()
    net.run(10 * SECOND)
    assert states(net, a) == {2: [(a.e, "open", linked)], 3: []}
    noted = [(source, target) for source, target, frame in net.sent if isinstance(frame, Noted)]
    assert noted == ([] if mutants else [(3, 2)]), "the own station is asked without a frame"


def test_what_was_promised_to_a_lost_station_is_open_again(three):
    """WELCOME of the lost station never came: the host names the one before."""
    net, a, w = three
    a.arrive(2)
    a.misses = (Welcome, Msg)
    a.hello(1)
    net.deliver()
    a.misses = ()
    w.write(b"x")
    assert states(net, a)[2][0][1] == "moved"
    net.lose_station(1)
    a.arrive(3)
    net.run(10 * SECOND)
    assert a.got == [b"x"]
    assert states(net, a) == {2: [], 3: [(a.e, "open", False)]}


def test_an_older_record_at_the_station_that_admits_the_host_goes_too(three):
    net, a, w = three
    a.arrive(2)
    w.write(b"x")
    net.lose = lambda source, target, frame: isinstance(frame, Accept)
    a.attach(1)
    a.ack()
    net.run(5 * SECOND)
    net.lose_station(1)
    assert [state for _, state, _ in states(net, a)[2]] == ["open"]
    net.admit(a, 2, stands=((2, 0),))
    a.ack()
    net.run(10 * SECOND)
    assert states(net, a) == {2: [(a.e, "open", False)], 3: []}


def promised_on(make_net):
    """Four stations; a is at 3, came there from 2, and 1 does not know that 2 needs no guard any more."""
    net = make_net(1, 2, 3, 4)
    a = net.enrol("a")
    a.arrive(1)
    net.lose = lambda source, target, frame: isinstance(frame, Accept) and target == 1
    for slot in (2, 3):
        a.attach(slot)
        a.ack()
        net.run(2 * SECOND)
    return net, a


def test_a_claim_meets_a_later_record_that_is_promised_on(make_net):
    """group seed 2000336: nobody said so, and the orphan was kept beside it for good."""
    net, a = promised_on(make_net)
    a.misses = (Welcome, Msg)
    a.hello(4)
    net.deliver()
    net.tick(4, lambda core: core.channel_lost(a.channel))
    a.misses = ()
    assert [state for _, state, _ in states(net, a)[3]] == ["moved"]
    net.lose_station(2)
    net.run(5 * SECOND)
    assert not states(net, a)[1]
    a.arrive(4)
    net.run(10 * SECOND)
    assert states(net, a) == {1: [], 3: [], 4: [(a.e, "open", False)]}


@pytest.mark.parametrize("lost", [((1, 3),), ((1, 3), (4, 1))])
def test_a_claim_that_was_noted_meets_a_custody_that_was_on_its_way(make_net, lost):
    """Station 4 had nothing when it noted the claim, station 3 has nothing any more; what 4 says may be lost, too."""
    net, a = promised_on(make_net)
    net.lose = lambda source, target, frame: isinstance(frame, Claimed) and (source, target) in lost
    net.lose_station(2)
    net.run(2 * SECOND)
    a.arrive(4)
    net.run(2 * SECOND)
    net.lose = lambda source, target, frame: False
    net.run(30 * SECOND)
    assert states(net, a) == {1: [], 3: [], 4: [(a.e, "open", False)]}


def test_of_two_that_claim_a_host_the_later_attempt_has_it(three):
    net, a, _ = three
    a.cut()
    net.lose_station(1)
    net.admit(a, 3, stands=((2, 0),))
    a.ack()
    before = states(net, a)
    net.sent.clear()
    net.hand(2, 3, Claimed(a.mh, a.e - 1))
    assert Claimed(a.mh, a.e) in net.frames(Claimed)
    assert net.frames(Noted) == []
    assert states(net, a) == before


def test_an_attempt_that_waits_here_is_over_when_the_host_is_elsewhere(three):
    net, *_ = three
    b = net.enrol("b", home=3)
    b.arrive(3)
    net.hold = lambda source, target, frame: isinstance(frame, State)
    b.hello(2)
    waits = b.channel
    net.hand(3, 2, Claimed(b.mh, b.e + 1))
    assert net.closed[waits] == "the host is at another station"


def test_custody_that_points_to_a_station_whose_end_is_not_settled_is_kept(three):
    """Its end may yet say who had the host last."""
    net, a, _ = three
    a.arrive(2)
    net.lose = lambda source, target, frame: isinstance(frame, Accept)
    a.attach(1)
    net.lose = lambda source, target, frame: isinstance(frame, Claims)
    net.crash(1)
    net.tick(2, lambda core: core.close_station(1, 0))
    before = states(net, a)
    net.hand(3, 2, Claimed(a.mh, a.e + 1))
    assert states(net, a) == before
    assert net.frames(Noted) == []


@pytest.mark.parametrize(("mutants", "left"), [((), 0), (("no_group_query",), 1)])
def test_an_unconfirmed_stay_asks_all_whether_the_host_has_been_elsewhere(three, mutants, left):
    """The lost station knew; its CANCEL was lost with it."""
    net, a, _ = three
    net.mutants = frozenset(mutants)
    for slot in net.slots:
        net.restart(slot)
    a.attach(1)
    a.ack()
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.misses = ()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel) and source == 1
    a.arrive(3)
    net.run(10 * SECOND)
    assert states(net, a)[3] == [(a.e, "open", False)], "released by the station that is lost next"
    assert len(states(net, a)[2]) == 1
    net.lose_station(1)
    net.run(20 * SECOND)
    assert len(states(net, a)[2]) == left
    assert bool(net.frames(GroupQuery)) is not bool(mutants)


def test_what_waited_for_released_of_a_lost_station_goes(three):
    net, a, _ = three
    net.lose = lambda source, target, frame: isinstance(frame, Released)
    a.arrive(2)
    a.arrive(3)
    net.run(5 * SECOND)
    assert [state for _, state, _ in states(net, a)[2]] == ["done"]
    net.lose = lambda *flight: False
    net.lose_station(1)
    net.run(10 * SECOND)
    assert states(net, a) == {2: [], 3: [(a.e, "open", False)]}


# ---- what a message of such a host follows ----


def test_nobody_is_asked_before_the_end_is_settled(three):
    net, a, _ = three
    net.crash(3)
    net.lose_station(1)
    a.hello(2)
    net.run(5 * SECOND)
    assert (a.words(Ask), bool(a.words(Wait))) == ([], True)
    net.start(3)
    net.run(5 * SECOND)
    assert a.words(Ask)


@pytest.mark.parametrize(("mutants", "asked"), [((), False), (("f_not_awaited",), True)])
def test_a_host_is_asked_when_all_that_it_may_have_seen_is_here(three, mutants, asked):
    net, a, _ = three
    c = net.enrol("c", home=3)
    c.arrive(3)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) == (3, 2)
    c.send(b"x")
    net.mutants = frozenset(mutants)
    net.restart(2)
    net.deliver()
    assert a.got == [b"x"]
    a.ack()
    net.lose_station(1)
    a.hello(2)
    net.deliver()
    assert bool(a.words(Ask)) is asked
    assert a.words(Wait)
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert a.words(Ask)


@pytest.mark.parametrize(("mutants", "order"), [((), [b"m", b"x", b"y"]), (("f_not_followed",), [b"m", b"y", b"x"])])
def test_what_the_host_sends_next_follows_what_it_had_sent_at_the_lost_station(make_net, mutants, order):
    """That one waits everywhere for m, whose second copy went with the lost station."""
    net = make_net(1, 2, 3, copies=2, mutants=mutants)
    a, w, reader = net.enrol("a"), net.enrol("w", home=2), net.enrol("reader", home=3)
    for host, slot in ((a, 1), (w, 2), (reader, 3)):
        host.attach(slot)
        net.run(2 * SECOND)
        host.ack()
    net.run(2 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) == (2, 3)
    net.lose = lambda source, target, frame: isinstance(frame, Claims) and (source, target) == (1, 2)
    w.send(b"m")
    net.deliver()
    assert (a.got, w.got) == ([b"m"], [])
    a.ack()
    a.send(b"x")
    net.deliver()
    net.lose_station(1)
    net.admit(a, 2, stands=((2, 0),))
    a.send(b"y")
    net.deliver()
    net.held.clear()  # asked for again, m and y come in one frame
    net.release()
    net.run(10 * SECOND)
    assert reader.got == order


@pytest.mark.parametrize("mutant", ["as-it-is", "no_void"])
def test_what_exists_nowhere_holds_nobody_up(three, mutant):
    net, a, w = three
    net.mutants = frozenset({mutant})
    for slot in net.slots:
        net.restart(slot)
    a.arrive(1)
    w.arrive(2)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and frame.origin == 1
    a.send(b"alone")
    a.ack()
    a.arrive(2)
    a.write(b"after")
    net.held.clear()
    net.lose_station(1)
    assert w.got == ([b"after"] if mutant == "as-it-is" else [])


def test_vectors_of_custody_name_nothing_that_exists_nowhere(three):
    net, a, _ = three
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.send(b"alone")
    a.ack()
    a.arrive(2)
    assert net.records(2, a)[0].sdep[1] == net.disks[1].streams[1].stored
    net.lose_station(1)
    cut = net.view(2).final[1].cut
    assert cut < net.disks[1].streams[1].stored
    (record,) = net.records(2, a)
    assert (record.sdep[1], record.base[1]) == (cut, cut)


def test_older_records_beside_the_newest_go_when_another_station_claims_one(three):
    """The newest is free already and claims nothing; the one it stood for at the third station is gone."""
    net, a, _ = three
    a.arrive(2)
    net.lose = lambda source, target, frame: isinstance(frame, Accept) and (source, target) in ((3, 2), (1, 3))
    for slot in (3, 1, 2):
        a.arrive(slot)
    net.run(SECOND)
    assert [(state, link) for _, state, link in states(net, a)[2]] == [("moved", False), ("open", False)]
    net.lose_station(1)
    net.run(60 * SECOND)
    assert states(net, a) == {2: [(a.e, "open", False)], 3: []}


@pytest.mark.parametrize(("mutants", "left"), [((), []), (("held_not_claimed",), [(0, "open", False)])])
def test_a_claim_that_the_retiring_station_did_not_answer_ends_what_its_heir_holds(make_net, mutants, left):
    """topics seed 811706: the later claimant was lost, too, and nobody said that the host had gone on."""
    net = make_net(1, 2, 3, 4, 5, mutants=mutants)
    a = net.enrol("a")
    a.arrive(1)
    net.lose = lambda source, target, frame: isinstance(frame, Accept)
    a.attach(4)
    net.lose = lambda source, target, frame: False
    net.lose_station(4)
    net.run(10 * SECOND)
    assert states(net, a)[1] == [(0, "open", False)]
    net.hand_over(1, 3)
    net.admit(a, 2)
    a.ack()
    net.run(2 * SECOND)
    a.attach(5)
    a.ack()
    net.run(2 * SECOND)
    net.lose_station(2)
    net.end(1, 3)
    net.run(30 * SECOND)
    assert states(net, a) == {3: left, 5: [(a.e, "open", False)]}
