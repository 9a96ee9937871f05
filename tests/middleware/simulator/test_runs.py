"""Whole runs: promises kept, equal digests in any process, faults built in on purpose are caught, the command."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from roamcast.middleware.simulator import cli
from roamcast.middleware.simulator.campaign import campaign
from roamcast.middleware.simulator.cli import main
from roamcast.middleware.simulator.run import run
from roamcast.middleware.simulator.scenario import SCENARIOS
from roamcast.middleware.station.core import StationCore

COMMAND = [sys.executable, "-m", "roamcast.middleware.simulator.cli"]


@pytest.fixture
def no_real_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run reads no clock and no global randomness."""

    def forbidden(*arguments: object) -> float:
        raise AssertionError("a simulated run looked at the real world")

    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "sleep"):
        monkeypatch.setattr(time, name, forbidden)
    for name in ("random", "randint", "choice", "shuffle", "getrandbits", "uniform"):
        monkeypatch.setattr(random, name, forbidden)


@pytest.mark.usefixtures("no_real_world")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_promises_are_kept(scenario: str) -> None:
    for seed in range(1, 4 if scenario == "long" else 13):
        result = run(scenario, seed)
        assert (result.rule, result.witness) == ("", []), f"{scenario} seed {seed}"
        assert result.counts["messages"] > 0


def test_equal_seeds_give_equal_traces_under_any_hash_seed(outputs_of: Callable[[list[str]], list[str]]) -> None:
    outputs = outputs_of([*COMMAND, "--scenario", "mixed", "--seed", "5", "--count", "3"])
    assert outputs[0].count("trace sha256 ") == 3
    assert outputs[0] == outputs[1] == outputs[2]


def test_seeds_differ_and_results_come_in_their_order_from_any_number_of_processes() -> None:
    seeds = range(30, 34)
    one = [(result.seed, result.sha256) for result in campaign("few", seeds, jobs=1)]
    two = [(result.seed, result.sha256) for result in campaign("few", seeds, jobs=2)]
    assert one == two
    assert [seed for seed, _ in one] == list(seeds)
    assert len(dict(map(reversed, one))) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "mutant",
    [
        "no_spool", "no_sent", "no_lastseq", "no_acked", "accept_on_state", "mail_apart", "prev_ignored",
        "late:PutRow", "late:PutLastSeq", "late:PlaceRow", "agent-late:Queued", "agent-late:Acked",
    ],
)  # fmt: skip
def test_a_fault_built_in_on_purpose_is_caught(mutant: str) -> None:
    for seed in range(1, 61):
        for scenario in ("few", "mixed"):
            result = run(scenario, seed, frozenset({mutant}))
            if result.rule:
                assert result.witness
                assert len(result.tail) == 40
                assert run(scenario, seed).rule == ""
                return
    pytest.fail(f"{mutant} was not noticed in 120 runs")


def test_an_exception_of_a_core_is_a_finding_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: StationCore, slot: int, frame: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(StationCore, "receive_peer", broken)
    result = run("mixed", 1)
    assert result.rule == "exception"
    assert result.witness[0] == "ZeroDivisionError: on purpose"
    assert "broken" in result.witness[1]


def test_the_command_says_what_failed_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "campaign", partial(campaign, mutants=frozenset({"no_spool"})))
    assert main(["--seed", "3", "--set", "hosts=2", "--set", "away=1.0"]) == 1
    out = capsys.readouterr().out
    assert "FAILED mixed seed 3: " in out
    assert "hosts=2 " in out
    assert "broken: logs do not drain" in out
    assert "reproduce: roamcast-simulate --scenario mixed --seed 3 --set hosts=2 --set away=1.0" in out
    assert "trace sha256 " in out


def test_the_command_prints_banner_digest_and_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "few", "--seed", "2", "--count", "2"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("trace sha256 ") == 2
    assert "few seed 2: stations=" in captured.out
    assert "few: 2 seeds from 2, 0 failed; messages=" in captured.out
    assert "[2/2] 0 failed" in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scenario", "huge"], ["--count", "0"], ["--jobs", "0"], ["--seed", "x"], ["--set", "hosts"],
        ["--set", "hosts=many"], ["--set", "colour=1"], ["--mutant", "no_spool"],
    ],
)  # fmt: skip
def test_wrong_use_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_command_cleanly(jobs: str, number: signal.Signals) -> None:
    command = [*COMMAND, "--scenario", "few", "--count", "100000", "--jobs", jobs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "stopped" in err
    assert "Traceback" not in err
