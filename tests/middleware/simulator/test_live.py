"""Whole runs of live messages: promises kept, clocks wrong as they may be, digests equal; and the judge itself."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.delta_causal.past import HorizonRule, Id, PaperRule, Past
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.live.judge import LiveJudge
from roamcast.middleware.simulator.live.options import STORIES, draw_live
from roamcast.middleware.simulator.live.run import LiveRun, run_live

COMMAND = [sys.executable, "-m", "roamcast.middleware.simulator.cli", "--scenario", "live"]
FRESH_SEED = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1 << 40))
"""First seed that no run has seen; set by ROAMCAST_SEED to replay it."""


def totals(seeds: range, **options: Any) -> dict[str, int]:
    """Counts of runs that pass."""
    sums: dict[str, int] = {}
    for seed in seeds:
        result = run_live(seed, overrides=options)
        assert (result.rule, result.witness) == ("", []), f"live seed {seed}, {options}"
        for name, count in result.counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums


@pytest.mark.parametrize("rule", ["horizon", "paper"])
@pytest.mark.parametrize("story", STORIES)
def test_promises_are_kept(story: str, rule: str) -> None:
    sums = totals(range(1, 9), story=story, rule=rule)
    assert sums["deliveries"] > 500 and sums["waits"] > 200


@pytest.mark.parametrize("entries_max", [0, 1, 2, -1])
def test_promises_are_kept_however_short_the_lists(entries_max: int) -> None:
    sums = totals(range(1, 11), rule="horizon", entries_max=entries_max)
    assert entries_max != -1 or sums["prompt"] == sums["deliveries"]


def test_promises_are_kept_under_fresh_seeds() -> None:
    print(f"ROAMCAST_SEED={FRESH_SEED}")
    for seed in range(FRESH_SEED, FRESH_SEED + 60):
        result = run_live(seed)
        replay = f"roamcast-simulate --scenario live --seed {seed}"
        assert not result.rule, "\n".join([result.rule, *result.witness, *result.tail, replay])


def test_every_story_does_what_it_is_about() -> None:
    sums = {story: totals(range(50, 58), story=story) for story in ("loss", "leaps", "restarts", "delta")}
    assert sums["loss"]["duplicate"] > 100
    assert sums["leaps"]["late"] + sums["leaps"]["ahead"] > 150
    assert sums["restarts"]["restarts"] > 25 and sums["restarts"]["quiet"] > 100
    assert sums["delta"]["delta"] > 20 and sums["delta"]["quiet"] > 50
    assert totals(range(50, 58), story="skew", allowance=100_000)["ahead"] == 0


@pytest.mark.parametrize("seed", [22_292, 27_467])
def test_a_restart_while_delta_becomes_shorter(seed: int) -> None:
    """It pauses for the new delta alone, not knowing the longer one; messages of two delta never meet all the same."""
    assert run_live(seed).rule == ""


def test_equal_seeds_give_equal_traces_under_any_hash_seed(outputs_of: Callable[[list[str]], list[str]]) -> None:
    outputs = outputs_of([*COMMAND, "--seed", "5", "--count", "8"])
    assert outputs[0].count("trace sha256 ") == 8
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_command_says_what_failed_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HorizonRule, "delivered", lambda self, mine, *arguments: mine)
    assert main(["--scenario", "live", "--seed", "3", "--set", "rule=horizon"]) == 2
    assert main(["--scenario", "live", "--seed", "3", "--count", "4", "--set", "messages=60"]) == 1
    out = capsys.readouterr().out
    assert "broken: tag" in out
    assert "--set messages=60" in out and "reproduce: roamcast-simulate --scenario live --seed " in out


def test_unknown_words_are_refused() -> None:
    for wrong in ({"colour": 1}, {"story": "sad"}, {"rule": "golden"}):
        with pytest.raises(ValueError, match="no "):
            draw_live(1, wrong)
    assert len({draw_live(seed).banner() for seed in range(20)}) == 20


def test_under_the_papers_rule_entries_may_leave_by_age_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the delivered message stands for is taken out, as a horizon allows: then a list that was cut looks whole."""

    def delivered(self: PaperRule, mine: Past, its: Past, message: Id, addressed: bool) -> Past:
        if not addressed:
            return self._cut({*mine.entries, *its.entries})
        return self._cut({*mine.entries, message} - {*its.entries})

    options = {"story": "plain", "rule": "paper", "entries_max": 4}
    assert not any(run_live(seed, overrides=options).rule for seed in (14, 687))
    monkeypatch.setattr(PaperRule, "delivered", delivered)
    assert run_live(14, overrides=options).rule == "tag"
    run = LiveRun(687, draw_live(687, options))
    run.judge.invariants = False
    with pytest.raises(Violation, match="J2"):
        run.run()


# ---- the judge ----


class Story:
    """What a judge is told: station 0 sends m to 1 and 2, then 1, which has it, sends n to 2."""

    def __init__(self, **options: Any) -> None:
        drawn = {"story": "plain", "rule": "horizon", "delta": 100, "spread": 0, "allowance": 10, "entries_max": 4}
        self.judge = LiveJudge(draw_live(1, {**drawn, **options}))
        for slot in range(3):
            self.judge.life(slot, 0, 100)
        self.judge.sent(0, 1_000, 1_000, (1_000, 0), frozenset({1, 2}), False)
        self.say("came", 1, 1_005, 1_005, (1_000, 0), "")
        self.say("delivered", 1, 1_005, (1_000, 0), False)
        self.second = self.judge.sent(1, 1_006, 1_006, (1_006, 1), frozenset({2}), False)

    def say(self, what: str, *arguments: Any) -> str:
        """The broken promise."""
        try:
            getattr(self.judge, what)(*arguments)
        except Violation as violation:
            return violation.rule
        return ""


def test_the_judge_finds_fault_with_the_order_and_the_instant() -> None:
    story = Story()
    assert story.say("came", 2, 1_010, 1_010, (1_006, 1), "") == ""
    assert story.say("rests", 2, 1_010, None) == "timer"
    assert story.say("rests", 2, 1_010, 1_102) == "timer"
    assert story.say("rests", 2, 1_010, 1_101) == ""
    assert story.say("rests", 2, 1_101, None) == "J5"
    assert story.say("delivered", 2, 1_101, (1_006, 1), False) == ""
    assert story.say("came", 2, 1_101, 1_101, (1_000, 0), "") == "J3"
    story = Story()
    story.say("came", 2, 1_100, 1_100, (1_006, 1), "")
    assert story.say("delivered", 2, 1_100, (1_006, 1), False) == "J2"
    story = Story()
    story.say("came", 2, 1_050, 1_050, (1_006, 1), "")
    assert story.say("delivered", 2, 1_050, (1_006, 1), True) == ""
    story.say("came", 2, 1_051, 1_051, (1_000, 0), "")
    assert story.say("delivered", 2, 1_051, (1_000, 0), False) == "J2"
    story = Story(entries_max=0)
    story.say("came", 2, 1_010, 1_010, (1_006, 1), "")
    assert [story.say("rests", 2, now, 1_106) for now in (1_010, 1_105, 1_106)] == ["", "", "J4"]


def test_the_judge_finds_fault_with_what_is_taken_and_dropped() -> None:
    story = Story()
    assert story.say("came", 1, 1_010, 1_010, (1_000, 0), "") == "J7"
    assert story.say("delivered", 1, 1_010, (1_000, 0), False) == "J7"
    assert story.say("came", 1, 1_010, 1_010, (1_000, 0), "duplicate") == ""
    for why in ("late", "duplicate", "quiet", "ahead", "delta", "full"):
        assert story.say("came", 2, 1_100, 1_100, (1_000, 0), why) == "dropped"
    assert story.say("came", 0, 990, 990, (1_006, 1), "") == ""
    assert story.say("sent", 1, 1_006, 1_006, (1_006, 1), frozenset({0}), False) == "J1"
    assert story.say("sent", 1, 1_050, 1_050, (1_049, 1), frozenset({0}), False) == "J1"
    story.judge.sent(1, 1_050, 1_050, (1_061, 1), frozenset({0}), False)
    assert story.say("came", 0, 1_050, 1_050, (1_061, 1), "") == "ahead"
    story = Story(allowance=100_000)
    assert story.say("came", 2, 1_100, 1_090, (1_000, 0), "") == ""
    story = Story(allowance=100_000)
    assert story.say("came", 2, 1_100, 1_150, (1_000, 0), "") == "age"
    assert story.say("came", 2, 1_101, 1_100, (1_000, 0), "late") == "age"


@pytest.mark.parametrize(
    ("entries", "horizon", "bound", "rule"),
    [
        ([(1_000, 0)], 0, 1, ""), ([], 1_000, 0, ""), ([], 0, 4, "tag"), ([], 999, 4, "tag"),
        ([(1_000, 0)], 1_000, 4, "J6"), ([(999, 0)], 0, 4, "J6"), ([], 1_006, 4, "J6"), ([], 905, 4, "J6"),
        ([(1_000, 0)], 0, 0, "J6"),
        ([(1_000, 0), (1_000, 0)], 0, 4, "J6"), ([(1_006, 1)], 0, 4, "J6"),
    ],
)  # fmt: skip
def test_the_judge_finds_fault_with_tags(entries: Any, horizon: int, bound: int, rule: str) -> None:
    story = Story()
    first = story.judge.messages[1_000, 0]
    first.reach = dict.fromkeys(range(3), 0)
    story.second.reach = dict.fromkeys(range(3), 0)
    assert story.say("check_tag", 2, story.second, entries, horizon, bound) == rule
