"""Stations that join while hosts send and roam, and whatever dies on the way; the judge sees applications alone."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterable

import pytest
from demo.cluster import must
from harness import Bench, until
from newcomers import PATIENCE_S, begin_join, let_in, newcomer_of, serves

PLACES = {"a": "s1", "b": "s1", "c": "s2", "d": "s2"}
RESTARTS = 8


def know(bench: Bench, station: str, hosts: Iterable[str] = PLACES) -> None:
    """Let every host learn of a new station: it is told when it attaches."""

    def is_told() -> bool:
        return all(station in (one.status() or {})["group"]["told_to_hosts"] for one in bench.cluster.stations)

    until(is_told, f"every station tells of {station}")
    for host in hosts:
        bench.ask(host, "network_changed")
    until(lambda: all(station in bench.status(host)["stations"] for host in hosts), f"all hosts know {station}")


def test_a_station_joins_under_load_and_serves_hosts(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=2)
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=20, roam_s=2)
    bench.run_for(1.5)
    third = newcomer_of(bench, 3)
    let_in(third, bench.station("s1"))
    bench.run_for(1)
    third.start()
    until(lambda: serves(third), "the newcomer serves")
    know(bench, "s3")
    bench.load(list(PLACES), rate=20, roam_s=1)
    bench.run_for(4)
    for host in PLACES:
        bench.move(host, "s3")
        bench.wait_attached(host, "s3")
    bench.run_for(1)
    assert bench.settle().messages > 200


@pytest.mark.parametrize("commit", [2, 3], ids=["asking for the slot", "counting it in"])
@pytest.mark.parametrize("point", ["before-commit", "after-commit", "after-send"])
def test_a_sponsor_that_dies_in_mid_join_goes_on_with_it(
    make_bench: Callable[..., Bench], point: str, commit: int
) -> None:
    """Its first commit is that of its start."""
    bench = make_bench(stations=2)
    bench.cluster.start()
    sponsor = bench.station("s1")
    token = must("mss-station", "invite", sponsor.directory)
    third = newcomer_of(bench, 3)
    sponsor.stop()
    sponsor.start(kill_point=f"{point}:{commit}")
    joining = begin_join(third, token)
    assert sponsor.wait_end() == -9, f"{point}:{commit} was not reached:\n{sponsor.text()}"
    sponsor.start()
    assert joining.wait(PATIENCE_S) == 0, third.text()
    assert "slot 3 of group" in third.text()
    third.start()
    until(lambda: serves(third), "the newcomer serves")
    bench.hosts(PLACES)
    bench.load(list(PLACES), rate=10)
    bench.run_for(0.5)
    bench.settle()


def test_a_newcomer_and_its_sponsor_die_while_the_snapshot_is_taken(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(stations=2)
    bench.hosts(PLACES)
    bench.ask("d", "suspend")  # for it the log is kept
    bench.send("a", 400, size=16_000)
    until(lambda: bench.status("a")["outbox"] == 0, "all is stored")
    bench.load(["b", "c"], rate=10)
    third = newcomer_of(bench, 3)
    let_in(third, bench.station("s1"))
    for count in range(2, 6):
        third.start(kill_point=f"after-commit:{count}")
        third.wait_end()
        if count == 3:
            bench.station("s1").kill()
            bench.station("s1").start()
    third.start()
    until(lambda: serves(third), "the newcomer serves")
    bench.ask("d", "resume")
    know(bench, "s3")
    bench.move("d", "s3")
    bench.wait_attached("d", "s3")
    bench.settle()


def test_a_wiped_station_joins_anew_at_its_endpoints(make_bench: Callable[..., Bench]) -> None:
    """Its peers owe it everything again; its hosts go on elsewhere and then there (BL-06, BL-80)."""
    bench = make_bench(stations=3)
    bench.hosts({**PLACES, "e": "s3"})
    bench.load(["a", "c", "e"], rate=15)
    bench.run_for(1.5)
    bench.quiet()
    bench.wait_delivered()
    wiped = bench.station("s3")
    wiped.kill()
    shutil.rmtree(wiped.directory)
    must("mss-station", "stations", "retire", bench.station("s1").directory, "s3", "--lost")
    bench.cluster.stations.remove(wiped)
    anew = newcomer_of(bench, 4)
    anew.hosts, anew.stations = wiped.hosts, wiped.stations
    let_in(anew, bench.station("s2"))
    anew.start()
    until(lambda: serves(anew), "the newcomer serves")
    bench.wait_attached("e")
    know(bench, "s4", ["a", "c", "e"])
    bench.load(["a", "c", "e"], rate=15)
    bench.move("e", "s4")
    bench.wait_attached("e", "s4")
    bench.run_for(1)
    bench.settle()


def test_a_station_that_is_killed_and_starts_at_once_is_no_rival_of_itself(make_bench: Callable[..., Bench]) -> None:
    """Well within the time in which it is missed; every other time while another one is out of reach (BL-49)."""
    bench = make_bench(stations=2)
    bench.hosts(PLACES)
    third = newcomer_of(bench, 3)
    let_in(third, bench.station("s1"))
    third.start()
    until(lambda: serves(third), "the newcomer serves")
    know(bench, "s3")
    bench.load(list(PLACES), rate=10, roam_s=2)
    for i in range(RESTARTS):
        if i % 2:
            bench.station("s2").signal(signal.SIGSTOP)
        third.kill()
        third.start()
        third.wait_ready()
        until(lambda: any(link["linked"] for link in (third.status() or {"links": []})["links"]), "it is linked")
        bench.station("s2").thaw()
    until(lambda: serves(third), "it serves")
    bench.settle()
