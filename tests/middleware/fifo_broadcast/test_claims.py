"""The claim matrix against its definition: minima are column minima, claims only grow."""

from __future__ import annotations

from random import Random

from roamcast.middleware.fifo_broadcast.claims import ClaimMatrix


def test_minima_are_column_minima_at_every_step():
    seed = 20_811
    rng = Random(seed)
    matrix = ClaimMatrix((1, 2, 5), [0] * 6)
    naive = {i: [0] * 6 for i in (1, 2, 5)}
    for step in range(5_000):
        station, stream, value = rng.choice((1, 2, 5)), rng.choice((1, 2, 5)), rng.randint(0, 40 + step // 50)
        before = min(claims[stream] for claims in naive.values())
        naive[station][stream] = max(naive[station][stream], value)
        after = min(claims[stream] for claims in naive.values())
        assert matrix.merge(station, stream, value) == (after > before), f"seed {seed}, step {step}"
        assert matrix.minima[stream] == after, f"seed {seed}, step {step}"


def test_a_start_counts_nothing_above_the_floor():
    matrix = ClaimMatrix((1, 2), [0, 7, 3])
    assert matrix.minima == [0, 7, 3]
    assert not matrix.merge(1, 1, 9)
    assert matrix.merge(2, 1, 8)
    assert matrix.minima[1] == 8
