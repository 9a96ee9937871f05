"""Hostile numbers and frames out of place: refused, counted, nothing changed (P10, P12; security.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roamcast.middleware.effects import SendHost
from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    Data,
    Detach,
    Hello,
    Leave,
    NoSession,
    Ping,
    Pong,
    Refused,
    Reset,
    Stale,
    Uack,
    Welcome,
)
from roamcast.middleware.rows import SpoolItem
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import (
    Accept,
    Cancel,
    Expire,
    HandoffNack,
    HandoffReq,
    NoRec,
    Released,
    Spooled,
    SpoolPart,
    State,
    XAck,
)

HUGE = 1 << 60


@pytest.fixture
def pair(make_net):
    """Hosts a and b at station 1 of two; a has acknowledged one message of b."""
    net = make_net(1, 2)
    a, b = net.enrol("a"), net.enrol("b")
    a.arrive(1)
    b.arrive(1)
    b.send(b"m")
    a.ack()
    b.ack()
    net.run(2 * SECOND)
    assert a.got == [b"m"]
    return net, a, b


def untouched(net, a, b) -> None:
    """Whatever was refused: the host attaches as before and its stream goes on."""
    b.send(b"next")
    a.attach(1)
    a.ack()
    assert a.got == [b"m", b"next"]
    assert [record.state for record in net.records(1, a)] == ["open"]
    assert not net.records(2, a)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"c": HUGE}, "bad-claim"),
        ({"e": HUGE}, "bad-hello"),
        ({"incarnation": 0}, "bad-hello"),
        ({"last": 9}, "bad-last"),
        ({"last": 0}, "bad-last"),
        ({"last": -1}, "bad-last"),
    ],
    ids=str,
)
def test_hello_with_a_hostile_number(pair, changes, code):
    net, a, b = pair
    session = net.cores[1].status()["attached"]
    (word,) = a.hello(1, **changes)
    assert isinstance(word, Refused) and word.code == code
    assert code in net.rejected()
    assert net.cores[1].status()["attached"] == session, "the session that was there lives on"
    untouched(net, a, b)


def test_claims_above_the_log_raise_the_alarm(pair):
    """Perhaps the host lies, perhaps this store went back in time."""
    net, a, _ = pair
    a.hello(1, c=HUGE)
    assert "host-knows-more" in net.rejected()
    net.faults.clear()
    a.hello(1, una=7)
    assert net.rejected() == ["host-knows-more"]


@pytest.mark.parametrize("changes", [{"c": -HUGE}, {"le": 77}, {"le": 0}], ids=str)
def test_hello_that_forgot(pair, changes):
    """c below the acknowledged one, a session that never was: the agent's state went back, RESET."""
    net, a, b = pair
    assert a.hello(1, **changes) == [Reset(a.e)]
    untouched(net, a, b)


def test_an_old_epoch_is_answered_with_the_highest(pair):
    net, a, b = pair
    a.e = 0
    assert a.hello(1) == [Stale(1)]
    untouched(net, a, b)


def test_a_leap_of_epochs_is_bounded_and_small_leaps_are_taken(pair):
    _net, a, _ = pair
    a.e = 1 << 32
    assert isinstance(a.hello(1)[0], Welcome)
    a.e += (1 << 32) + 1
    assert isinstance(a.hello(1)[0], Refused)


@pytest.mark.parametrize("frame", [Ack, Ping])
@pytest.mark.parametrize("c", [HUGE, -HUGE])
def test_acknowledgement_of_what_was_not_sent(pair, frame, c):
    net, a, b = pair
    (word,) = a.say(frame(a.le, c))
    assert isinstance(word, Refused) and word.code == "bad-ack"
    assert ("host-knows-more" in net.rejected()) == (c == HUGE)
    assert isinstance(a.say(Ping(a.le, a.in_hand))[0], Pong)
    untouched(net, a, b)


@pytest.mark.parametrize("number", [0, -1])
def test_data_with_an_impossible_number(pair, number):
    net, a, b = pair
    words = a.say(Data(a.le, number, 0, None, b"x"))
    assert [type(word) for word in words] == [Refused, Uack] and words[0].code == "bad-number"
    assert b.got == [b"m"]
    untouched(net, a, b)


def test_data_beyond_the_next_number_is_answered_and_not_taken(pair):
    """P12."""
    net, a, b = pair
    (word,) = a.say(Data(a.le, 5, 0, None, b"x"))
    assert isinstance(word, Uack) and word.lastseq == 0
    untouched(net, a, b)


def test_a_body_beyond_the_limit_takes_no_number(pair):
    net, a, b = pair
    (word,) = a.say(Data(a.le, 1, 0, None, bytes(net.settings.message_bytes_max + 1)))
    assert isinstance(word, Refused) and word.code == "too-large"
    a.send(b"small")
    assert b.got == [b"m", b"small"]


@pytest.mark.parametrize("frame", [Ack(1, 0), Data(1, 1, 0, None, b"x"), Ping(1, 0), Detach(1), Leave(1)], ids=str)
def test_no_session_no_frame(pair, frame):
    """On a fresh channel, on somebody else's, and of another epoch."""
    net, a, b = pair
    fresh = net.connect(a, 1)
    for channel, host in ((fresh, a), (b.channel, a)):
        effects = net.tick(1, lambda core, c=channel, h=host: core.receive_host(c, h.number, frame))
        assert NoSession() in [effect.frame for effect in effects if hasattr(effect, "frame")]
    assert a.say(replace(frame, e=9)) == [NoSession()]
    untouched(net, a, b)


def test_a_hostile_claim_through_another_station(pair):
    """HANDOFF_REQ carries a host's words: checked again, refused, the record untouched."""
    net, a, b = pair
    a.hello(2, c=HUGE)
    net.deliver()
    assert a.words(Refused) and "bad-claim" in net.rejected()
    assert net.cores[1].status()["attached"] == ["a", "b"]
    untouched(net, a, b)


@pytest.mark.parametrize("mh", [(1 << 32 | 1, 0), (1 << 32 | 99, 7)], ids=["incarnation 0", "nobody"])
def test_a_request_for_a_host_that_is_not_here(pair, mh):
    net, a, b = pair
    net.sent.clear()
    net.hand(2, 1, HandoffReq(mh, 5, 3, 0, 1))
    assert [type(frame) for frame in net.frames(HandoffNack, State)] == [HandoffNack]
    untouched(net, a, b)


def test_custody_frames_that_nobody_asked_for_change_nothing(pair):
    """Unordered, lost and repeated frames are normal; so are those of attempts that never were."""
    net, a, b = pair
    mh = a.mh
    before = dict(net.disks[1].records)
    for frame in (
        State(mh, 1, (0, 9), (0, 9), 5, (1, 1), False, 0, 0),
        State(mh, 7, (0, 9), (0, 9), 5, (1, 1), False, 0, 0),
        SpoolPart(mh, 1, 0, 1, ()),
        Accept(mh, 1),
        Released(mh, 1),
        Cancel(mh, 1, 9),
        HandoffNack(mh, 1),
        NoRec(mh, 1),
        Expire(mh, 1, (0, 9, 9)),
        XAck(mh, 1),
        Spooled(mh, 1),
    ):
        net.hand(2, 1, frame)
    assert net.disks[1].records == before
    untouched(net, a, b)


def test_custody_frames_of_a_station_that_is_not_concerned(make_net):
    """RELEASED frees nothing but from the former station; CANCEL touches no confirmed record."""
    net = make_net(1, 2, 3)
    a = net.enrol("a")
    a.arrive(1)
    net.run(2 * SECOND)
    net.lose = lambda source, target, frame: isinstance(frame, Accept)
    a.arrive(2)
    before = dict(net.disks[2].records)
    net.hand(3, 2, Released(a.mh, a.e))
    net.hand(1, 2, Cancel(a.mh, a.e, 9))
    assert net.disks[2].records == before and net.cores[2].status()["attached"] == ["a"]


def test_custody_of_an_older_attempt_is_not_taken(make_net):
    """STATE and parts of the spool count for exactly the attempt that waits, and from the station that it named."""
    net = make_net(1, 2, 3)
    a, w = net.enrol("a"), net.enrol("w")
    a.arrive(1)
    w.arrive(1)
    a.cut()
    w.write(b"m")
    net.run(20 * SECOND)
    net.hold = lambda source, target, frame: isinstance(frame, State | SpoolPart)
    a.hello(2)
    a.hello(2)
    net.deliver()
    old, new = [frame for _, _, frame in net.held if isinstance(frame, State)]
    garbage = (SpoolItem(3, 77, b"garbage", 7),)
    for source, state in ((1, replace(old, parts=0)), (3, replace(new, parts=0)), (1, new)):
        net.hand(source, 2, state)
    for source, e in ((1, old.e), (3, new.e)):
        net.hand(source, 2, SpoolPart(a.mh, e, 0, 1, garbage))
    assert not net.records(2, a)
    net.release()
    assert [record.arr for record in net.records(2, a)] == [new.e] and a.got == [b"m"]


def test_a_state_wider_than_the_configuration_is_refused(pair):
    net, a, _ = pair
    net.lose = lambda source, target, frame: isinstance(frame, State)
    a.hello(2)
    net.deliver()
    net.hand(1, 2, State(a.mh, a.e, (0,) * 9, (), 0, (0, 0), False, 0, 0))
    assert "bad-state" in net.rejected()
    assert not net.records(2, a)


def test_a_station_that_is_not_counted_changes_nothing(pair):
    net, a, b = pair
    net.hand(9, 1, Accept((1, 1), 1))
    untouched(net, a, b)


def test_a_host_that_is_not_enrolled(pair):
    net, a, b = pair
    channel = net.connect(a, 1)
    hello = Hello(PROTOCOL_VERSION, "stranger", 77, False, 1, 1, 0, 0, 1, 60)
    effects = net.tick(1, lambda core: core.receive_host(channel, 12345, hello))
    assert Refused in [type(effect.frame) for effect in effects if isinstance(effect, SendHost)]
    untouched(net, a, b)
