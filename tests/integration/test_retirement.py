"""The end of a station's membership, in order and for good, under load and under kills (BL-46)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo.cluster import must, run_command
from harness import Bench, until

PLACES = {"a": "s1", "b": "s2", "c": "s3", "d": "s3", "e": "s3"}
AWAKE = ["a", "b", "c", "d"]
SLEEPER = "e"
RETIRE_S = 40.0


def begin(make_bench: Callable[..., Bench], **load: Any) -> Bench:
    """Three stations under load; one of the hosts of s3 sleeps."""
    bench = make_bench()
    bench.hosts(PLACES, workers=3)
    must("mss-station", "config", "set", bench.station("s1").directory, "settings/spool-grace", "1s")
    bench.load(AWAKE, among=["s1", "s2"], **load)
    bench.run_for(0.5)
    bench.ask(SLEEPER, "suspend")
    bench.run_for(0.5)
    return bench


def retire(bench: Bench, id: str, *options: str, at: str = "s1") -> dict[str, Any]:
    """Say it at a station; returns what it has written."""
    told = must("mss-station", "stations", "retire", bench.station(at).directory, id, *options, "--json")
    done: dict[str, Any] = json.loads(told)
    return done


def seen(bench: Bench, at: str, id: str) -> dict[str, Any]:
    """What `stations list` at a station says of another one."""
    listed = json.loads(must("mss-station", "stations", "list", bench.station(at).directory, "--json"))
    return next(station for station in listed if station["id"] == id)


def wait_final(bench: Bench, id: str, *living: str, timeout_s: float = 20.0) -> None:
    """Wait until the end of `id` is settled at all stations that live, and close the account with it."""
    bench.station(id).over = True
    until(lambda: all(seen(bench, at, id)["end"] == "final" for at in living), f"the end of {id} is final", timeout_s)


def test_a_station_is_retired_in_order_under_load(make_bench: Callable[..., Bench]) -> None:
    """Its hosts go on elsewhere, it ends by itself, and one that slept gets what waited for it, once."""
    bench = begin(make_bench)
    third = bench.station("s3")
    begun = time.monotonic()
    told = {"id": "s3", "state": "retiring", "heir": "s1", "linked": True, "parts": False}
    assert retire(bench, "s3") == told
    assert third.wait_end(RETIRE_S) == 0, third.text()[-2000:]
    print(f"retired in {time.monotonic() - begun:.1f} s with {len(PLACES)} hosts, one asleep")
    assert "s3 has been retired; station s1 has taken its place" in third.text()
    wait_final(bench, "s3", "s1", "s2")
    for host in AWAKE:
        bench.wait_attached(host)
        assert bench.status(host)["station"] != "s3"
    bench.run_for(0.5)
    bench.send("b", 5, to=SLEEPER)
    bench.ask(SLEEPER, "resume")
    bench.wait_attached(SLEEPER)
    assert bench.status(SLEEPER)["stations"] == ["s1", "s2"], "a retired station is in nobody's list"
    verdict = bench.settle()
    assert verdict.messages > 100 and verdict.gaps == 0
    again = run_command("mss-station", "run", third.directory)
    assert again.returncode == 3 and "ended the membership of s3: it is retired" in again.stderr


@pytest.mark.parametrize("victim", ["s3", "s1"], ids=["the one that retires", "its heir"])
def test_kills_during_an_orderly_retirement(make_bench: Callable[..., Bench], victim: str) -> None:
    bench = begin(make_bench, rate=15)
    third, killed = bench.station("s3"), bench.station(victim)
    retire(bench, "s3", "--heir", "s1", at="s2")
    kills = 0
    end = time.monotonic() + RETIRE_S
    while third.running:
        assert time.monotonic() < end, f"{kills} kills, and not retired:\n{third.text()[-2000:]}"
        killed.kill()
        kills += 1
        bench.run_for(bench.rng.uniform(0.0, 0.3))
        killed.start()
        bench.run_for(bench.rng.uniform(0.3, 2.5))
    assert third.wait_end() in (0, 3), third.text()[-2000:]
    print(f"{kills} kills")
    wait_final(bench, "s3", "s1", "s2")
    bench.ask(SLEEPER, "resume")
    assert bench.settle().gaps == 0


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "mid-send", "after-send"])
def test_killed_at_a_named_point_of_the_retirement(make_bench: Callable[..., Bench], point: str) -> None:
    """Also between the last word of the station and the answer: a start then says it again."""
    bench = begin(make_bench, rate=5)
    third = bench.station("s3")
    third.stop()
    retire(bench, "s3", at="s2")
    end = time.monotonic() + RETIRE_S
    count = 0
    while True:
        count += 1
        assert time.monotonic() < end, f"{count} kills, and not retired:\n{third.text()[-2000:]}"
        third.start(kill_point=f"{point}:{bench.rng.randint(1, 3 * count)}")
        if third.wait_end(RETIRE_S) != -9:
            break
    assert third.wait_end() in (0, 3), third.text()[-2000:]
    print(f"ended after {count - 1} kills")
    wait_final(bench, "s3", "s1", "s2")
    bench.ask(SLEEPER, "resume")
    assert bench.settle().gaps == 0


def test_an_old_copy_of_a_retired_station_is_told_and_ends(make_bench: Callable[..., Bench], tmp_path: Path) -> None:
    """It serves nobody and changes nothing, and its next start needs nobody to tell it (BL-46)."""
    bench = begin(make_bench, rate=5)
    third, copy = bench.station("s3"), tmp_path / "copy"
    third.stop()
    shutil.copytree(third.directory, copy, ignore=shutil.ignore_patterns("control"))
    third.start()
    third.wait_ready()
    retire(bench, "s3")
    assert third.wait_end(RETIRE_S) == 0
    wait_final(bench, "s3", "s1", "s2")
    must("mss-station", "config", "set", copy, "settings/attach-burst", "99")
    shutil.rmtree(third.directory)
    copy.rename(third.directory)
    third.start()
    assert third.wait_end() == 3
    assert "the group has ended the membership of s3" in third.text()
    burst = json.loads(must("mss-station", "config", "list", bench.station("s1").directory, "settings/", "--json"))
    assert [line["key"] for line in burst] == ["settings/spool-grace"]
    for station in ("s1", "s2"):
        bench.station(station).stop()
    again = run_command("mss-station", "run", third.directory)
    assert again.returncode == 3 and "the group has ended the membership of s3" in again.stderr
    bench.ask(SLEEPER, "resume")
    assert bench.settle().gaps == 0


def test_a_station_is_lost_for_good_under_load(make_bench: Callable[..., Bench]) -> None:
    """What another station had is delivered once; of the rest the senders are told, and nobody else has seen it."""
    bench = begin(make_bench)
    third = bench.station("s3")
    for other in ("s1", "s2"):
        bench.station_gate("s3", other).swallow()
    bench.run_for(0.5)
    third.kill()
    shutil.rmtree(third.directory)
    third.over = True
    bench.run_for(1.0)
    done = retire(bench, "s3", "--lost")
    assert (done["state"], done["slot"], done["released"]) == ("lost", 3, False)
    begun = time.monotonic()
    for host in AWAKE:
        bench.wait_attached(host, timeout_s=30)
    print(f"the hosts of the lost station were served again after {time.monotonic() - begun:.1f} s")
    wait_final(bench, "s3", "s1", "s2")
    assert seen(bench, "s1", "s3")["guarded"]
    bench.ask(SLEEPER, "resume")
    bench.wait_attached(SLEEPER, timeout_s=30)
    bench.run_for(1.0)
    assert retire(bench, "s3", "--lost", "--release", at="s2")["released"]
    verdict = bench.settle()
    assert verdict.messages > 100 and verdict.gone > 0
    history = bench.history()
    gone = {event.uid for events in history.events.values() for event in events if event.outcome == "lost"}
    elsewhere = {event.uid for host in ("a", "b") for event in history.events[host] if event.kind == "given"}
    assert not gone & elsewhere
    until(lambda: not seen(bench, "s1", "s3")["guarded"], "the guard is given up")


def test_what_a_killed_agent_had_queued_for_a_lost_station_arrives(make_bench: Callable[..., Bench]) -> None:
    """It never was on a link: nobody can have it, and it is not given up with what may have been."""

    def given() -> int:
        return sum(event.kind == "given" for event in bench.history().events.get("a", ()))

    bench = make_bench()
    bench.hosts({"a": "s1", "c": "s3"})
    bench.send("c")
    until(lambda: given() == 1, "the first message is elsewhere too")
    bench.station("s3").kill()
    until(lambda: bench.status("c")["state"] != "open", "the host has noticed")
    bench.send("c", 5)
    until(lambda: bench.status("c")["outbox"] == 5, "all wait")
    bench.worker("w2").kill()
    bench.station("s3").over = True
    retire(bench, "s3", "--lost")
    bench.worker("w2").start()
    bench.wait_attached("c", timeout_s=30)
    bench.settle()
    assert given() == 6


def test_a_station_that_lives_is_not_given_up_by_mistake(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.hosts({"a": "s1", "c": "s3"})
    first = bench.station("s1").directory
    done = run_command("mss-station", "stations", "retire", first, "s3", "--lost")
    assert done.returncode == 2 and "it lives" in done.stderr
    assert seen(bench, "s1", "s3")["state"] == "active"
    bench.load(["a", "c"], rate=20)
    bench.run_for(0.5)
    retire(bench, "s3", "--lost", "--force")
    assert bench.station("s3").wait_end() == 3
    wait_final(bench, "s3", "s1", "s2")
    bench.wait_attached("c", timeout_s=30)
    bench.run_for(0.5)
    bench.settle()
