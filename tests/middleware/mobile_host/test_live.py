"""Live messages at the agent: in their place behind what came before, in time, or not at all."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import LiveData, LiveMsg, LiveRefused, Unsubscribed
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Delivered, LiveDelivered, Report
from roamcast.middleware.mobile_host.errors import MessageTooLarge, NotAttached
from roamcast.middleware.mobile_host.events import Live, event_of
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import MS


def live(last: int, body: bytes = b"x", left: int = 100 * MS) -> LiveMsg:
    return LiveMsg(last, (70, 2), "other", 7, Kind.BROADCAST, "", left, body)


def test_it_comes_behind_what_came_before_and_before_what_came_after(rig, make_item):
    rig.attach()
    rig.msg(0, 3, (1, make_item(2, 1)), (3, make_item(2, 2)))
    rig.hear(live(3))
    rig.msg(3, 5, (5, make_item(2, 3)))
    assert [given.body for given in rig.take_all()] == [b"2.1", b"2.2", b"x", b"2.3"]


def test_it_needs_no_acknowledgement_and_its_token_is_that_of_the_message_before(rig, make_item):
    rig.attach()
    rig.hear(live(0))
    first = rig.take()
    rig.ack(first)
    assert (first.token, rig.disk.c) == (0, 0)
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.hear(live(1))
    message, second = rig.take_all()
    assert isinstance(message, Delivered) and isinstance(second, LiveDelivered)
    rig.ack(second)
    assert rig.disk.c == 1
    event = event_of(second, lambda token: None)
    assert isinstance(event, Live)
    assert (event.sender, event.body, event.mail, event.topic, event.id) == ("other", b"x", False, None, (70, 2))


def test_what_is_too_old_when_its_turn_comes_is_not_given(rig):
    rig.attach()
    rig.hear(live(0, b"old", 100 * MS), live(0, b"young", 101 * MS))
    rig.tick(after=101 * MS)
    assert [given.body for given in rig.take_all()] == [b"young"]
    assert rig.core.session.inbox.live_expired == 1


def test_what_is_in_hand_when_the_session_ends_never_comes(rig):
    rig.attach()
    rig.hear(live(0))
    rig.reattach()
    assert rig.take_all() == []


def test_a_frame_that_was_lost_before_it_ends_the_session(rig):
    rig.attach()
    rig.hear(live(3))
    assert rig.take_all() == [] and "session-ended" in rig.reports


def test_it_goes_up_at_once_with_the_number_that_it_follows(rig):
    with pytest.raises(NotAttached):
        rig.core.send_live(b"x", 100 * MS)
    rig.attach()
    rig.submit()
    rig.tick(lambda core: core.send_live(b"x", 100 * MS), lambda core: core.send_live(b"y", 50 * MS, "t", True))
    assert rig.sent() == [
        LiveData(1, 1, None, False, 100 * MS, b"x"), LiveData(1, 1, "t", True, 50 * MS, b"y")
    ]  # fmt: skip
    with pytest.raises(MessageTooLarge):
        rig.core.send_live(bytes(256 * 1024 + 1), MS)
    rig.tick(AgentCore.suspend)
    with pytest.raises(NotAttached):
        rig.core.send_live(b"x", 100 * MS)


def test_a_refusal_is_reported_and_the_session_goes_on(rig):
    rig.attach()
    rig.hear(LiveRefused("clock", "its clock is wrong"))
    (report,) = rig.of(Report)
    assert (report.event, report.fields["code"]) == ("live-refused", "clock")
    assert rig.core.status()["state"] == "open"


def test_notices_keep_their_place_among_live_messages(rig, make_item):
    """A subscription that has ended between two of them."""
    rig.attach()
    rig.msg(0, 1, (1, make_item(2, 1)))
    rig.hear(live(1, b"before"))
    rig.hear(Unsubscribed(1, ((1, 5, "t"),)))
    rig.hear(live(1, b"after"))
    words = [given.body if hasattr(given, "body") else given.topic for given in rig.take_all()]
    assert words == [b"2.1", b"before", "t", b"after"]
