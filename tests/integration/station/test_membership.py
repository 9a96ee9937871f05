"""Stations that come and go, at one of them: commands, what is shown, what a start makes of what the store says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry, PutEntry, PutHistory
from roamcast.middleware.membership.view import View
from roamcast.middleware.writes import PutReservation, PutView
from roamcast.mss_station import schema
from roamcast.mss_station.cli import main
from roamcast.mss_station.errors import RetirementDone, StationRetired
from roamcast.mss_station.opening import open_store
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.store import read_lan
from roamcast.transport.station_files import read_signing_key, read_station

MakeGroup = Callable[[int], Any]
Until = Callable[..., Any]
Capture = pytest.CaptureFixture[str]
HOUR_US = 3_600_000_000


def start(group: Any, until: Until, *names: str) -> list[Any]:
    """Start stations (all), and wait until they are linked with each other."""
    started = {name: group.start(name) for name in names or group.names}
    running = [*started.values()]
    until(lambda: all(link["linked"] for one in running for link in one.status()["links"] if link["id"] in started))
    return running


def owe(group: Any, until: Until, at: str, sender: str) -> None:
    """Every other host is owed a message, which is not spooled in the next seconds; `sender` is enrolled at `at`."""
    credential, slot = group.enrol(sender, at), group.running[at].status()["station"]["slot"]

    def delivered(running: Any) -> int:
        return sum(stream["delivered"] for stream in running.status()["streams"] if stream["origin"] == slot)

    stored = delivered(group.running[at])
    host = group.host(credential, slot)
    host.attach()
    host.broadcast(1, b"for all")
    until(lambda: all(delivered(one) == stored + 2 for one in group.running.values()))


def record(group: Any, at: str, id: str) -> StationRecord:
    value = read_lan(group.path(at)).entries[schema.station_key(id)].value
    assert value is not None
    return schema.read_station(schema.station_key(id), value)


def retire(group: Any, at: str, *arguments: str) -> int:
    return main(["stations", "retire", str(group.path(at)), *arguments])


def listed(group: Any, at: str, capsys: Capture) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["stations", "list", str(group.path(at)), "--json"]) == 0
    return {station["id"]: station for station in json.loads(capsys.readouterr().out)}


# ---- hosts are told ----


def test_a_host_is_told_of_all_stations_that_serve(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    ann = group.enrol("ann", "s1")
    start(group, until)
    welcome = group.host(ann, 1).attach()
    assert [(id, slot) for id, slot, _, _ in welcome.stations] == [("s1", 1), ("s2", 2), ("s3", 3)]
    for id, _, endpoint, key in welcome.stations:
        told = record(group, "s1", id)
        assert (endpoint, key.decode()) == (told.hosts, told.key_for_hosts)
    assert retire(group, "s2", "s3", "--lost", "--force") == 0
    until(lambda: record(group, "s1", "s3").state == "lost")
    assert [id for id, *_ in group.host(ann, 1).attach(2).stations] == ["s1", "s2"]


# ---- the command ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["s9"], "there is no station 's9'"),
        (["s2", "--heir", "s2"], "cannot take the place of s2; these can: s1"),
        (["s2", "--heir", "s9"], "cannot take the place"),
        (["s1", "--lost"], "s1 is this station, and it runs"),
        (["s2", "--lost"], "s2 is linked with this station, so it lives"),
        (["s2", "--lost", "--heir", "s1"], "has no heir"),
        (["s2", "--release"], "go with --lost"),
        (["s2", "--force"], "go with --lost"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    arguments: list[str], said: str, make_group: MakeGroup, until: Until, capsys: Capture
) -> None:
    group = make_group(2)
    start(group, until)
    before = read_lan(group.path("s1")).entries
    capsys.readouterr()
    assert retire(group, "s1", *arguments) == 2
    assert said in capsys.readouterr().err
    assert read_lan(group.path("s1")).entries == before


def test_the_last_station_is_not_retired(make_group: MakeGroup, until: Until, capsys: Capture) -> None:
    group = make_group(2)
    start(group, until, "s1")
    assert retire(group, "s1", "s2", "--lost", "--json") == 0
    capsys.readouterr()
    assert retire(group, "s1", "s1") == 2 and "s1 is the last station" in capsys.readouterr().err
    assert retire(group, "s1", "s2", "--lost") == 2 and "s2 is lost already" in capsys.readouterr().err
    assert retire(group, "s1", "s2", "--lost", "--release") == 0
    assert "are not waited for" in capsys.readouterr().out
    assert retire(group, "s1", "s2", "--lost", "--release") == 2
    assert record(group, "s1", "s2").released is True


def test_it_is_said_to_a_station_that_runs(make_group: MakeGroup, capsys: Capture) -> None:
    group = make_group(2)
    assert retire(group, "s1", "s2") == 3
    assert "say it at a station of the group that runs" in capsys.readouterr().err


def test_a_station_that_is_down_begins_when_it_runs(make_group: MakeGroup, until: Until, capsys: Capture) -> None:
    group = make_group(3)
    start(group, until, "s1", "s2")
    assert retire(group, "s1", "s3") == 0
    told = capsys.readouterr().out
    assert "its heir is s1" in told and "s3 is not linked: it begins when it runs" in told
    assert retire(group, "s1", "s3") == 2 and "s3 is retiring already, with heir s1" in capsys.readouterr().err
    assert isinstance(group.start("s3").join(), RetirementDone)
    until(lambda: listed(group, "s2", capsys)["s3"]["end"] == "final")


# ---- what is shown ----


def test_list_and_status_show_what_an_orderly_retirement_waits_for(
    make_group: MakeGroup, until: Until, capsys: Capture
) -> None:
    group = make_group(2)
    group.enrol("ann", "s2")
    first, second = start(group, until)
    owe(group, until, "s1", "bob")
    assert retire(group, "s1", "s2") == 0
    until(lambda: second.status()["group"]["retiring"])
    shown = second.status()["group"]["retiring"]
    assert (shown["heir"], shown["handing"]) == ("s1", False)
    until(lambda: second.status()["group"]["retiring"]["obstacles"] == ["ann is not spooled yet"])
    one = listed(group, "s2", capsys)["s2"]
    assert (one["state"], one["heir"], one["end"]) == ("retiring", "s1", None)
    assert one["obstacles"] == ["ann is not spooled yet"]
    assert main(["stations", "list", str(group.path("s2"))]) == 0
    told = capsys.readouterr().out
    assert "retiring, heir s1" in told and "s2 waits: ann is not spooled yet" in told
    assert main(["status", str(group.path("s2"))]) == 0
    assert "retiring, heir s1: its hosts move" in capsys.readouterr().out
    assert first.status()["group"]["ended"] == []


def test_a_lost_station_is_shown_until_nobody_waits_for_its_hosts(
    make_group: MakeGroup, until: Until, capsys: Capture
) -> None:
    group = make_group(3)
    start(group, until, "s1")
    assert retire(group, "s1", "s3", "--lost") == 0
    one = listed(group, "s1", capsys)["s3"]
    assert (one["state"], one["end"], one["waits_for"]) == ("lost", "closed", ["s2"])
    assert main(["stations", "list", str(group.path("s1"))]) == 0
    assert "not final yet, waits for s2" in capsys.readouterr().out
    group.start("s2")
    until(lambda: listed(group, "s1", capsys)["s3"]["end"] == "final")
    assert listed(group, "s1", capsys)["s3"]["guarded"]
    assert main(["status", str(group.path("s1"))]) == 0
    assert "s3 (slot 3): lost, final" in capsys.readouterr().out
    assert retire(group, "s2", "s3", "--lost", "--release") == 0
    until(lambda: not listed(group, "s1", capsys)["s3"]["guarded"])


def test_hosts_of_a_lost_station_are_waited_for_no_longer_than_for_others(
    make_group: MakeGroup, until: Until, capsys: Capture
) -> None:
    group = make_group(2)
    for name, value in (("ephemeral-away-max", "1s"), ("away-max", "1s"), ("clock-settle", "1s")):
        assert main(["config", "set", str(group.path("s1")), f"settings/{name}", value]) == 0
    start(group, until, "s1")
    assert retire(group, "s1", "s2", "--lost") == 0
    until(lambda: not listed(group, "s1", capsys)["s2"]["guarded"])
    assert record(group, "s1", "s2").released is None


def test_an_end_is_said_again_over_a_record_whose_author_had_not_heard_of_it(
    make_group: MakeGroup, until: Until, capsys: Capture
) -> None:
    """The lost station lived, apart, and wrote its record later than the operator did."""
    group = make_group(3)
    start(group, until, "s1", "s2")
    assert retire(group, "s1", "s3", "--lost") == 0
    until(lambda: all(listed(group, name, capsys)["s3"]["end"] == "final" for name in ("s1", "s2")))
    group.running["s2"].stop()
    entry = own_entry(group, "s3", hosts="tcp://127.0.0.1:1")
    write(group, "s2", PutEntry(entry), PutHistory(entry, 1))
    assert record(group, "s2", "s3").state == "active"
    group.start("s2")
    until(lambda: record(group, "s2", "s3").state == record(group, "s1", "s3").state == "lost")
    assert record(group, "s1", "s3").hosts == "tcp://127.0.0.1:1"


def test_a_slot_is_not_closed_for_the_sake_of_a_station_that_never_had_it(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    write(group, "s1", PutReservation(3, record(group, "s1", "s3").generation + 1))
    (first,) = start(group, until, "s1")
    assert retire(group, "s1", "s3", "--lost") == retire(group, "s1", "s2", "--lost") == 0
    until(lambda: [end["id"] for end in first.status()["group"]["ended"]] == ["s2"])


# ---- heirs ----


def test_an_heir_that_is_lost_is_replaced(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    group.enrol("ann", "s3")
    _, _, third = start(group, until)
    owe(group, until, "s2", "bob")
    assert retire(group, "s2", "s3", "--heir", "s1") == 0
    until(lambda: third.status()["group"]["retiring"])
    assert retire(group, "s2", "s1", "--lost", "--force") == 0
    assert isinstance(group.running["s1"].join(), StationRetired)
    until(lambda: third.status()["group"]["retiring"]["heir"] == "s2")
    until(lambda: record(group, "s2", "s3").heir == "s2")
    assert record(group, "s2", "s3").state == "retiring"


def test_two_stations_that_are_to_take_each_others_place_go_one_after_the_other(
    make_group: MakeGroup, until: Until
) -> None:
    group = make_group(3)
    group.enrol("ann", "s2")
    group.enrol("bob", "s3")
    assert main(["config", "set", str(group.path("s1")), "settings/spool-grace", "1s"]) == 0
    start(group, until)
    until(lambda: all(group.knows(name, host) for name in group.names for host in ("ann", "bob")))
    assert retire(group, "s1", "s2", "--heir", "s3") == 0
    assert retire(group, "s1", "s3", "--heir", "s1") == 0
    for name in ("s2", "s3"):
        assert isinstance(group.running[name].join(), RetirementDone)
    until(lambda: sorted(one["host"] for one in group.running["s1"].status()["records"]) == ["ann", "bob"])


# ---- starts ----


def write(group: Any, name: str, *writes: Any) -> None:
    with open_store(group.path(name), read_station(group.path(name))) as opened:
        opened.store.commit(writes)


def own_entry(group: Any, name: str, **changed: Any) -> Entry:
    """The record of a station, changed and signed by itself."""
    before = read_lan(group.path(name)).entries[schema.station_key(name)]
    value = schema.station_value(replace(record(group, name, name), **changed), before.value)
    version = before.version._replace(time=before.version.time + HOUR_US)
    later = replace(before, version=version, value=value, after=before.version)
    signer = Signer(read_signing_key(group.path(name)), read_station(group.path(name)).card.group)
    return replace(later, signature=signer.sign(later))


def test_a_station_that_died_after_its_last_word_says_it_again(
    make_group: MakeGroup, until: Until, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    """It had handed over and was heard by nobody: it runs, serves nobody, and ends when it was heard."""
    group = make_group(2)
    start(group, until)
    for running in group.running.values():
        running.stop()
    entry = own_entry(group, "s2", state="retired", heir="s1")
    handed = PutView(View((1, 2), serving=False, retiring=1, handing=True))
    write(group, "s2", handed, PutEntry(entry), PutHistory(entry, 1))
    second = group.start("s2")
    assert second.status()["group"]["retiring"]["handing"]
    group.start("s1")
    assert isinstance(second.join(), RetirementDone)
    until(lambda: listed(group, "s1", capsys)["s2"]["end"] == "final")
    group.running["s1"].stop()
    assert main(["run", str(group.path("s2"))]) == 3
    assert "ended the membership of s2: it is retired" in caplog.text


def test_a_newcomer_takes_the_snapshot_and_is_a_member(make_group: MakeGroup, until: Until, capsys: Capture) -> None:
    group = make_group(2)
    ann, bob = group.enrol("ann", "s1"), group.enrol("bob", "s1")
    first = group.start("s1", alone=True)
    host = group.host(ann, 1)
    host.attach()
    for number in range(1, 31):
        host.broadcast(number, b"%d" % number)
    until(lambda: first.status()["streams"][0]["stored"] >= 32)
    write(group, "s2", PutView(View((1, 2), serving=False, sponsor=1)))
    second = group.start("s2")
    until(lambda: second.status()["group"]["joining"] is None and second.status()["group"]["serving"])
    assert second.status()["streams"][0]["stored"] == first.status()["streams"][0]["stored"]
    until(lambda: group.knows("s2", "bob"))
    late = group.host(bob, 2)
    late.attach(last=1)
    until(lambda: second.status()["attached"] == ["bob"])


def test_a_newcomer_without_its_sponsor_says_whom_it_waits_for(make_group: MakeGroup, capsys: Capture) -> None:
    group = make_group(2)
    write(group, "s2", PutView(View((1, 2), serving=False, sponsor=1)))
    second = group.start("s2")
    assert second.status()["group"]["joining"] == {"sponsor": "s1", "rows": 0}
    capsys.readouterr()
    assert main(["status", str(group.path("s2"))]) == 0
    assert "joining from s1: 0 rows so far" in capsys.readouterr().out


def test_who_has_founded_the_group_is_kept_from_the_first_start_on(make_group: MakeGroup, until: Until) -> None:
    group = make_group(3)
    start(group, until)
    for running in group.running.values():
        running.stop()
    with open_store(group.path("s1"), read_station(group.path("s1"))) as opened:
        assert opened.image.view == View((1, 2, 3))
