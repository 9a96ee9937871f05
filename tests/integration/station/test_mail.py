"""Station mail over real sockets: a program's calls, the commands, stations that end, a store whose mail went back."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.mss_station import MailLoss, MailReaderBusy, MailRefused, StationMessage, StationStopped
from roamcast.mss_station.cli import main
from roamcast.mss_station.errors import RetirementDone, StoreWentBack
from roamcast.mss_station.store import STORE_NAME

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]


def linked(group: Any, until: Until) -> None:
    running = group.running.values()
    until(lambda: all(link["linked"] for one in running for link in one.status()["links"]))


def bodies(station: Any, count: int) -> list[bytes]:
    """The next mails; the last one is acknowledged too."""
    taken = [station.receive(20) for _ in range(count)]
    taken[-1].ack()
    return [message.body for message in taken]


def test_programs_send_and_receive_in_causal_order_and_what_waits_outlives_its_stations(
    make_group: MakeGroup, until: Until
) -> None:
    group = make_group(3)
    a, b, c = (group.start(name).station for name in group.names)
    threads = [threading.Thread(target=a.send, args=("s2", b"%d" % n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bodies(b, 20)) == sorted(b"%d" % n for n in range(20))
    a.send("s3", b"question")
    a.send("s2", b"see s3")
    assert bodies(b, 1) == [b"see s3"]
    b.send("s3", b"answer")
    assert bodies(c, 2) == [b"question", b"answer"]
    group.running["s3"].stop()
    with pytest.raises(StationStopped):
        c.send("s1", b"x")
    for n in range(30):
        (a if n % 2 else b).send("s3", b"%d" % n)
    group.running["s1"].stop()
    c = group.start("s3").station
    from_b = bodies(c, 15)
    group.start("s1")
    from_a = bodies(c, 15)
    assert from_b == [b"%d" % n for n in range(0, 30, 2)] and from_a == [b"%d" % n for n in range(1, 30, 2)]
    assert c.receive(0) is None
    waiting = until(lambda: not any(one.status()["mail"]["waiting"] for one in group.running.values()))
    assert waiting


def test_the_commands_send_print_and_acknowledge(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(2)
    first, second = str(group.path("s1")), str(group.path("s2"))

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words])
        told = capsys.readouterr()
        return code, told.out, told.err

    code, _, error = run("message", first, "s2", "x")
    assert code == 3 and "no station runs" in error and f"mss-station run {first}" in error
    assert run("messages", second)[0] == 3
    assert run("message", str(group.path("nothing")), "s2", "x")[0] == 2
    group.start("s1")
    code, _, error = run("message", first, "s2", "x", "--timeout", "0.1")
    assert code == 3 and "no peer has answered" in error
    group.start("s2")
    linked(group, until)
    assert run("message", first, "s2", "one\ttwo\nthree") == (0, "mail 1 of this station is on its way to s2\n", "")
    assert run("message", first, "s2", "h\u00e4", "--json") == (0, '{"number": 2}\n', "")
    assert run("message", first, "nobody", "x")[0] == 2
    until(lambda: group.running["s2"].status()["mail"]["inbox"]["mails"] == 2)
    assert run("messages", second, "--keep") == (0, "s1\tone\\ttwo\\nthree\ns1\th\u00e4\n", "")
    code, out, _ = run("messages", second, "--json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sender": "s1", "number": 1, "position": 1, "text": "one\ttwo\nthree"},
        {"sender": "s1", "number": 2, "position": 2, "text": "h\u00e4"},
    ]
    assert run("messages", second) == (0, "", "")
    station = group.running["s2"].station
    until(lambda: group.running["s2"].status()["mail"]["reader"] is None)
    assert station.receive(0) is None
    code, _, error = run("messages", second)
    assert code == 3 and "is read by the program in which this station runs" in error
    assert "nobody reads" in run("status", first)[1] and "0 (0 B of 64 MiB) not taken yet" in run("status", second)[1]


def test_a_program_does_not_read_beside_a_command(make_group: MakeGroup, until: Until) -> None:
    from roamcast.mss_station.control import Conversation

    group = make_group(1)
    running = group.start("s1")
    command = Conversation(group.path("s1"))
    command.say({"command": "messages", "after": 0, "follow": True, "keep": False, "process": 4711})
    until(lambda: running.status()["mail"]["reader"])
    with pytest.raises(MailReaderBusy, match="process 4711"):
        running.station.receive(0)
    running.station.send("s1", b"x")
    answer = command.hear()
    assert answer is not None and [mail["number"] for mail in answer["mails"]] == [1]
    command.close()
    until(lambda: running.status()["mail"]["reader"] is None)
    message = running.station.receive(5)
    assert isinstance(message, StationMessage) and message.body == b"x", "it was not acknowledged"


def test_a_station_whose_mail_went_back_is_refused_by_its_peers(make_group: MakeGroup, until: Until) -> None:
    """Its rows and its count of starts are as they were: only station mail tells."""
    group = make_group(2)
    a, b = (group.start(name).station for name in group.names)
    linked(group, until)
    a.send("s2", b"one")
    assert bodies(b, 1) == [b"one"]
    b.send("s1", b"two")
    assert bodies(a, 1) == [b"two"]
    group.running["s1"].stop()
    store = sqlite3.connect(group.path("s1") / STORE_NAME)
    for (table,) in store.execute("SELECT name FROM sqlite_master WHERE name LIKE 'mail_%'").fetchall():
        store.execute(f"DELETE FROM {table}")
    store.commit()
    store.close()
    again = group.start("s1")
    error = again.join()
    assert isinstance(error, StoreWentBack) and "mail 0" in str(error) and "--rejoin" in str(error)
    assert "notice.peer_store_went_back" in group.running["s2"].status()["counters"]
    with pytest.raises(StationStopped):
        again.station.send("s2", b"would have the number of another one")
    assert b.receive(0) is None


def retire(group: Any, at: str, *words: str) -> None:
    assert main(["stations", "retire", str(group.path(at)), *words]) == 0


def test_a_station_is_retired_once_its_mail_is_where_it_belongs(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    a, b = (group.start(name).station for name in group.names)
    linked(group, until)
    a.send("s2", b"for the last time")
    retire(group, "s1", "s2")
    obstacles = until(
        lambda: [
            text
            for text in (group.running["s2"].status()["group"]["retiring"] or {"obstacles": []})["obstacles"]
            if "mail" in text
        ]
    )
    assert any("1 station mails were not taken yet; mss-station messages DIR" in text for text in obstacles)
    for station, to in ((a, "s2"), (b, "s1")):
        with pytest.raises(MailRefused) as caught:
            station.send(to, b"too late")
        assert caught.value.code == "retired"
    assert bodies(b, 1) == [b"for the last time"]
    assert isinstance(group.running["s2"].join(), RetirementDone)


def test_mail_to_a_lost_station_is_given_up_and_its_sender_told(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(3)
    for name in group.names:
        group.start(name)
    linked(group, until)
    group.running["s3"].stop()
    a, b = (group.running[name].station for name in ("s1", "s2"))
    for n in range(3):
        a.send("s3", b"%d" % n)
    b.send("s3", b"x")
    retire(group, "s2", "s3", "--lost")
    loss = a.receive(20)
    assert isinstance(loss, MailLoss) and (loss.station, loss.numbers) == ("s3", (1, 2, 3))
    loss.ack()
    with pytest.raises(MailRefused, match="s3 is no member any more"):
        a.send("s3", b"x")
    a.send("s2", b"go on")
    until(
        lambda: group.running["s2"].status()["mail"]["lost"] and group.running["s2"].status()["mail"]["inbox"]["mails"]
    )
    capsys.readouterr()
    assert main(["messages", str(group.path("s2"))]) == 0
    told = capsys.readouterr()
    assert told.out == "s1\tgo on\n" and "1 mails to s3 are lost" in told.err
    group.running["s1"].stop()
    assert group.start("s1").station.receive(0.1) is None, "it was told and does not come again"


def test_a_newcomer_gets_mail_and_sends_some(make_group: MakeGroup, until: Until) -> None:
    from newcomers import Newcomer, invite

    group = make_group(1)
    a = group.start("s1").station
    a.send("s1", b"before")
    newcomer = Newcomer(group, "s2")
    assert main(["join", str(newcomer.path), invite(group), *newcomer.options()]) == 0
    running = group.start("s2")
    until(lambda: running.status()["group"]["serving"])
    a.send("s2", b"welcome")
    assert bodies(running.station, 1) == [b"welcome"]
    running.station.send("s1", b"thanks")
    assert bodies(a, 2) == [b"before", b"thanks"]


def test_a_full_mailbox_is_told_and_nothing_is_lost(make_group: MakeGroup, until: Until, tmp_path: Path) -> None:
    """BL-21: what is beyond the limit is refused to its sender; all that was taken arrives."""
    group = make_group(2)
    running = group.start("s1", alone=True)
    assert main(["config", "set", str(group.path("s1")), "settings/mail-bytes", "1MiB"]) == 0
    until(lambda: running.status()["mail"]["limits"]["mail_bytes"] == 1 << 20)
    taken = 0
    with pytest.raises(MailRefused, match="the mailbox of s2 here is full") as caught:
        while taken < 100:
            running.station.send("s2", bytes(100_000))
            taken += 1
    assert caught.value.code == "mailbox-full" and 8 <= taken <= 10
    second = group.start("s2").station
    assert len(bodies(second, taken)) == taken
    assert running.station.send("s2", b"there is room again") == taken + 1
