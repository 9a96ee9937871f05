"""A station as a whole, over real sockets with CURVE: sessions, membership while it runs, a failing store, links."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.host_frames import (
    Ack,
    Leave,
    Left,
    NoSession,
    Ping,
    Pong,
    Refused,
    Uack,
    Wait,
    Welcome,
)
from roamcast.middleware.link_effects import Seen
from roamcast.middleware.station_frames import Link, Refusal
from roamcast.mss_station.cli import main
from roamcast.mss_station.control import ask
from roamcast.mss_station.errors import StoreWentBack
from roamcast.mss_station.peers_seen import PeersSeen
from roamcast.mss_station.station import Station
from roamcast.mss_station.stopped import stopped_station
from roamcast.transport.sockets import new_context
from roamcast.transport.station_codec import decode_peer, encode_peer
from roamcast.transport.station_files import read_station
from roamcast.transport.station_sockets import connect_peer

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]


def test_a_message_reaches_hosts_at_both_stations(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    ann, bob = group.enrol("ann", "s1"), group.enrol("bob", "s2")
    group.start("s1")
    group.start("s2")
    until(lambda: group.knows("s2", "ann") and group.knows("s1", "bob"))
    first, second = group.host(ann, 1), group.host(bob, 2)
    for host in (first, second):
        host.say(Ack(1, host.attach().at))
    first.broadcast(1, b"hello")
    assert first.hear(Uack).lastseq == 1
    for host in (first, second):
        ((_, item),) = host.given()
        assert (item.sender, item.number, item.body) == ("ann", 1, b"hello")


def test_a_station_alone_takes_messages_after_a_restart(make_group: MakeGroup) -> None:
    group = make_group(1)
    ann = group.enrol("ann")
    group.start("s1")
    host = group.host(ann, 1)
    at = host.attach().at
    host.say(Ack(1, at))
    host.broadcast(1, b"one")
    ((position, _),) = host.given()
    group.running["s1"].stop()
    group.start("s1")
    again = group.host(ann, 1)
    welcome = again.attach(2, le=1, c=at)
    assert welcome.lastseq == 1, "what was acknowledged is durable"
    again.say(Ack(2, welcome.at))
    assert [item.body for _, item in again.given()] == [b"one"]
    assert position == 3, "after the rows of the enrolment and of the binding"
    again.say(Ping(2, welcome.at + 1))
    assert again.hear(Pong)
    again.say(Leave(2))
    assert again.hear(Left)


def test_without_a_peers_answer_no_message_is_taken_unless_alone(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    ann = group.enrol("ann")
    running = group.start("s1")
    host = group.host(ann, 1)
    host.hello()
    assert "no peer" in host.hear(Wait).reason
    assert main(["hosts", "enrol", str(group.path("s1")), "eve", "--out", str(group.path("eve.toml"))]) == 3
    assert not group.path("eve.toml").exists()
    running.stop()
    group.start("s1", alone=True)
    host = group.host(ann, 1)
    assert host.attach(2).e == 2


def test_membership_changes_while_the_station_runs(make_group: MakeGroup, until: Until) -> None:
    group = make_group(1)
    running = group.start("s1")
    ann = group.enrol("ann")
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    until(lambda: running.status()["attached"] == ["ann"])
    assert main(["hosts", "enrol", str(group.path("s1")), "ann", "--out", str(group.path("x.toml"))]) == 2
    assert not group.path("x.toml").exists()
    assert main(["hosts", "revoke", str(group.path("s1")), "ann"]) == 0
    assert host.hear(Refused).code == "revoked"
    assert running.status()["attached"] == []
    group.host(ann, 1)
    until(lambda: running.status()["refused_keys"].get("hosts"))
    assert main(["hosts", "revoke", str(group.path("s1")), "nobody"]) == 2


def test_a_host_enrolled_at_another_station_may_come_at_once(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    first = group.start("s1")
    group.start("s2")
    until(lambda: first.status()["uplinks"] == "open")
    ann = group.enrol("ann", "s1")
    until(lambda: group.knows("s2", "ann"))
    assert group.host(ann, 2).attach().e == 1, "its custody comes from the station that enrolled it"


def test_another_hosts_name_and_unknown_keys_are_refused_and_seen(make_group: MakeGroup) -> None:
    group = make_group(1)
    ann, _ = group.enrol("ann"), group.enrol("bob")
    running = group.start("s1")
    host = group.host(ann, 1)
    host.hello(name="bob")
    assert host.hear(Refused).code == "name"
    assert running.status()["counters"]["reject.name"] == 1
    assert running.status()["attached"] == []


def test_hostile_frames_end_in_a_ban_and_others_are_served(make_group: MakeGroup, until: Until) -> None:
    group = make_group(1)
    ann, bob = group.enrol("ann"), group.enrol("bob")
    running = group.start("s1")
    hostile = group.host(ann, 1)
    for _ in range(20):
        hostile.say_bytes(b"\x9b" + b"\xff" * 8)
    until(lambda: running.status()["counters"].get("channels_closed_for_bad_frames"))
    banned = group.host(ann, 1)
    until(lambda: running.status()["counters"].get("refused.banned"))
    assert banned.monitor.changes() != ["up"]
    assert group.host(bob, 1).attach().e == 1


def test_a_full_store_takes_nothing_says_so_and_goes_on_by_itself(make_group: MakeGroup, until: Until) -> None:
    group = make_group(1)
    ann = group.enrol("ann")
    running = group.start("s1")
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    running.execute(f"PRAGMA max_page_count = {running.execute('PRAGMA page_count')}")
    host.broadcast(1, b"x" * 200_000)
    assert host.hear(NoSession), "the core was made anew: the message was not acknowledged"
    until(lambda: running.status()["store"]["state"] != "open")
    assert "full" in running.status()["store"]["reason"]
    running.execute("PRAGMA max_page_count = 1000000")
    until(lambda: running.status()["store"]["state"] == "open")
    again = group.host(ann, 1)
    welcome = again.attach(2, le=1, c=0)
    assert welcome.lastseq == 0
    again.say(Ack(2, welcome.at))
    again.broadcast(1, b"x" * 200_000, e=2)
    assert again.hear(Uack).lastseq == 1


def test_a_store_locked_by_others_makes_hosts_wait(make_group: MakeGroup, until: Until) -> None:
    group = make_group(1)
    ann = group.enrol("ann")
    running = group.start("s1")
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    other = sqlite3.connect(group.path("s1") / "station.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    host.broadcast(1, b"one")
    until(lambda: running.status()["store"]["state"] == "closed")
    waiting = group.host(ann, 1)
    waiting.hello(2, le=1)
    assert "lock" in waiting.hear(Wait).reason
    other.execute("ROLLBACK")
    other.close()
    assert waiting.hear(NoSession), "called again as soon as it works"
    waiting.hello(2, le=1)
    assert waiting.hear(Welcome).lastseq == 0


def test_a_store_that_went_back_ends_with_the_remedy(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    ann = group.enrol("ann")
    shutil.copytree(group.path("s1"), group.path("old"))
    first, second = group.start("s1"), group.start("s2")
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    host.broadcast(1, b"one")
    until(lambda: second.status()["streams"][0]["stored"] == 3)
    first.stop()
    PeersSeen(group.path("s2"))
    shutil.rmtree(group.path("s1"))
    shutil.copytree(group.path("old"), group.path("s1"))
    error = group.start("s1").join()
    assert isinstance(error, StoreWentBack) and "newer directory" in str(error) and "newer copy" in str(error)
    until(lambda: second.status()["counters"].get("notice.peer_store_went_back"))
    with pytest.raises(StoreWentBack, match="nothing is changed here"), stopped_station(group.path("s1")):
        pytest.fail("an old copy was opened for a change")
    second.stop()
    note = group.path("s1") / "went-back"
    with pytest.raises(StoreWentBack, match=f"remove {note}"), Station(group.path("s1")) as station:
        station.run()  # it would look newer now, for the first start has counted itself
    note.unlink()
    group.start("s1")
    until(lambda: group.running["s1"].status())


def test_a_copied_directory_ends_by_its_starts_alone(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    group.start("s2")
    until(lambda: group.running["s2"].status())
    PeersSeen(group.path("s2")).remember(1, Seen(5, 1))
    group.running["s2"].stop()
    group.start("s2")
    assert isinstance(group.start("s1").join(), StoreWentBack)


NASTY = [
    b"[" * 60_000,
    b'{"command":' + b"[" * 30_000,
    b'{"command": "invite", "valid": Infinity}',
    b'{"command": "invite", "valid": 1e400}',
    b'{"command": "invite"}',
    b'{"command": "hosts enrol", "name": "\\ud800", "key": "x"}',
    b'{"command": "config set", "key": "stations/s1", "text": "' + b"[" * 4_000 + b'"}',
    b'{"command": "stations retire", "id": null, "lost": true}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("line", NASTY, ids=range(len(NASTY)))
def test_a_request_that_is_none_ends_nothing(make_group: MakeGroup, line: bytes) -> None:
    group = make_group(1)
    station = group.start("s1")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(group.path("s1") / "control"))
        client.sendall(line + b"\n")
        assert not json.loads(client.makefile("rb").readline())["ok"]
    assert station.status()["uplinks"] == "open"


def test_a_peer_of_another_major_version_is_told_so(make_group: MakeGroup) -> None:
    group = make_group(2)
    running = group.start("s1")
    keys = read_station(group.path("s2")).keys
    card = read_station(group.path("s1")).card
    context = new_context()
    dealer, monitor = connect_peer(context, card.stations, keys, card.key)
    dealer.setsockopt(28, 10_000)
    dealer.send(encode_peer(Link((2, 0), "g", "s2", 2, 1, 1, 1, 0, 0, 0, 0)))
    assert dealer.poll(10_000)
    refusal = decode_peer(dealer.recv())
    assert isinstance(refusal, Refusal) and refusal.code == "version"
    assert "2.0" in refusal.text and "1.1" in refusal.text
    assert not running.status()["links"][0]["linked"]
    assert "version" in running.status()["links"][0]["refusal"]
    monitor.close()
    context.destroy(0)


def test_status_is_told_as_json_and_as_a_table(make_group: MakeGroup, capsys: pytest.CaptureFixture[str]) -> None:
    group = make_group(2)
    ann = group.enrol("ann")
    assert main(["status", str(group.path("s1"))]) == 3
    assert main(["status", str(group.path("s1")), "--json"]) == 3
    assert '{"running": false}' in capsys.readouterr().out
    group.start("s1", alone=True)
    group.host(ann, 1).attach()
    assert main(["status", str(group.path("s1")), "--json"]) == 0
    told = capsys.readouterr().out
    for word in ('"attached": [', '"records": [', '"streams": [', '"oldest_undelivered"', '"collection_held_by"'):
        assert word in told
    secret = read_station(group.path("s1")).keys.secret
    assert secret not in told
    assert main(["status", str(group.path("s1"))]) == 0
    shown = capsys.readouterr().out
    assert "station s1 (slot 1) of group g" in shown and "ann" in shown and "s2 (2)" in shown


def test_what_the_station_does_not_know_is_refused(make_group: MakeGroup) -> None:
    group = make_group(1)
    group.start("s1")
    for request in ({"command": "dance"}, {}, {"command": "hosts enrol"}, {"command": "config set", "key": "x"}):
        assert ask(group.path("s1"), request)["ok"] is False
    assert ask(group.path("s1"), {"command": "status"})["ok"]


def test_a_second_station_on_a_directory_is_refused(make_group: MakeGroup, capsys: pytest.CaptureFixture[str]) -> None:
    group = make_group(1)
    group.start("s1")
    assert main(["run", str(group.path("s1"))]) == 3
    assert "in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["hosts", "enrol", "DIR", "no/slash", "--out", "OUT"],
        ["hosts", "enrol", "DIR", "ann", "--out", "OUT", "--public-key", "short"],
        ["hosts", "revoke", "DIR", "nobody"],
        ["config", "set", "DIR", "settings/awaymax", "30d"],
        ["config", "get", "DIR", "logs/s1"],
        ["init", "DIR", "--id", "s1", "--slot", "1", "--group", "g", "--hosts", "tcp://x:1", "--stations", "tcp://x:2"],
    ],
)
def test_wrong_use_is_told_without_a_trace(
    arguments: list[str], make_group: MakeGroup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(1)
    capsys.readouterr()
    words = {"DIR": str(group.path("s1")), "OUT": str(tmp_path / "out.toml")}
    said = [word.replace("DIR", words["DIR"]) if word != "OUT" else words["OUT"] for word in arguments]
    assert main(said) == 2
    error = capsys.readouterr().err
    assert error.startswith("mss-station: ") and error.count("\n") == 1
    assert not (tmp_path / "out.toml").exists()


def test_a_host_with_its_own_pair_gets_a_credential_without_secret(make_group: MakeGroup, tmp_path: Path) -> None:
    group = make_group(1)
    out = tmp_path / "ann.toml"
    key = read_station(group.path("s1")).card.key
    assert main(["hosts", "enrol", str(group.path("s1")), "ann", "--out", str(out), "--public-key", key]) == 0
    assert "secret" not in out.read_text() and key in out.read_text()


def test_a_fault_of_the_operator_at_the_start_ends_with_3(make_group: MakeGroup, tmp_path: Path) -> None:
    group = make_group(1)
    assert main(["run", str(tmp_path / "nowhere")]) == 3
    (group.path("s1") / "curve.key").chmod(0o644)
    assert main(["run", str(group.path("s1"))]) == 3
