"""Clusters whose gateway is lost for good: an alarm, and one flat cluster until somebody writes others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.mss_station.cli import main
from roamcast.mss_station.control import ask

MakeGroup = Callable[[int], Any]
NO_STANDBY = "north: s1 s2 / south: s2 s3"


def configure(group: Any, **values: str) -> None:
    for name, value in values.items():
        key = f"settings/{name.replace('_', '-')}"
        answer = ask(group.path("s1"), {"command": "config set", "key": key, "text": value})
        assert answer["ok"], answer


def test_clusters_that_lose_their_only_gateway(
    make_group: MakeGroup, until: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(3)
    ann, bob = group.enrol("ann", "s1"), group.enrol("bob", "s3")
    one, two, three = (group.start(name) for name in group.names)
    configure(group, heartbeat="200ms", down_after="1s", clusters=NO_STANDBY)
    until(lambda: all(each.status()["clusters"] for each in (one, two, three)))
    assert [each.status()["clusters"]["role"] for each in (one, two, three)] == ["station", "gateway", "station"]
    sender, reader = group.host(ann, 1), group.host(bob, 3)
    sender.attach()
    reader.attach()
    sender.broadcast(1, b"by the gateway")
    assert [item.body for _, item in reader.given()] == [b"by the gateway"]

    two.stop()
    until(lambda: one.status()["clusters"]["joints"][0]["forwards"] is None)
    sender.broadcast(2, b"past it")
    assert [item.body for _, item in reader.given()] == [b"past it"]
    capsys.readouterr()
    assert main(["stations", "retire", str(group.path("s1")), "s2", "--lost"]) == 0
    assert "s2 is the last gateway of two clusters" in capsys.readouterr().out
    until(lambda: all(each.status()["clusters"]["parted"] == [["north", "south"]] for each in (one, three)))
    capsys.readouterr()
    assert main(["status", str(group.path("s3"))]) == 0
    shown = capsys.readouterr().out
    assert "alarm: north and south are parted, their gateways have ended" in shown
    assert re.search(r"notice\.clusters-parted +1", shown)
    sender.broadcast(3, b"flat")
    assert [item.body for _, item in reader.given()] == [b"flat"]

    assert main(["config", "set", str(group.path("s3")), "settings/clusters", NO_STANDBY]) == 2
    assert "s2 is lost and no member any more; leave it out" in capsys.readouterr().err
    configure(group, clusters="north: s1 s3 / south: s3")
    until(lambda: [each.status()["clusters"]["parted"] for each in (one, three)] == [[], []])
    sender.broadcast(4, b"other clusters")
    assert [item.body for _, item in reader.given()] == [b"other clusters"]
