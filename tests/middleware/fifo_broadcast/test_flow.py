"""Sending window, idle promise, restarts, hostile frames: fifo-broadcast.md Q3, Q5, P10."""

from __future__ import annotations

import pytest

from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, Nack


def newest_sent(group, slot: int) -> int:
    return max((row.n for batch in group.sent_of(DataBatch, slot) for row in batch.rows), default=0)


def test_window_counts_from_the_lowest_live_claim(make_group):
    group = make_group(1, 2, 3, send_window=4, down_after=15 * SECOND)
    group.run(SECOND)
    group.stop(3)
    group.submit(1, 50)
    for _ in range(100):
        group.run(100 * MS)
        assert newest_sent(group, 1) <= 4, "station 3 has claimed nothing and is still live"
    group.run(6 * SECOND)
    assert newest_sent(group, 1) == 50, "station 3 is down and holds back nothing"
    assert group.stored(2, 1) == 50


def test_with_the_window_over_all_one_stopped_station_stops_every_sender(make_group):
    group = make_group(1, 2, 3, send_window=4, mutants=frozenset({"window_down"}))
    group.run(SECOND)
    group.stop(3)
    group.submit(1, 50)
    group.run(60 * SECOND)
    assert newest_sent(group, 1) == 4


def test_window_moves_with_the_claims(make_group):
    group = make_group(1, 2, send_window=4)
    group.run(SECOND)
    group.sent.clear()
    group.submit(1, 20)
    while group.stored(2, 1) < 20:
        assert newest_sent(group, 1) <= group.up[1].accepted.claims[2][1] + 4
        group.run(20 * MS)
    assert newest_sent(group, 1) == 20


def test_claims_use_no_window_and_no_number(make_group):
    """(d) 4: however many CLAIMS go out, a window of one row still takes the next row."""
    group = make_group(1, 2, send_window=1)
    group.run(60 * SECOND)
    group.submit(1)
    group.run(SECOND)
    assert group.stored(2, 1) == 1


def test_idle_promise(group):
    """Q5, (d) 5, A7: after the last item one CLAIMS per station and heartbeat, no DATA, no NACK."""
    group.submit(1, 3)
    group.submit(2, 2)
    group.run(5 * SECOND)
    group.sent.clear()
    heartbeats = 20
    group.run(heartbeats * group.settings.heartbeat)
    assert not group.sent_of(DataBatch) and not group.sent_of(Nack)
    for slot in group.slots:
        assert len(group.sent_of(Claims, slot)) // 2 <= heartbeats + 1
        assert len(group.sent_of(Claims, slot)) // 2 >= heartbeats - 1, "the heartbeat says that it is alive"


def test_one_item_costs_few_claims(group):
    """No frame answers a frame for ever: two CLAIMS per station for levels 2 and 3, then quiet."""
    group.run(SECOND)
    group.sent.clear()
    group.submit(1)
    group.run(2 * SECOND)
    assert len(group.sent_of(Claims)) <= 2 * 3 * 3
    assert group.up[2].known_stable[1] == 1


def test_one_deaf_station_does_not_make_the_others_shout(make_group):
    """While one is down its peers do not ask it faster and faster; that ends with its return."""
    group = make_group(1, 2, 3)
    group.run(SECOND)
    group.stop(3)
    group.submit(1, 3)
    group.run(60 * SECOND)
    group.sent.clear()
    group.run(60 * SECOND)
    for slot in (1, 2):
        assert len(group.sent_of(Claims, slot)) // 2 <= 60 // 5 + 1


def test_full_claims_again_every_heartbeat(make_group):
    """A lost R or level is said again though nothing changes."""
    group = make_group(1, 2)
    group.submit(1)
    group.run(SECOND)
    group.lose = lambda source, target, frame: True
    group.up[2].announce_reduce((0, 1, 0))
    group.run(SECOND)
    assert group.up[1].reduce.minima[1] == 0
    group.lose = lambda source, target, frame: False
    group.run(group.settings.heartbeat)
    assert group.up[1].reduce.claims[2][1] == 1


def test_reduce_never_falls(make_group):
    group = make_group(1, 2)
    group.submit(1, 5)
    group.run(SECOND)
    for value in (4, 2):
        group.up[1].announce_reduce((0, value, 0))
        group.run(SECOND)
        assert group.up[2].reduce.claims[1][1] == 4


def test_a_start_repeats_what_the_last_life_did_not_send(make_group):
    """B17: stored, but no copy had left; peers learn of it from `sent` and ask."""
    group = make_group(1, 2)
    group.run(SECOND)
    group.submit(1, 2, send=False)
    group.stop(1)
    group.start(1)
    group.run(SECOND)
    assert group.stored(2, 1) == 2


def test_a_start_claims_what_it_has_stored_and_no_more(make_group):
    """(d) 11, W2: claims come from the store; levels 2 and 3 are learned again."""
    group = make_group(1, 2)
    group.submit(1, 3)
    group.run(SECOND)
    group.stop(2)
    group.start(2)
    assert group.up[2].accepted.claims[2][1] == 3
    assert group.up[2].stable[1] == 0
    group.run(SECOND)
    assert group.up[2].stable[1] == 3


def test_numbers_go_on_after_a_start_on_a_collected_table(make_group):
    """(d) 12 and overview 6: counters do not come from rows."""
    group = make_group(1, 2)
    group.submit(1, 3)
    group.run(SECOND)
    for slot in (1, 2):
        stream = group.images[slot].streams[1]
        group.images[slot].rows.clear()
        stream.delivered = stream.floor = stream.stored
        group.stop(slot)
        group.start(slot)
    group.submit(1)
    group.run(SECOND)
    assert sorted(group.images[2].rows) == [(1, 4)]


def test_a_row_below_the_floor_is_never_stored_again(make_group, make_row):
    """M1: a late copy of a collected row."""
    group = make_group(1, 2)
    group.submit(1, 3)
    group.run(SECOND)
    table = group.up[2].table
    for stored in table.rows(1, 1, 3):
        table.place(stored)
    table.drop(1, 2)
    group.hand(1, 2, DataBatch(1, tuple(make_row(1, n) for n in (1, 2, 3))))
    assert [stored.n for stored in table.rows(1, 1, 9)] == [3]
    assert table.rows_total == 1


# ---- hostile frames ----


@pytest.mark.parametrize(
    "change",
    [
        {"slot": 2},
        {"n": 0},
        {"position": 4},
        {"stamp": ((1, 1),)},
        {"stamp": ((3, 1), (2, 1))},
        {"stamp": ((2, 1), (2, 2))},
        {"stamp": ((9, 1),)},
        {"stamp": ((2, 0),)},
        {"stamp": ((-1, 1),)},
    ],
    ids=str,
)
def test_a_row_that_makes_no_sense_is_refused_and_nothing_of_it_kept(group, make_row, change):
    bad = make_row(1, 1)
    for name, value in change.items():
        setattr(bad, name, value)
    group.hand(1, 3, DataBatch(1, (bad,)))
    ((_, reject),) = group.faults
    assert (reject.source, reject.code) == (1, "bad-row")
    assert group.stored(3, 1) == 0
    group.submit(1)
    group.run(SECOND)
    assert group.stored(3, 1) == 1


@pytest.mark.parametrize("field", ["stored", "stable", "reduce"])
def test_claims_on_an_unknown_slot_change_nothing(group, field):
    words = {"stored": (), "stable": (), "reduce": (), field: ((1, 1), (9, 1))}
    group.submit(1, send=False)
    group.hand(2, 1, Claims(False, **words, sent=0, hlc=0))
    ((_, reject),) = group.faults
    assert (type(reject), reject.code) == (Reject, "bad-slot")
    assert group.up[1].accepted.claims[2][1] == 0


@pytest.mark.parametrize("field", ["stored", "stable", "reduce"])
def test_a_peer_that_knows_more_of_us_than_we_do_raises_the_alarm(group, field):
    """This store went back in time, or the peer lies: nothing is merged."""
    words = {"stored": (), "stable": (), "reduce": (), field: ((1, 5),)}
    group.submit(1, 2, send=False)
    group.hand(2, 1, Claims(False, **words, sent=0, hlc=0))
    ((_, notice),) = group.faults
    assert (type(notice), notice.level, notice.event) == (Notice, "alarm", "store-went-back")
    assert group.up[1].accepted.claims[2][1] == 0


def test_own_rows_that_we_do_not_have_raise_the_alarm(group, make_row):
    group.hand(2, 1, DataBatch(1, (make_row(1, 1),)))
    ((_, notice),) = group.faults
    assert notice.event == "store-went-back"
    assert group.stored(1, 1) == 0


def test_data_of_an_unknown_stream_is_refused(group, make_row):
    group.hand(2, 1, DataBatch(9, (make_row(9, 1),)))
    assert [effect.code for _, effect in group.faults] == ["bad-origin"]
