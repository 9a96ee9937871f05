"""`mss-station topics`, `groups`, and `config` of their keys at a stopped station: what is said, done, and refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry, PutEntry, PutHistory, Version
from roamcast.mss_station import topic_schema, topic_updates
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.store import read_lan
from roamcast.mss_station.topic_schema import TopicCard
from roamcast.mss_station.topic_updates import past_topics
from roamcast.transport.station_files import read_station

LATE = 1 << 60
ARRIVES = "every station takes it over as soon as it has arrived there\n"


class Operator:
    """Gives commands to one stopped station."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys
        ends = ["--hosts", "tcp://10.0.0.1:1", "--stations", "tcp://10.0.0.1:2"]
        assert main(["init", str(path), "--id", "s1", "--group", "g", *ends]) == 0
        for name in ("ann", "bob"):
            assert main(["hosts", "enrol", str(path), name, "--out", str(path.parent / f"{name}.toml")]) == 0
        capsys.readouterr()

    def run(self, line: str, *more: str) -> tuple[int, str, str]:
        """Two words of command, DIR is put behind them; exit code, output, errors."""
        words = line.split()
        code = main([*words[:2], str(self.path), *words[2:], *more])
        return code, *self._capsys.readouterr()

    def told(self, line: str, *more: str) -> str:
        code, out, err = self.run(line, *more)
        assert (code, err) == (0, ""), err
        return out

    def json(self, line: str, *more: str) -> Any:
        return json.loads(self.told(line, *more, "--json"))

    def refused(self, line: str, *more: str) -> str:
        before = read_lan(self.path)
        code, out, err = self.run(line, *more)
        assert code == 2 and out == "" and err.startswith("mss-station: ") and err.count("\n") == 1
        assert read_lan(self.path) == before, "nothing has changed"
        return err

    def held(self) -> dict[str, Any]:
        entries = read_lan(self.path).entries.items()
        prefixes = topic_schema.TOPICS, topic_schema.GROUPS
        return {key: entry.value for key, entry in entries if key.startswith(prefixes) and entry.value is not None}

    def who(self, topic: str, right: str) -> Sequence[str] | None:
        return look(self.path)[2].book.who(topic, right)

    def number(self, topic: str) -> int:
        return topic_schema.read_topic(f"topics/{topic}", self.held()[f"topics/{topic}"]).number

    def put(self, *writes: PutEntry | PutHistory) -> None:
        """What came from another station."""
        with open_store(self.path, read_station(self.path)) as opened:
            opened.store.commit(writes)


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(tmp_path / "s1", capsys)


# ---- topics ----


def test_a_topic_is_made_listed_and_removed(operator: Operator) -> None:
    assert "no topics" in operator.told("topics list")
    said = operator.told("topics add weather --send ann,@crew")
    assert said.splitlines() == [
        "topic weather is made", "who may send on weather: @crew, ann", "who may receive on weather: *",
        "nobody has that name yet: @crew", ARRIVES.strip(),
    ]  # fmt: skip
    operator.told("topics add news")
    assert operator.json("topics list") == [
        {"name": "news", "send": None, "receive": None},
        {"name": "weather", "send": ["@crew", "ann"], "receive": None},
    ]
    listed = operator.told("topics list")
    assert "weather  @crew, ann  *" in listed and "presence is off" in listed and "does not run" in listed
    said = operator.told("topics remove weather")
    assert said == f"topic weather is deleted: every subscription to it ends\n{ARRIVES}"
    assert [topic["name"] for topic in operator.json("topics list")] == ["news"]
    assert list(operator.held()) == ["topics/news"], "its rights went with it"


def test_a_number_is_drawn_once_and_never_again(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([4, 4, 4, 9, 9, 4, 12])
    monkeypatch.setattr(topic_updates.secrets, "randbelow", lambda most: next(draws))
    operator.told("topics add news")
    operator.told("topics add weather")
    assert (operator.number("news"), operator.number("weather")) == (5, 10)
    operator.told("topics remove news")
    operator.told("topics add news")
    assert operator.number("news") == 13, "5 is in the history only"
    assert set(past_topics(operator.path)) == {5, 10, 13}


def test_a_topic_added_again_takes_no_list_over_that_was_left(operator: Operator) -> None:
    """A right was granted at another station while the topic was removed here."""
    left = Entry("topics/news/send", Version(1, 0, "s2", 5), topic_schema.who_value(["bob"]), None, bytes(64))
    operator.put(PutEntry(left))
    assert "topics/news/send" in operator.held()
    operator.told("topics add news")
    assert list(operator.held()) == ["topics/news"] and operator.who("news", "send") is None


def test_granting_and_revoking_on_a_list(operator: Operator) -> None:
    operator.told("topics add news", "--send", "")
    assert operator.who("news", "send") == () and operator.json("topics list")[0]["send"] == []
    said = operator.told("topics grant news send bob ann,@crew")
    assert said.startswith("who may send on news: @crew, ann, bob\nit replaces nobody, written at s1 on ")
    assert operator.told("topics grant news send ann") == "nothing has changed: it was so before\n"
    operator.told("topics revoke news send bob zoe")
    assert operator.who("news", "send") == ("@crew", "ann"), "zoe could not anyway"
    operator.told("topics revoke news send *")
    assert operator.who("news", "send") == ()
    operator.told("topics grant news send *")
    assert operator.who("news", "send") is None
    assert operator.told("topics grant news send *") == "nothing has changed: it was so before\n"


def test_the_first_list_of_an_open_topic_has_to_be_meant(operator: Operator) -> None:
    operator.told("topics add news")
    said = operator.refused("topics grant news receive ann")
    assert "every host may receive on 'news' as it is; with --only nobody may but ann" in said
    said = operator.refused("topics revoke news receive ann")
    assert "first say who may" in said and "topics grant DIR news receive --only WHO" in said
    said = operator.told("topics grant news receive ann --only")
    assert said.splitlines() == ["who may receive on news: ann", ARRIVES.strip()]
    assert operator.who("news", "receive") == ("ann",)
    told = topic_schema.read_topic("topics/news", operator.held()["topics/news"])
    assert told.lists == ("receive",) and operator.who("news", "send") is None
    operator.told("topics grant news receive bob --only")
    assert operator.who("news", "receive") == ("bob",)


def test_nobody_may_any_more_on_a_topic_that_was_open(operator: Operator) -> None:
    operator.told("topics add news")
    operator.told("topics revoke news send *")
    assert operator.who("news", "send") == ()


def test_who_has_a_right_by_a_group_is_not_revoked_alone(operator: Operator) -> None:
    operator.told("groups set crew ann bob")
    operator.told("topics add news --receive @crew")
    said = operator.refused("topics revoke news receive ann")
    assert "ann may receive on 'news' as one of @crew" in said and "groups drop DIR crew ann" in said
    operator.told("topics revoke news receive @crew")
    assert operator.who("news", "receive") == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topics add news", "there is a topic 'news' already"),
        ("topics add a/b", "not acceptable as a topic"),
        ("topics add $presence", "not acceptable as a topic"),
        ("topics add x --send a/b", "topics/x/send: 'a/b' is not the name of a host, @ and a group, or '*'"),
        ("topics grant x send ann", "there is no topic 'x'"),
        ("topics grant news send a/b", "is not the name of a host"),
        ("topics revoke x send ann", "there is no topic 'x'"),
        ("topics remove x", "there is no topic 'x'"),
        ("groups set a/b ann", "not acceptable as a group"),
        ("groups set crew @other", "groups/crew: '@other' is not the name of a host"),
        ("groups set crew *", "groups/crew: '*' is not the name of a host"),
        ("groups drop crew ann", "there is no group 'crew'"),
        ("groups delete crew", "there is no group 'crew'"),
        ("config set topics/x {}", "there is no topic 'x'"),
        ("config set topics/x/send ann", "there is no topic 'x'"),
        ("config set topics/news/see ann", "must be topics/<topic>, topics/<topic>/send or topics/<topic>/receive"),
        ("config set topics/news/send [1]", "must hold names only"),
        ("config set topics/news/send [", "no JSON list"),
        ("config set topics/news/send a/b", "is not the name of a host"),
        ("config set topics/news 7", "must be one JSON object"),
        ("config set topics/news {}", "number cannot be changed by hand: it is drawn when the topic is added"),
        ("config set groups/a/b ann", "not acceptable as a group"),
        ("config delete topics/x", "there is no entry 'topics/x': nothing to delete"),
        ("config delete topics/news/send", "nothing to delete"),
        ("config delete groups/crew", "nothing to delete"),
        ("config set settings/topics-per-host 1001", "from 1 to 1000"),
        ("config set settings/presence yes", "one of off, on"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(operator: Operator, line: str, said: str) -> None:
    operator.told("topics add news")
    assert said in operator.refused(line)


def test_a_right_that_is_none_is_no_command(operator: Operator) -> None:
    with pytest.raises(SystemExit) as caught:
        operator.run("topics grant news see ann")
    assert caught.value.code == 2


def test_topics_are_bounded(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_updates, "TOPICS_MAX", 2)
    operator.told("topics add a")
    operator.told("topics add b")
    assert "there are 2 topics, which is the limit" in operator.refused("topics add c")
    operator.told("topics remove a")
    operator.told("topics add c")


# ---- groups ----


def test_a_group_is_set_changed_listed_and_deleted(operator: Operator) -> None:
    assert operator.told("groups list") == "no groups\n"
    said = operator.told("groups set crew ann zoe")
    assert said == f"hosts of group crew: ann, zoe\nnobody has that name yet: zoe\n{ARRIVES}"
    assert operator.told("groups add crew ann") == "nothing has changed: it was so before\n"
    operator.told("groups add @crew bob")
    operator.told("groups drop crew zoe eve")
    operator.told("groups add deck ann")
    operator.told("groups set shore")
    assert operator.json("groups list") == {"crew": ["ann", "bob"], "deck": ["ann"], "shore": []}
    assert operator.told("groups list").splitlines()[1:] == ["crew   ann, bob", "deck   ann", "shore  nobody"]
    operator.told("groups drop deck ann")
    said = operator.told("groups delete crew")
    assert said == f"group crew is deleted: where a list names it, it stands for nobody\n{ARRIVES}"
    assert operator.json("groups list") == {"deck": [], "shore": []}


# ---- the same by config ----


def test_rights_and_groups_are_entries_of_the_configuration(operator: Operator) -> None:
    operator.told("topics add news")
    said = operator.told("config set topics/news/send", '["bob", "@crew"]')
    assert said == f"topics/news/send is @crew, bob\n{ARRIVES}"
    assert operator.told("config get topics/news/send") == "@crew, bob\n"
    assert operator.json("config get topics/news/send")["value"] == ["@crew", "bob"]
    said = operator.told("config set topics/news/send", "ann")
    assert said.startswith("topics/news/send is ann\nit replaces @crew, bob, written at s1 on ")
    operator.told("config set topics/news/receive", "")
    assert operator.told("config get topics/news/receive") == "nobody\n"
    operator.told("config set groups/crew", "ann, bob")
    assert operator.told("config get groups/crew") == "ann, bob\n"
    listed = operator.told("config list")
    assert "topics/news/receive  nobody" in listed and "groups/crew          ann, bob" in listed
    assert operator.who("news", "receive") == () and operator.who("news", "send") == ("ann",)
    assert "has lists of rights: `mss-station topics remove" in operator.refused("config delete topics/news")
    for right in topic_schema.RIGHTS:
        said = operator.told(f"config delete topics/news/{right}")
        assert said.startswith(f"topics/news/{right} is deleted: every host has the right\nit replaces ")
        assert operator.who("news", right) is None
    assert operator.told("config delete topics/news").startswith("topics/news is deleted\n")
    assert operator.told("config delete groups/crew").startswith("groups/crew is deleted\n")
    states = [(line["value"], line["state"]) for line in operator.json("config history topics/news/send")]
    assert states == [(None, "holds"), (["ann"], "replaced"), (["@crew", "bob"], "replaced")]
    assert operator.held() == {}


def test_the_same_once_more_is_a_write_of_its_own(operator: Operator) -> None:
    operator.told("topics add news --send ann")
    assert operator.told("config set topics/news/send ann").startswith("topics/news/send is ann\nit replaces ann, ")


def test_a_field_that_another_release_knows_can_be_set(operator: Operator) -> None:
    operator.told("topics add news --send ann")
    value = operator.json("config get topics/news")["value"]
    operator.told("config set topics/news", json.dumps(value | {"class": "live"}))
    operator.told("topics grant news receive ann --only")
    after = operator.json("config get topics/news")["value"]
    assert after == {"number": value["number"], "lists": ["send", "receive"], "class": "live"}


def test_what_a_change_overrules_is_told(operator: Operator) -> None:
    """Two stations changed one list at once; who changes it next is told what was lost."""
    operator.told("topics add news --send ann")
    lines = read_lan(operator.path).entries["topics/news/send"]
    first = lines.version
    winner = Entry(lines.key, Version(LATE, 0, "s2", 5), topic_schema.who_value(["bob"]), first, bytes(64))
    loser = Entry(lines.key, Version(LATE - 1, 0, "s3", 5), topic_schema.who_value(["eve"]), first, bytes(64))
    operator.put(PutEntry(winner), PutHistory(winner, 1), PutHistory(loser, 1, winner.version))
    said = operator.told("topics grant news send ann")
    assert "who may send on news: ann, bob\nit replaces bob, written at s2 on " in said
    assert "which overruled eve, written at s3 on " in said and "without having seen it" in said
    told = operator.json("topics revoke news send bob")
    assert told == {"name": "news", "written": ["topics/news/send"], "unseen": {}, "lacking": {}}


def test_what_a_removal_overrules_is_told(operator: Operator) -> None:
    own = topic_schema.topic_value(TopicCard("news", 7))
    winner = Entry("topics/news", Version(LATE, 0, "s2", 5), own, Version(1, 0, "s1", 1), bytes(64))
    loser = Entry("topics/news", Version(LATE - 1, 0, "s3", 5), None, Version(1, 0, "s1", 1), bytes(64))
    operator.put(PutEntry(winner), PutHistory(winner, 1), PutHistory(loser, 1, winner.version))
    assert "which overruled (deleted), written at s3" in operator.told("topics remove news")


def test_a_list_that_cannot_be_read_is_put_right_by_config_and_goes_with_its_topic(operator: Operator) -> None:
    operator.told("topics add news --send ann")
    operator.put(PutEntry(Entry("topics/news/send", Version(LATE, 0, "s2", 5), b"\xff", None, bytes(64))))
    assert operator.who("news", "send") == ()
    assert "topics/news/send" in operator.refused("topics grant news send bob")
    operator.told("config set topics/news/send bob")
    assert operator.who("news", "send") == ("bob",)
    operator.put(PutEntry(Entry("topics/news", Version(LATE, 0, "s2", 5), b"\xff", None, bytes(64))))
    operator.told("topics remove news")
    assert operator.held() == {}
