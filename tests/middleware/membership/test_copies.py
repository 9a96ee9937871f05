"""copies = 2: a message counts once a second station that serves has it (composition.md C6)."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Hello, Uack, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, HandoffReq, State

MUTANTS = [(), ("no_copies",)]


@pytest.fixture
def alone(make_net):
    """Build two stations, under mutants: a and b at the first, whose rows reach nobody from now on."""

    def build(*mutants: str, copies: int = 2):
        net = make_net(1, 2, copies=copies, mutants=mutants)
        a, b = net.enrol("a"), net.enrol("b")
        for host in (a, b):
            host.attach(1)
            net.run(2 * SECOND)
            host.ack()
        net.run(2 * SECOND)
        net.lose = lambda source, target, frame: isinstance(frame, DataBatch)
        return net, a, b

    return build


@pytest.mark.parametrize("mutants", MUTANTS)
def test_nothing_is_acknowledged_or_given_to_anybody_before(alone, mutants):
    net, a, b = alone(*mutants)
    a.send(b"x")
    net.run(SECOND)
    counts = bool(mutants)
    assert (b.got == [b"x"], bool(a.words(Uack))) == (counts, counts)
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert b.got == [b"x"]
    assert a.word(Uack).lastseq == 1


def test_one_copy_is_enough_by_default(alone):
    _, a, b = alone(copies=1)
    a.send(b"x")
    assert b.got == [b"x"]
    assert a.words(Uack)


def test_of_several_those_that_have_a_copy_are_acknowledged_at_once(alone):
    net, a, _ = alone()
    net.lose = lambda *flight: False
    a.send(b"x")
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch)
    net.deliver()
    a.send(b"y")
    net.run(SECOND)
    assert a.word(Uack).lastseq == 1


def test_custody_does_not_move_away_from_what_is_here_alone(alone):
    net, a, _ = alone()
    a.send(b"x")
    a.hello(2)
    net.run(5 * SECOND)
    assert net.frames(HandoffReq)
    assert net.frames(State) == []
    net.lose = lambda *flight: False
    net.run(10 * SECOND)
    assert a.word(Welcome).lastseq == 1


def test_a_welcome_counts_only_what_has_its_copy(alone):
    net, a, _ = alone()
    a.send(b"x")
    a.cut()
    assert a.attach(1).lastseq == 0
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    a.resend()
    net.run(SECOND)
    assert a.word(Uack).lastseq == 1


def test_the_copy_of_a_station_that_does_not_serve_yet_does_not_count(alone):
    """Its loss, before anybody else counts it, is no loss."""
    net, a, b = alone()
    net.lose = lambda source, target, frame: target == 2 and isinstance(frame, DataBatch | Claims)
    net.join(1, 3)
    net.run(3 * SECOND)
    net.renewed(3)
    a.send(b"x")
    net.run(5 * SECOND)
    assert net.disks[3].streams[1].stored == net.disks[1].streams[1].stored
    assert not net.view(3).serving
    assert b.got == []
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert b.got == [b"x"]


def test_the_last_station_counts_its_own_copy_alone(alone):
    net, a, b = alone()
    net.lose_station(2)
    a.send(b"x")
    assert b.got == [b"x"]
    assert a.words(Uack)


def test_the_loss_of_one_station_loses_nothing_that_was_acknowledged(make_net):
    net = make_net(1, 2, 3, copies=2)
    a, w = net.enrol("a"), net.enrol("w", home=2)
    for host, slot in ((a, 1), (w, 2)):
        host.attach(slot)
        net.run(2 * SECOND)
        host.ack()
    net.run(2 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and target == 2
    a.send(b"x")
    net.run(SECOND)
    assert a.word(Uack).lastseq == 1, "the third has it"
    net.held.clear()
    net.release()
    net.lose_station(1)
    net.run(5 * SECOND)
    assert w.got == [b"x"]
    assert net.admit(a, 2, stands=((2, 0),), stored=(1,)).absent == ()


def test_a_late_first_hello_is_no_join_though_the_binding_has_no_copy_yet(make_net):
    """group seed 17, copies=2 stations=4 lost_count=1 retired_count=0 added_count=0 wired_loss=0.3"""
    net = make_net(1, 2, copies=2)
    net.run(2 * SECOND)
    c = net.enrol("c")
    net.run(2 * SECOND)
    net.lose = lambda source, target, frame: isinstance(frame, DataBatch)
    c.arrive(2)
    late = net.connect(c, 1)
    hello = Hello(PROTOCOL_VERSION, c.name, c.incarnation, False, 1, 1, 0, 0, 1, 60)
    net.tick(1, lambda core: core.receive_host(late, c.number, hello))
    net.lose = lambda *flight: False
    net.run(5 * SECOND)
    assert (net.records(1, c), len(net.records(2, c))) == ([], 1)
