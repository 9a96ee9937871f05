"""Whole runs of composite clusters: promises kept in every layout and story, digests equal; and the judge itself."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.clusters.judge import ClusterJudge, Entry
from roamcast.middleware.simulator.clusters.layouts import SHAPES, plane
from roamcast.middleware.simulator.clusters.options import STORIES, draw_clusters
from roamcast.middleware.simulator.clusters.run import run_clusters

COMMAND = [sys.executable, "-m", "roamcast.middleware.simulator.cli", "--scenario", "clusters"]
FRESH_SEED = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1 << 40))
"""First seed that no run has seen; set by ROAMCAST_SEED to replay it."""


def totals(seeds: range, **options: Any) -> dict[str, int]:
    """Counts of runs that pass."""
    sums: dict[str, int] = {}
    for seed in seeds:
        result = run_clusters(seed, overrides=options)
        assert (result.rule, result.witness) == ("", []), f"clusters seed {seed}, {options}"
        for name, count in result.counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums


@pytest.mark.parametrize("story", STORIES)
def test_promises_are_kept(story: str) -> None:
    sums = totals(range(1, 5), story=story, shape="three-3")
    assert sums["accepted"] > 1_000 and sums["level 3"] > 300


@pytest.mark.parametrize("shape", SHAPES)
def test_promises_are_kept_in_every_layout(shape: str) -> None:
    size = {} if shape in ("flat", "two") else {"size": 1}
    count = 1 if shape.startswith("ten") else 2
    assert totals(range(1, 1 + count), shape=shape, story="loss", rows=12, **size)["level 3"] > 0


def test_promises_are_kept_under_fresh_seeds() -> None:
    print(f"ROAMCAST_SEED={FRESH_SEED}")
    for seed in range(FRESH_SEED, FRESH_SEED + 10):
        result = run_clusters(seed, overrides={"rows": 10})
        replay = f"roamcast-simulate --scenario clusters --seed {seed} --set rows=10"
        assert not result.rule, "\n".join([result.rule, *result.witness, *result.tail, replay])


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (2005, {"shape": "three-3", "rows": 13}),
        (5139, {"shape": "two", "rows": 40, "duration": 50_000}),
        (
            39,
            {"shape": "two", "rows": 40, "duration": 50_000, "loss": 0.3, "size": 3, "removals": 1, "suspicion": False},
        ),
    ],
)
def test_take_overs_that_once_went_wrong(seed: int, options: dict[str, Any]) -> None:
    """Relays out of order at another gateway; a gateway that does not know that it is out; rows stranded elsewhere."""
    assert run_clusters(seed, overrides={"story": "takeover", "takeovers": 1, **options}).rule == ""


def test_every_story_does_what_it_is_about() -> None:
    sums = {story: totals(range(20, 24), story=story, shape="two") for story in STORIES[2:-1]}
    assert sums["overrun"]["overruns"] > 0
    assert sums["restarts"]["restarts"] > 3 and sums["stopped"]["restarts"] == 4
    assert sums["removal"]["removed"] >= 3 and sums["takeover"]["removed"] >= 4


def test_any_two_clusters_have_exactly_one_gateway() -> None:
    for clusters, lines in (*SHAPES.values(), (13, plane(3))):
        for pair in combinations(range(clusters), 2):
            assert sum(set(pair) <= set(line) for line in lines) == 1


def test_equal_seeds_give_equal_traces_under_any_hash_seed(outputs_of: Callable[[list[str]], list[str]]) -> None:
    outputs = outputs_of([*COMMAND, "--seed", "1", "--count", "4", "--set", "rows=8"])
    assert outputs[0].count("trace sha256 ") == 4
    assert outputs[0] == outputs[1] == outputs[2]


def test_unknown_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ({"colour": 1}, {"story": "sad"}, {"shape": "round"}):
        with pytest.raises(ValueError, match="no "):
            draw_clusters(1, wrong)
    assert main(["--scenario", "clusters", "--seed", "3", "--set", "shape=round"]) == 2
    assert len({draw_clusters(seed).banner() for seed in range(20)}) == 20


# ---- the judge ----


class Story:
    """Stations 1 and 2, of cluster 0; station 1 has entered two rows and has both itself."""

    def __init__(self) -> None:
        self.judge = ClusterJudge()
        for station in (1, 2):
            self.judge.joins(station, 0, True)
        self.rows = [self.judge.enter(1), self.judge.enter(1)]
        for row in self.rows:
            self.judge.takes((1, 0), row)

    def say(self, what: str, *arguments: Any) -> str:
        """The broken promise."""
        try:
            getattr(self.judge, what)(*arguments)
        except Violation as violation:
            return violation.rule
        return ""


def test_the_judge_finds_fault_with_what_is_accepted() -> None:
    story = Story()
    first, second = story.rows
    assert story.say("takes", (2, 0), second) == "1 order"
    assert story.say("takes", (2, 0), Entry(1, 1, "another")) == "1 unknown"
    assert story.say("takes", (2, 0), first) == ""
    assert story.say("takes", (2, 0), first) == "1 order"
    assert story.say("takes", (1, 0), Entry(1, 3, "1/3")) == "1 unknown"


def test_the_judge_finds_fault_with_levels() -> None:
    story = Story()
    assert story.say("tells", (1, 0), 2, 1, 1) == "2 early"
    for row in story.rows:
        story.judge.takes((2, 0), row)
    assert story.say("tells", (1, 0), 2, 1, 3) == "2 ahead"
    assert story.say("tells", (1, 0), 2, 1, 2) == ""
    assert story.say("tells", (1, 0), 2, 1, 1) == "1 levels"
    assert story.say("tells", (2, 0), 3, 1, 1) == "3 ahead"
    assert story.say("tells", (1, 0), 3, 1, 1) == "3 early"
    assert story.say("finish") == "4 unfinished"
    story.judge.starts((1, 0))
    for element in (1, 2):
        assert story.say("tells", (element, 0), 2, 1, 2) == ""
    for element in (1, 2):
        assert story.say("tells", (element, 0), 3, 1, 2) == ""
    assert story.judge.is_done() and story.say("finish") == ""


def test_the_judge_finds_fault_with_prefixes_and_newcomers() -> None:
    story = Story()
    story.judge.joins(3, 0, True, (1, 0))
    assert story.say("takes", (3, 0), story.rows[0]) == "1 order"
    third = story.judge.enter(1)
    assert story.say("takes", (3, 0), third) == ""
    story = Story()
    story.judge.joins(3, 0, True)
    story.judge.takes((2, 0), story.rows[0])
    story.judge.tells((2, 0), 2, 1, 0)
    story.judge.ends(1)
    story.judge.places[2, 0].levels.update({(2, 1): 1, (3, 1): 1})
    assert story.say("finish") == "6 prefix"
