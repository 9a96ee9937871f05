"""The shared configuration over real sockets: one change, every station, without a restart (BL-46, BL-48, BL-54)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from demo.relay import free_port

from roamcast.middleware.host_frames import Ack, Refused
from roamcast.middleware.lan_update.records import DropEntry, Entry, PutEntry, PutHistory, Version
from roamcast.mss_station import schema
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.errors import StationRetired
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import read_history, read_lan
from roamcast.transport.curve import generate
from roamcast.transport.station_files import read_signing_key, read_station

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]
WINDOW = "settings/window-entries"


def told(capsys: pytest.CaptureFixture[str], group: Any, name: str, command: str, *arguments: str) -> str:
    capsys.readouterr()
    assert main([*command.split(), str(group.path(name)), *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def versions(group: Any, name: str) -> dict[str, Version]:
    return {key: entry.version for key, entry in read_lan(group.path(name)).entries.items()}


def equal(group: Any, *names: str) -> bool:
    """Whether these stations hold the same configuration."""
    first, *others = (versions(group, name) for name in names or group.names)
    return all(other == first for other in others)


def linked(running: Any) -> bool:
    return all(link["linked"] for link in running.status()["links"])


def move(group: Any, name: str) -> tuple[str, str]:
    """Give a stopped station other endpoints, as an operator does; returns them."""
    file = group.path(name) / "station.toml"
    hosts, stations = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    text = re.sub(r"(?m)^hosts = .*$", f'hosts = "{hosts}"', file.read_text())
    file.write_text(re.sub(r"(?m)^stations = .*$", f'stations = "{stations}"', text))
    return hosts, stations


def endpoints(group: Any, seen_by: str, of: str) -> tuple[str, str]:
    (record,) = [each for each in look(group.path(seen_by))[2].members() if each.id == of]
    return record.hosts, record.stations


def test_a_setting_holds_at_every_station_at_once(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(3)
    ann = group.enrol("ann", "s3")
    for name in group.names:
        group.start(name)
    until(lambda: all(group.knows(name, "ann") for name in group.names))
    assert group.host(ann, 3).attach().window_entries == 512
    said = told(capsys, group, "s1", "config set", WINDOW, "7")
    assert said.splitlines()[0] == f"{WINDOW} is 7"
    until(lambda: equal(group))
    assert group.host(ann, 3).attach(2).window_entries == 7
    told(capsys, group, "s2", "config delete", WINDOW)
    until(lambda: equal(group))
    assert group.host(ann, 3).attach(3).window_entries == 512
    assert told(capsys, group, "s3", "config get", WINDOW) == "512 (default)\n"


def test_a_wrong_value_changes_nothing_at_a_running_station(
    make_group: MakeGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(1)
    running = group.start("s1")
    before = versions(group, "s1")
    for arguments in ((WINDOW, "0"), ("settings/wndow", "7"), ("logs/s1", "{}"), ("stations/s1", "{}")):
        assert main(["config", "set", str(group.path("s1")), *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["config", "delete", str(group.path("s1")), "stations/s1"]) == 2
    assert versions(group, "s1") == before and running.status()["configuration"]["faults"] == []


def test_a_host_revoked_at_one_station_is_out_at_the_other(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    ann = group.enrol("ann", "s2")
    group.start("s1")
    second = group.start("s2")
    until(lambda: group.knows("s1", "ann"))
    host = group.host(ann, 2)
    host.say(Ack(1, host.attach().at))
    until(lambda: second.status()["attached"] == ["ann"])
    assert main(["hosts", "revoke", str(group.path("s1")), "ann"]) == 0
    assert host.hear(Refused).code == "revoked"
    assert second.status()["attached"] == []
    group.host(ann, 2)
    until(lambda: second.status()["refused_keys"].get("hosts"))


def test_a_host_with_a_new_key_loses_the_sessions_under_the_old_one(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(2)
    ann = group.enrol("ann", "s1")
    first = group.start("s1")
    group.start("s2")
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    until(lambda: first.status()["attached"] == ["ann"] and group.knows("s2", "ann"))
    card = json.loads(told(capsys, group, "s2", "config get", "hosts/ann", "--json"))["value"]
    told(capsys, group, "s2", "config set", "hosts/ann", json.dumps({**card, "key": generate().public}))
    until(lambda: first.status()["attached"] == [])


@pytest.fixture
def package_log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("roamcast")
    level = logger.level
    yield logger
    logger.setLevel(level)


def test_the_log_level_follows_the_setting(
    make_group: MakeGroup, until: Until, package_log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(1)
    group.start("s1", log_level=True)
    assert package_log.level == logging.NOTSET
    told(capsys, group, "s1", "config set", "settings/log-level", "error")
    until(lambda: package_log.level == logging.ERROR)
    told(capsys, group, "s1", "config delete", "settings/log-level")
    until(lambda: package_log.level == logging.NOTSET)


def test_settings_of_the_next_start_hold_then(make_group: MakeGroup, capsys: pytest.CaptureFixture[str]) -> None:
    group = make_group(1)
    running = group.start("s1")
    assert running.execute("PRAGMA synchronous") == 2
    told(capsys, group, "s1", "config set", "settings/durability", "process")
    assert running.execute("PRAGMA synchronous") == 2
    running.stop()
    again = group.start("s1")
    assert again.execute("PRAGMA synchronous") == 1
    again.stop()
    with (group.path("s1") / "station.toml").open("a") as file:
        file.write('durability = "power"\n')
    assert group.start("s1").execute("PRAGMA synchronous") == 2, "what its own file says goes before"


def test_what_was_written_while_a_station_was_down_reaches_it(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deletions too (BL-55); at a stopped station as well as at a running one."""
    group = make_group(2)
    told(capsys, group, "s1", "config set", WINDOW, "7")
    told(capsys, group, "s2", "config set", "settings/attach-burst", "9")
    group.start("s1")
    group.start("s2")
    until(lambda: equal(group))
    group.running["s2"].stop()
    told(capsys, group, "s1", "config delete", WINDOW)
    told(capsys, group, "s2", "config set", "settings/attach-burst", "11")
    group.start("s2")
    until(lambda: equal(group))
    assert look(group.path("s1"))[2].settings().attach_burst == 11
    assert look(group.path("s2"))[2].settings().window_entries == 512


def test_two_writes_at_once_have_one_winner_and_the_loser_is_shown(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(2)
    told(capsys, group, "s1", "config set", WINDOW, "7")
    told(capsys, group, "s2", "config set", WINDOW, "9")
    group.start("s1")
    group.start("s2")
    until(lambda: equal(group))
    assert told(capsys, group, "s1", "config get", WINDOW).startswith("9\nwhich overruled 7, written at s1")
    lines = json.loads(told(capsys, group, "s1", "config history", WINDOW, "--json"))
    assert [(line["value"], line["by"], line["state"]) for line in lines] == [(9, "s2", "holds"), (7, "s1", "lost")]
    said = told(capsys, group, "s1", "config set", WINDOW, "11")
    assert "it replaces 9, written at s2" in said and "which overruled 7, written at s1" in said


@pytest.mark.parametrize("stations", [2, 3])
def test_a_station_at_a_new_address_is_found_by_all_without_a_manual_step(
    make_group: MakeGroup, until: Until, stations: int
) -> None:
    """Also by a peer that was down meanwhile, although the mover itself starts again before (BL-48)."""
    group = make_group(stations)
    for name in group.names:
        group.start(name)
    until(lambda: all(linked(running) for running in group.running.values()))
    group.running["s1"].stop()
    for _ in range(2):
        group.running["s2"].stop()
        moved = move(group, "s2")
        group.start("s2")
    group.start("s1")
    until(lambda: all(linked(running) for running in group.running.values()))
    until(lambda: equal(group))
    assert endpoints(group, "s1", "s2") == moved
    assert len(read_history(group.path("s1"), "stations/s2")) <= 3


def test_a_new_station_is_linked_by_running_ones_without_a_restart(make_group: MakeGroup, until: Until) -> None:
    """Its record came to one of them; the other one had refused its key until then."""
    group = make_group(3)
    with open_store(group.path("s2"), read_station(group.path("s2"))) as opened:
        opened.store.commit((DropEntry("stations/s3"),))
    with open_store(group.path("s1"), read_station(group.path("s1"))) as opened:
        opened.store.commit((DropEntry("stations/s3"),))
    second, third = group.start("s2"), group.start("s3")
    until(lambda: second.status()["refused_keys"].get("stations"))
    entry = read_lan(group.path("s3")).entries["stations/s3"]
    with open_store(group.path("s1"), read_station(group.path("s1"))) as opened:
        opened.store.commit((PutEntry(entry), PutHistory(entry, 1)))
    group.start("s1")
    until(lambda: equal(group))
    until(lambda: all(linked(running) for running in (second, third)))
    assert [link["id"] for link in second.status()["links"]] == ["s1", "s3"]


def retire(group: Any, name: str, author: str) -> None:
    """What another station's command writes; both are stopped."""
    config = read_station(group.path(author))
    before = read_lan(group.path(author)).entries[schema.station_key(name)]
    assert before.value is not None
    value = before.value.replace(b"\x66active", b"\x67retired")
    later = before.version._replace(count=before.version.count + 1, node=author)
    entry = Entry(before.key, later, value, before.version)
    signer = Signer(read_signing_key(group.path(author)), config.card.group)
    told = replace(entry, signature=signer.sign(entry))
    with open_store(group.path(author), config) as opened:
        opened.store.commit((PutEntry(told), PutHistory(told, 1)))


def test_a_station_that_was_retired_while_it_was_away_is_told_and_ends(make_group: MakeGroup, until: Until) -> None:
    """It changes nothing (BL-46), and its next start says so without a connection."""
    group = make_group(3)
    for name in group.names:
        group.start(name)
    until(lambda: all(linked(running) for running in group.running.values()))
    for running in group.running.values():
        running.stop()
    assert main(["config", "set", str(group.path("s3")), WINDOW, "7"]) == 0
    retire(group, "s3", "s1")
    others = [group.start(name) for name in ("s1", "s2")]
    until(lambda: equal(group, "s1", "s2"))
    until(lambda: [link["id"] for link in group.running["s2"].status()["links"]] == ["s1"])
    error = group.start("s3").join()
    assert isinstance(error, StationRetired) and "ended the membership of s3" in str(error)
    assert WINDOW not in versions(group, "s1")
    assert any("links_of_retired_stations" in running.status()["counters"] for running in others)
    assert main(["config", "set", str(group.path("s1")), WINDOW, "9"]) == 0


def test_a_station_that_knows_that_it_is_retired_does_not_start(
    make_group: MakeGroup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = make_group(2)
    retire(group, "s1", "s1")
    assert main(["run", str(group.path("s1"))]) == 3
    assert "it is retired" in caplog.text
    assert main(["hosts", "enrol", str(group.path("s1")), "ann", "--out", str(tmp_path / "ann.toml")]) == 3
    assert not (tmp_path / "ann.toml").exists()


def test_two_enrolments_of_one_name_end_in_one_host(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    first, second = group.enrol("ann", "s1"), group.path("second.toml")
    assert main(["hosts", "enrol", str(group.path("s2")), "ann", "--out", str(second)]) == 0
    group.start("s1")
    group.start("s2")
    until(lambda: equal(group))
    until(lambda: group.running["s1"].status()["uplinks"] == "open")
    assert group.host(second, 1).attach().e == 1
    group.host(first, 1)
    until(lambda: group.running["s1"].status()["refused_keys"].get("hosts"))


def test_a_full_store_takes_no_change_and_says_so(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(1)
    running = group.start("s1")
    running.execute("PRAGMA max_page_count = 1")
    running.execute(f"PRAGMA max_page_count = {running.execute('PRAGMA page_count')}")
    capsys.readouterr()
    codes = set()
    for i in range(60):
        codes.add(main(["config", "set", str(group.path("s1")), "settings/attach-burst", str(100 + i)]))
        if 3 in codes:
            break
    assert 3 in codes and "full" in capsys.readouterr().err
    running.execute("PRAGMA max_page_count = 1000000")
    until(lambda: running.status()["store"]["state"] == "open")
    assert main(["config", "set", str(group.path("s1")), "settings/attach-burst", "5"]) == 0
    assert look(group.path("s1"))[2].settings().attach_burst == 5
