"""Down: what is taken, given, acknowledged, replayed; over lost sessions, crashes and gaps."""

from __future__ import annotations

import pytest

from roamcast.middleware.errors import LocalProtocolError
from roamcast.middleware.host_frames import Ack, Data, Msg, Pong
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Delivered, Discontinuity, Save, SendUp
from roamcast.middleware.mobile_host.state import Acked, LateAck
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND


def saved(rig, kind: type) -> list:
    return [fact for save in rig.of(Save) for fact in save.facts if isinstance(fact, kind)]


def test_messages_are_given_in_order_with_what_they_are(rig, make_item):
    rig.attach()
    rig.msg(0, 5, (2, make_item(2, 1)), (5, make_item(3, 9, "bob", 8, 4, Kind.MAIL)))
    first, second = rig.take_all()
    assert (first.id, first.body, first.own) == ((2, 1), b"2.1", False)
    assert second == Delivered(second.token, (3, 9), "bob", 8, 4, Kind.MAIL, False, b"3.9", place=(1, 5))


def test_a_frame_that_does_not_follow_means_a_loss(rig, make_item):
    rig.attach(at=3)
    rig.msg(4, 6, (5, make_item(2, 1)))
    assert rig.take() is None
    assert rig.connects == [1]


def test_an_overlapping_frame_means_a_loss_too(rig, make_item):
    rig.attach(at=3)
    rig.msg(3, 6)
    rig.msg(5, 8, (7, make_item(2, 1)))
    assert rig.connects == [1]


@pytest.mark.parametrize("positions", [(3,), (9,), (5, 5), (6, 5)])
def test_positions_outside_the_frame_end_the_session(rig, make_item, positions):
    rig.attach(at=3)
    rig.msg(3, 8, *[(position, make_item(2, n)) for n, position in enumerate(positions, 1)])
    assert rig.connects == [1]


def test_a_frame_that_goes_backwards_ends_the_session(rig):
    rig.attach(at=3)
    rig.msg(3, 2)
    assert rig.connects == [1]


def test_a_bad_frame_stays_the_problem_until_a_frame_is_taken_and_is_reported_once(rig, make_item):
    for again in range(3):
        rig.attach()
        rig.hear(Msg(0, 0, ((1, make_item(2, 1)),)), after=rig.settings.settled)
        assert ("bad-frame" in rig.reports) == (again == 0)
        assert rig.core.status()["problem"] == "bad frame"
    rig.attach()
    assert (rig.core.status()["state"], rig.core.status()["problem"]) == ("open", "bad frame")
    rig.msg(0, 1, (1, make_item(2, 1)))
    assert rig.core.status()["problem"] is None
    rig.tick(lambda core: core.link_lost("bad frame: text is not UTF-8"))
    assert "bad-frame" in rig.reports


def test_what_hinders_an_attempt_comes_before_the_bad_frame_of_the_session(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("bad frame: too long"))
    rig.tick(lambda core: core.link_lost("unreachable"))
    assert rig.core.status()["problem"] == "unreachable"
    rig.hear(rig.welcome())
    assert rig.core.status()["problem"] == "bad frame: too long"
    rig.hear(Pong(0))
    assert rig.core.status()["problem"] is None


def test_another_end_of_a_session_is_no_problem(rig):
    rig.attach()
    rig.tick(lambda core: core.link_lost("cut"))
    assert rig.core.status()["problem"] is None
    assert "bad-frame" not in rig.reports


def test_pong_shows_a_lost_frame_at_the_end(rig):
    rig.attach(at=3)
    assert rig.hear(Pong(3)) == []
    rig.hear(Pong(4))
    assert rig.connects == [1]


def test_c_is_the_position_before_the_first_unacknowledged(rig, make_item):
    rig.attach()
    rig.msg(0, 9, (2, make_item(2, 1)), (5, make_item(2, 2)))
    first, second = rig.take_all()
    rig.ack(first)
    assert rig.disk.c == 4
    rig.ack(second)
    assert rig.disk.c == 9


def test_acknowledgement_is_cumulative_and_durable_with_the_flush(rig, make_item):
    rig.attach(passed=((2, 0),))
    rig.msg(0, 2, (1, make_item(2, 1)), (2, make_item(2, 2)))
    rig.ack(rig.take_all()[1])
    assert rig.effects == [Save((Acked(1, 2, (), ((2, 2),)),))]


def test_acknowledging_what_was_never_given_is_the_callers_fault(rig):
    with pytest.raises(LocalProtocolError):
        rig.core.ack(1)


def test_ack_after_a_second(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    assert rig.sent() == []
    assert rig.core.next_deadline() == rig.now + SECOND
    rig.tick(after=SECOND)
    assert rig.sent() == [Ack(1, 1)]


def test_ack_after_a_quarter_of_the_window(rig, make_item):
    rig.attach(window=16)
    rig.msg(0, 4, *[(n, make_item(2, n)) for n in range(1, 5)])
    given = rig.take_all()
    rig.ack(given[2])
    assert rig.sent() == []
    rig.ack(given[3])
    assert rig.sent() == [Ack(1, 4)]


def test_ack_after_many_bytes(make_rig, make_item):
    rig = make_rig(ack_bytes=6)
    rig.attach()
    rig.msg(0, 2, (1, make_item(2, 1)), (2, make_item(2, 2)))
    first, second = rig.take_all()
    rig.ack(first)
    assert rig.sent() == []
    rig.ack(second)
    assert rig.sent() == [Ack(1, 2)]


def test_ack_goes_with_own_data(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    rig.submit()
    assert rig.sent() == [Data(1, 1, 1, None, b"x"), Ack(1, 1)]


def test_c_is_saved_before_every_frame_that_says_it(rig, make_item):
    rig.attach(window=4, passed=((2, 0),))
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.ack(rig.take())
    assert rig.effects == [Save((Acked(1, 1, (), ((2, 1),)),)), SendUp(Ack(1, 1))]


def test_a_station_far_beyond_its_window_is_hung_up(make_rig, make_item):
    rig = make_rig(window_excess=2)
    rig.attach(window=4)
    rig.msg(0, 8, *[(n, make_item(2, n)) for n in range(1, 9)])
    assert rig.connects == []
    rig.msg(8, 9, (9, make_item(2, 9)))
    assert rig.connects == [1]


# ---- over a new session ----


def test_what_was_in_hand_is_dropped_and_replayed(rig, make_item):
    rig.attach()
    rig.msg(0, 2, (1, make_item(2, 1)), (2, make_item(2, 2)))
    rig.ack(rig.take())
    rig.reattach(at=-1)
    assert rig.take() is None
    rig.msg(-1, 7, (7, make_item(2, 2)))
    assert rig.bodies() == [b"2.2"]


def test_given_but_not_acknowledged_is_not_given_again(rig, make_item):
    rig.attach()
    rig.msg(0, 2, (1, make_item(2, 1)), (2, make_item(3, 1)))
    first, second = rig.take_all()
    rig.reattach(at=100)
    rig.msg(100, 105, (102, make_item(3, 1)), (104, make_item(2, 1)), (105, make_item(3, 2)))
    assert rig.bodies() == [b"3.2"]
    rig.ack(first)
    assert rig.disk.c == 101
    rig.ack(second)
    assert rig.disk.c == 104


def test_acknowledgement_before_the_hello_moves_c(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(AgentCore.suspend)
    rig.ack(given)
    assert rig.disk.c == 1
    rig.tick(AgentCore.resume)
    assert rig.hello.c == 1


def test_acknowledgement_behind_the_hello_is_late_and_leaves_c_alone(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    assert rig.hello.c == 0
    rig.ack(given)
    assert saved(rig, LateAck) == [LateAck(2, 1)]
    rig.tick(after=2 * SECOND)
    assert (rig.hello.le, rig.hello.c, rig.disk.c) == (1, 0, 0)


def test_late_acknowledgement_survives_a_crash_and_counts_when_the_message_comes_back(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(given)
    rig.crash()
    rig.attach(at=50)
    rig.msg(50, 53, (51, make_item(2, 1)), (53, make_item(2, 2)))
    assert rig.bodies() == [b"2.2"]
    rig.tick(after=SECOND)
    assert rig.sent(Ack) == [Ack(rig.epoch, 52)]
    assert rig.disk.c == 52
    assert rig.disk.late == {}


def test_acknowledgement_between_welcome_and_replay_is_late_too(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.reattach(at=50)
    rig.ack(given)
    assert rig.disk.late == {(2, 1): None}
    assert rig.disk.c == 50
    rig.msg(50, 51, (51, make_item(2, 1)))
    rig.tick(after=SECOND)
    assert (rig.disk.c, rig.disk.late) == (51, {})


def test_late_acknowledgement_stays_until_the_new_c_is_durable(rig, make_item):
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    given = rig.take()
    rig.reattach(at=50)
    rig.ack(given)
    rig.msg(50, 51, (51, make_item(2, 1)))
    rig.crash()
    rig.attach(at=60)
    rig.msg(60, 61, (61, make_item(2, 1)))
    assert rig.bodies() == []


def test_what_fell_into_a_gap_is_forgotten_when_its_origin_goes_on(rig, make_item):
    rig.attach()
    rig.msg(0, 3, *[(n, make_item(2, n)) for n in (1, 2, 3)])
    first, _, third = rig.take_all()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(first)
    rig.attach(at=9, gap=True)
    rig.msg(9, 10, (10, make_item(2, 8)))
    _, message = rig.take_all()
    rig.ack(third)
    assert saved(rig, LateAck) == []
    rig.ack(message)
    assert (rig.disk.late, rig.disk.c) == ({}, 10)


def test_late_acknowledgements_are_bounded(make_rig, make_item):
    rig = make_rig(late_max=3)
    rig.attach()
    rig.msg(0, 5, *[(n, make_item(2, n)) for n in range(1, 6)])
    given = rig.take_all()
    rig.tick(lambda core: core.link_lost("cut"), after=10 * SECOND)
    rig.ack(given[-1])
    rig.attach(at=9, gap=True)
    rig.msg(9, 10, (10, make_item(3, 1)))
    rig.ack(rig.take_all()[-1])
    assert list(rig.disk.late) == [(2, 3), (2, 4), (2, 5)]


def test_gap_is_told_in_its_place(rig, make_item):
    rig.attach(gap=True)
    rig.msg(0, 1, (1, make_item(2, 1)))
    gap, message = rig.take_all()
    assert isinstance(gap, Discontinuity)
    assert isinstance(message, Delivered)


def test_gap_is_told_again_after_a_crash_until_it_is_acknowledged(rig):
    rig.attach(gap=True)
    assert isinstance(rig.take(), Discontinuity)
    rig.crash()
    gap = rig.take()
    assert isinstance(gap, Discontinuity)
    rig.ack(gap)
    rig.crash()
    assert rig.take() is None


def test_a_gap_behind_one_that_was_given_is_not_lost(rig):
    rig.attach(gap=True)
    first = rig.take()
    rig.reattach(gap=True)
    rig.ack(first)
    rig.crash()
    assert isinstance(rig.take(), Discontinuity)


def test_two_gaps_not_given_yet_are_told_as_one(rig):
    rig.attach(gap=True)
    rig.reattach(gap=True)
    assert [type(given) for given in rig.take_all()] == [Discontinuity]
