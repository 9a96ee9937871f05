"""A station ends, in order or lost with mail under way: nobody waits for it, and the order of all others holds."""

from __future__ import annotations

import pytest

from roamcast.middleware.causal_unicast.effects import MailLost, MailPersist
from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.records import MailImage
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.effects import Notice
from roamcast.middleware.errors import InvariantError

A, B, L, Q = range(4)
"""Q is the one that ends."""


def retire(net, *slots):
    for slot in slots:
        net.tick(slot, MailStation.retire, Q)


def test_mail_to_it_is_given_up_and_told(office):
    net = office(4)
    net.send(A, Q, b"1")
    net.send(A, B, b"2")
    net.send(A, Q, b"3")
    retire(net, A)
    lost, notice, persist = net.effects
    assert lost == MailLost(Q, (1, 3))
    assert isinstance(notice, Notice) and notice.fields == {"to": Q, "mails": 2}
    assert isinstance(persist, MailPersist)
    assert net.images[A].outgoing == {B: {2: net.mails[b"2"]}} and net.records(A) == {(A, B): 2}
    with pytest.raises(MailRefused, match="has ended"):
        net.up[A].send(Q, b"4")
    retire(net, A)
    assert net.effects == []
    net.crash(A)
    net.start(A)
    assert net.up[A].unacknowledged(Q) == 0


def test_a_crash_before_it_is_durable_tells_it_again(office):
    net = office(4)
    net.send(A, Q, b"1")
    net.doom[A] = 2
    retire(net, A)
    net.start(A)
    retire(net, A)
    assert [effect for effect in net.told[A] if isinstance(effect, MailLost)] == [MailLost(Q, (1,))] * 2


def test_mail_that_waits_for_lost_mail_is_released(office):
    net = office(4)
    net.send(Q, L, b"lost")
    net.send(Q, A, b"to a")
    net.arrive(b"to a")
    net.send(A, L, b"after")
    net.arrive(b"after")
    assert net.got(L) == []
    retire(net, L)
    assert net.got(L) == [b"after"]
    assert [type(effect) for effect in net.effects[:1]] == [MailPersist]


@pytest.mark.parametrize("mutants", [(), ("retired_recorded", "retired_awaited")])
def test_a_header_of_a_station_that_has_not_heard_of_it_brings_no_record_back(office, mutants):
    net = office(4, mutants=frozenset(mutants))
    net.send(Q, L, b"lost")
    net.send(Q, A, b"to a")
    net.arrive(b"to a")
    net.send(A, B, b"from a")
    retire(net, B, L)
    net.arrive(b"from a")
    assert bool(net.records(B)) == bool(mutants)
    net.send(B, L, b"after")
    net.send(A, L, b"from a too")
    net.arrive(b"after", b"from a too")
    assert net.got(L) == ([] if mutants else [b"after", b"from a too"])


def test_records_to_it_do_not_come_back_either(office):
    net = office(4)
    net.send(A, Q, b"to q")
    net.send(A, B, b"m")
    retire(net, B)
    net.arrive(b"m")
    assert net.records(B) == {}


@pytest.mark.parametrize("mutants", [(), ("supersede_early",)])
def test_a_lost_mail_does_not_take_the_records_with_it_that_it_stood_for(office, mutants):
    """Q had A's mail to L in its past when its own mail to L was lost with it: x is known of elsewhere, or nowhere."""
    net = office(4, mutants=frozenset(mutants))
    net.send(A, L, b"x")
    net.send(A, Q, b"to q")
    net.arrive(b"to q")
    net.send(Q, L, b"lost")
    net.send(Q, B, b"to b")
    net.arrive(b"to b")
    retire(net, A, B, L)
    net.send(B, L, b"after")
    net.arrive(b"after", b"x")
    assert net.got(L) == ([b"after"] if mutants else [b"x", b"after"]), "without its record x counts as a copy"


@pytest.mark.parametrize("mutants", [(), ("held_unseen",)])
def test_mail_of_it_that_is_here_is_waited_for_though_its_record_is_gone(office, mutants):
    """Q's mail to L stands for x in B's header; B drops the record when Q ends, and L still knows by the vector."""
    net = office(4, mutants=frozenset(mutants))
    net.send(A, L, b"x")
    net.send(A, Q, b"to q")
    net.arrive(b"to q")
    net.send(Q, L, b"z")
    net.arrive(b"z")
    net.acknowledge()
    assert net.held(L) == [b"z"]
    net.send(Q, B, b"to b")
    assert net.mails[b"to b"].records == ((Q, L, 1),)
    net.arrive(b"to b")
    retire(net, B, A, L)
    assert net.records(B) == {}
    net.send(B, L, b"after")
    net.arrive(b"after")
    assert net.got(L) == ([b"after", b"z"] if mutants else [])
    net.arrive(b"x")
    assert mutants or net.got(L) == [b"x", b"z", b"after"]


def test_mail_of_it_that_is_here_is_delivered_in_order_with_gaps(office):
    net = office(4)
    for body in (b"1", b"2", b"3", b"4"):
        net.send(Q, L, body)
    net.arrive(b"4", b"2")
    retire(net, L)
    assert net.got(L) == [b"2", b"4"] and net.held(L) == []


def test_it_says_nothing_any_more(office):
    net = office(4)
    net.send(Q, L, b"late")
    retire(net, L)
    net.arrive(b"late")
    assert net.got(L) == [] and net.acked(L, Q) == [] and net.rejected(L) == ["mail-retired"]


def test_a_slot_is_given_once_and_nobody_retires_itself(office):
    net = office(4)
    retire(net, A)
    with pytest.raises(InvariantError):
        net.up[A].add(Q)
    with pytest.raises(InvariantError):
        net.up[A].retire(A)


def test_who_starts_again_has_forgotten_neither_the_end_nor_the_newcomer(office):
    net = office(4)
    retire(net, A)
    net.crash(A)
    net.start(A)  # the driver names Q among the peers still
    net.send(Q, A, b"late")
    net.arrive(b"late")
    assert net.rejected(A) == ["mail-retired"]
    net.tick(A, MailStation.add, 9)
    assert net.tick(A, MailStation.send, 9, b"m") == 1
    net.slots.append(9)
    net.images[9], net.told[9] = MailImage(), []
    net.start(9)
    net.settle(A, 9)
    assert net.got(9) == [b"m"] and net.images[A].outgoing[9] == {}
