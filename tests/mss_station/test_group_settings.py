"""The settings of the group: few, described, in range; wrong ones are refused with what would do."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from roamcast.middleware.settings import DAY, SECOND, Settings
from roamcast.mss_station.errors import SchemaError
from roamcast.mss_station.group_settings import (
    LOG_LEVELS,
    PAIRS,
    SETTINGS,
    Kind,
    check_pairs,
    contradictions,
    core_settings,
    setting,
)


def test_defaults_are_good_settings() -> None:
    for one in SETTINGS.values():
        assert one.check(one.default) == one.default
        assert one.read(one.show(one.default)) == one.default
    assert core_settings({}) == Settings()
    assert core_settings({name: one.default for name, one in SETTINGS.items()}) == Settings()
    assert contradictions({}) == []


def test_every_setting_of_the_cores_is_one_of_theirs() -> None:
    names = {field.name for field in fields(Settings)}
    assert {one.field for one in SETTINGS.values() if one.field} <= names


def test_every_setting_says_what_it_is() -> None:
    for name, one in SETTINGS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert one.about and one.wanted and one.effect
        assert one.kind is not Kind.WORD or one.words
    assert set(LOG_LEVELS) == set(SETTINGS["log-level"].words)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("away-max", "14d", 14 * DAY),
        ("away-max", "5000000", 5 * SECOND),
        ("spool-bytes-max", "1GiB", 1 << 30),
        ("window-entries", "7", 7),
        ("log-level", "debug", "debug"),
        ("spacing-us", "0", 0),
    ],
)
def test_a_value_is_read(name: str, text: str, value: Any) -> None:
    assert setting(name).read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("away-max", "14", "14 without a unit counts microseconds"),
        ("away-max", "two weeks", r"a duration from 1s to 366d \(30d, 10s, 250ms\), not 'two weeks'"),
        ("away-max", "400d", "not 400d"),
        ("window-entries", "0", "a whole number from 1 to 65536, not 0"),
        ("window-entries", "7d", "not '7d'"),
        ("message-bytes-max", "1MiB", "from 1B to 256KiB"),
        ("mail-inbox-bytes", "99999999999999", r"a size from 1MiB to 1GiB"),
        ("mail-bytes", "2GiB", "not 2GiB"),
        ("log-level", "loud", "one of debug, info, warning, error, not 'loud'"),
        ("durability", "none", "one of power, process"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_do(name: str, text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        setting(name).read(text)


@pytest.mark.parametrize("value", [None, "30d", True, 1.5, b"x", [1], -1])
def test_what_another_station_wrote_is_checked_too(value: Any) -> None:
    with pytest.raises(SchemaError):
        setting("away-max").check(value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("awaymax", "did you mean away-max"),
        ("away_max", "did you mean away-max"),
        ("window", "did you mean window-bytes, window-entries"),
        ("zebra", "config list DIR --settings"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(name: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        setting(name)


def test_two_settings_may_not_contradict_each_other() -> None:
    (low, high) = PAIRS[0]
    values = {low: SECOND, high: SECOND // 2}
    for changed in (low, high):
        with pytest.raises(SchemaError, match=f"{low} must not be above {high}"):
            check_pairs(values, changed)
    check_pairs(values, "away-max")
    assert core_settings({**values, "window-entries": 7}) == Settings(window_entries=7), "both have their defaults"
