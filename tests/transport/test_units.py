"""Durations and sizes as people write them."""

from __future__ import annotations

import random

import pytest

from roamcast.middleware.settings import DAY, MIB, SECOND
from roamcast.transport.units import DURATIONS, SIZES, read_number, show_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("30d", 30 * DAY), ("10s", 10 * SECOND), ("250 ms", 250_000), ("1min", 60 * SECOND), ("7", 7), (" 0s ", 0)],
)
def test_a_duration_is_read(text: str, number: int) -> None:
    assert read_number(text, DURATIONS) == number


@pytest.mark.parametrize("text", ["", "d", "1.5h", "-1s", "1 d h", "1D", "1MiB", "1" * 19 + "d", "١d", "0x10", "1_000"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert read_number(text, DURATIONS) is None


def test_sizes_are_powers_of_two() -> None:
    assert read_number("256MiB", SIZES) == 256 * MIB
    assert read_number("1MB", SIZES) is None


@pytest.mark.parametrize("units", [DURATIONS, SIZES], ids=["durations", "sizes"])
def test_what_is_shown_can_be_read(units: dict[str, int]) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(1_000):
        number = rng.choice([rng.randrange(100), rng.randrange(1 << 40)]) * rng.choice(list(units.values()))
        assert read_number(show_number(number, units), units) == number


def test_the_largest_whole_unit_is_shown() -> None:
    assert [show_number(number, DURATIONS) for number in (0, 1, 90 * SECOND, 60 * SECOND, DAY)] == [
        "0us", "1us", "90s", "1min", "1d",
    ]  # fmt: skip
