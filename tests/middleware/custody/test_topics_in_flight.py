"""What a station sent and the host did not acknowledge comes at the next station in the order of the first.

So the order of two stations is never mixed: not where the application acknowledges late, nor where its link lost it.
"""

from __future__ import annotations

import pytest
from on_topics import RETAINED, SUB, TOPIC, UNSUB, configure, subscribe

from roamcast.middleware.host_frames import Msg, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch, SpoolPart


def hold(net, *ways):
    """Data on these ways, (source, target), waits."""
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch) and (source, target) in ways


def tell(net, p):
    """Publisher p says something to all, then m on the topic, then something to all that follows both."""
    p.send(b"first")
    p.publish(TOPIC, "t", b"m")
    p.send(b"all")
    net.deliver()


def move(net, a, to):
    """Host a goes to this station; then everything that was held arrives."""
    a.attach(to)
    net.release()
    net.run(SECOND)


@pytest.fixture
def changes_at_3(net, crowd):
    """Host a says SUB or UNSUB at station 3, hears no answer, and moves on while data waits on the ways given."""
    a, _, _, p = crowd

    def change(kind, *ways, to):
        a.arrive(3)
        hold(net, *ways)
        net.choke(a)
        a.publish(kind, "t")
        net.deliver()
        net.report_full(a)
        a.attach(to)
        return a, p

    return change


@pytest.mark.rules("order_anew")
def test_passed_before_the_sub_here_and_behind_it_there(net, changes_at_3):
    """m stands before the SUB at 1 and is passed; "all", which follows it, is given; at 3 m stands behind the SUB."""
    a, p = changes_at_3(SUB, (3, 1), (3, 2), (2, 3), to=1)
    tell(net, p)
    assert a.got == [b"first", b"all"]
    move(net, a, to=3)
    assert a.got == [b"first", b"all", b"+t"]


@pytest.mark.rules("order_anew")
def test_passed_behind_the_end_here_and_before_it_there(net, crowd, changes_at_3):
    subscribe(net, crowd[0])
    a, p = changes_at_3(UNSUB, (3, 2), to=1)
    p.publish(TOPIC, "t", b"m")
    p.send(b"all")
    net.deliver()
    assert a.got == [b"+t", b"-t", b"all"]
    move(net, a, to=2)
    assert a.got == [b"+t", b"-t", b"all"]


@pytest.mark.rules("order_anew")
def test_what_follows_a_message_given_behind_the_sub_is_given(net, changes_at_3):
    """At 2 the SUB comes behind m; but a had the SUB and "all" at 1, which m follows."""
    a, p = changes_at_3(SUB, (3, 2), to=1)
    p.send(b"all")
    net.deliver()
    assert a.got == [b"+t", b"all"]
    hold(net, (3, 2), (2, 1))
    p.publish(TOPIC, "t", b"m")
    move(net, a, to=2)
    assert a.got == [b"+t", b"all", b"m"]


@pytest.mark.rules("order_anew")
def test_what_an_earlier_session_had_sent(net, changes_at_3):
    """The host has called here again, and did not hear the answer: it names the session in which it was given that."""
    a, p = changes_at_3(SUB, (3, 1), (3, 2), (2, 3), to=1)
    tell(net, p)
    a.misses = (Welcome, Msg)
    a.hello(1)
    net.deliver()
    a.misses = ()
    move(net, a, to=3)
    assert a.got == [b"first", b"all", b"+t"]


@pytest.mark.rules("order_anew")
def test_a_station_that_died_since_does_not_know_what_it_sent(net, changes_at_3):
    a, p = changes_at_3(SUB, (3, 1), (3, 2), (2, 3), to=1)
    tell(net, p)
    net.restart(1)
    configure(net, 1)
    move(net, a, to=3)
    assert a.got == [b"first", b"all", b"+t"]


def test_the_value_that_came_with_a_sub_comes_again_with_it(net, crowd):
    a, _, _, p = crowd
    p.publish(RETAINED, "t", b"w")
    net.deliver()
    a.misses = (Msg,)
    subscribe(net, a)
    a.misses = ()
    a.arrive(2)
    assert a.got == [b"+t", b"=w"]


def test_where_nothing_changes_nothing_is_copied(net, crowd):
    """A host whose subscriptions are settled takes nothing along."""
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    net.run(12 * SECOND)
    p.publish(TOPIC, "t", b"m")
    p.send(b"all")
    net.deliver()
    a.attach(3)
    assert a.got == [b"+t", b"m", b"all"] and not net.frames(SpoolPart)


@pytest.mark.rules("ready_by_ack")
def test_custody_is_accepted_when_a_right_that_went_takes_what_was_owed_last(net, crowd):
    """topics seed 1714906: no acknowledgement follows, and the station before would guard for it for good."""
    a, _, _, p = crowd
    subscribe(net, a)
    a.ack()
    a.cut()
    p.publish(TOPIC, "t", b"x")
    net.deliver()
    a.misses = (Msg,)
    a.attach(2)
    a.ack()
    net.run(10 * SECOND)
    assert [record.link for record in net.records(2, a)] == [True]
    configure(net, deny=[a])
    net.run(30 * SECOND)
    assert [record.link for record in net.records(2, a)] == [False] and net.records(1, a) == []
