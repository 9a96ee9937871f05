"""A host is enrolled at a station that stands still, or dies at its commit: its key is there, and it can come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from demo.cluster import Station, must, run_command
from harness import Bench, until

from roamcast.mh_agent import Agent
from roamcast.mh_agent.cli import main as mh_agent
from roamcast.mss_station import control
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main


def knows(station: Station, host: str) -> bool:
    return look(station.directory)[2].named(host) is not None


def can_send(credential: Path) -> bool:
    with Agent(str(credential)) as agent:
        return agent.broadcast(b"here I am").wait(20) == "stored"


def test_a_station_that_stands_still_enrols_the_host_later(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = make_bench(stations=1)
    bench.cluster.start()
    station = bench.station("s1")
    station.wait_ready()
    out = bench.home / "ann.toml"
    command = ["hosts", "enrol", str(station.directory), "ann", "--out", str(out)]
    station.freeze()
    with monkeypatch.context() as patch:
        patch.setattr(control, "ANSWER_TIMEOUT_S", 1.0)
        assert main(command) == 3
    assert "it is not known whether host ann is enrolled" in capsys.readouterr().err and out.exists()
    station.thaw()
    until(lambda: knows(station, "ann"), "the request that nobody waits for any more is served")
    assert main(command) == 0
    assert can_send(out)


@pytest.mark.parametrize(("point", "enrolled"), [("before-commit", False), ("after-commit", True)])
def test_a_station_that_dies_at_the_commit_leaves_the_host_its_key(
    make_bench: Callable[..., Bench], point: str, enrolled: bool
) -> None:
    bench = make_bench(stations=1)
    station = bench.station("s1")
    station.start(kill_point=f"{point}:2")  # its first commit is that of its start
    station.wait_ready()
    command = ("mss-station", "hosts", "enrol", station.directory, "ann", "--out", bench.home / "ann.toml")
    done = run_command(*command)
    assert done.returncode == 3 and "it is not known whether host ann is enrolled" in done.stderr, done
    assert station.wait_end() == -9
    assert knows(station, "ann") == enrolled
    if enrolled:
        station.start()
        station.wait_ready()
    must(*command)
    if not enrolled:  # by the command itself, at a stopped station
        station.start()
        station.wait_ready()
    assert can_send(bench.home / "ann.toml")


def test_a_host_that_was_revoked_is_told_why_it_may_be_that_it_does_not_get_in(
    make_bench: Callable[..., Bench], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key is not known any more, as that of a host which this station has not learned of yet: it stays queued."""
    bench = make_bench(stations=1)
    bench.cluster.start()
    station = bench.station("s1")
    station.wait_ready()
    out = bench.home / "ann.toml"
    must("mss-station", "hosts", "enrol", station.directory, "ann", "--out", out)
    must("mss-station", "hosts", "revoke", station.directory, "ann")
    assert mh_agent(["send", str(out), "hello", "--timeout", "2"]) == 4
    assert "the key of this side was withdrawn, or is not known at that station yet" in capsys.readouterr().err
