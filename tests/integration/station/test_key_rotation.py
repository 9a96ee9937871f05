"""Other keys for a running station: nobody waits but for who is away, and the old keys are worth nothing then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.host_frames import Ack, Uack
from roamcast.mss_station.asking import look
from roamcast.mss_station.cli import main
from roamcast.mss_station.rotation import NEXT_FILE, read_host_keys
from roamcast.transport.curve import CurveKeys
from roamcast.transport.sockets import UNKNOWN_KEY, UP, WRONG_KEY, connect_host, new_context
from roamcast.transport.station_files import StationConfig, read_station

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]


def linked(group: Any) -> bool:
    return all(link["linked"] for running in group.running.values() for link in running.status()["links"])


def known_keys(group: Any, seen_by: str, of: str) -> tuple[str, ...]:
    return look(group.path(seen_by))[2].keys(of)


def what_becomes(endpoint: str, keys: CurveKeys, server_key: str, until: Until) -> str:
    """Of a connection under these keys."""
    context = new_context()
    socket, monitor = connect_host(context, endpoint, keys, server_key)
    found: str = until(lambda: next(iter(monitor.changes()), ""))
    monitor.close()
    socket.close()
    context.destroy(0)
    return found


def started(group: Any, until: Until) -> StationConfig:
    """Start all; what s1 was before."""
    for name in group.names:
        group.start(name)
    until(lambda: linked(group))
    return read_station(group.path("s1"))


def test_new_keys_take_over_and_the_old_ones_open_no_door(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    ann = group.enrol("ann", "s2")
    old = started(group, until)
    until(lambda: group.knows("s1", "ann"))
    assert main(["keys", "rotate", str(group.path("s1"))]) == 0
    until(lambda: read_station(group.path("s1")).keys != old.keys)
    new = read_station(group.path("s1"))
    until(lambda: all(known_keys(group, name, "s1") == (new.card.key,) for name in group.names))
    until(lambda: linked(group))
    assert group.running["s1"].status()["rotation_waits_for"] is None
    second = read_station(group.path("s2")).card
    assert what_becomes(second.stations, old.keys, second.key, until) == UNKNOWN_KEY
    assert what_becomes(second.stations, new.keys, second.key, until) == UP
    assert what_becomes(old.card.stations, new.keys, old.card.key, until) == WRONG_KEY
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    host.broadcast(1, b"hosts see nothing of it")
    assert host.hear(Uack).lastseq == 1
    assert main(["config", "set", str(group.path("s1")), "settings/window-entries", "7"]) == 0
    until(lambda: look(group.path("s3"))[2].settings().window_entries == 7)
    group.running["s1"].stop()
    group.start("s1")
    until(lambda: linked(group))


def test_a_station_that_is_away_is_waited_for_also_after_a_restart(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(3)
    old = started(group, until)
    group.running["s3"].stop()
    capsys.readouterr()
    assert main(["keys", "rotate", str(group.path("s1")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"waits_for": ["s2", "s3"]}
    first = group.running["s1"]
    until(lambda: first.status()["rotation_waits_for"] == ["s3"])
    assert main(["status", str(group.path("s1"))]) == 0
    assert "new keys wait for s3" in capsys.readouterr().out
    assert main(["keys", "rotate", str(group.path("s1"))]) == 2
    first.stop()
    first = group.start("s1")
    until(lambda: first.status()["rotation_waits_for"] == ["s3"])
    assert read_station(group.path("s1")).keys == old.keys and (group.path("s1") / NEXT_FILE).exists()
    group.start("s3")
    until(lambda: first.status()["rotation_waits_for"] is None, 40)
    assert read_station(group.path("s1")).keys != old.keys
    until(lambda: linked(group))


def test_two_rotations_at_once_do_not_wait_for_each_other(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    started(group, until)
    before = {name: read_station(group.path(name)).keys for name in group.names}
    for name in group.names:
        assert main(["keys", "rotate", str(group.path(name))]) == 0
    until(lambda: all(read_station(group.path(name)).keys != before[name] for name in group.names), 40)
    until(lambda: linked(group), 40)


def test_a_stopped_station_gets_its_keys_when_it_runs(make_group: MakeGroup, until: Until) -> None:
    group = make_group(2)
    before = read_station(group.path("s1"))
    assert main(["keys", "rotate", str(group.path("s1"))]) == 0
    assert read_station(group.path("s1")) == before
    started(group, until)
    until(lambda: read_station(group.path("s1")).keys != before.keys)
    until(lambda: linked(group))


def test_the_key_for_hosts_is_another_one_at_once_and_the_links_stay(
    make_group: MakeGroup, until: Until, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(2)
    ann = group.enrol("ann")
    old = started(group, until)
    host = group.host(ann, 1)
    host.say(Ack(1, host.attach().at))
    assert main(["keys", "rotate", str(group.path("s1")), "--hosts"]) == 0
    assert "without a new credential" in capsys.readouterr().out
    key = read_host_keys(group.path("s1")).public
    refused = group.host(ann, 1)
    assert until(lambda: next(iter(refused.monitor.changes()), "")) == WRONG_KEY
    assert read_station(group.path("s1")).keys == old.keys and linked(group)
    until(lambda: [one.key_for_hosts for one in look(group.path("s2"))[2].members() if one.id == "s1"] == [key])
    bob = group.enrol("bob")
    assert group.host(bob, 1).attach().e == 1
