"""Drawing a scenario from a seed."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from roamcast.middleware.simulator.scenario import SCENARIOS, Options, draw


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_draws_the_same_options_every_time_and_seeds_differ(scenario: str) -> None:
    assert draw(scenario, 7) == draw(scenario, 7)
    assert len({draw(scenario, seed).banner(): None for seed in range(20)}) == 20


def test_an_override_changes_that_option_alone() -> None:
    plain, changed = asdict(draw("mixed", 5)), asdict(draw("mixed", 5, {"hosts": 99}))
    assert {name for name, value in changed.items() if plain[name] != value} == {"hosts"}


def test_few_has_few_hosts_and_long_has_many_messages() -> None:
    assert max(draw("few", seed).hosts for seed in range(50)) == 3
    assert min(draw("long", seed).messages for seed in range(50)) > max(draw("mixed", s).messages for s in range(50))


def test_every_choice_comes_up() -> None:
    scenarios = ("mixed", "group", "topics", "mixed-live", "composite")
    drawn = [draw(scenario, seed) for seed in range(200) for scenario in scenarios]
    for field in fields(Options):
        assert len({getattr(options, field.name): None for options in drawn}) > 1, field.name


def test_settings_follow_from_the_options() -> None:
    for seed in range(50):
        options = draw("mixed", seed)
        settings, agent, model = options.settings(), options.agent_settings(), options.link_model()
        assert settings.window_entries == options.window_entries
        assert agent.attach_timeout > 2 * model.radio_delay[1]
        assert settings.nack_timeout > 2 * model.wired_delay[1]
        assert (settings.away_max == options.expiry) == bool(options.expiry)


@pytest.mark.parametrize(("scenario", "overrides"), [("huge", {}), ("mixed", {"colour": 3})])
def test_wrong_names_are_refused(scenario: str, overrides: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"no (scenario|option)"):
        draw(scenario, 1, overrides)
