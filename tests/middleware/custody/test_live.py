"""Live messages in the one order, or not at all (one-order.md section 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from held_back import hold
from on_topics import configure, subscribe

from roamcast.middleware.custody.live_floors import WAITING_BYTES_MAX, WAITING_MAX, LiveFloors
from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.host_frames import LiveMsg, Msg
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import DataBatch, State


def counts(net, slot):
    return net.cores[slot].status()["live"]


@pytest.mark.rules()
def test_to_all_but_the_sender(net, live_trio):
    a, b, c = live_trio
    d = net.enrol("d", 1)
    d.arrive(1)
    rows = net.rows
    net.sent.clear()
    a.live(b"x")
    net.deliver()
    assert (a.got, b.got, c.got, d.got) == ([], [b"*x"], [b"*x"], [b"*x"])
    assert net.rows == rows and not net.frames(DataBatch), "nothing is stored"
    assert counts(net, 1) == {"given": 1, "taken": 1} and counts(net, 2) == {"given": 1}


@pytest.mark.rules()
def test_to_a_host_and_on_a_topic(net, live_trio):
    a, b, c = live_trio
    configure(net, mute=[b])
    subscribe(net, c)
    a.live(b"to b", "b")
    a.live(b"on t", "t", topic=True)
    net.deliver()
    assert b.got == [b"*to b"] and c.got[-1] == b"*on t"
    assert [refused.code for refused in b.live(b"y", "t", topic=True)] == ["no-right"]
    assert [refused.code for refused in b.live(b"y", "nobody")] == ["unknown"]


@pytest.mark.rules("live_floor")
def test_live_never_overtakes_durable(net, live_trio):
    """It waits for the rows that it follows, behind the frames of these."""
    a, b, c = live_trio
    hold(net, DataBatch, 1, 2)
    a.send(b"row")
    a.live(b"x")
    net.deliver()
    assert b.got == [] and c.got == [b"row", b"*x"]
    net.release()
    assert b.got == [b"row", b"*x"]


@pytest.mark.rules()
def test_what_waits_for_a_row_too_long_is_dropped(net, live_trio):
    a, b, _ = live_trio
    hold(net, DataBatch, target=2)
    a.send(b"row")
    a.live(b"x")
    net.run(SECOND)
    net.release()
    assert b.got == [b"row"] and counts(net, 2)["behind"] == 1


@pytest.mark.rules("live_settle")
def test_durable_never_waits_for_live(net, live_trio):
    """A row is given at once, and what is live and goes before it is not given after it."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 3)
    a.live(b"x")
    net.deliver()
    assert b.got == [b"*x"]
    b.send(b"row")
    net.deliver()
    assert c.got == [b"row"]
    net.release()
    assert c.got == [b"row"] and counts(net, 3)["overtaken"] == 1


@pytest.mark.rules("live_settle")
def test_a_row_lets_go_what_waits_for_something_that_has_not_come(net, live_trio):
    """x is late at c; y, which follows it, waits there; the row follows y. So y goes out before the row, x never."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 3)
    a.live(b"x")
    net.deliver()
    b.live(b"y")
    net.deliver()
    assert c.got == []
    b.send(b"row")
    net.deliver()
    assert c.got == [b"*y", b"row"]
    net.release()
    assert c.got == [b"*y", b"row"]


@pytest.mark.rules()
def test_rows_of_one_tick_do_not_lock_live_messages_out(net, live_trio):
    """row, x, row in one frame: x goes out between them."""
    a, b, c = live_trio
    hold(net, DataBatch, 1, 2)
    a.send(b"1")
    a.live(b"x")
    a.send(b"2")
    net.deliver()
    first, second = [flight for flight in net.held if flight[1] == 2]
    both = DataBatch(1, first[2].rows + second[2].rows, second[2].live[:0] + first[2].live + second[2].live)
    net.held.clear()
    net.hand(1, 2, both)
    assert b.got == [b"1", b"*x", b"2"] and c.got == [b"1", b"*x", b"2"]


@pytest.mark.rules("live_front")
def test_a_host_that_catches_up_gets_nothing_live(net, live_trio):
    a, b, _ = live_trio
    net.cores[2].ledger.settings = net.settings.__class__(window_entries=2)
    for body in (b"1", b"2", b"3", b"4"):
        a.send(body)
    net.deliver()
    a.live(b"x")
    net.deliver()
    b.ack()
    b.ack()
    assert b"*x" not in b.got


@pytest.mark.rules("live_number")
def test_what_follows_a_message_that_is_not_here_is_not_taken(net, live_trio):
    """The row was lost on the air; it comes by another station."""
    a, b, _ = live_trio
    a.own, a.outbox[1] = 1, (None, b"row")
    a.live(b"x")
    net.deliver()
    a.resend()
    net.deliver()
    assert b.got == [b"row"] and counts(net, 1) == {"unfounded": 1}


@pytest.mark.rules("live_state")
def test_what_a_host_was_given_elsewhere_goes_before_what_it_sends(net, live_trio):
    """b is given x at 2 and moves to 1, where it answers by a row: at 3 x is not given after that."""
    a, b, c = live_trio
    hold(net, LiveCast, 2)
    d = net.enrol("d", 2)
    d.arrive(2)
    net.run(SECOND)
    d.live(b"x")
    net.deliver()
    assert b.got == [b"*x"]
    b.attach(1)
    b.send(b"row")
    net.deliver()
    assert c.got == [b"row"] and a.got == [b"row"]
    net.release()
    assert c.got == [b"row"] and a.got == [b"row"]


@pytest.mark.rules("live_state")
def test_a_handoff_repeats_nothing(net, live_trio):
    a, b, c = live_trio
    hold(net, LiveCast, 1, 3)
    a.live(b"x")
    net.deliver()
    b.attach(3)
    net.release()
    assert b.got == [b"*x"] and c.got == []


@pytest.mark.rules("live_sdep")
def test_a_host_that_brings_a_row_gets_nothing_live_before_that_is_here(net, live_trio):
    """b has been given a row at 2, not acknowledged it, and moves to 3, where the row and x before it are missing."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 3)
    hold(net, DataBatch, 1, 3)
    hold(net, LiveCast, 1, 2)
    a.live(b"x")
    a.send(b"row")
    net.deliver()
    assert b.got == [b"row"]
    b.attach(3)
    held, net.held = net.held, []
    net.hold = lambda source, target, frame: False
    for flight in held:
        if isinstance(flight[2], LiveCast):
            net.hand(*flight)
    assert b.got == [b"row"] and c.got == [b"*x"]
    for flight in held:
        net.hand(*flight)
    net.deliver()
    assert c.got == [b"*x", b"row"] and b.got == [b"row"]


@pytest.mark.rules("no_quarantine")
def test_after_a_start_nothing_of_before_is_given(net, live_trio):
    """b was given a row, which follows x, before its station fell: x does not come after it."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 2)
    a.live(b"x")
    net.deliver()
    c.send(b"row")
    net.deliver()
    net.restart(2)
    b.attach(2)
    net.run(MS)
    net.release()
    assert b.got == [b"row"] and counts(net, 2) == {"quiet": 1}


@pytest.mark.rules()
def test_rows_of_a_station_that_has_started_follow_all_that_is_live(net, live_trio):
    """b was given x; its station falls and forgets it; the row that b sends then is not followed by x at c."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 3)
    a.live(b"x")
    net.deliver()
    assert b.got == [b"*x"]
    net.restart(2)
    b.attach(2)
    b.send(b"row")
    net.deliver()
    assert c.got[-1:] == [b"row"]
    net.release()
    assert c.got[-1:] == [b"row"]


@pytest.mark.rules()
def test_a_deadline_shorter_than_delta(net, live_trio):
    """It is given to nobody later, and the order of others does not change."""
    a, b, c = live_trio
    hold(net, LiveCast, 1, 2)
    a.live(b"x", deadline=20 * MS)
    a.live(b"y")
    net.run(30 * MS)
    net.release()
    assert b.got == [b"*y"] and c.got == [b"*x", b"*y"] and counts(net, 2)["expired"] == 1
    left = [frame.left for frame in c.words(LiveMsg)]
    assert left[0] == 20 * MS and left[1] == net.settings.live_delta + 1


@pytest.mark.rules()
def test_frames_stay_as_they_are_without_live_traffic(net, live_trio):
    a, b, c = live_trio
    a.write(b"row")
    b.attach(3)
    b.send(b"row")
    net.deliver()
    assert len(net.frames(DataBatch)) >= 2 and not any(batch.live for batch in net.frames(DataBatch))
    assert not any("live" in state.ext for state in net.frames(State))
    assert not net.frames(LiveCast) and c.words(Msg)


@pytest.mark.rules("live_pair")
def test_what_is_over_by_a_fast_clock_does_not_come_after_what_follows_it(net, live_trio):
    """x is over at 2, whose clock is fast, when y is sent there, and so y does not name it; at 3 it is not over."""
    a, b, c = live_trio
    net.skews[2] = 45 * MS
    hold(net, LiveCast, 1, 3)
    a.live(b"x")
    net.deliver()
    net.run(460 * MS)
    b.live(b"y")
    net.deliver()
    assert c.got == [b"*y"]
    net.release()
    assert c.got == [b"*y"] and counts(net, 3)["overtaken"] == 1


@pytest.mark.rules("live_own")
def test_a_handoff_repeats_nothing_that_waits_where_it_was_taken(net, live_trio):
    """x waits at 1 for a row that its host has brought along; b is given it at 3, where that row is, and moves to 1."""
    a, b, c = live_trio
    hold(net, DataBatch, 2, 1)
    b.send(b"row")
    net.deliver()
    b.ack()
    b.attach(1)
    b.live(b"x")
    net.deliver()
    assert c.got == [b"row", b"*x"] and a.got == []
    c.attach(1)
    net.release()
    assert a.got[:1] == [b"row"] and c.got == [b"row", b"*x"]


@pytest.mark.rules()
def test_a_host_that_came_with_more_than_was_here_is_given_live_messages_once_it_is_here(net, live_trio):
    """What it had elsewhere comes as a mail of another host: no frame goes to it, and none needs to."""
    a, b, c = live_trio
    hold(net, DataBatch, 1, 3)
    a.send(b"mail", "c")
    net.deliver()
    b.attach(3)
    net.deliver()
    a.live(b"x")
    net.deliver()
    net.release()
    assert c.got == [b"mail", b"*x"] and b.got == [], "b may have been given what follows the mail"
    for body in (b"y", b"z"):
        a.live(body)
        net.deliver()
    assert c.got[2:] == b.got == [b"*y", b"*z"]


@pytest.mark.rules()
def test_what_is_known_of_hosts_that_come_and_go_is_bounded_without_live_traffic(net, live_trio):
    _, b, _ = live_trio
    for _ in range(80):
        b.attach(2)
        b.ack()
        net.run(SECOND // 10)
    assert len(net.cores[2].live._behind) <= 64 + 2 * len(net.cores[2].ledger.channels)


@pytest.mark.rules()
def test_what_waits_for_a_row_that_never_comes_is_bounded_and_goes(net, live_trio):
    floors = LiveFloors(net.cores[1].ledger)
    body = b"x" * (64 << 10)
    for stamp in range(1, 20_000):
        cast = LiveCast(stamp, 10, Past((), 0), ((2, 1 << 30),), 10, 1, 1, Kind.BROADCAST, 0, body)
        if not floors.hold((stamp, 2), cast, (2, 1 << 30)):
            break
    assert len(floors) == WAITING_BYTES_MAX // len(body)
    for stamp in range(100_000, 105_000):
        floors.forget(stamp)
        assert floors.hold((stamp, 2), replace(cast, stamp=stamp, body=b""), (2, 1 << 30))
    assert len(floors) <= 12
    assert sum(map(len, floors._for.values())) <= WAITING_MAX // 5


@pytest.mark.rules()
def test_a_station_with_another_delta_is_named(net, live_trio):
    a, b, _ = live_trio
    hold(net, LiveCast, 1, 2)
    a.live(b"x")
    net.deliver()
    cast = next(flight[2] for flight in net.held)
    net.held.clear()
    net.hand(1, 2, replace(cast, delta=7 * MS, deadline=7 * MS))
    (notice,) = [one for one in net.faults if getattr(one, "event", "") == "live-delta-differs"]
    assert notice.fields["slot"] == 1 and notice.fields["theirs_ms"] == 7
    assert b.got == [] and counts(net, 2)["delta"] == 1
