"""Who is who, when the station that knew it is lost: bindings and the order of joins."""

from __future__ import annotations

import pytest

from roamcast.middleware.custody.record import Record
from roamcast.middleware.host_frames import Ask, Msg, Reset, Wait, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, HandoffNack


def newest(net, host) -> list[int]:
    """The incarnation that each living station holds for the newest of the name."""
    return [net.disks[slot].hosts[host.number].incarnation for slot in net.cores]


def test_a_binding_that_went_with_the_lost_station_is_said_again(make_net):
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.arrive(2)
    net.lose_station(1)
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2
    a.arrive(3)
    assert newest(net, a) == [a.incarnation] * 2


def test_a_start_before_it_could_be_said_forgets_no_binding(make_net):
    """group seed 900174, copies=2: what was acknowledged would be told lost if the binding were forgotten."""
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.arrive(2)
    net.crash(2)
    net.start(2, linked=False)
    net.lose_station(1)
    assert newest(net, a) == [0, 0]
    net.restart(2)
    net.run(10 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2


def test_a_binding_of_a_host_that_the_lost_station_had_is_said_by_the_one_that_admits_it(make_net):
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.arrive(1)
    net.lose = lambda *flight: False
    net.lose_station(1)
    assert newest(net, a) == [0, 0]
    net.admit(a, 3, stands=((2, 0),))
    a.ack()
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2


def test_joins_of_a_name_that_was_enrolled_at_a_lost_station_are_ordered_by_the_lowest_that_lives(three):
    net, a, w = three
    net.lose_station(1)
    for incarnation in range(2):
        a.renew()
        net.sent.clear()
        a.attach(3)
        asked = [source for source, _, frame in net.sent if isinstance(frame, HandoffNack)]
        assert asked == [2], incarnation
        a.ack()
        net.run(5 * SECOND)
        assert newest(net, a) == [a.incarnation] * 2
    w.write(b"x")
    assert a.got[-1] == b"x"


def test_an_enrolled_host_that_never_came_joins_when_its_station_is_lost(three):
    net, _, w = three
    c = net.enrol("c")
    net.lose_station(1)
    assert c.attach(3).gap
    c.ack()
    net.run(5 * SECOND)
    assert newest(net, c) == [c.incarnation] * 2
    w.write(b"x", to="c")
    assert c.got[-1] == b"x"


# ---- a first HELLO, and the row that binds it ----


def test_a_first_hello_whose_binding_waits_for_its_delivery_is_asked(three):
    """What it follows is on its way; the host had never heard WELCOME of the lost station."""
    net, _, w = three
    c = net.enrol("c")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) == (2, 3)
    w.write(b"x")
    c.misses = (Welcome, Msg)
    c.hello(1)
    net.deliver()
    c.misses = ()
    net.lose_station(1)
    assert net.disks[3].hosts[c.number].incarnation == 0
    c.hello(3)
    net.deliver()
    assert (c.words(Reset), bool(c.words(Wait))) == ([], True)
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert c.words(Ask)


def test_a_binding_that_comes_while_its_order_is_asked_for_is_no_reset(make_net):
    """The host says that it never was anywhere; while another station is asked, the row comes that knows better."""
    net = make_net(1, 2, 3, 4)
    a = net.enrol("a")
    net.lose_station(1)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) == (4, 3)
    a.arrive(4)
    rows, net.held = net.held, []
    net.hold = lambda source, target, frame: isinstance(frame, HandoffNack)
    a.hello(3, last=1, le=0)
    net.deliver()
    for flight in rows:
        net.hand(*flight)
    net.release()
    assert (a.words(Reset), bool(a.words(Ask))) == ([], True)


# ---- places among the joins of a name ----


def place(net, slot: int, host) -> int:
    """Of the newest incarnation, as a station has it."""
    return net.disks[slot].hosts[host.number].stamp[0]


def test_the_place_of_an_incarnation_goes_with_its_custody(three):
    """The JOIN row went with the lost station; the station that has the host now says it again."""
    net, a, _ = three
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.renew()
    a.arrive(1)
    order = place(net, 1, a)
    a.arrive(2)
    net.restart(2)
    a.arrive(3)
    net.lose_station(1)
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2
    assert [place(net, slot, a) for slot in (2, 3)] == [order] * 2
    assert order > 0


def test_the_host_of_a_lost_station_keeps_its_place(three):
    net, a, _ = three
    a.renew()
    a.arrive(1)
    net.lose_station(1)
    net.admit(a, 2, stands=((2, 0),))
    (record,) = net.records(2, a)
    assert Record.of(record).order == place(net, 2, a) > 0


def test_an_incarnation_that_nobody_can_bind_any_more_is_outlived(make_net):
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.arrive(2)
    net.crash(2)
    net.start(2, linked=False)  # it says nothing again
    net.lose_station(1)
    old = a.mh
    a.renew()
    a.arrive(3)
    net.run(10 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2
    assert {record.state for record in net.records(2, a)} <= {"tomb"}
    assert old[1] not in net.disks[2].hosts[a.number].replaced


def test_a_newer_incarnation_is_not_outlived_by_the_one_that_is_known(three):
    """Its JOIN row has not come yet."""
    net, a, _ = three
    a.renew()
    a.arrive(1)
    known = a.incarnation
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch) and source == 1
    a.renew()
    a.arrive(1)
    a.arrive(2)
    net.run(20 * SECOND)
    assert net.disks[2].hosts[a.number].incarnation == known
    assert [(record.mh, record.state) for record in net.records(2, a)] == [(a.mh, "open")]
    assert a.channel not in net.closed


def test_an_order_that_was_given_is_not_given_again_after_a_crash(three):
    """group seed 1930716 (lost_count=3 stations=4 wipes_count=3 late_hosts=3): the row that tells it was not heard."""
    net, a, _ = three
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and source == 2
    net.skews[1] = 600 * SECOND
    a.renew()
    a.arrive(2)
    net.crash(1)
    net.skews[1] = 0
    net.restart(1)
    a.renew()
    a.arrive(1)
    net.release()
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 3


def test_joins_are_ordered_above_all_that_was_heard(three):
    """The clock of the lost station, which had ordered them, was an hour ahead."""
    net, a, _ = three
    a.arrive(2)
    net.skews[1] = 3_600 * SECOND
    a.renew()
    a.arrive(3)
    net.lose_station(1)
    a.renew()
    a.arrive(3)
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2


@pytest.mark.parametrize(("mutants", "holds"), [((), True), (("no_generation",), False)])
def test_joins_are_ordered_above_all_that_was_not_heard_either(make_net, mutants, holds):
    """topics seed 1204822: the row of a join that the lost station had ordered, its clock ahead, came later."""
    net = make_net(1, 2, 3, mutants=mutants)
    a = net.enrol("a")
    a.arrive(2)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and source == 3
    net.skews[1] = 3_600 * SECOND
    a.renew()
    a.arrive(3)
    net.lose_station(1)
    a.renew()
    a.arrive(2)
    net.release()
    net.run(5 * SECOND)
    assert (newest(net, a) == [a.incarnation] * 2) is holds


def test_nobody_orders_in_the_place_of_another_while_an_end_is_not_settled(make_net):
    """How many ends came before is not certain then."""
    net = make_net(1, 2, 3, 4)
    a = net.enrol("a")
    a.arrive(1)
    net.lose_station(1)
    net.crash(4)
    net.lose = lambda source, target, frame: isinstance(frame, Claims)
    net.tick(2, lambda core: core.close_station(4, 0))
    a.renew()
    for slot in (2, 3):
        a.hello(slot)
        net.run(5 * SECOND)
        assert not a.words(Welcome)
        net.tick(slot, lambda core: core.channel_lost(a.channel))
    a.hello(3)
    net.lose = lambda *flight: False
    net.run(20 * SECOND)
    a.ack()
    net.run(5 * SECOND)
    assert newest(net, a) == [a.incarnation] * 2
