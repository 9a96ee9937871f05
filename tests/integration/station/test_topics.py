"""Topics at running stations: rights by command at one of them, obeyed by all, on hosts that are attached."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.host_frames import Ack, Detach, Msg, TopicData, Unsubscribed, Welcome
from roamcast.middleware.rows import Item, Kind
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main


class Talker:
    """An attached host that sends on topics and keeps what it is given."""

    def __init__(self, host: Any, e: int = 1, **words: Any) -> None:
        self.host, self.e = host, e
        self.welcome: Welcome = host.attach(e, **words)
        self.number = self.welcome.lastseq
        host.say(Ack(e, self.welcome.at))

    def say(self, kind: Kind, topic: str, body: bytes = b"") -> None:
        self.number += 1
        self.host.say(TopicData(self.e, self.number, 0, kind, topic, body))

    def broadcast(self, body: bytes) -> None:
        self.number += 1
        self.host.broadcast(self.number, body, self.e)

    def next(self, *kinds: Kind) -> Item:
        """The next item of one of these kinds; others are passed over."""
        while True:
            for _, item in self.host.hear(Msg).entries:
                if item.kind in kinds:
                    return item


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Give a command to the station in a directory; what it says."""

    def give(path: Path, line: str) -> str:
        words = line.split()
        capsys.readouterr()
        assert main([*words[:2], str(path), *words[2:]]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return give


def test_a_right_that_is_taken_back_at_one_station_ends_the_subscription_at_another(
    make_group: Callable[[int], Any], command: Callable[..., str], until: Callable[..., Any]
) -> None:
    group = make_group(2)
    ann_file, bob_file = group.enrol("ann"), group.enrol("bob", "s2")
    for name in group.names:
        group.start(name)
    one, two = (group.path(name) for name in group.names)
    command(one, "groups set crew bob")
    command(one, "topics add weather --send ann --receive @crew,ann")
    until(lambda: group.knows("s1", "bob") and "weather" in look(two)[2].book.names())
    ann, bob = Talker(group.host(ann_file, 1)), Talker(group.host(bob_file, 2))
    ann.say(Kind.RETAINED, "weather", b"sun")
    until(lambda: json.loads(command(two, "topics list --json"))[0]["last_value"])
    bob.say(Kind.SUB, "weather")
    assert bob.next(Kind.SUB).topic == "weather"
    bob.say(Kind.TOPIC, "weather", b"rain")
    assert b"no right to send on 'weather'" in bob.next(Kind.REFUSED).body
    ann.say(Kind.TOPIC, "weather", b"wind")
    assert bob.next(Kind.TOPIC).body == b"wind"
    (listed,) = json.loads(command(two, "topics list --json"))
    assert listed["subscribers"] == 1 and listed["receive"] == ["@crew", "ann"]
    told = group.running["s2"].status()["topics"]
    assert told == {"topics": 1, "last_values": 1, "subscriptions": 1, "presence": False}
    assert "1 last values, 1 subscriptions of hosts attached here" in command(two, "status")

    command(one, "groups drop crew bob")
    ended = bob.host.hear(Unsubscribed).ended
    assert [topic for _, _, topic in ended] == ["weather"]
    ann.say(Kind.TOPIC, "weather", b"hail")
    ann.broadcast(b"after that")
    assert bob.next(Kind.BROADCAST, Kind.TOPIC, Kind.RETAINED).body == b"after that"
    bob.say(Kind.SUB, "weather")
    assert bob.next(Kind.SUB, Kind.NOSUB).kind is Kind.NOSUB
    assert json.loads(command(two, "topics list --json"))[0]["subscribers"] == 0
    command(one, "topics remove weather")
    until(lambda: group.running["s2"].status()["topics"]["topics"] == 0)
    until(lambda: group.running["s2"].status()["topics"]["last_values"] == 0)


def test_rights_hold_from_the_first_tick_of_a_start(
    make_group: Callable[[int], Any], command: Callable[..., str]
) -> None:
    group = make_group(1)
    file, path = group.enrol("ann"), group.path("s1")
    command(path, "topics add weather")
    running = group.start("s1", alone=True)
    ann = Talker(group.host(file, 1))
    ann.say(Kind.SUB, "weather")
    sub = ann.next(Kind.SUB)
    running.stop()
    command(path, "topics grant weather receive bob --only")
    group.start("s1", alone=True)
    again = Talker(group.host(file, 1), e=2, le=1, c=0)
    assert again.welcome.ended == ((sub.slot, sub.n, "weather"),)
    again.say(Kind.TOPIC, "weather", b"not to me")
    again.broadcast(b"after that")
    assert again.next(Kind.BROADCAST, Kind.TOPIC).body == b"after that"


def test_presence_is_told_as_soon_as_the_group_wants_it(
    make_group: Callable[[int], Any], command: Callable[..., str], until: Callable[..., Any]
) -> None:
    group = make_group(1)
    ann_file, bob_file = group.enrol("ann"), group.enrol("bob")
    path = group.path("s1")
    running = group.start("s1", alone=True)
    ann, bob = Talker(group.host(ann_file, 1)), Talker(group.host(bob_file, 1))
    ann.say(Kind.SUB, "$presence/bob")
    assert ann.next(Kind.SUB, Kind.NOSUB).kind is Kind.NOSUB
    command(path, "config set settings/presence-grace 100ms")
    command(path, "config set settings/presence on")
    until(lambda: running.status()["topics"]["presence"])
    ann.say(Kind.SUB, "$presence/bob")
    assert ann.next(Kind.ONLINE).topic == "$presence/bob"
    bob.host.say(Detach(bob.e))
    assert ann.next(Kind.OFFLINE).sender == "bob"


def test_all_requests_of_topics_are_answered_by_a_running_station(
    make_group: Callable[[int], Any], command: Callable[..., str]
) -> None:
    group = make_group(1)
    path = group.path("s1")
    group.start("s1", alone=True)
    for line, said in (
        ("topics add news --send x", "topic news is made"), ("topics grant news send y", "who may send on news: x, y"),
        ("topics revoke news send x", "who may send on news: y"), ("groups set crew x", "hosts of group crew: x"),
        ("groups add crew y", "hosts of group crew: x, y"), ("groups drop crew x", "hosts of group crew: y"),
        ("config set topics/news/receive @crew", "topics/news/receive is @crew"), ("groups delete crew", "is deleted"),
        ("topics list", "news   y         @crew"), ("topics remove news", "topic news is deleted"),
    ):  # fmt: skip
        assert said in command(path, line)
    assert main(["topics", "remove", str(path), "news"]) == 2
