"""Virtual time: the order of events, the storm limit, the digest of the trace."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.simulator.world import Event, Trace, World


def test_events_run_by_time_then_by_the_order_of_their_making() -> None:
    world = World()
    ran: list[str] = []
    world.at(20, ran.append, "c")
    world.at(10, ran.append, "a")
    world.after(10, ran.append, "b")
    assert world.run_until(15, 100)
    assert (ran, world.now) == (["a", "b"], 15)
    world.at(3, ran.append, "late")  # a time that has passed: at once, but after what was made before for the same time
    assert world.run_until(30, 100)
    assert ran == ["a", "b", "late", "c"]


def test_a_storm_is_stopped() -> None:
    world = World()

    def again() -> None:
        world.after(0, again)

    again()
    assert not world.run_until(10, 50)
    assert world.now == 0


def test_the_digest_tells_traces_apart_and_the_tail_is_readable() -> None:
    def trace(last: Any) -> Trace:
        made = Trace(World(), lambda event: None)
        for number in range(5_000):
            made.note("frame", number)
        made.note("frame", last)
        return made

    assert trace(1).sha256() == trace(1).sha256() != trace(2).sha256()
    assert trace(7).tail(1) == ["       0.000 ms  frame 7"]


def test_only_application_events_reach_the_judge() -> None:
    heard: list[Event] = []
    world = World()
    trace = Trace(world, heard.append)
    world.at(5, trace.note, "crash", 1)
    world.at(6, trace.tell, "given", "h1", "m1")
    world.run_until(10, 10)
    assert heard == [(6, "given", "h1", "m1")]
    assert len(trace.events) == 2


@pytest.mark.parametrize("end", [0, 7])
def test_time_reaches_the_end_without_events(end: int) -> None:
    world = World()
    assert world.run_until(end, 1)
    assert world.now == end
