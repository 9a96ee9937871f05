"""Bodies of mail that went elsewhere (one-order.md 3.7): whoever owes one pulls it, and that stream alone waits."""

from __future__ import annotations

import pytest

from roamcast.middleware.effects import Notice
from roamcast.middleware.host_frames import Msg
from roamcast.middleware.rows import Kind
from roamcast.middleware.settings import SECOND
from roamcast.middleware.station_frames import Body, Claims, DataBatch, Pull

LARGE = b"x" * 400
LEAN = {"lean_bytes": 300}


def lean(net, slot: int) -> list[tuple[int, int]]:
    """Lean rows in the store of a station."""
    return sorted(ident for ident, row in net.disks[slot].rows.items() if row.lean)


def whole(net, slot: int) -> list[tuple[int, int]]:
    """Whole mail in the store of a station."""
    rows = net.disks[slot].rows.items()
    return sorted(ident for ident, row in rows if row.kind is Kind.MAIL and not row.lean)


@pytest.fixture
def far(net):
    """w writes at the first station, b was last heard at the second and has gone to the third without a word."""
    w, b = net.enrol("w"), net.enrol("b", home=2)
    w.arrive(1)
    b.arrive(2)
    b.write(b"here")
    net.run(12 * SECOND)
    b.arrive(3)
    net.run(12 * SECOND)
    return w, b


# ---- where a body goes ----


@pytest.mark.rules(**LEAN)
def test_a_body_goes_to_the_station_where_the_addressee_has_last_spoken(net):
    w, b = net.enrol("w"), net.enrol("b", home=2)
    w.arrive(1)
    b.arrive(2)
    net.run(SECOND)
    b.misses = (object,)  # its acknowledgements stay away, and so its rows stay
    w.send(LARGE, "b")
    w.send(b"small", "b")
    net.deliver()
    assert lean(net, 2) == []
    assert len(lean(net, 3)) == 1
    small, large = sorted(net.disks[3].rows.values(), key=lambda row: row.size)[-2:]
    assert (small.lean, large.lean, large.item) == (False, True, None)
    assert large.size == len(net.disks[1].rows[large.id].item)
    assert net.frames(Pull) == []


@pytest.mark.rules(**LEAN)
def test_whoever_pulls_gets_the_next_one_at_once(net, far):
    w, b = far
    net.sent.clear()
    w.send(LARGE, "b")
    net.deliver()
    assert [frame.numbers for frame in net.frames(Pull)] == [(net.disks[1].streams[1].stored,)]
    w.send(LARGE + b"2", "b")
    net.deliver()
    assert len(net.frames(Pull)) == 1
    assert b.entries()[-2:] == [LARGE, LARGE + b"2"]


@pytest.mark.rules(**LEAN)
def test_after_a_handoff_its_former_station_knows_where_the_host_is(net):
    a, b = net.enrol("a"), net.enrol("b")
    a.arrive(1)
    b.arrive(1)
    b.arrive(2)
    net.run(SECOND)
    a.send(LARGE, "b")
    net.deliver()
    assert b.entries() == [LARGE]
    assert net.frames(Pull) == []


@pytest.mark.rules(lean_bytes=300, copies=2)
def test_with_two_copies_every_station_gets_the_body(net):
    """A header is no copy of a message."""
    w, b = net.enrol("w"), net.enrol("b", home=2)
    for host, slot in ((w, 1), (b, 2)):
        host.attach(slot)
        net.run(2 * SECOND)
        host.ack()
    net.run(2 * SECOND)
    w.send(LARGE, "b")
    net.run(SECOND)
    assert [lean(net, slot) for slot in net.slots] == [[], [], []]
    assert b.entries() == [LARGE]


@pytest.mark.rules(**LEAN)
def test_what_is_no_mail_goes_whole_and_so_does_mail_to_who_may_be_anywhere(net):
    w, b = net.enrol("w"), net.enrol("b", home=2)
    w.arrive(1)
    b.arrive(2)
    net.run(30 * SECOND)
    assert net.rows == 0
    net.restart(1)
    w.arrive(1)
    w.send(LARGE)
    w.send(LARGE, "b")
    net.deliver()
    assert [lean(net, slot) for slot in net.slots] == [[], [], []]


# ---- scenario 15 ----


@pytest.mark.rules("hole", **LEAN)
def test_scenario_15_header_without_body_origin_far_away_host_hops_on(net, far):
    """The log of the third station goes on, its other hosts are served; b waits, moves on, and has all in one order."""
    w, b = far
    c = net.enrol("c", home=3)
    c.arrive(3)
    net.lose = lambda source, target, frame: isinstance(frame, Pull | Body)
    w.send(LARGE, "b")
    w.send(b"after")
    net.run(SECOND)
    assert c.entries() == [b"after"]
    assert b.entries() == []
    w.ack()
    c.ack()
    b.attach(2)  # the body is here
    net.run(SECOND)
    assert b.entries() == [LARGE, b"after"]
    b.ack()
    net.lose = lambda *flight: False
    net.run(60 * SECOND)
    assert net.rows == 0


@pytest.mark.rules("hole", **LEAN)
def test_a_host_that_stays_gets_it_when_the_origin_is_near_again(net, far):
    w, b = far
    net.lose = lambda source, target, frame: isinstance(frame, Body)
    for body in (LARGE, b"between", LARGE + b"2"):
        w.send(body, "b")
    net.run(3 * SECOND)
    assert b.entries() == []
    net.lose = lambda *flight: False
    net.run(6 * SECOND)
    assert b.entries() == [LARGE, b"between", LARGE + b"2"]
    assert lean(net, 3) == []


@pytest.mark.rules(**LEAN)
def test_a_pull_is_repeated_ever_more_slowly(net, far):
    w, _ = far
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    w.send(LARGE, "b")
    net.sent.clear()
    net.run(SECOND)
    early = len(net.frames(Pull))
    net.run(60 * SECOND)
    net.sent.clear()
    net.run(20 * SECOND)
    assert early == 4  # at 0, 100, 300, 700 ms
    assert len(net.frames(Pull)) == 4


@pytest.mark.rules("origin_alone", **LEAN)
def test_if_the_origin_does_not_answer_others_are_asked(net, far):
    w, b = far
    net.lose = lambda source, target, frame: isinstance(frame, Pull) and target == 1
    w.send(LARGE, "b")
    net.run(2 * SECOND)
    assert b.entries() == [LARGE]


@pytest.mark.rules(**LEAN)
def test_several_bodies_come_in_one_frame_and_no_frame_is_too_large(net, far):
    w, b = far
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    for i in range(10):
        w.send(LARGE + b"%d" % i, "b")
    net.run(SECOND)
    net.lose = lambda *flight: False
    net.sent.clear()
    net.run(6 * SECOND)
    assert len(net.frames(Body)) == 1
    assert b.entries() == [LARGE + b"%d" % i for i in range(10)]


@pytest.mark.rules(lean_bytes=300, nack_bytes_max=1_000)
def test_an_answer_is_cut_and_the_rest_is_asked_for_again(net, far):
    w, b = far
    for i in range(10):
        w.send(LARGE + b"%d" % i, "b")
    net.run(12 * SECOND)
    assert b.entries() == [LARGE + b"%d" % i for i in range(10)]
    assert max(sum(len(body.item) for body in frame.bodies) for frame in net.frames(Body)) <= 1_000


@pytest.mark.rules(lean_bytes=300, window_entries=4)
def test_a_window_that_is_full_asks_for_nothing(net, far):
    w, b = far
    for i in range(9):
        w.send(b"%d" % i, "b")
    w.send(LARGE, "b")
    net.run(SECOND)
    assert net.frames(Pull) == []
    for _ in range(4):
        b.ack()
        net.run(SECOND)
    assert b.entries()[-1] == LARGE


# ---- what is durable, and what is kept ----


@pytest.mark.rules(**LEAN)
def test_a_start_finds_lean_rows_lean_and_whole_ones_whole(net, far):
    w, b = far
    net.lose = lambda source, target, frame: isinstance(frame, Pull) and bool(frame.numbers[0] % 2)
    w.send(LARGE, "b")
    w.send(LARGE + b"2", "b")
    net.run(SECOND)
    before = lean(net, 3), whole(net, 3)
    assert before[0]
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    net.restart(3)
    core = net.cores[3]
    assert core.ledger.table.lean_total == len(before[0])
    assert core.status()["lean_rows"] == len(before[0])
    net.lose = lambda *flight: False
    b.attach(3)
    net.run(SECOND)
    assert b.entries() == [LARGE, LARGE + b"2"]
    assert core.ledger.table.lean_total == core.status()["bodies_awaited"] == 0
    assert core.ledger.table.bytes_total == sum(row.size for row in net.disks[3].rows.values())


@pytest.mark.rules("hole", **LEAN)
def test_an_absent_host_is_spooled_up_to_the_missing_body_and_its_row_stays_everywhere(net, far):
    w, b = far
    b.cut()
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    for body in (b"before", LARGE, b"after"):
        w.send(body, "b")
    w.ack()
    net.run(40 * SECOND)
    assert net.spooled(3, b) == [b"before"]
    assert [len(net.disks[slot].rows) for slot in net.slots] == [2, 2, 2]
    net.lose = lambda *flight: False
    net.run(20 * SECOND)
    assert net.spooled(3, b) == [b"before", LARGE, b"after"]
    assert net.rows == 0
    b.attach(1)
    net.run(SECOND)
    assert b.entries() == [b"before", LARGE, b"after"]


@pytest.mark.rules(**LEAN)
def test_a_long_backlog_of_an_absent_host_is_pulled_without_waiting_for_collections(net, far):
    w, b = far
    b.cut()
    for i in range(200):
        w.send(LARGE + b"%d" % i, "b")
    net.run(21 * SECOND)
    assert len(net.spooled(3, b)) == 200


@pytest.mark.rules("accept_early", **LEAN)
def test_the_former_station_guards_what_r_of_the_new_one_has_passed(net):
    w, b = net.enrol("w"), net.enrol("b", home=2)
    w.arrive(1)
    b.arrive(2)
    b.misses = (Msg,)
    w.send(LARGE, "b")
    w.ack()
    net.run(12 * SECOND)
    (ident,) = lean(net, 3)
    assert net.cores[2].ledger.fifo.reduce.claims[3][1] == ident[1]
    net.hold = lambda source, target, frame: isinstance(frame, Body)
    b.misses = ()
    b.attach(3)
    b.ack()
    net.run(30 * SECOND)
    assert [ident in net.disks[slot].rows for slot in net.slots] == [True, True, True]
    assert [(record.link, record.ready) for record in net.records(3, b)] == [(True, False)]
    net.release()
    net.run(SECOND)
    assert b.entries() == [LARGE]
    b.ack()
    net.run(30 * SECOND)
    assert net.rows == 0


@pytest.mark.rules(**LEAN)
def test_what_nobody_needs_any_more_is_not_asked_for(net, far):
    w, b = far
    net.lose = lambda source, target, frame: isinstance(frame, Pull)
    w.send(LARGE, "b")
    w.ack()
    net.run(SECOND)
    net.tick(3, lambda core: core.revoke(b.number))
    net.run(6 * SECOND)
    net.sent.clear()
    net.run(20 * SECOND)
    assert net.frames(Pull) == []
    assert net.cores[3].status()["bodies_awaited"] == 0


# ---- hostile, late ----


@pytest.mark.rules(**LEAN)
def test_a_body_that_was_not_asked_for_or_does_not_fit_changes_nothing(net, far):
    w, b = far
    net.hold = lambda source, target, frame: isinstance(frame, Body)
    w.send(LARGE, "b")
    net.run(SECOND)
    (ident,) = lean(net, 3)
    (flight, *_) = net.held
    frame = flight[2]
    short = frame.bodies[0].__class__(*ident, b"short", 5)
    net.hand(1, 3, Body(1, frame.since, (short,), ()))
    assert net.rejected()[-1] == "bad-body"
    net.hand(1, 3, Body(1, frame.since, (), (ident[1],)))  # its origin lives: it has it
    assert lean(net, 3) == [ident]
    assert b.entries() == []
    net.release()
    net.run(SECOND)
    assert b.entries() == [LARGE]
    net.hand(*flight)
    net.hand(1, 2, frame)
    assert b.entries() == [LARGE]
    for source, target in ((1, 3), (3, 1)):
        net.hand(source, target, Pull(9, 1, (1,)))
        assert net.rejected()[-1] == "bad-origin"


@pytest.mark.rules(**LEAN)
def test_only_bodies_of_mail_are_given_out_and_only_those_that_are_here(net, far):
    w, _ = far
    w.send(LARGE)
    w.send(LARGE, "b")
    net.run(0)
    stored = net.disks[1].streams[1].stored
    net.sent.clear()
    net.hand(2, 1, Pull(1, 7, (stored - 1, stored, stored + 1)))
    (frame,) = net.frames(Body)
    assert ([body.n for body in frame.bodies], frame.lacking, frame.since) == ([stored], (), 7)


@pytest.mark.rules(**LEAN)
def test_a_lean_row_is_mail(net, far):
    w, _ = far
    net.hold = lambda source, target, frame: isinstance(frame, DataBatch)
    w.send(LARGE)
    (flight,) = [flight for flight in net.held if flight[1] == 3]
    (row,) = flight[2].rows
    row.lean, row.item = True, None
    net.hand(*flight)
    assert net.rejected()[-1] == "bad-row"


# ---- nothing changes without the setting ----


@pytest.mark.parametrize("settings", [{}, {"lean_bytes": 10_000}])
def test_rows_go_to_all_in_one_frame_unless_some_are_lean(make_net, settings):
    net = make_net(1, 2, 3, **settings)
    w, b = net.enrol("w"), net.enrol("b", home=2)
    w.arrive(1)
    b.arrive(2)
    before = len(net.frames(Claims))
    w.send(LARGE, "b")
    net.run(SECOND)
    assert [lean(net, slot) for slot in net.slots] == [[], [], []]
    assert net.frames(Pull, Body) == []
    assert len(net.frames(Claims)) > before
    assert not [fault for fault in net.faults if isinstance(fault, Notice) and fault.level == "alarm"]
