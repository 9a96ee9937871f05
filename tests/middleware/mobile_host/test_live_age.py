"""How old a live frame is, by differences of two clocks that have nothing to do with each other."""

from __future__ import annotations

from roamcast.middleware.mobile_host.live_age import BUCKET, DRIFT, LiveAge
from roamcast.middleware.settings import MS, SECOND

WAY = 30 * MS
OFFSET = 1_795_000_000_000_000 - 5_000
"""The station's clock less the host's."""


def came(age: LiveAge, true: int, held: int = 0, offset: int = OFFSET) -> int:
    """A frame handed down at `true` by the host's clock, which was held up for so long beyond its way."""
    return age.came(true + WAY + held, true + offset)


def test_what_was_held_up_is_as_old_as_that():
    age = LiveAge()
    assert came(age, SECOND) == 0
    assert came(age, 2 * SECOND, held=700 * MS) == 700 * MS
    assert came(age, 3 * SECOND) == 0


def test_the_first_is_fresh_until_something_shows_that_it_was_not():
    age = LiveAge()
    assert came(age, SECOND, held=SECOND) == 0
    assert came(age, 2 * SECOND, held=400 * MS) == 0
    assert came(age, 3 * SECOND, held=SECOND) == 600 * MS
    age.reset()
    assert came(age, 4 * SECOND, held=SECOND) == 0, "of another session"


def test_a_slow_way_becomes_the_usual_one():
    """A bucket after the other is of late frames."""
    age = LiveAge()
    came(age, 0)
    ages = [came(age, second * SECOND, held=200 * MS) for second in range(1, 70)]
    assert ages[28] == 200 * MS and ages[-1] == 0
    assert 30 <= next(second for second, one in enumerate(ages, 1) if not one) <= 60


def test_a_sleep_ends_no_bucket_however_long():
    age = LiveAge()
    came(age, 0)
    slept = 1_000 * SECOND
    assert came(age, SECOND, held=slept) == slept - (slept + SECOND) // DRIFT
    assert came(age, slept, held=SECOND) == SECOND - (slept + SECOND) // DRIFT


def test_clocks_that_run_apart_make_nothing_old():
    """100 parts in a million, frames twice a minute, for a day; and after a quiet day."""
    age = LiveAge()
    for step in range(2 * 60 * 24):
        true = step * 30 * SECOND
        assert came(age, true, offset=OFFSET - true // DRIFT) <= 30 * SECOND // DRIFT
    true = 48 * 3_600 * SECOND
    assert came(age, true, offset=OFFSET - true // DRIFT) <= 30 * SECOND // DRIFT


def test_a_clock_set_forward_makes_nothing_old():
    age = LiveAge()
    assert [came(age, second * SECOND, offset=OFFSET + (second > 5) * SECOND) for second in range(90)] == [0] * 90


def test_a_clock_set_back_makes_all_old_for_two_buckets_at_most():
    age = LiveAge()
    ages = [came(age, second * SECOND, offset=OFFSET - (second > 5) * SECOND) for second in range(100)]
    assert ages[6] == SECOND, "as all that is held up"
    assert not any(ages[6 + 2 * BUCKET // SECOND :])
