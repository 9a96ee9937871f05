"""What an heir does with the records that it has got: it holds them, then it is the retired station to everybody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.custody.heir import RECORDS_AT_ONCE
from roamcast.middleware.host_frames import Ask, Msg, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Accept, Adopt, Adopted, AdoptPart, Cancel, HandoffReq, NoRec, Probe


def states(net, host) -> dict[int, list[tuple[str, bool]]]:
    """(state, linked) of all records of the host at the stations that are up."""
    return {slot: [(record.state, record.link) for record in net.records(slot, host)] for slot in net.cores}


def rows(net) -> int:
    """Rows at the stations that are up."""
    return sum(len(net.disks[slot].rows) for slot in net.cores)


@pytest.fixture
def asleep(make_net):
    """Build three stations, under mutants; a sleeps at the first with two messages waiting, w writes at the third."""

    def build(*mutants: str, **settings: int):
        net = make_net(1, 2, 3, mutants=mutants, **settings)
        a, w = net.enrol("a"), net.enrol("w", home=3)
        a.arrive(1)
        w.arrive(3)
        a.cut()
        w.write(b"one", b"two")
        net.run(20 * SECOND)
        return net, a, w

    return build


def test_what_is_held_serves_nobody_before_the_end_is_settled(asleep):
    net, a, _ = asleep()
    net.hand_over(1, 2)
    assert net.disks[2].held.keys() == {(*a.mh, 0)}
    assert states(net, a)[2] == []
    net.sent.clear()
    for frame in (Probe(a.mh, 1), HandoffReq(a.mh, 5, 1, 0, 1), Accept(a.mh, 1), Cancel(a.mh, 1, 9)):
        net.hand(3, 2, frame)
    assert net.frames(NoRec) == []
    assert net.disks[2].held.keys() == {(*a.mh, 0)}
    net.end(1, 2)
    assert net.disks[2].held == {}
    assert states(net, a)[2] == [("open", False)]


def test_held_records_outlive_a_crash_and_are_activated_at_a_start_too(asleep):
    for dies_after in range(8):
        net, a, w = asleep()
        net.hand_over(1, 2)
        net.restart(2)
        net.doom[2] = dies_after
        net.end(1, 2)
        net.doom.clear()
        net.restart(2)
        net.run(10 * SECOND)
        w.write(b"three")
        a.attach(2)
        net.deliver()
        assert a.got == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("mutants", "got"), [((), [b"one", b"two", b"between"]), (("held_not_spooled",), [b"one", b"two"])]
)
def test_what_came_while_it_was_held_is_spooled_before_the_heir_lets_it_go(asleep, mutants, got):
    net, a, w = asleep(*mutants)
    net.hand_over(1, 2)
    w.write(b"between")
    net.end(1, 2)
    net.run(60 * SECOND)
    assert rows(net) == 0
    a.attach(2)
    net.deliver()
    assert a.got == got


@pytest.mark.parametrize(("mutants", "got"), [((), [b"one", b"two", b"between"]), (("r_runs_on",), [b"one", b"two"])])
def test_r_of_the_retired_station_stays_where_it_is_while_it_hands_over(asleep, mutants, got):
    net, a, w = asleep(*mutants)
    net.hand_over(1, 2)
    w.write(b"between")
    net.run(60 * SECOND)
    net.end(1, 2)
    a.attach(2)
    net.deliver()
    assert a.got == got


@pytest.mark.parametrize(("mutants", "again"), [((), [b"three"]), (("no_shift",), [])])
def test_positions_of_the_retired_station_are_translated(make_net, mutants, again):
    net = make_net(1, 2, mutants=mutants)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    a.arrive(1)
    w.arrive(2)
    w.write(b"one", b"two", b"three")
    a.c = a.in_hand - 1  # the application has acknowledged two; the station has not heard of it
    a.cut()
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    a.attach(2)
    net.deliver()
    assert a.entries() == again


def test_a_host_that_is_gone_meanwhile_is_not_activated(asleep):
    net, a, _ = asleep()
    net.hand_over(1, 2)
    net.tick(2, lambda core: core.revoke(a.number))
    net.end(1, 2)
    assert states(net, a)[2] == []
    assert (net.disks[2].held, net.disks[2].items) == ({}, {})


def test_records_of_a_station_that_is_lost_in_the_middle_are_given_up(asleep):
    net, a, w = asleep()
    net.hand_over(1, 2)
    net.lose_station(1)
    assert (net.disks[2].held, net.disks[2].items) == ({}, {})
    w.write(b"three")
    assert net.admit(a, 3, stands=((3, 0),)).gap
    net.deliver()
    assert a.got[-1] == b"three"


def test_a_station_that_is_not_the_heir_in_the_end_gives_up_what_it_holds(asleep):
    net, a, _ = asleep()
    net.hand_over(1, 2)
    net.end(1, 3)
    assert (net.disks[2].held, net.disks[2].items) == ({}, {})
    assert states(net, a) == {2: [], 3: []}


# ---- pairs of records ----


@pytest.mark.parametrize("heir", [2, 3])
def test_a_host_that_was_on_its_way_to_the_heir_or_to_another_station_arrives(asleep, heir):
    """WELCOME of the second station never came; the record at the first one guards for it."""
    net, a, w = asleep()
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    net.run(60 * SECOND)
    net.hand_over(1, heir)
    net.end(1, heir)
    w.write(b"three")
    a.misses = ()
    a.attach(2)
    net.deliver()
    assert a.got == [b"one", b"two", b"three"]
    a.ack()
    net.run(60 * SECOND)
    assert states(net, a) == {2: [("open", False)], 3: []}
    assert rows(net) == 0


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_host_that_was_on_its_way_from_the_heir_arrives(make_net, calls):
    net = make_net(1, 2, 3)
    a, w = net.enrol("a", home=2), net.enrol("w", home=3)
    a.arrive(2)
    w.arrive(3)
    a.cut()
    w.write(b"one")
    net.run(20 * SECOND)
    for _ in range(calls):
        a.misses = (Welcome, Msg)
        a.hello(1)
        net.deliver()
        a.cut()
    net.run(60 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    a.misses = ()
    a.attach(3)
    net.deliver()
    assert a.got == [b"one"]
    a.ack()
    net.run(60 * SECOND)
    assert states(net, a) == {2: [], 3: [("open", False)]}
    assert rows(net) == 0


@pytest.mark.parametrize(("mutants", "elsewhere"), [((), 0), (("by_hearsay",), 1)])
def test_the_record_that_custody_came_from_counts_and_not_what_an_abandoned_stay_has_heard(
    make_net, mutants, elsewhere
):
    """An overtaken stay at the retired station comes to the heir, which was the station before it."""
    net = make_net(1, 2, 3, 4, mutants=mutants, custody_retry=200 * SECOND)
    a = net.enrol("a", home=2)
    a.arrive(2)
    a.misses = (Welcome, Msg)
    a.hello(2)
    a.hello(1)
    net.deliver()
    net.lose = lambda source, target, frame: isinstance(frame, Cancel) and target == 1
    a.hello(3)
    net.deliver()
    a.cut()
    net.run(60 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    assert states(net, a) == {2: [("moved", False), ("open", True)], 3: [("open", True)], 4: []}
    a.misses = ()
    a.arrive(4)
    net.run(900 * SECOND)
    assert states(net, a) == {2: [("moved", False)] * elsewhere, 3: [("open", True)] * elsewhere, 4: [("open", False)]}


def test_a_chain_of_heirs_answers_for_the_first(make_net):
    net = make_net(1, 2, 3)
    a, w = net.enrol("a"), net.enrol("w", home=3)
    a.arrive(1)
    w.arrive(3)
    a.cut()
    w.write(b"one")
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    net.groups.clear()
    net.hand_over(2, 3)
    net.end(2, 3)
    w.write(b"two")
    a.attach(3)
    net.deliver()
    assert a.got == [b"one", b"two"]


def test_a_station_hands_nothing_over_while_a_host_is_on_its_way_to_one_that_is_down(asleep):
    net, a, _ = asleep()
    a.misses = (Welcome, Msg)
    net.lose = lambda source, target, frame: source == 2 and not isinstance(frame, HandoffReq)
    a.hello(2)
    net.deliver()
    net.tick(1, lambda core: core.retire(3))
    net.run(30 * SECOND)
    assert not net.view(1).handing
    assert "a is on its way to station 2" in net.cores[1].heir.obstacles()


# ---- the order of joins ----


def test_the_heir_orders_joins_above_all_that_the_retired_station_has_ordered(asleep):
    """Though its clock is an hour behind: else the older incarnation would win the name back."""
    net, a, _ = asleep()
    net.skews[2] = -3_600 * SECOND
    a.renew()
    a.arrive(1)
    a.cut()
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    a.renew()
    a.arrive(2)
    net.run(5 * SECOND)
    assert [net.disks[slot].hosts[a.number].incarnation for slot in (2, 3)] == [a.incarnation] * 2


# ---- frames lost, repeated, out of order ----


def test_parts_in_any_order_and_of_another_cut_make_no_other_spool(asleep):
    net, a, _ = asleep(spool_part_bytes=1)
    net.hold = lambda source, target, frame: isinstance(frame, Adopt | AdoptPart)
    net.tick(1, lambda core: core.retire(2))
    net.run(3 * SECOND)
    adopt = next(frame for _, _, frame in net.held if isinstance(frame, Adopt))
    parts = [frame for _, _, frame in net.held if isinstance(frame, AdoptPart)][: adopt.parts]
    assert len(parts) == 2
    net.held.clear()
    net.hand(1, 2, parts[1])  # before its record
    net.hand(1, 2, adopt)
    net.hand(1, 2, replace(parts[0], k=3))
    net.hand(1, 2, replace(parts[0], i=-1))
    net.hand(1, 2, replace(parts[0], i=2))
    net.hand(1, 2, parts[1])
    assert net.disks[2].held == {}
    net.hand(1, 2, parts[0])
    assert net.disks[2].held.keys() == {(*a.mh, 0)}
    before = dict(net.disks[2].spools)
    for frame in (adopt, *parts):
        net.hand(1, 2, frame)
    assert net.disks[2].spools == before
    assert len(net.frames(Adopted)) == 2


def test_a_spool_whose_positions_do_not_ascend_is_refused(asleep):
    net, _, _ = asleep(spool_part_bytes=1)
    net.hold = lambda source, target, frame: isinstance(frame, Adopt | AdoptPart)
    net.tick(1, lambda core: core.retire(2))
    net.run(3 * SECOND)
    adopt = next(frame for _, _, frame in net.held if isinstance(frame, Adopt))
    one, two = [frame for _, _, frame in net.held if isinstance(frame, AdoptPart)][:2]
    for frame in (adopt, replace(one, i=1), replace(two, i=0)):
        net.hand(1, 2, frame)
    assert "bad-spool" in net.rejected()
    assert net.disks[2].held == {}


def test_so_many_records_are_offered_together_and_no_more(make_net):
    net = make_net(1, 2)
    for i in range(RECORDS_AT_ONCE + 2):
        net.enrol(f"h{i}")
    net.lose = lambda source, target, frame: isinstance(frame, Adopted)
    net.tick(1, lambda core: core.retire(2))
    net.run(15 * SECOND)
    assert len({frame.image.key for frame in net.frames(Adopt)}) == RECORDS_AT_ONCE
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert len(net.disks[2].held) == RECORDS_AT_ONCE + 2


# ---- what ends meanwhile ----


def test_a_join_that_was_confirmed_elsewhere_meanwhile_is_not_activated(make_net):
    net = make_net(1, 2, 3)
    a = net.enrol("a", home=3)
    a.arrive(3)
    a.renew()
    a.misses = (Welcome,)
    a.hello(1)
    net.deliver()
    a.cut()
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    assert net.disks[2].held.keys() == {(*a.mh, a.e)}
    a.misses = ()
    a.arrive(3)
    net.end(1, 2)
    assert net.disks[2].held == {}
    assert states(net, a) == {2: [], 3: [("open", False)]}


def test_an_heir_whose_own_end_is_not_settled_is_waited_for(make_net):
    net = make_net(1, 2, 3, 4)
    a = net.enrol("a")
    a.arrive(1)
    a.cut()
    net.run(20 * SECOND)
    net.hand_over(1, 2)
    net.end(1, 2)
    net.crash(4)
    net.lose_station(2)
    a.hello(3)
    net.run(5 * SECOND)
    assert (a.words(Ask), bool(a.words(Wait))) == ([], True)
    net.start(4)
    net.run(10 * SECOND)
    assert a.words(Ask)


def test_a_host_that_was_on_its_way_to_a_station_lost_meanwhile_is_back_at_the_heir(make_net):
    """When that one ended, its record was held and nobody's."""
    net = make_net(1, 2, 3, 4)
    a, w = net.enrol("a"), net.enrol("w", home=4)
    a.arrive(1)
    w.arrive(4)
    a.misses = (Welcome, Msg)
    a.hello(3)
    net.deliver()
    a.cut()
    w.write(b"x")
    net.run(60 * SECOND)
    net.hand_over(1, 2)
    net.lose_station(3)
    assert states(net, a)[2] == []
    net.end(1, 2)
    assert states(net, a) == {2: [("open", False)], 4: []}
    a.misses = ()
    a.attach(4)
    net.deliver()
    assert a.got == [b"x"]
