"""What the benchmark says of topics and mail, at sizes that take no time."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from bench import mail_rate, topic_costs, topic_tables
from bench.plan import quick_plan
from bench.topic_fan import Case, cases

PLAN = quick_plan((2,))


def test_a_header_is_equal_at_one_topic_and_at_ten_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_costs, "WARM_UP", 40)
    one, many = topic_costs.headers(tmp_path, PLAN)
    assert (one["topics"], many["topics"]) == topic_costs.HEADERS_AT
    for key in ("item", "row", "frame_to_host", "frame_to_station"):
        assert one[key] == many[key], key
    assert "10,000 topics" in topic_tables.headers([one, many])


def test_a_header_that_grows_with_the_topics_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([dict.fromkeys(("item", "row", "frame_to_host", "frame_to_station"), size) for size in (20, 30)])
    monkeypatch.setattr(topic_costs, "_headers", lambda home, count: next(found))
    with pytest.raises(topic_costs.HeadersDiffer, match="10000: 30"):
        topic_costs.headers(tmp_path, PLAN)


def test_a_subscription_makes_one_row_with_or_without_a_value(tmp_path: Path) -> None:
    costs = [topic_costs._subscribing(tmp_path / str(value), 3, value, hosts=4) for value in (False, True)]
    assert [cost["rows"] for cost in costs] == [1, 1]
    assert costs[0]["bytes"] == costs[1]["bytes"] > 50
    assert "3 before, last value" in topic_tables.subscribing(costs)


def test_attachments_and_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (topic_costs._attaching(tmp_path / f"attach{held}", held, hosts=3) for held in (0, 10))
    assert few["again"]["rows"] == many["again"]["rows"] == 0
    assert many["moved"]["bytes"] - few["moved"]["bytes"] == pytest.approx(200, abs=20)  # 20 bytes each
    monkeypatch.setattr(topic_costs, "SUBSCRIBED", (2,))
    assert "2 subscriptions" in topic_tables.revoking(topic_costs.revoking(tmp_path, PLAN, hosts=4))


def test_presence_is_a_row_for_every_attachment_and_one_when_the_grace_is_over(tmp_path: Path) -> None:
    off, on = (topic_costs._presence(tmp_path / str(on), on, hosts=3) for on in (False, True))
    names = ("first", "again", "moved", "away", "back")
    assert [off[name]["rows"] for name in names] == [1, 0, 0, 0, 0]
    assert [on[name]["rows"] for name in names] == [2, 1, 1, 1, 1]
    assert "presence on" in topic_tables.presence([off, on])


def test_lean_bodies_go_to_one_station_and_whole_ones_to_all(tmp_path: Path) -> None:
    whole, lean = (mail_rate.cores(tmp_path / name, 4, size, ticks=3) for name, size in mail_rate.LEAN.items())
    assert whole["bytes"] > 3 * mail_rate.BODY_BYTES
    assert lean["bytes"] < 1.2 * mail_rate.BODY_BYTES
    assert lean["pulls"] == 0
    told = {"cores": [{"stations": 4, "whole": whole, "lean": lean}], "processes": []}
    assert "4 stations, lean" in topic_tables.mail(told)


def test_each_topic_has_its_share_of_the_hosts_drawn_or_the_same() -> None:
    hosts = [f"h{i}" for i in range(50)]
    drawn, same = (Case(10, 0.1, is_same).subscribed(hosts) for is_same in (False, True))
    assert {len(set(names)) for names in [*drawn.values(), *same.values()]} == {5}
    assert len({tuple(names) for names in drawn.values()}) > 5
    assert len({tuple(names) for names in same.values()}) == 1
    assert Case(1, 0.1, True) not in cases(PLAN)


def test_the_table_of_messages() -> None:
    told = MappingProxyType(
        dict.fromkeys(
            (
                "us_per_message", "us_per_delivery", "messages", "deliveries", "messages_per_tick",
                "messages_per_frame", "header_bytes",
            ),
            2.0,
        )
    )  # fmt: skip
    best = {f"{name} {mode}": told for name in ("topic", "broadcast", "bare") for mode in ("saturated", "paced")}
    one = {"topics": 10, "subscribers": 100, "same": True, "hosts": 1_000, "per_host": 1.0, "best": best}
    assert "10 x 100, the same, saturated" in topic_tables.fan([one])
