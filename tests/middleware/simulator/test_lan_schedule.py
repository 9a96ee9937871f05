"""Timelines of a LAN's nodes, the earliest paths through them, and the medium between the nodes."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from roamcast.middleware.simulator.lan.medium import Medium, MediumModel
from roamcast.middleware.simulator.lan.schedule import (
    KINDS,
    Power,
    Runs,
    Schedule,
    draw_schedule,
    earliest_paths,
    joint_runs,
)
from roamcast.middleware.simulator.world import World

TW = 1_000
WINDOW = 5_000
EVENTS_MAX = 100_000


def drawn(kind: str, seed: int, crashes: int = 0) -> Schedule:
    return draw_schedule(kind, seed, nodes=2 + seed % 6, window=WINDOW, timeout=TW, days=4, crashes=crashes)


class Lan:
    """Nodes that do nothing, under a schedule."""

    def __init__(self, *runs: Runs, **model: Any) -> None:
        self.world = World()
        self.heard: list[tuple[int, str, int]] = []
        self.got: list[tuple[int, int, int, str]] = []
        self.takes = True
        end = max(stop for one in runs for _, stop in one)
        self.power = Power(
            self.world, Random(1), Schedule("directed", runs, end), TW,
            lambda node: self.heard.append((self.world.now, "start", node)),
            lambda node: self.heard.append((self.world.now, "stop", node)),
        )  # fmt: skip
        self.medium = Medium(self.world, Random(2), MediumModel(timeout=TW, **model), self.power, self.deliver)
        self.done: list[tuple[int, bool]] = []

    def deliver(self, target: int, source: int, packet: str) -> bool:
        self.got.append((self.world.now, source, target, packet))
        return self.takes

    def send(self, source: int, target: int) -> None:
        self.medium.send(source, target, "x", lambda arrived: self.done.append((self.world.now, arrived)))

    def advance(self, time: int) -> None:
        assert self.world.run_until(time, EVENTS_MAX)


# ---- schedules ----


@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_in_order_and_a_stopped_node_stays_down_for_tw(kind: str) -> None:
    for seed in range(100):
        schedule = drawn(kind, seed, crashes=seed % 9)
        assert schedule == drawn(kind, seed, crashes=seed % 9), f"seed {seed}"
        for runs in schedule.runs:
            assert all(start < stop <= schedule.end for start, stop in runs), f"seed {seed}"
            assert all(b[0] - a[1] >= TW for a, b in pairwise(runs)), f"seed {seed}"


def test_in_a_chain_only_neighbours_meet_and_for_exactly_the_window() -> None:
    for seed in range(100):
        runs = drawn("chain", seed).runs
        pairs = [(one, other) for one in range(len(runs)) for other in range(one)]
        meeting = [joint for one, other in pairs if (joint := joint_runs(runs[one], runs[other]))]
        assert len(meeting) == len(runs) - 1, f"seed {seed}"
        assert {stop - start for joint in meeting for start, stop in joint} == {WINDOW}, f"seed {seed}"


def test_without_crashes_always_means_always() -> None:
    assert {runs for seed in range(20) for runs in drawn("always", seed).runs} == {
        ((0, 4 * nodes * WINDOW),) for nodes in range(2, 8)
    }


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no schedule 'weekly'"):
        drawn("weekly", 1)


# ---- earliest paths ----


def test_joint_runs_are_the_common_times() -> None:
    assert joint_runs(((0, 10), (20, 30), (40, 50)), ((5, 25), (45, 60))) == [(5, 10), (20, 25), (45, 50)]
    assert joint_runs(((0, 10),), ((10, 20),)) == []


def test_the_earliest_path_leads_over_nodes_between() -> None:
    runs = (((0, 30),), ((20, 60),), ((50, 90), (200, 300)), ((0, 15), (205, 214)))
    assert earliest_paths(runs, {0: 3}, 10) == [3, 30, 60, 13]
    assert earliest_paths(runs, {0: 6}, 10) == [6, 30, 60, None]  # 0 and 3 have 9 left, 2 and 3 have 9 in all
    assert earliest_paths(runs, {0: 21}, 10) == [21, None, None, None]
    assert earliest_paths(runs, {1: 25, 3: 207}, 5) == [30, 25, 55, 207]


def test_a_window_of_exactly_the_length_is_enough() -> None:
    runs = (((0, 100),), ((40, 50),))
    assert earliest_paths(runs, {0: 7}, 10) == [7, 50]
    assert earliest_paths(runs, {0: 7}, 11) == [7, None]


# ---- power ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_is_played_as_planned(kind: str) -> None:
    for seed in range(20):
        schedule = drawn(kind, seed, crashes=4)
        world = World()
        power = Power(world, Random(1), schedule, TW, lambda node: None, lambda node: None)
        assert world.run_until(schedule.end, EVENTS_MAX)
        assert power.runs() == schedule.runs, f"seed {seed}"


def test_a_crashed_node_comes_back_while_it_is_planned_to_run() -> None:
    lan = Lan(((0, 10_000),), ((0, 1_500), (2_500, 9_000)))
    lan.advance(1_000)
    lan.power.crash(0)
    lan.power.crash(1)
    assert not lan.power.is_on(0)
    lan.advance(20_000)
    (first, crash), (again, stop) = lan.power.runs()[0]
    assert (first, crash, stop) == (0, 1_000, 10_000)
    assert TW <= again - crash <= 4 * TW
    assert lan.power.lives == [2, 2]
    assert lan.power.runs()[1][1][0] >= 2_500
    with pytest.raises(ValueError, match="node 0 is down already"):
        lan.power.crash(0)


def test_in_the_end_all_run_whatever_the_plan_says() -> None:
    lan = Lan(((0, 1_000),), ((0, 100),), ((0, 5_000),))
    lan.advance(1_000)
    lan.power.all_on()
    lan.advance(50_000)
    assert [runs[-1][1] for runs in lan.power.runs()] == [50_001] * 3
    assert [runs[-1][0] for runs in lan.power.runs()] == [2_000, 1_100, 0]
    assert lan.power.last_start == 2_000


# ---- medium ----


def test_between_running_nodes_every_send_arrives_within_tw() -> None:
    lan = Lan(((0, 10**6),), ((0, 10**6),), unsure=0.0)
    for number in range(200):
        lan.advance(number * 2 * TW)
        lan.send(0, 1)
    lan.advance(10**6)
    assert all(1 <= time % (2 * TW) <= TW for time, *_ in lan.got)
    assert lan.done == [(time, True) for time, *_ in lan.got]
    assert len(lan.done) == 200


def test_slow_means_tw_each() -> None:
    lan = Lan(((0, 10_000),), ((0, 10_000),), slow=True, unsure=0.0)
    lan.advance(1)
    lan.send(0, 1)
    lan.advance(5_000)
    assert lan.done == [(1 + TW, True)]


def test_a_send_to_a_node_that_is_down_fails_after_tw() -> None:
    lan = Lan(((0, 10_000),), ((5_000, 10_000),))
    lan.advance(1)
    lan.send(0, 1)
    lan.advance(5_000)
    assert (lan.done, lan.got) == ([(1 + TW, False)], [])


def test_a_send_to_a_node_that_comes_up_meanwhile_may_do_either() -> None:
    lan = Lan(((0, 10_000),), ((600, 10_000),), unsure=0.0)
    lan.advance(1)
    for _ in range(100):
        lan.send(0, 1)
    lan.advance(5_000)
    arrived = [time for time, arrived in lan.done if arrived]
    assert 0 < len(arrived) < 100
    assert len(arrived) == len(lan.got)
    assert {time for time, arrived in lan.done if not arrived} == {1 + TW}


@pytest.mark.parametrize("takes", [True, False])
def test_what_arrived_may_be_said_to_have_failed_and_what_is_not_taken_fails(takes: bool) -> None:
    lan = Lan(((0, 10_000),), ((0, 10_000),), unsure=1.0 if takes else 0.0)
    lan.takes = takes
    lan.advance(1)
    lan.send(0, 1)
    lan.advance(5_000)
    assert lan.got
    assert lan.done == [(1 + TW, False)]


@pytest.mark.parametrize(("orphans", "count"), [(1.0, 20), (0.0, 0)])
def test_a_packet_may_outlive_its_sender_who_hears_no_more_of_it(orphans: float, count: int) -> None:
    lan = Lan(((0, 10_000),), ((0, 10_000),), slow=True, orphans=orphans)
    lan.advance(1)
    for _ in range(20):
        lan.send(0, 1)
    lan.power.crash(0)
    lan.advance(10_000)
    assert (len(lan.got), lan.done) == (count, [])


def test_nothing_crosses_a_split_until_it_heals() -> None:
    lan = Lan(*[((0, 20_000),)] * 3, unsure=0.0)
    lan.advance(1)
    lan.medium.split(frozenset({0}))
    lan.send(0, 1)
    lan.send(1, 0)
    lan.send(1, 2)
    lan.advance(5_000)
    assert [(source, target) for _, source, target, _ in lan.got] == [(1, 2)]
    assert sorted(arrived for _, arrived in lan.done) == [False, False, True]
    lan.medium.split(frozenset())
    lan.send(0, 1)
    lan.advance(10_000)
    assert len(lan.got) == 2
