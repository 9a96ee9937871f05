"""Live messages at the agent: in their place behind what came before, in time, or not at all."""

from __future__ import annotations

import pytest

from roamcast.middleware.host_frames import LiveData, LiveMsg, LiveRefused, Unsubscribed
from roamcast.middleware.mobile_host.core import AgentCore
from roamcast.middleware.mobile_host.effects import Delivered, LiveDelivered, Receipt, Report, Save
from roamcast.middleware.mobile_host.errors import AgentEnded, BadAddressee, MessageTooLarge
from roamcast.middleware.mobile_host.events import Live, event_of
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import MS, SECOND

STATION = 1_795_000_000_000_000
"""What the station's clock reads when the rig's reads 0."""


def live(last: int, body: bytes = b"x", left: int = 100 * MS, at: int = STATION) -> LiveMsg:
    return LiveMsg(last, (70, 2), "other", 7, Kind.BROADCAST, "", left, at, body)


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
    assert rig.core.status()["live"] == {"sent": 0, "given": 1, "dropped": 0, "expired": 1}


def handed(rig, body: bytes, age: int = 0, left: int = 100 * MS) -> LiveMsg:
    """Handed down so long ago, which its station knows by its own clock."""
    return live(0, body, left, STATION + rig.now - age)


def test_what_waited_in_buffers_while_the_host_slept_is_not_given(rig):
    """Read together after the sleep, it is as old as it is."""
    rig.attach()
    rig.hear(handed(rig, b"before"))
    rig.now += 5 * SECOND
    rig.hear(handed(rig, b"stale", 4 * SECOND), handed(rig, b"late", 101 * MS), handed(rig, b"fresh", 99 * MS))
    assert [given.body for given in rig.take_all()] == [b"fresh"]
    assert rig.core.status()["live"]["expired"] == 3, "what was in hand before it slept, too"


def test_after_a_long_sleep_it_is_compared_with_what_came_before(rig):
    rig.attach()
    rig.hear(handed(rig, b"before"))
    rig.take_all()
    rig.now += 400 * SECOND
    rig.hear(*[handed(rig, b"%d" % age, age * SECOND) for age in (390, 200, 1)], handed(rig, b"fresh"))
    assert [given.body for given in rig.take_all()] == [b"fresh"]


def test_without_a_reading_in_the_welcome_the_first_frames_are_as_old_as_the_newest_of_them_says(rig):
    rig.attach()
    rig.hear(handed(rig, b"stale", 4 * SECOND), handed(rig, b"newest", 3 * SECOND))
    assert [given.body for given in rig.take_all()] == [b"newest"], (
        "taken as fresh: there is nothing to compare it with"
    )
    rig.reattach()
    rig.hear(handed(rig, b"stale", 4 * SECOND))
    assert [given.body for given in rig.take_all()] == [b"stale"], "another session, another way"


def test_the_welcome_tells_how_old_the_first_frames_of_a_session_are(rig):
    rig.attach(reading=STATION + rig.now)
    rig.hear(handed(rig, b"stale", 3 * SECOND), handed(rig, b"fresh"), after=3 * SECOND)
    assert [given.body for given in rig.take_all()] == []
    rig.hear(handed(rig, b"stale", 3 * SECOND), handed(rig, b"fresh"))
    assert [given.body for given in rig.take_all()] == [b"fresh"]


def test_what_nobody_takes_does_not_pile_up(make_rig):
    rig = make_rig(live_in_hand=3)
    rig.attach()
    rig.hear(*[handed(rig, b"%d" % i) for i in range(5)])
    assert [given.body for given in rig.take_all()] == [b"2", b"3", b"4"]
    rig.hear(handed(rig, b"old"))
    rig.hear(handed(rig, b"young", -SECOND), after=SECOND)
    assert rig.core.status()["live"]["expired"] == 3, "what is over goes when something comes"


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
    assert rig.core.send_live(b"x", 100 * MS) == Receipt(-1, "dropped", reason="not-attached")
    rig.attach()
    rig.submit()
    rig.tick(lambda core: core.send_live(b"x", 100.5 * MS), lambda core: core.send_live(b"y", 0.1, "t", Kind.TOPIC))
    assert rig.sent() == [
        LiveData(1, 1, None, False, 100_500, b"x", 2), LiveData(1, 1, "t", True, 1, b"y", 3)
    ]  # fmt: skip
    assert not rig.of(Save), "nothing is kept"
    assert rig.core.send_live(b"x", MS, room=False) == Receipt(-4, "dropped", reason="congested")
    rig.tick(AgentCore.suspend)
    assert rig.core.send_live(b"x", MS).reason == "not-attached"
    assert rig.core.status()["live"] == {"sent": 2, "given": 0, "dropped": 3, "expired": 0}


def test_what_makes_no_sense_is_refused_at_once(rig):
    rig.attach()
    with pytest.raises(MessageTooLarge):
        rig.core.send_live(bytes(64 * 1024 + 1), MS)
    for name, kind in (("", Kind.BROADCAST), ("x" * 65, Kind.BROADCAST), (None, Kind.TOPIC), ("a\nb", Kind.TOPIC)):
        with pytest.raises(BadAddressee):
            rig.core.send_live(b"", MS, name, kind)
    for deadline in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="deadline"):
            rig.core.send_live(b"", deadline)
    with pytest.raises(ValueError, match="retained"):
        rig.core.send_live(b"", MS, "t", Kind.RETAINED)
    rig.tick(AgentCore.leave)
    with pytest.raises(AgentEnded):
        rig.core.send_live(b"", MS)


def test_a_refusal_is_reported_and_the_session_goes_on(rig):
    rig.attach()
    rig.hear(LiveRefused("clock", "its clock is wrong"))
    (report,) = rig.of(Report)
    assert (report.event, report.fields["code"]) == ("live-refused", "clock")
    rig.hear(LiveRefused("expired", "it was over", 5))
    assert rig.of(Receipt) == [Receipt(-5, "dropped", reason="expired")]
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
