"""`mss-station config`, `hosts`, `stations` at a stopped station: what is said, and what is refused without a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry, LanImage, PutEntry, PutFound, PutHistory, Version
from roamcast.middleware.settings import DAY
from roamcast.mss_station import schema
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.store import read_lan
from roamcast.transport.curve import generate
from roamcast.transport.map_codec import decode_map
from roamcast.transport.station_files import read_station

Run = Callable[..., tuple[int, str, str]]
AWAY = "settings/away-max"


class Operator:
    """Runs commands on one stopped station."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys
        ends = ["--hosts", "tcp://10.0.0.1:1", "--stations", "tcp://10.0.0.1:2"]
        assert main(["init", str(path), "--id", "s1", "--group", "g", *ends]) == 0
        capsys.readouterr()

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        code = main([*command.split(), str(self.path), *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def told(self, command: str, *arguments: str) -> str:
        code, out, err = self.run(command, *arguments)
        assert (code, err) == (0, ""), err
        return out

    def json(self, command: str, *arguments: str) -> Any:
        return json.loads(self.told(command, *arguments, "--json"))

    def image(self) -> LanImage:
        return read_lan(self.path)

    def put(self, *writes: PutEntry | PutFound | PutHistory) -> None:
        """What came from another station."""
        with open_store(self.path, read_station(self.path)) as opened:
            opened.store.commit(writes)


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(tmp_path / "s1", capsys)


def test_a_new_group_knows_its_first_station(operator: Operator) -> None:
    (station,) = operator.json("stations list")
    assert (station["id"], station["slot"], station["state"], station["own"]) == ("s1", 1, "active", True)
    assert "s1" in operator.told("stations list") and "this one" in operator.told("stations list")
    (entry,) = operator.json("config list")
    assert (entry["key"], entry["by"]) == ("stations/s1", "s1")


def test_a_setting_is_set_shown_and_goes_back(operator: Operator) -> None:
    assert operator.told("config get", AWAY) == "30d (default)\n"
    said = operator.told("config set", AWAY, "14d")
    assert said == f"{AWAY} is 14d\ntakes effect at every station as soon as it has arrived there\n"
    assert operator.told("config get", AWAY) == "14d\n"
    assert operator.json("config get", AWAY)["value"] == 14 * DAY
    assert f"{AWAY}  14d" in operator.told("config list", "settings/")
    assert "it replaces 14d, written at s1 on " in operator.told("config set", AWAY, "7d")
    said = operator.told("config delete", AWAY)
    assert said.startswith(f"{AWAY} goes back to 30d\nit replaces 7d, written at s1 on ")
    assert operator.told("config get", AWAY) == "30d (default)\n"
    assert operator.told("config list", "settings/") == "no entries\n"
    states = [(line["value"], line["state"]) for line in operator.json("config history", AWAY)]
    assert states == [(None, "holds"), (7 * DAY, "replaced"), (14 * DAY, "replaced")]
    assert "(deleted)" in operator.told("config history", AWAY)


def test_clusters_are_set_shown_and_go_back(operator: Operator) -> None:
    assert operator.told("config get", "settings/clusters") == "flat (default)\n"
    said = operator.told("config set", "settings/clusters", "a: s1/b:s1")
    assert said == "settings/clusters is a: s1 / b: s1\ntakes effect at every station as soon as it has arrived there\n"
    assert operator.json("config get", "settings/clusters")["value"] == "a: s1 / b: s1"
    assert "a: s1 / b: s1" in operator.told("config list", "--settings")
    assert "settings/clusters is flat\n" in operator.told("config set", "settings/clusters", "")
    assert operator.told("config delete", "settings/clusters").startswith("settings/clusters goes back to flat\n")


def test_when_it_takes_effect_is_said(operator: Operator) -> None:
    assert "at the next start of each station" in operator.told("config set", "settings/durability", "process")
    assert "as soon as it has arrived" in operator.told("config set", "settings/live-delta", "100ms")


def test_all_settings_are_listed_with_their_meaning(operator: Operator) -> None:
    operator.told("config set", AWAY, "14d")
    listed = {one["name"]: one for one in operator.json("config list", "--settings")}
    assert listed["away-max"]["value"] == 14 * DAY and listed["away-max"]["default"] == 30 * DAY
    assert all(one["about"] and one["effect"] and one["wanted"] for one in listed.values())
    assert "how long a host may be away" in operator.told("config list", "--settings")


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("config set", ("settings/awaymax", "1d"), "did you mean away-max"),
        ("config set", ("away-max", "1d"), "did you mean settings/away-max?"),
        ("config set", (AWAY, "soon"), "a duration from 1s to 366d"),
        ("config set", (AWAY, "-1d"), "a duration from 1s to 366d (30d, 10s, 250ms), not '-1d'"),
        ("config set", (AWAY, "-1d", "--json"), "a duration from 1s to 366d (30d, 10s, 250ms), not '-1d'"),
        ("config set", (AWAY, "--", "-1d"), "a duration from 1s to 366d (30d, 10s, 250ms), not '-1d'"),
        ("config history", ("\udcff",), "no text in UTF-8"),
        ("config set", (AWAY, "10s"), "ephemeral-away-max must not be above away-max"),
        (
            "config set",
            ("settings/clusters", "a: s1 s2 / b: s1"),
            "there is no station 's2'; `mss-station",
        ),
        (
            "config set",
            ("settings/clusters", "a: s1 / b: s2"),
            "no station in both of clusters a and b",
        ),
        ("config set", ("logs/s1", "{}"), "no schema for such a key"),
        ("config set", ("topics/news", "{}"), "there is no topic 'news'"),
        ("config set", ("revoked/ann/0011223344556677", "{}"), "hosts revoke"),
        ("config set", ("stations/s9", "{}"), "there is no entry 'stations/s9'"),
        ("config set", ("stations/s1", "7"), "one JSON object"),
        ("config set", ("stations/s1", "{"), "one JSON object"),
        ("config set", ("stations/s1", "[" * 4_000), "one JSON object"),
        ("config set", ("stations/s1", "{}"), "slot cannot be changed by hand"),
        ("config set", ("hosts/ann", "{}"), "hosts enrol"),
        ("config delete", ("stations/s1",), "only settings, topics, rights and groups can"),
        ("config delete", (AWAY,), "is not set"),
        ("config delete", ("settings/awaymax",), "did you mean away-max"),
        ("config get", ("logs/s1",), "there is no entry"),
        ("config history", (AWAY,), "no write of"),
        ("hosts revoke", ("ann",), "there is no host 'ann'"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(
    operator: Operator, command: str, arguments: tuple[str, ...], said: str
) -> None:
    before = operator.image()
    code, out, err = operator.run(command, *arguments)
    assert code == 2 and out == "" and err.startswith("mss-station: ") and err.count("\n") == 1 and said in err
    assert operator.image() == before


def test_a_map_is_changed_as_one_json_object(operator: Operator) -> None:
    record = operator.json("config get", "stations/s1")["value"]
    operator.told("config set", "stations/s1", json.dumps({**record, "clusters": [[1, 2]]}))
    value = operator.image().entries["stations/s1"].value
    assert value is not None
    assert decode_map(value) == {**record, "clusters": [[1, 2]]}
    for wrong in (
        {"hosts": "tcp://new:1"},
        {"generation": 1},
        {"keys": []},
        {"state": "lost"},
        {"clusters": 1.5},
        {"heir": 1},
    ):
        assert operator.run("config set", "stations/s1", json.dumps({**record, **wrong}))[0] == 2


def test_a_host_is_enrolled_given_a_new_key_and_revoked(operator: Operator, tmp_path: Path) -> None:
    enrolled = operator.json("hosts enrol", "ann", "--out", str(tmp_path / "ann.toml"))
    assert enrolled["host"]["number"] == 1 << 32 | 1
    operator.told("hosts enrol", "bob", "--out", str(tmp_path / "bob.toml"))
    assert [host["number"] & 0xFF for host in operator.json("hosts list")] == [1, 2]
    card = operator.json("config get", "hosts/ann")["value"]
    key = generate().public
    operator.told("config set", "hosts/ann", json.dumps({**card, "key": key}))
    directory = look(operator.path)[2]
    assert directory.host(key) is not None and directory.host(card["key"]) is None
    bobs = operator.json("config get", "hosts/bob")["value"]["key"]
    code, _, err = operator.run("config set", "hosts/ann", json.dumps({**card, "key": bobs}))
    assert code == 2 and "is that of 'bob'" in err
    operator.told("hosts revoke", "ann")
    operator.told("hosts revoke", "ann")
    assert [host["revoked"] for host in operator.json("hosts list")] == [True, False]
    for name, said in (("ann", "enrol it again under a new name"), ("bob", "is enrolled already")):
        code, _, err = operator.run("hosts enrol", name, "--out", str(tmp_path / "again.toml"))
        assert code == 2 and said in err and not (tmp_path / "again.toml").exists()


def write_of(author: str, value: int, time: int, after: Version | None = None) -> Entry:
    return Entry(AWAY, Version(time, 0, author, 1), schema.setting_value(value), after, bytes(64))


def test_a_write_that_was_overruled_unseen_is_said_at_every_turn(operator: Operator) -> None:
    lost, won = write_of("s2", 7 * DAY, 1_700_000_000_000_000), write_of("s3", 9 * DAY, 1_700_000_001_000_000)
    operator.put(PutEntry(won), PutHistory(won, 2), PutHistory(lost, 1, won.version))
    overruled = "which overruled 7d, written at s2 on 2023-11-14 22:13:20 UTC, without having seen it"
    assert operator.told("config get", AWAY) == f"9d\n{overruled}\n"
    assert "lost to the write of s3 at 2023-11-14 22:13:21" in operator.told("config history", AWAY)
    (told,) = [line for line in operator.json("config history", AWAY) if line["state"] == "lost"]
    assert told["by"] == "s2" and told["lost_to"] == list(won.version)
    said = operator.told("config set", AWAY, "14d")
    assert f"it replaces 9d, written at s3 on 2023-11-14 22:13:21 UTC\n{overruled}\n" in said
    again = operator.json("config set", AWAY, "15d")
    assert again["unseen"] == [] and again["replaced"]["value"] == 14 * DAY


def test_when_a_stopped_station_was_last_fresh_is_not_moved_by_a_command(operator: Operator) -> None:
    """It has heard of nobody: what was deleted elsewhere meanwhile would come back from it."""
    operator.told("config set", AWAY, "14d")
    assert operator.image().alive == 0


def test_values_of_another_release_are_shown_and_kept(operator: Operator) -> None:
    foreign = Entry("topics/news", Version(5, 0, "s2", 1), b"\xa1\x61n\x42\x00\xff", None, bytes(64))
    broken = Entry("logs/s2", Version(5, 0, "s2", 1), b"\xff", None, bytes(64))
    operator.put(PutEntry(foreign), PutEntry(broken))
    listed = {one["key"]: one["value"] for one in operator.json("config list")}
    assert listed["topics/news"] == {"n": "00ff"} and listed["logs/s2"] == {"undecodable": "ff"}
    assert "topics/news" in operator.told("config list")


def test_what_was_set_aside_is_listed_by_itself(operator: Operator) -> None:
    operator.put(PutFound(write_of("s2", 7 * DAY, 5), 6))
    (found,) = operator.json("config list", "--found")
    assert (found["key"], found["value"]) == (AWAY, 7 * DAY)
    assert AWAY not in operator.told("config list") and AWAY in operator.told("config list", "--found")


@pytest.mark.parametrize("command", ["config set", "config get", "config list", "hosts list", "stations list"])
def test_a_directory_without_a_station_is_told(tmp_path: Path, command: str) -> None:
    arguments = {"config set": [AWAY, "1d"], "config get": [AWAY]}.get(command, [])
    assert main([*command.split(), str(tmp_path / "nowhere"), *arguments]) in (2, 3)


def test_the_status_of_what_is_no_station_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, more, said in (
        (tmp_path / "nowhere", ["--json"], f"there is no directory {tmp_path / 'nowhere'}"),
        (tmp_path / "nowhere", [], f"there is no directory {tmp_path / 'nowhere'}"),
        (tmp_path, [], f"{tmp_path} is not the directory of a station"),
    ):
        assert main(["status", str(path), *more]) == 2
        assert said in capsys.readouterr().err


def test_a_directory_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operator = Operator(tmp_path / "\udcff ?%#", capsys)
    assert operator.json("config list")[0]["key"] == "stations/s1"
    assert operator.run("status")[:2] == (
        3,
        "no station runs on " + str(operator.path).replace("\udcff", "\\udcff") + ": stopped\n",
    )
