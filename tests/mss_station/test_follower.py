"""What the directory learns reaches the core: topics once a tick, and what is at fault with them once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.topics import Topics
from roamcast.mss_station import schema, topic_schema
from roamcast.mss_station.directory import Change, LanDirectory
from roamcast.mss_station.follower import Follower
from roamcast.mss_station.tally import Tally
from roamcast.mss_station.topic_schema import TopicCard, right_key, topic_key
from roamcast.transport.curve import generate
from roamcast.transport.station_files import StationCard

OWN = StationCard("hill", 3, "fleet", 9, "tcp://10.0.0.3:1", "tcp://10.0.0.3:2", generate().public, "ab" * 32)


def entry(key: str, value: bytes | None) -> Entry:
    return Entry(key, Version(1, 0, "hill", 7), value)


def topic(name: str, number: int) -> Entry:
    return entry(topic_key(name), topic_schema.topic_value(TopicCard(name, number)))


class Bench:
    """A follower whose station notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Topics] = []
        self.layouts: list[Layout] = []
        self.directory = LanDirectory(OWN, {})
        self.tally = Tally()
        nothing: Any = SimpleNamespace(look=lambda: None, publish=lambda: None, tell=lambda: None)
        server: Any = SimpleNamespace(
            core=SimpleNamespace(set_topics=self.told.append, set_layout=self.layouts.append),
            guard=SimpleNamespace(state="open"),
            lan=SimpleNamespace(lapsed=list),
            configure=lambda settings: None,
        )
        self.follower = Follower(OWN, self.directory, server, nothing, nothing, nothing, self.tally, False)

    def tick(self, *entries: Entry, tell_core: bool = True) -> None:
        """All of them arrive in one tick."""
        changes: list[Change] = []
        for each in entries:
            changes += self.directory.apply(each)
        self.follower.follow(changes, tell_core)

    def faults(self) -> int:
        return self.tally.counters.get("notice.configuration_fault", 0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_core_is_told_of_topics_once_a_tick_and_only_then(bench: Bench) -> None:
    bench.tick(*(topic(f"t{i}", i + 1) for i in range(200)))
    assert [len(topics) for topics in bench.told] == [200]
    bench.tick()
    bench.tick(topic("t0", 1))
    assert len(bench.told) == 1, "nothing has changed"
    bench.tick(entry("topics/t0", None), entry("settings/presence", topic_schema.encode_map({"value": "on"})))
    assert len(bench.told) == 2 and len(bench.told[1]) == 199 and bench.told[1].presence


def clusters(text: str) -> Entry:
    return entry(schema.setting_key("clusters"), schema.setting_value(text))


def test_the_core_is_told_of_clusters_when_they_become_others(bench: Bench) -> None:
    bench.tick(clusters("north: hill / south: hill"))
    bench.tick(clusters("north: hill / south: hill"))
    assert bench.layouts == [Layout(((3,), (3,)))]
    bench.tick(clusters(""))
    assert bench.layouts[1:] == [Layout()]
    bench.tick(clusters("north: hill / south: hill"), tell_core=False)
    assert len(bench.layouts) == 2 and bench.directory.layout().clusters


def test_clusters_that_came_before_their_stations_are_not_told_at_once(bench: Bench) -> None:
    bench.tick(clusters("north: hill / south: hill mast"))
    assert bench.faults() == 0
    bench.follower.look()
    assert bench.faults() == 1
    bench.tick(clusters("flat"))
    bench.follower.look()
    assert bench.faults() == 1


def test_a_core_that_is_made_anew_is_greeted_instead(bench: Bench) -> None:
    bench.tick(topic("t", 1), tell_core=False)
    assert bench.told == [] and len(bench.directory.topics()) == 1


def test_a_list_that_came_before_its_hosts_is_not_told_at_once(bench: Bench) -> None:
    """Entries come in any order; what is still at fault a moment later is."""
    early = entry(right_key("t", "send"), topic_schema.who_value(["ann"]))
    bench.tick(early)
    bench.tick(topic("t", 1))
    assert bench.faults() == 0
    bench.follower.look()
    assert bench.faults() == 1
    bench.follower.look()
    bench.tick(topic("u", 2))
    bench.follower.look()
    assert bench.faults() == 1
    bench.tick(entry(right_key("u", "send"), topic_schema.who_value(["bob"])))
    bench.follower.look()
    assert bench.faults() == 2
