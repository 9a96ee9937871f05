"""Losses and how they are repaired: fifo-broadcast.md (d) for flat OP, Q4."""

from __future__ import annotations

from random import Random

import pytest

from roamcast.middleware.effects import Reject
from roamcast.middleware.settings import MS, SECOND
from roamcast.middleware.station_frames import Claims, DataBatch, Nack


def test_last_row_lost_by_all_then_silence(make_group):
    """(d) 1: nobody but the sender knows of it, and its first CLAIMS are lost too: it must ask."""
    group = make_group(1, 2, 3)
    group.run(SECOND)
    group.lose = lambda source, target, frame: True
    group.submit(1)
    group.run(100 * MS)
    group.lose = lambda source, target, frame: False
    group.run(SECOND)
    assert [group.stored(slot, 1) for slot in group.slots] == [1, 1, 1]


def test_without_the_poll_the_last_row_stays_lost(make_group):
    group = make_group(1, 2, 3, mutants=frozenset({"no_poll"}))
    group.run(SECOND)
    group.lose = lambda source, target, frame: True
    group.submit(1)
    group.run(100 * MS)
    group.lose = lambda source, target, frame: False
    group.run(SECOND)
    assert [group.stored(slot, 1) for slot in group.slots] == [1, 0, 0]


def test_last_claim_lost_by_one(group):
    """(d) 2: all others are drained and silent; the one asks, and the drained one answers."""
    group.run(SECOND)
    group.lose = lambda source, target, frame: (source, target) == (3, 1)
    group.submit(1)
    group.run(100 * MS)
    assert group.up[2].stable[1] == 1
    assert group.up[1].stable[1] == 0
    group.lose = lambda source, target, frame: False
    group.run(SECOND)
    assert group.up[1].stable[1] == 1


def test_every_frame_twice_is_every_row_once(make_group):
    group = make_group(1, 2)
    group.lose = lambda source, target, frame: bool(group.wire.append((source, target, frame)))
    accepted = []
    group.submit(1, 5)
    group.submit(2, 3)
    group.run(SECOND)
    for slot in (1, 2):
        accepted += sorted(group.images[slot].rows)
    assert accepted == 2 * [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (2, 2), (2, 3)]
    assert not group.faults


def test_a_gap_is_asked_for_and_no_more_than_the_gap(group):
    """Rows 1..2 are lost, 3 arrives: NACK 1..2."""
    group.run(SECOND)
    group.lose = lambda source, target, frame: isinstance(frame, DataBatch) and target == 2
    group.submit(1, 2)
    group.deliver()
    group.lose = lambda source, target, frame: False
    group.submit(1)
    group.run(SECOND)
    assert [flight for flight in group.sent if isinstance(flight[2], Nack)] == [(2, 1, Nack(1, 1, 2))]
    assert group.stored(2, 1) == 3


def test_early_rows_beyond_the_bound_are_dropped_and_fetched_later(make_group, make_row):
    """Q3 (c), (d) 21: rows 10..1 arrive in reverse, three early ones are kept; row 1 brings 2, 3 and 4 with it."""
    group = make_group(1, 2, out_of_order_max=4)
    group.submit(1, 10, send=False)
    for n in range(10, 0, -1):
        group.hand(1, 2, DataBatch(1, (make_row(1, n),)))
    assert group.stored(2, 1) == 4
    group.run(SECOND)
    assert group.stored(2, 1) == 10


def test_origin_asked_twice_then_any_live_holder(make_group):
    """Q4: the origin does not answer; a station that claims the range does."""
    group = make_group(1, 2, 3)
    group.run(SECOND)
    group.lose = lambda source, target, frame: 3 in (source, target) and 1 in (source, target)
    group.submit(1, 3)
    group.run(3 * SECOND)
    asked = [target for source, target, frame in group.sent if isinstance(frame, Nack)]
    assert asked[:2] == [1, 1]
    assert asked[-1] == 2 and len(asked) <= 4
    assert group.stored(3, 1) == 3


def test_without_a_third_party_the_rows_never_come(make_group):
    group = make_group(1, 2, 3, mutants=frozenset({"no_third_party"}))
    group.run(SECOND)
    group.lose = lambda source, target, frame: 3 in (source, target) and 1 in (source, target)
    group.submit(1, 3)
    group.run(10 * SECOND)
    assert group.stored(3, 1) == 0


def test_only_live_holders_are_asked(make_group):
    """The origin is cut off, one holder has gone down, one station lacks the rows too: the fourth is asked."""
    group = make_group(1, 2, 3, 4, 5, down_after=2 * SECOND, heartbeat=SECOND, poll_timeout_max=200 * MS)
    group.run(SECOND)
    parted = ({1, 4}, {1, 5})
    group.lose = lambda source, target, frame: (
        {source, target} in parted or (isinstance(frame, DataBatch) and target in (4, 5))
    )
    group.submit(1, 2)
    group.run(2 * SECOND)
    assert group.up[4].accepted.claims[2][1] == group.up[4].accepted.claims[3][1] == 2
    group.stop(2)
    group.run(4 * SECOND)
    group.sent.clear()
    group.run(4 * SECOND)
    group.lose = lambda source, target, frame: (
        {source, target} in parted or (isinstance(frame, DataBatch) and target == 5)
    )
    group.run(6 * SECOND)
    assert group.stored(4, 1) == 2 and group.stored(5, 1) == 0
    asked = {target for source, target, frame in group.sent if isinstance(frame, Nack) and source == 4}
    assert asked <= {1, 3} and 3 in asked


def test_a_silent_answer_is_asked_for_ever_more_rarely(make_group):
    """A live peer whose claims do not come: polls double from 120 ms to 2 s."""
    group = make_group(1, 2)
    group.run(SECOND)
    group.lose = lambda source, target, frame: source == 2 and isinstance(frame, Claims) and bool(frame.stored)
    group.submit(1)
    group.sent.clear()
    for _ in range(10):
        group.up[1].hear(2, group.now)
        group.run(SECOND)
    assert 6 <= sum(bool(claims.want) for claims in group.sent_of(Claims, 1)) <= 12


def test_foreign_rows_only_as_an_answer(group, make_row):
    group.submit(1, send=False)
    group.hand(2, 3, DataBatch(1, (make_row(1, 1),)))
    assert group.stored(3, 1) == 0
    ((slot, reject),) = group.faults
    assert (slot, type(reject), reject.source, reject.code) == (3, Reject, 2, "bad-origin")


def test_repairs_under_random_faults_keep_order_and_lose_nothing(make_group):
    """30 % lost, 20 % repeated, any order: at the end everybody has all, and nobody ever claimed too much."""
    for seed in range(10):
        rng = Random(seed)
        group = make_group(1, 2, 3, out_of_order_max=3, send_window=5, nack_rows_max=2)

        def fate(source, target, frame, rng=rng, group=group):
            if rng.random() < 0.2:
                group.wire.insert(rng.randint(0, len(group.wire)), (source, target, frame))
            return rng.random() < 0.3

        group.lose = fate
        for _ in range(30):
            group.submit(rng.choice(group.slots), rng.randint(1, 3))
            group.run(rng.randint(0, 50 * MS))
            rng.shuffle(group.wire)
            levels(group)
        group.lose = lambda source, target, frame: False
        group.run(5 * SECOND)
        levels(group)
        stored = [[group.stored(slot, k) for k in group.slots] for slot in group.slots]
        assert stored[0] == stored[1] == stored[2], f"seed {seed}"
        assert [group.up[1].known_stable[k] for k in group.slots] == stored[0], f"seed {seed}"
        assert not group.faults, f"seed {seed}"


def levels(group) -> None:
    """(c) 2, 3: level 2 is stored everywhere, level 3 is level 2 everywhere."""
    for entity in group.up.values():
        for k in group.slots:
            assert entity.stable[k] <= min(group.stored(slot, k) for slot in group.slots)
            assert entity.known_stable[k] <= min(other.stable[k] for other in group.up.values())


def test_level_2_is_exactly_what_all_claim(group):
    """A1: one row behind at one station is one row behind at level 2, no more and no less."""
    group.run(SECOND)
    group.submit(1, 3, send=False)
    for station, stored in ((2, 3), (3, 2)):
        group.hand(station, 1, Claims(False, ((1, stored),), (), (), 0, 0))
    assert group.up[1].stable[1] == 2
    assert group.up[1].known_stable[1] == 0
    group.hand(3, 1, Claims(False, ((1, 3),), ((1, 2),), (), 0, 0))
    assert group.up[1].stable[1] == 3
    assert group.up[1].known_stable[1] == 0
    group.hand(2, 1, Claims(False, (), ((1, 3),), (), 0, 0))
    assert group.up[1].known_stable[1] == 2


def test_older_claims_take_nothing_back(group):
    """A5: claims of a repeated or overtaken frame are merged by max."""
    group.submit(1, 3, send=False)
    for stored in (3, 1):
        for station in (2, 3):
            group.hand(station, 1, Claims(True, ((1, stored),), (), (), 0, 0))
    assert group.up[1].stable[1] == 3


def test_ten_thousand_rows_are_fetched_in_bounded_frames(make_group):
    """Q4: a station that was away catches up by NACK; the others kept their rate meanwhile."""
    group = make_group(1, 2, 3, nack_bytes_max=10_000)
    group.run(SECOND)
    group.stop(3)
    group.run(20 * SECOND)
    for _ in range(100):
        group.submit(1, 100, size=50)
        group.run(25 * MS)
        assert group.stored(2, 1) == group.stored(1, 1)
    group.sent.clear()
    group.start(3)
    group.run(30 * SECOND)
    assert group.stored(3, 1) == 10_000
    batches = group.sent_of(DataBatch)
    assert all(len(batch.rows) <= 256 and sum(row.size for row in batch.rows) <= 10_000 for batch in batches)
    assert len(group.sent_of(Nack)) <= len(batches) <= 10_000 // 200 + 5


def test_one_row_larger_than_the_bound_travels_alone(make_group):
    group = make_group(1, 2, nack_bytes_max=100)
    group.submit(1, 3, size=300)
    group.run(SECOND)
    assert [len(batch.rows) for batch in group.sent_of(DataBatch)] == [1, 1, 1]
    assert group.stored(2, 1) == 3


def test_a_nack_for_dropped_rows_is_not_answered(make_group):
    """The asker has claimed them since, or they would be here."""
    group = make_group(1, 2)
    group.submit(1, 3)
    group.run(SECOND)
    table = group.up[1].table
    for stored in table.rows(1, 1, 3):
        table.place(stored)
    table.drop(1, 3)
    group.sent.clear()
    group.hand(2, 1, Nack(1, 1, 3))
    assert not group.sent_of(DataBatch)
    assert not group.faults


@pytest.mark.parametrize("nack", [Nack(1, 0, 3), Nack(1, 3, 2), Nack(9, 1, 1), Nack(1, -1, -1)])
def test_a_nack_that_makes_no_sense_is_refused(group, nack):
    group.hand(2, 1, nack)
    assert [effect.code for _, effect in group.faults] == ["bad-nack"]
