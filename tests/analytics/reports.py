"""Nights to make reports of; for tests."""

from __future__ import annotations

from typing import Any

from audit_world import NOON, A, World, story

from roamcast.analytics.carried import Carried
from roamcast.analytics.nights import Night, run_night
from roamcast.analytics.report.summary import About, summary

DAY = "2027-01-15"
END = NOON + 43_200_000_000


def about(day: str = DAY, run: str = "r1", **more: Any) -> About:
    known = {"logs": "/logs", "engine": "local", "keys": "not checked", "software": "roamcast 0.1.0", "group": "g"}
    return About(day=day, run=run, begun=END, ended=END + 5_000_000, **{**known, **more})


def night(world: World, whole: bool = True, size: int = 9, **more: Any) -> Night:
    """The night of a story. whole: its logs reach midnight."""
    segments = world.segments(size=size, **more)
    for slot in world.logs:
        last = [segment for segment in segments if segment.station == slot][-1]
        last.closed = END if whole else last.closed
    return run_night(segments, DAY, Carried())


def skipped(world: World) -> World:
    """Ann's second session counts as had what she was never given: two messages are lost."""
    world.change(2, "session", {"host": A, "e": 2}, base=[0, 5, 3])
    return world


def told(world: World | None = None, **more: Any) -> dict[str, Any]:
    return summary(night(world or story(), **more), about())
