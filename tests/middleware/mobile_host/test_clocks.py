"""PING, progress, silence, freezes: when a session is over, and when not yet."""

from __future__ import annotations

from roamcast.middleware.host_frames import Leave, Ping, Pong, Uack, Wait
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.settings import SECOND


def run(rig, until: int) -> list:
    """Let timers fire for so many microseconds, each PING answered. Returns (seconds since, frame) of what was sent."""
    start, sent = rig.now, []
    while (deadline := rig.core.next_deadline()) is not None and deadline <= start + until:
        rig.tick(after=max(deadline - rig.now, 0))
        for frame in rig.sent():
            sent.append(((rig.now - start) // SECOND, frame))
            if isinstance(frame, Ping):
                rig.hear(Pong(rig.core._session.inbox.position))
    rig.now = start + until
    return sent


def test_idle_agent_pings_every_240_seconds_after_a_first_one(rig):
    rig.attach()
    assert [time for time, _ in run(rig, 600 * SECOND)] == [5, 245, 485]


def test_unacknowledged_message_keeps_it_pinging_every_5_seconds(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.take()
    assert [time for time, _ in run(rig, 20 * SECOND)] == [5, 10, 15, 20]


def test_no_second_ping_before_the_answer_and_the_end_after_10_seconds(rig):
    rig.attach()
    rig.tick(after=5 * SECOND)
    assert rig.sent(Ping)
    assert rig.core.next_deadline() == rig.now + 10 * SECOND
    rig.tick(after=9 * SECOND)
    assert rig.effects == []
    rig.tick(after=SECOND)
    assert rig.connects == [1]
    assert "session-ended" in rig.reports


def test_data_without_progress_ends_the_session(rig):
    rig.attach()
    rig.submit()
    rig.tick(after=5 * SECOND)
    rig.hear(Pong(0))
    rig.tick(after=5 * SECOND)
    assert rig.connects == [1]


def test_progress_prolongs(rig):
    rig.attach()
    rig.submit()
    rig.submit()
    rig.hear(Uack(1, 1, 1, 1), after=9 * SECOND)
    rig.hear(Pong(0), after=2 * SECOND)
    assert rig.connects == []
    rig.hear(Uack(1, 2, 1, 2))
    run(rig, 60 * SECOND)
    assert rig.core.status()["state"] == "open"


def test_repeated_uack_is_no_progress(rig):
    rig.attach()
    rig.submit()
    rig.hear(Uack(1, 0, 0, 0), Pong(0), after=9 * SECOND)
    rig.tick(after=SECOND)
    assert rig.connects == [1]


def test_wait_holds_every_timeout_back(rig):
    rig.attach()
    rig.submit()
    rig.tick(after=5 * SECOND)
    for _ in range(10):
        rig.hear(Wait("the disk is full", 0, 0), after=5 * SECOND)
        assert rig.connects == []
    assert rig.core.status()["waiting"]["reason"] == "the disk is full"
    rig.tick(after=15 * SECOND)
    assert rig.connects == [1]


def test_progress_ends_the_waiting(rig):
    rig.attach()
    rig.submit()
    rig.hear(Wait("the disk is full", 0, 0))
    rig.hear(Uack(1, 1, 1, 1))
    assert rig.core.status()["waiting"] is None


def test_leave_without_an_answer_ends_the_session(rig):
    rig.attach()
    rig.tick(AgentCore.leave)
    assert rig.sent(Leave)
    rig.tick(after=5 * SECOND)
    rig.hear(Pong(0))
    rig.tick(after=5 * SECOND)
    assert rig.connects == [1]


def test_thawed_agent_pings_and_waits_2_seconds_for_the_answer(rig):
    rig.attach()
    rig.submit()
    rig.tick(after=3600 * SECOND)
    assert rig.connects == []
    assert rig.sent(Ping)
    assert rig.core.next_deadline() == rig.now + 2 * SECOND
    rig.tick(after=2 * SECOND)
    assert rig.connects == [1]


def test_thawed_agent_on_a_living_link_goes_on(rig):
    rig.attach()
    rig.tick(after=3600 * SECOND)
    rig.hear(Pong(0))
    assert [time for time, _ in run(rig, 600 * SECOND)] == [240, 480]


def test_thawed_agent_waiting_for_an_answer_to_hello_tries_on(rig):
    rig.tick(AgentCore.start)
    rig.tick(after=600 * SECOND)
    assert rig.connects != []


def test_thawed_agent_in_back_off_tries_at_once(rig):
    rig.tick(AgentCore.start)
    rig.tick(*[lambda core: core.link_lost("unreachable")])
    rig.tick(*[lambda core: core.link_lost("unreachable")])
    rig.tick(*[lambda core: core.link_lost("unreachable")])
    assert rig.connects == []
    rig.tick(after=600 * SECOND)
    assert rig.connects == [1]


def test_short_delay_is_no_freeze(rig):
    rig.attach()
    rig.tick(after=12 * SECOND)
    assert rig.core.next_deadline() == rig.now + 10 * SECOND


def test_drained_after_two_quiet_answers(rig, make_item):
    rig.attach()
    rig.tick(AgentCore.probe)
    rig.hear(Pong(0))
    assert not rig.core.drained
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.tick(AgentCore.probe)
    rig.hear(Pong(1))
    rig.hear(Pong(1))
    assert not rig.core.drained
    rig.ack(rig.take())
    rig.hear(Pong(1))
    rig.hear(Pong(1))
    assert rig.core.drained
    rig.submit()
    assert not rig.core.drained
