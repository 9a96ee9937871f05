"""Attaching: HELLO, WELCOME, choice of station, back-off, refusals, takeovers, a new incarnation."""

from __future__ import annotations

import pytest

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import (
    PROTOCOL_VERSION,
    Ack,
    Detach,
    Hello,
    Leave,
    Left,
    Msg,
    NoSession,
    Refused,
    Stale,
    Uack,
    Wait,
)  # fmt: skip
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Connect, Disconnect, Ended, Save, SendUp
from roamcast.middleware.mobile_host.errors import AgentEnded
from roamcast.middleware.mobile_host.state import Acked, Epoch, NewIncarnation, Welcomed
from roamcast.middleware.settings import SECOND


def facts(rig) -> list:
    return [fact for save in rig.of(Save) for fact in save.facts]


def test_first_hello_names_the_enrolling_station_and_follows_the_saved_incarnation(rig):
    effects = rig.tick(AgentCore.start)
    save, connect, hello = effects
    assert isinstance(save.facts[0], NewIncarnation)
    assert save.facts[0].incarnation != 0
    assert connect == Connect(1, "tcp://s1:7001", b"k" * 40)
    assert hello.frame == Hello(PROTOCOL_VERSION, "me", save.facts[0].incarnation, False, 1, 1, 0, 0, 1, 240)


def test_welcome_is_saved_before_the_first_acknowledgement(rig):
    effects = rig.attach(at=-5)
    assert isinstance(effects[0], Save)
    assert Welcomed(1, 1, -5, False, 0) in effects[0].facts
    assert effects[1] == SendUp(Ack(1, -5))


def test_epoch_rises_with_every_attempt(rig):
    rig.tick(AgentCore.start)
    assert rig.hello.e == 1
    rig.tick(after=2 * SECOND)
    assert rig.hello.e == 2


def test_stations_in_turn_two_seconds_each_then_a_pause(rig):
    rig.tick(AgentCore.start)
    called = [*rig.connects]
    for _ in range(2):
        assert rig.core.next_deadline() == rig.now + 2 * SECOND
        rig.tick(after=2 * SECOND)
        called += rig.connects
    assert called[0] == 1
    assert sorted(called) == [1, 2, 3]
    rig.tick(after=2 * SECOND)
    assert rig.connects == []
    assert rig.of(Disconnect)
    assert rig.now <= rig.core.next_deadline() <= rig.now + SECOND // 2


def test_pauses_double_up_to_eight_seconds_with_full_jitter(make_rig):
    longest: dict[int, int] = {}
    for _ in range(30):
        rig = make_rig()
        rig.seed += len(longest) * 1000 + _
        rig.core = rig.start_core()
        rig.tick(AgentCore.start)
        for round_ in range(7):
            for _ in range(3):
                rig.tick(lambda core: core.link_lost("unreachable"))
            pause = rig.core.next_deadline() - rig.now
            longest[round_] = max(longest.get(round_, 0), pause)
            rig.tick(after=pause)
    for round_, limit in enumerate((0.5, 1, 2, 4, 8, 8, 8)):
        assert 0.5 * limit * SECOND < longest[round_] <= limit * SECOND


def test_refused_connections_go_to_the_next_station_at_once(rig):
    rig.tick(AgentCore.start)
    rig.tick(lambda core: core.link_lost("unreachable"))
    assert rig.connects[0] in (2, 3)


def test_last_station_comes_first_after_a_lost_session(rig):
    rig.tick(AgentCore.start)
    rig.tick(lambda core: core.move(3))
    rig.attach(at=9)
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert rig.connects == [3]
    assert (rig.hello.last, rig.hello.le, rig.hello.c) == (3, 2, 9)


def test_short_sessions_back_off_after_the_first(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"))
    assert rig.connects == [1]
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"))
    assert rig.connects == []
    assert rig.core.status()["state"] == "paused"


def test_move_attaches_there_first_and_falls_back_to_the_last(rig):
    rig.attach()
    rig.tick(lambda core: core.move(2))
    assert rig.connects == [2]
    assert rig.hello.last == 1
    rig.tick(after=2 * SECOND)
    assert rig.connects == [1]


def test_move_to_where_it_is_does_nothing(rig):
    rig.attach()
    assert rig.tick(lambda core: core.move(1)) == []


def test_move_to_an_unknown_station_is_the_callers_fault(rig):
    with pytest.raises(LocalProtocolError):
        rig.core.move(9)


def test_only_the_welcome_of_the_present_attempt_opens(rig):
    rig.tick(AgentCore.start)
    old = rig.welcome()
    rig.tick(after=2 * SECOND)
    assert rig.hear(old) == []
    assert rig.core.status()["state"] == "attaching"


def test_nothing_of_a_session_counts_before_the_welcome(rig, make_item):
    rig.tick(AgentCore.start)
    rig.submit()
    rig.hear(Msg(0, 1, ((1, make_item(2, 1)),)), Uack(1, 1, 1, 1), Left())
    assert rig.take() is None
    assert rig.receipts == []
    assert rig.core.status()["outbox"] == 1


def test_what_comes_in_the_tick_that_gives_up_a_connection_is_of_the_old_one(rig):
    rig.attach()
    rig.tick(lambda core: core.move(2), lambda core: core.receive(NoSession()), lambda core: core.link_lost("cut"))
    assert rig.connects == [2]


def test_wait_stops_the_timeout_for_fifteen_seconds_and_is_shown(rig):
    rig.tick(AgentCore.start)
    rig.hear(Wait("former station is down", 3, 77), after=SECOND)
    assert rig.core.status()["waiting"] == {"reason": "former station is down", "station": "s3", "since": 77}
    rig.hear(Wait("former station is down", 3, 77), after=5 * SECOND)
    assert rig.core.next_deadline() == rig.now + 15 * SECOND
    rig.tick(after=14 * SECOND)
    assert rig.connects == []
    rig.tick(after=SECOND)
    assert rig.connects != []
    assert rig.core.status()["waiting"] is None


def test_stale_goes_above_the_highest_epoch_on_the_same_connection(rig):
    rig.tick(AgentCore.start)
    rig.hear(Stale(41))
    assert rig.connects == []
    assert rig.hello.e == 42
    rig.hear(Stale(41))
    assert rig.sent() == []


def test_stale_for_ever_is_a_failed_attempt(rig):
    rig.tick(AgentCore.start)
    for highest in (10, 20, 30):
        rig.hear(Stale(highest))
        assert rig.connects == []
    rig.hear(Stale(40))
    assert rig.connects != []
    assert rig.hello.e == 41


def test_epoch_is_saved_before_its_hello_and_goes_on_after_a_crash(rig):
    rig.tick(AgentCore.start)
    rig.tick(after=2 * SECOND)
    assert Epoch(2) in facts(rig)
    rig.crash()
    assert rig.hello.e == 3


def test_other_refusals_back_off(rig):
    rig.attach()
    rig.hear(Refused("rate", "too many"))
    assert rig.core.status()["state"] == "paused"
    rig.tick(after=SECOND // 2)
    assert rig.connects == [1]


def test_no_session_ends_a_session_and_an_attempt(rig):
    rig.attach()
    rig.hear(NoSession(), after=10 * SECOND)
    assert rig.connects == [1]
    rig.hear(NoSession())
    assert rig.connects[0] in (2, 3)


def test_suspend_stops_everything_and_resume_starts_again(rig):
    rig.attach(at=4)
    assert Disconnect() in rig.tick(AgentCore.suspend)
    assert rig.core.next_deadline() is None
    assert rig.tick(after=10**12) == []
    rig.tick(AgentCore.resume)
    assert (rig.hello.le, rig.hello.c, rig.hello.last) == (1, 4, 1)


def test_network_change_reconnects_at_once(rig):
    rig.attach()
    rig.tick(AgentCore.network_changed)
    assert rig.connects == [1]
    rig.tick(lambda core: core.link_lost("unreachable"), lambda core: core.link_lost("unreachable"))
    rig.tick(AgentCore.network_changed)
    assert rig.connects == [1]


def test_detach_says_the_acknowledgements_and_goodbye(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    rig.tick(AgentCore.detach)
    assert rig.sent() == [Ack(1, 1), Detach(1)]
    assert rig.of(Disconnect) == [Disconnect(polite=True)]
    assert rig.core.status()["state"] == "off"
    rig.tick(AgentCore.resume)
    assert rig.hello.c == 1


def test_leave_is_repeated_until_it_is_answered(rig):
    rig.attach()
    rig.tick(AgentCore.leave)
    assert rig.sent() == [Leave(1)]
    with pytest.raises(AgentEnded):
        rig.core.submit(b"x")
    rig.tick(after=10 * SECOND)
    rig.attach()
    assert rig.sent(Leave) == [Leave(rig.epoch)]
    rig.hear(Left())
    assert rig.take() == Ended("left", "the host has left")


def test_leave_that_was_done_already_is_no_error(rig):
    rig.attach()
    rig.tick(AgentCore.leave)
    rig.tick(lambda core: core.link_lost("cut"), after=SECOND)
    rig.hear(Refused("gone", "left"))
    assert rig.take().code == "left"


def test_hello_says_what_is_durable(rig, make_item):
    rig.attach()
    rig.msg(0, 3, (2, make_item(2, 1)))
    rig.ack(rig.take())
    rig.submit(b"mine")
    rig.msg(3, 7)
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert Acked(1, 7) in facts(rig)
    assert (rig.hello.c, rig.hello.una) == (7, 1)
    assert rig.disk.c == 7
