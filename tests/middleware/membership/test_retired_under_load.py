"""An orderly retirement comes to its end although messages go on, and two of them do not mix."""

from __future__ import annotations

from roamcast.middleware import effects as fx
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import Adopt, Adopted


def asleep(make_net, **settings):
    """Three stations: a sleeps at the first, w writes at the third."""
    net = make_net(1, 2, 3, **settings)
    a, w = net.enrol("a"), net.enrol("w", home=3)
    a.arrive(1)
    w.arrive(3)
    a.cut()
    return net, a, w


def write_on(net, writer, seconds: float, late: int = 0) -> None:
    """A message every 300 ms; the station `late` always lacks the newest."""
    net.hold = lambda source, target, frame: target == late
    for _ in range(int(seconds / 0.3)):
        before, net.held = net.held, []
        writer.write(b"x")
        for flight in before:
            net.hand(*flight)
        net.run(300 * MS)
    net.release()


def test_sleeping_hosts_are_spooled_when_nothing_else_is_in_the_way(make_net):
    """Between two messages there is never a moment at which the last collection had covered all of them."""
    net, a, w = asleep(make_net)
    net.tick(1, lambda core: core.retire(2))
    write_on(net, w, 14)
    assert [effect for _, effect in net.told(fx.HandedOver)] == [fx.HandedOver(2)]
    net.end(1, 2)
    a.attach(2)
    net.deliver()
    assert a.got == [b"x"] * w.own


def test_a_host_that_has_just_gone_is_given_time_to_arrive_elsewhere(make_net):
    net, a, w = asleep(make_net)
    w.write(b"x")
    net.tick(1, lambda core: core.retire(2))
    net.run(5 * SECOND)
    assert net.cores[1].heir.obstacles() == ["a is not spooled yet"]
    a.attach(3)
    net.deliver()
    assert a.got == [b"x"]


def test_others_may_always_lack_the_newest_messages(make_net):
    """What counts is that they have what was here when this station said that it does not serve any more."""
    net, _, w = asleep(make_net)
    w.arrive(2)
    write_on(net, w, 12)
    net.tick(1, lambda core: core.retire(2))
    write_on(net, w, 6, late=3)
    assert [effect for _, effect in net.told(fx.HandedOver)] == [fx.HandedOver(2)]


def test_a_station_that_lacks_what_was_here_is_waited_for(make_net):
    net, _, w = asleep(make_net)
    net.run(12 * SECOND)
    net.lose = lambda source, target, frame: target == 2
    w.write(b"x")
    net.tick(1, lambda core: core.retire(3))
    net.run(20 * SECOND)
    assert "some station lacks messages that this one has" in net.cores[1].heir.obstacles()
    assert not net.told(fx.HandedOver)
    net.lose = lambda source, target, frame: False
    net.run(20 * SECOND)
    assert net.told(fx.HandedOver)


def test_a_station_that_is_being_retired_is_nobodys_heir(make_net):
    net, _, w = asleep(make_net)
    net.hold = lambda source, target, frame: target == 2
    net.tick(2, lambda core: core.retire(3))
    w.write(b"x")
    net.tick(1, lambda core: core.retire(2))
    net.run(20 * SECOND)
    net.release()
    net.run(5 * SECOND)
    assert net.frames(Adopt) and not net.frames(Adopted)


def test_an_heir_that_is_to_be_retired_waits_for_the_end_of_whom_it_stands_for(make_net):
    net, a, w = asleep(make_net)
    w.write(b"x")
    net.run(12 * SECOND)
    net.hand_over(1, 2)
    net.tick(2, lambda core: core.retire(3))
    net.run(20 * SECOND)
    assert net.cores[2].heir.obstacles() == ["the end of station 1, whose heir this one is, is not settled"]
    net.end(1, 2)
    net.run(20 * SECOND)
    assert [slot for slot, _ in net.told(fx.HandedOver)] == [1, 2]
    net.end(2, 3)
    a.attach(3)
    net.deliver()
    assert a.got == [b"x"]
