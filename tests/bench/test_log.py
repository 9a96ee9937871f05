"""What the benchmark says of the delivery log, at a size that takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import log_cost
from bench.plan import quick_plan

from roamcast.middleware.delivery_log import ACK, ORDER, Logged


def test_the_same_ticks_with_and_without_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = log_cost.ticks_of(10, 40)
    events = [effect.event for tick in ticks for effect in tick if isinstance(effect, Logged)]
    assert (len(ticks), events.count(ORDER), events.count(ACK)) == (4, 40, 10)
    monkeypatch.setattr(log_cost, "MESSAGES", {10: 120})
    found = log_cost.cost(tmp_path, 10, quick_plan((2,)))
    assert found["events"] == 50 and found["bytes_per_event"] > 5
    told = {"hosts": 10, "messages": 1, "deliveries": 10, "order": 1, "ack": 0, "acks": 0, "per_delivery": 0.1}
    assert "10 hosts" in log_cost.report({"log": {"cost": [found], "hosts": [told]}})
