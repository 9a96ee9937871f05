"""What the benchmark says of the LAN update layer, at sizes that take no time."""

from __future__ import annotations

import pytest
from bench import lan, lan_tables
from bench.lan_world import VALUE_BYTES, LanWorld, full_push
from bench.plan import quick_plan


def test_a_recovery_without_changes_costs_the_same_whatever_the_values():
    small, large = LanWorld(3, 20), LanWorld(3, 20, value_bytes=2_000)
    costs = [world.recovery(0) for world in (small, large)]
    assert costs[0] == costs[1]
    assert costs[0]["equal"]
    pushes = [full_push(world.entries.values())["bytes"] for world in (small, large)]
    assert pushes[1] - pushes[0] == pytest.approx(20 * (2_000 - VALUE_BYTES), abs=100)
    assert costs[0]["bytes"] < pushes[1] / 8  # 20 keys with small values are less than the sums of all buckets


def test_a_recovery_converges_whatever_was_changed_meanwhile():
    found = lan.recoveries(3, 20, quick_plan((2,)))
    assert [one["changes"] for one in found] == [0, 1, 20]
    assert all(one["equal"] for one in found)
    assert [one["equal_ms"] for one in found] == [0.0, 2.0, 2.0]
    assert found[0]["bytes"] < found[1]["bytes"] < found[2]["bytes"]
    assert "3 stations, 20 keys, 20 changed" in lan_tables.recovery({"delay_ms": 1.0, "recovery": found})


@pytest.mark.parametrize("nodes", [3, 5])
def test_one_change_is_everywhere_after_one_frame_and_passed_on_by_all(nodes):
    told = LanWorld(nodes, 1).change()
    assert told["equal"]
    assert told["equal_ms"] == 1.0
    assert (nodes - 1) ** 2 <= told["frames"] / 2 <= nodes * (nodes - 1)


def test_a_world_that_is_not_equal_says_so():
    world = LanWorld(3, 20)
    world.nodes[2].stop()
    assert not world.change()["equal"]
    world.nodes[2].start()
    assert not world.is_equal()
