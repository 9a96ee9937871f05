"""Expiry and what the host is told (causal-broadcast.md B12, B13; one-order.md 7, 17; composition.md S3)."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import Ack, Msg, Replaced, Uack, Welcome
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import DataBatch, Probe, Query, XAck

EXPIRY = {"away_max": 20 * SECOND, "clock_settle": SECOND, "spool_grace": 2 * SECOND}


@pytest.mark.rules("tomb_no_u", **{**EXPIRY, "spool_grace": 60 * SECOND})
def test_b12_a_tomb_covers_all_that_was_sent(net, pair):
    """B12: expired with a message it had been given but not acknowledged; it is not given again elsewhere."""
    a, b = pair
    net.hold = lambda source, target, frame: target == 2 and isinstance(frame, DataBatch)
    b.write(b"m")
    assert a.got == [b"m"]
    a.cut()
    b.busy(30)
    assert [record.state for record in net.records(1, a)] == ["tomb"]
    assert a.attach(2).gap
    net.release()
    assert a.entries() == []


@pytest.mark.rules(**EXPIRY)
def test_b13_expired_at_a_tentative_station(net, pair):
    """B13: the host names the old session; it is told of the gap, and both tombs go."""
    a, b = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    b.busy(60)
    assert [record.state for record in net.records(2, a)] == ["tomb"]
    assert [record.state for record in net.records(1, a)] == ["tomb"]
    a.misses = ()
    assert a.attach(1).gap
    a.ack()
    b.busy(200)
    assert [record.state for record in net.records(1, a)] == ["open"] and not net.records(2, a)


@pytest.mark.rules(**EXPIRY)
def test_b13_expired_after_its_welcome(net, pair):
    """B13: the host names the tentative session; a gap again, and both tombs go."""
    a, b = pair
    a.attach(2)
    a.cut()
    b.busy(60)
    assert a.attach(2).gap
    a.ack()
    b.busy(200)
    assert [record.state for record in net.records(2, a)] == ["open"] and not net.records(1, a)


@pytest.mark.rules("save:tombstone", **EXPIRY)
def test_a_tomb_is_durable_before_xack(net, pair):
    """The old station has answered EXPIRE and crashes; named later, it still tells of the gap."""
    a, b = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    b.write(b"m")
    b.busy(60)
    assert XAck(a.mh, 2) in net.frames(XAck)
    net.restart(1)
    b.attach(1)
    b.busy(10)
    a.misses = ()
    assert a.attach(1).gap


def test_a_host_whose_former_station_knows_nothing_any_more_may_call_again(net, pair):
    """It did not hear its WELCOME, and what the former station kept has expired and gone: that session ends."""
    a, _ = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    (record,) = net.cores[1].ledger.of_host(a.number)
    net.tick(1, lambda core: core.ledger.drop(record))
    net.run(60 * SECOND)
    assert [word.e for word in a.words(Replaced)] == [a.e], "0 would be: for good"


@pytest.mark.rules(**EXPIRY)
def test_s3_tombs_do_not_ask(net, pair):
    """S3: an expired pair in mid-handoff is silent once EXPIRE is acknowledged."""
    a, b = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    a.cut()
    b.busy(30)
    assert XAck(a.mh, 2) in net.frames(XAck)
    net.sent.clear()
    b.busy(300)
    assert not net.frames(Probe, Query)


@pytest.mark.rules(**EXPIRY)
def test_scenario_17_expired_again_while_the_gap_is_told(net, pair):
    """one-order 17: the gap is told, and told again for the second expiry; confirmed, it is told no more."""
    a, b = pair
    a.cut()
    b.write(b"m1")
    b.busy(30)
    a.misses = (Welcome, Msg)
    a.hello(1)
    a.cut()
    b.write(b"m2")
    b.busy(30)
    a.misses = ()
    assert a.attach(1).gap
    a.ack()
    b.write(b"m3")
    assert not a.attach(1).gap
    assert [body for body in a.got if body.startswith(b"m")] == [b"m3"]


@pytest.mark.rules(**EXPIRY)
def test_own_messages_outlive_expiry(net, pair):
    """What a host is told after expiry: messages missed; nothing of its own is lost or doubled."""
    a, b = pair
    a.misses = (Uack, Msg)
    a.send(b"x")
    a.cut()
    b.busy(40)
    a.misses = ()
    welcome = a.attach(2)
    assert welcome.gap and welcome.lastseq == 1
    a.resend()
    a.send(b"y")
    net.deliver()
    assert [body for body in b.got if body != b"-"] == [b"x", b"y"]


@pytest.mark.rules(**EXPIRY)
def test_nothing_from_before_the_return_comes_after_the_gap(net, pair):
    """What was written while the record was a tomb is missed as a whole, though some of it is still in the log."""
    a, b = pair
    a.cut()
    b.busy(40)
    assert [record.state for record in net.records(1, a)] == ["tomb"]
    b.send(b"m")
    net.deliver()
    assert net.rows
    assert a.attach(1).gap and a.entries() == []


@pytest.mark.rules(**EXPIRY)
def test_expired_before_it_was_past_the_arrival(net, pair):
    """Confirmed, but something that the former station guards was never acknowledged: expiry frees that station."""
    a, b = pair
    a.misses = (Msg,)
    b.write(b"m")
    a.attach(2)
    a.say(Ack(a.le, a.in_hand))
    net.deliver()
    assert [record.state for record in net.records(1, a)] == ["moved"]
    a.cut()
    b.busy(40)
    assert [record.state for record in net.records(2, a)] == ["tomb"]
    assert not net.records(1, a)


def test_questions_without_an_answer_become_rare(net, pair):
    """QUERY and PROBE: from one second doubling to a minute."""
    a, _ = pair
    a.misses = (Welcome, Msg)
    a.hello(2)
    net.deliver()
    net.lose = lambda source, target, frame: isinstance(frame, (Query, Probe))
    net.sent.clear()
    net.run(600 * SECOND)
    assert 10 <= len(net.frames(Query)) <= 20 and 10 <= len(net.frames(Probe)) <= 20
