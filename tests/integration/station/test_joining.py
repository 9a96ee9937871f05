"""Stations that join a group over real sockets: whatever is interrupted, whoever is away, whoever has the token."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from newcomers import MINUTE_US, Newcomer, invite

from roamcast.middleware.host_frames import Ack, Uack
from roamcast.middleware.rows import Kind
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.clock import Clock
from roamcast.mss_station.control import ask
from roamcast.mss_station.errors import StationRetired
from roamcast.mss_station.store import STORE_NAME
from roamcast.transport.segment import read_segment

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]
STAGES = ("keys", "generation", "asked", "answered", "store", "filled", "station.toml")


def serving(running: Any) -> bool:
    return bool(running.status()["group"]["serving"])


def members(group: Any, at: str) -> dict[str, int]:
    return {record.id: record.slot for record in look(group.path(at))[2].members()}


# ---- counted in ----


def test_a_newcomer_has_what_the_group_has_and_serves_hosts(make_group: MakeGroup, until: Until) -> None:
    """A message that was sent before it was there reaches a host that comes to it, and its own go everywhere."""
    group = make_group(1)
    ann, bob = group.enrol("ann"), group.enrol("bob")
    first = group.start("s1")
    asleep = group.host(bob, 1)
    at = asleep.attach().at
    asleep.say(Ack(1, at))
    until(lambda: first.status()["attached"] == ["bob"])
    asleep.close()
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    host.broadcast(1, b"before")
    assert host.hear(Uack).lastseq == 1
    newcomer = Newcomer(group, "s2").join(invite(group))
    assert newcomer.done().card.slot == 2
    assert newcomer.told == ["s1 is reached, and asked"]
    second = group.start("s2")
    until(lambda: serving(second))
    assert second.status()["rows"] >= 1 and second.status()["group"]["joining"] is None
    there = group.host(bob, 2, newcomer.done().card)
    there.say(Ack(2, there.attach(2, le=1, c=at).at))
    assert [item.body for _, item in there.given()] == [b"before"]
    there.broadcast(1, b"after", e=2)
    assert [item.body for _, item in [*host.given(), *host.given()]] == [b"before", b"after"]
    second.stop()
    logs = [read_segment(file.read_bytes()) for file in sorted((newcomer.path / "logs").glob("*.rclog"))]
    orders = [log.columns("order") for log in logs]
    kinds = [(slot, kind) for order in orders for slot, kind in zip(order["slot"], order["kind"], strict=True)]
    told = [slot for slot, kind in kinds if kind == Kind.BROADCAST]
    assert told == [1, 2], "its log begins with what it was given in the snapshot"


def test_a_newcomer_takes_hosts_only_when_all_count_it(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    for name in group.names:
        group.start(name)
    newcomer = Newcomer(group, "s3").join(invite(group))
    assert newcomer.done().card.slot == 3
    out = group.path("ann.toml")
    assert main(["hosts", "enrol", str(newcomer.path), "ann", "--out", str(out)]) == 3, "it has not started yet"
    group.running["s2"].stop()
    third = group.start("s3")
    until(lambda: third.status()["group"]["joining"] is None)
    assert not serving(third)
    assert main(["hosts", "enrol", str(newcomer.path), "ann", "--out", str(out)]) == 3
    assert main(["invite", str(newcomer.path)]) == 3
    group.start("s2")
    until(lambda: serving(third))
    assert main(["hosts", "enrol", str(newcomer.path), "ann", "--out", str(out)]) == 0
    assert members(group, "s2") == {"s1": 1, "s2": 2, "s3": 3}
    Newcomer(group, "s4").join(invite(group, "s3")).done()


def test_a_join_waits_for_a_member_that_is_down_names_it_and_ends_when_it_is_back(
    make_group: MakeGroup, until: Until
) -> None:
    group = make_group(3)
    group.start("s1")
    group.start("s2")
    newcomer = Newcomer(group, "s4").begin(invite(group))
    until(lambda: any("s3 (not linked)" in text for text in newcomer.told))
    assert "stations retire DIR ID --lost" in newcomer.told[-1]
    until(lambda: group.running["s1"].status()["newcomers"] == [{"id": "s4", "waits_for": ["s3"]}])
    assert members(group, "s1").keys() == {"s1", "s2", "s3"}
    group.start("s3")
    assert newcomer.done().card.slot == 4
    fourth = group.start("s4")
    until(lambda: serving(fourth))


def test_two_that_join_at_once_at_two_stations_get_two_slots(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    for name in group.names:
        group.start(name)
    until(lambda: all(link["linked"] for running in group.running.values() for link in running.status()["links"]))
    tokens = {name: invite(group, at) for name, at in (("s3", "s1"), ("s4", "s2"))}
    newcomers = [Newcomer(group, name).begin(token) for name, token in tokens.items()]
    for _ in newcomers:  # who is counted in first must confirm the slot of the other one
        ready = until(lambda: [one for one in newcomers if one.config and one.name not in group.running])
        group.start(ready[0].name)
    slots = [newcomer.done().card.slot for newcomer in newcomers]
    assert len(set(slots)) == 2 and min(slots) >= 3
    until(lambda: all(serving(running) for running in group.running.values()))
    until(lambda: all(len(members(group, name)) == 4 for name in group.running))


def test_one_that_never_starts_is_named_and_given_up(make_group: MakeGroup, until: Until) -> None:
    """Its directory is gone before its first start: it counts, and nobody else gets in until it is retired."""
    group = make_group(2)
    for name in group.names:
        group.start(name)
    gone = Newcomer(group, "s3").join(invite(group))
    gone.done()
    shutil.rmtree(gone.path)
    newcomer = Newcomer(group, "s4").begin(invite(group))
    until(lambda: any("s3 (not linked)" in text for text in newcomer.told))
    assert main(["stations", "retire", str(group.path("s1")), "s3", "--lost"]) == 0
    assert newcomer.done().card.slot == 4
    third = group.start("s4")
    until(lambda: serving(third))
    anew = Newcomer(group, "s3", "anew").join(invite(group))
    assert anew.error is not None and "s3 is lost in this group, and no id is used twice" in str(anew.error)


# ---- interrupted ----


@pytest.mark.parametrize("stage", STAGES)
def test_wherever_the_command_is_killed_it_goes_on_when_it_is_given_again(
    make_group: MakeGroup, until: Until, stage: str
) -> None:
    group = make_group(2)
    for name in group.names:
        group.start(name)
    token = invite(group)
    newcomer = Newcomer(group, "s3")
    newcomer.die(token, stage)
    config = newcomer.join(token).done()
    assert config.card.slot == 3 and members(group, "s1") == {"s1": 1, "s2": 2, "s3": 3}
    third = group.start("s3")
    until(lambda: serving(third))
    assert look(newcomer.path)[2].faults == []


def test_the_sponsor_may_be_down_in_between(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    group.start("s1")
    group.start("s2")
    newcomer = Newcomer(group, "s4").begin(invite(group))
    until(lambda: any("s3" in text for text in newcomer.told))
    group.running["s1"].stop()
    until(lambda: "s1 at" in newcomer.told[-1])
    group.start("s3")
    group.start("s1")
    assert newcomer.done().card.slot == 4


def test_a_sponsor_that_cannot_write_its_store_lets_in_as_soon_as_it_can(make_group: MakeGroup, until: Until) -> None:
    """What was not committed is forgotten with its tick, also that the invitation is used."""
    group = make_group(1)
    running = group.start("s1")
    token = invite(group)
    other = sqlite3.connect(group.path("s1") / STORE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    newcomer = Newcomer(group, "s2").begin(token)
    until(lambda: any("s1 cannot write its store" in text for text in newcomer.told))
    assert [one["used"] for one in running.status()["invitations"]] == [False]
    other.execute("ROLLBACK")
    assert newcomer.done().card.slot == 2
    assert members(group, "s1") == {"s1": 1, "s2": 2}
    other.close()


# ---- tokens ----


def said(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(arguments)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_commands_say_what_they_do(
    make_group: MakeGroup, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(1)
    path = str(group.path("s1"))
    code, out, err = said(capsys, ["invite", path])
    assert (code, out) == (3, "") and "no station runs" in err
    running = group.start("s1")
    code, token, err = said(capsys, ["invite", path, "--valid", "90min"])
    assert (code, err) == (0, "") and token.count("\n") == 1 and token.startswith("rci1.")
    told = json.loads(said(capsys, ["invite", path, "--json"])[1])
    assert told["token"].startswith("rci1.") and told["until"].endswith("UTC")
    for wrong in ("7", "59s", "8d", "soon"):
        assert said(capsys, ["invite", path, "--valid", wrong])[0] == 2
    assert len(running.status()["invitations"]) == 2
    table = said(capsys, ["status", path])[1]
    assert table.count("invitation open, until ") == 2
    newcomer = Newcomer(group, "s2")
    code, out, err = said(capsys, ["join", str(newcomer.path), token, *newcomer.options()])
    assert (code, err) == (0, "s1 is reached, and asked\n") and "slot 2 of group g" in out
    for arguments in (["--rejoin", "--hosts", newcomer.hosts], ["--id", "s3"], []):
        assert said(capsys, ["join", str(newcomer.path), token, *arguments])[0] == 2


def test_a_token_is_good_once_for_its_time_and_whole(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(1)
    running = group.start("s1")
    token = invite(group)
    first, other = Newcomer(group, "s2"), Newcomer(group, "s3")
    command = ["join", str(other.path), "TOKEN", *other.options()]
    code, _, err = said(capsys, [token[:-7] if word == "TOKEN" else word for word in command])
    assert code == 2 and "cut off" in err
    code, _, err = said(capsys, [token.replace("r", "R") if word == "TOKEN" else word for word in command])
    assert code == 2 and token[5:20] not in err
    first.join(token).done()
    code, _, err = said(capsys, [token if word == "TOKEN" else word for word in command])
    assert code == 3 and "another station has used this token" in err
    group.start("s2")
    until(lambda: running.status()["invitations"] == [])
    code, _, err = said(capsys, [token if word == "TOKEN" else word for word in command])
    assert code == 3 and "does not let this token in" in err
    short = invite(group, valid_us=MINUTE_US)
    now = Clock.wall
    monkeypatch.setattr(Clock, "wall", lambda self: now(self) + 2 * MINUTE_US)
    until(lambda: running.status()["invitations"] == [])
    shutil.rmtree(other.path)  # a join that has begun leaves the time to its sponsor
    code, _, err = said(capsys, [short if word == "TOKEN" else word for word in command])
    assert code == 2 and "was good until" in err


def test_a_retiring_station_lets_nobody_in(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    ann = group.enrol("ann", "s2")
    for name in group.names:
        group.start(name)
    until(lambda: all(link["linked"] for link in group.running["s2"].status()["links"]))
    token = invite(group, "s2")
    host = group.host(ann, 2)  # it does not do what it is told, and so the retirement takes its time
    host.say(Ack(1, host.attach().at))
    assert main(["stations", "retire", str(group.path("s1")), "s2"]) == 0
    until(lambda: group.running["s2"].status()["group"]["retiring"])
    assert "being retired" in ask(group.path("s2"), {"command": "invite", "valid": MINUTE_US})["error"]
    refused = Newcomer(group, "s4").join(token)
    assert refused.error is not None and "it is being retired; ask another station" in str(refused.error)


# ---- lost, and here again ----


def test_a_station_whose_store_went_back_comes_back_as_another_one(
    make_group: MakeGroup, until: Until, tmp_path: Path
) -> None:
    """The remedy that it names itself; until it is given up it cannot be taken for another (BL-80)."""
    group = make_group(2)
    for name in group.names:
        group.start(name)
    until(lambda: all(link["linked"] for link in group.running["s1"].status()["links"]))
    group.running["s2"].stop()
    shutil.copy(group.path("s2") / STORE_NAME, tmp_path / "old")
    group.start("s2")
    until(lambda: all(link["linked"] for link in group.running["s1"].status()["links"]))
    group.running["s2"].stop()
    shutil.copy(tmp_path / "old", group.path("s2") / STORE_NAME)
    error = group.start("s2").join()
    assert "--lost" in str(error) and "--rejoin" in str(error)
    again = Newcomer(group, "s2")
    token = invite(group)
    again.join(token, rejoin=True)
    assert again.error is not None and "stations retire DIR s2 --lost" in str(again.error)
    assert main(["stations", "retire", str(group.path("s1")), "s2", "--lost"]) == 0
    again.error = None
    card = again.join(token, rejoin=True).done().card
    assert (card.id, card.slot) == ("s2.2", 3)
    second = group.start("s2")
    until(lambda: serving(second))
    states = {record.id: record.state for record in look(group.path("s1"))[2].members()}
    assert states == {"s1": "active", "s2": "lost", "s2.2": "active"}


def test_a_wiped_station_is_a_new_one_and_the_old_directory_stays_out(make_group: MakeGroup, until: Until) -> None:
    """Its peers owe it everything again, and not what they thought that it had (BL-06, BL-80)."""
    group = make_group(2)
    ann = group.enrol("ann")
    for name in group.names:
        group.start(name)
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    for number in range(1, 6):
        host.broadcast(number, b"%d" % number)
    assert until(lambda: host.hear(Uack).lastseq == 5)
    group.running["s2"].stop()
    former = group.path("former")
    group.path("s2").rename(former)
    assert main(["stations", "retire", str(group.path("s1")), "s2", "--lost"]) == 0
    newcomer = Newcomer(group, "s3").join(invite(group))
    newcomer.done()
    third = group.start("s3")
    until(lambda: serving(third))
    until(lambda: third.status()["position"] == group.running["s1"].status()["position"])
    group.running["former"] = group.start("former")
    error = group.running["former"].join()
    assert isinstance(error, StationRetired), error
