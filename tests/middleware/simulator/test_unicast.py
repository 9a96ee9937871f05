"""Whole runs of the causal unicast: promises kept, the matrix equalled, the paper's text found out, digests equal."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.causal_unicast.records import InboxItem, Mail, MailImage, PutInbox, PutOutgoing
from roamcast.middleware.causal_unicast.rules import Rules
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.unicast.judge import MailJudge
from roamcast.middleware.simulator.unicast.matrix import MatrixStation
from roamcast.middleware.simulator.unicast.options import STORIES, draw_unicast
from roamcast.middleware.simulator.unicast.paper_text import LITERAL, PaperText
from roamcast.middleware.simulator.unicast.patterns import PATTERNS, targets
from roamcast.middleware.simulator.unicast.run import UnicastRun, run_unicast

COMMAND = [sys.executable, "-m", "roamcast.middleware.simulator.cli", "--scenario", "cmd"]
FRESH_SEED = int(os.environ.get("ROAMCAST_SEED") or random.SystemRandom().randrange(1 << 40))
"""First seed that no run has seen; set by ROAMCAST_SEED to replay it."""


# ---- runs ----


@pytest.mark.parametrize("story", STORIES)
def test_promises_are_kept(story: str) -> None:
    for seed in range(1, 41):
        result = run_unicast(seed, overrides={"story": story})
        assert (result.rule, result.witness) == ("", []), f"cmd seed {seed}, story {story}"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_in_every_pattern_all_deliveries_are_those_of_the_matrix(pattern: str) -> None:
    """Order and instant of every delivery, in all runs in which no station ends."""
    for seed in range(1, 16):
        result = run_unicast(seed, overrides={"pattern": pattern, "lost": 0, "backup": "", "own": 0.0})
        assert (result.rule, result.witness) == ("", []), f"cmd seed {seed}, pattern {pattern}"
        assert result.counts["compared"] == result.counts["deliveries"] == result.counts["mails"]


def test_promises_are_kept_under_fresh_seeds() -> None:
    print(f"ROAMCAST_SEED={FRESH_SEED}")
    for seed in range(FRESH_SEED, FRESH_SEED + 200):
        result = run_unicast(seed)
        replay = f"roamcast-simulate --scenario cmd --seed {seed}"
        assert not result.rule, "\n".join([result.rule, *result.witness, *result.tail, replay])


def test_every_story_does_what_it_is_about() -> None:
    totals: dict[str, dict[str, int]] = {story: {} for story in STORIES}
    for story, sums in totals.items():
        for seed in range(50, 70):
            for name, count in run_unicast(seed, overrides={"story": story}).counts.items():
                sums[name] = sums.get(name, 0) + count
    assert all(sums["waits"] > 50 and sums["deliveries"] > 500 for sums in totals.values())
    assert totals["crashes"]["crashes"] > 60 and totals["down"]["crashes"] == 20
    assert totals["limits"]["refused"] > 5
    assert totals["join"]["joined"] >= 20
    assert totals["lost"]["lost"] >= 20 and totals["lost"]["told_lost"] > 10
    assert totals["lost"]["compared"] > 0.6 * totals["lost"]["deliveries"]
    assert totals["backup"]["went_back"] > 10


def test_equal_seeds_give_equal_traces_under_any_hash_seed(outputs_of: Callable[[list[str]], list[str]]) -> None:
    outputs = outputs_of([*COMMAND, "--seed", "5", "--count", "8"])
    assert outputs[0].count("trace sha256 ") == 8
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_command_says_what_failed_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rules, "merge", lambda *arguments: {})
    assert main(["--scenario", "cmd", "--seed", "2", "--set", "story=plain"]) == 2
    assert main(["--scenario", "cmd", "--seed", "2", "--set", "messages=60"]) == 1
    out = capsys.readouterr().out
    assert "broken: I1" in out
    assert "reproduce: roamcast-simulate --scenario cmd --seed 2 --set messages=60" in out


def test_unknown_words_are_refused() -> None:
    for wrong in ({"colour": 1}, {"story": "sad"}, {"pattern": "plaid"}):
        with pytest.raises(ValueError, match="no "):
            draw_unicast(1, wrong)
    assert len({draw_unicast(seed).banner() for seed in range(20)}) == 20


# ---- limits do not block ----


@pytest.mark.parametrize(
    "limits",
    [{"held_bytes_max": 0}, {"inbox_bytes_max": 1}, {"held_bytes_max": 0, "inbox_bytes_max": 1, "window_mails": 1}],
)
def test_however_small_the_limits_all_is_delivered_once_the_application_reads(limits: dict[str, int]) -> None:
    for seed in range(1, 26):
        options = {"story": "limits", "lazy": 1.0, "outbox_bytes_max": 1 << 26, "slow": 0.3, **limits}
        result = run_unicast(seed, overrides=options)
        assert (result.rule, result.witness) == ("", []), f"cmd seed {seed}, {options}"


# ---- the paper's text ----

CALM: dict[str, Any] = {"lost": 0, "backup": "", "window_mails": 64}
PAPER: dict[str, tuple[frozenset[str], int]] = {
    "literal": (LITERAL, 3),
    "literal, a test of all senders": (LITERAL - {"F3"}, 3),
    "F1": (frozenset({"F1"}), 4),
    "F2": (frozenset({"F2"}), 4),
    "F3": (frozenset({"F3"}), 4),
    "F4": (frozenset({"F4"}), 8),
}
"""Name -> (faults left in the text, of seeds 1 .. so many at least one falls)."""


def played(seed: int, faults: frozenset[str], invariants: bool = True) -> str:
    """The broken promise."""
    run = UnicastRun(seed, draw_unicast(seed, CALM), rules=PaperText(faults))
    run.judge.invariants = invariants
    try:
        run.run()
    except Violation as violation:
        return violation.rule
    return ""


@pytest.mark.parametrize("name", PAPER)
def test_falls(name: str) -> None:
    faults, count = PAPER[name]
    assert any(played(seed, faults) for seed in range(1, count + 1)), f"{name} is not noticed in cmd 1 .. {count}"


@pytest.mark.parametrize("name", PAPER)
def test_an_application_notices_it_too(name: str) -> None:
    """Mail out of order, or that never comes: not only a broken invariant."""
    faults, _ = PAPER[name]
    rules = {played(seed, faults, invariants=False) for seed in range(1, 31)}
    assert rules & {"order", "owed", "matrix"}, name


@pytest.mark.parametrize("faults", [frozenset(), frozenset({"F5"})])
def test_the_corrected_text_holds(faults: frozenset[str]) -> None:
    assert not [seed for seed in range(1, 61) if played(seed, faults)]


def test_without_faults_the_sets_of_the_text_and_the_keyed_records_are_the_same() -> None:
    """Trace by trace: every header, every step."""
    for seed in range(1, 31):
        runs = []
        for rules in (Rules(), PaperText(frozenset())):
            run = UnicastRun(seed, draw_unicast(seed, CALM), rules=rules)
            run.run()
            runs.append((run.trace.events, {slot: node.disk.state for slot, node in run.nodes.items()}))
        assert runs[0] == runs[1], f"cmd seed {seed}"


# ---- those who judge ----


def step(judge: MailJudge, slot: int, *writes: Any) -> str:
    """The broken promise."""
    judge.invariants = False
    try:
        judge.committed(slot, writes, MailImage())
    except Violation as violation:
        return violation.rule
    return ""


def sent(src: int, dst: int, number: int) -> PutOutgoing:
    return PutOutgoing(Mail(src, dst, ((src, number),), (), b""))


def came(position: int, src: int, number: int) -> PutInbox:
    return PutInbox(InboxItem(position, src, number, b""))


def test_the_judge_finds_fault() -> None:
    judge = MailJudge()
    assert step(judge, 1, sent(1, 2, 1)) == ""
    assert step(judge, 1, sent(1, 2, 1)) == "number"
    assert step(judge, 1, sent(1, 3, 2)) == ""
    assert step(judge, 3, came(1, 1, 2)) == ""
    assert step(judge, 3, sent(3, 2, 1)) == ""
    assert step(judge, 2, came(1, 3, 1)) == "order"
    assert step(judge, 2, came(1, 1, 9)) == "position"
    assert judge.undelivered() == ["not delivered: (1, 1) to 2, (3, 1) to 2"]
    judge = MailJudge()
    step(judge, 1, sent(1, 2, 1))
    assert step(judge, 3, came(1, 1, 1)) == "invented"
    assert step(judge, 2, came(1, 1, 1)) == ""
    assert step(judge, 2, came(2, 1, 1)) == "twice"


def test_the_matrix_waits_for_exactly_what_is_in_the_past() -> None:
    one, two, three = (MatrixStation(slot) for slot in (1, 2, 3))
    slow, to_two = one.send(3), one.send(2)
    two.held[1, 2] = to_two
    assert two.ready(set()) == [(1, 2)]
    two.deliver((1, 2))
    after = two.send(3)
    assert after.matrix == {(1, 3): 1, (1, 2): 1}
    three.held[2, 1] = after
    assert three.ready(set()) == [] and three.ready({1}) == [(2, 1)]
    three.held[1, 1] = slow
    assert three.ready({1}) == [(1, 1)]
    three.deliver((1, 1))
    assert three.ready(set()) == [(2, 1)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_name_other_stations(pattern: str) -> None:
    rng = random.Random(7)
    stations = [3, 5, 8, 13, 21, 34, 55]
    for sender in stations:
        for _ in range(20):
            to = targets(pattern, sender, stations, rng)
            assert sender not in to and set(to) <= set(stations) and len(set(to)) == len(to)
    assert targets(pattern, 3, [3], rng) == []
