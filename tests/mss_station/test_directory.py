"""The directory as files: who is let in, what changes while the station runs, and faults that stop nobody else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.settings import Settings
from roamcast.mss_station.directory import (
    Directory,
    Fault,
    FileDirectory,
    HostKnown,
    HostRevoked,
    PeersChanged,
    SettingsChanged,
    read_settings,
)
from roamcast.transport import curve
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import HostCard, StationCard, create_station, write_card, write_revoked

LONG_AGO = 1_500_000_000_000_000_000
REALLY_NOW = 1_600_000_000_000_000_000
"""UTC in nanoseconds: the virtual clock runs far below the times that files get when a test writes them."""


class Station:
    """A station's directory on disk whose files have any age a test wants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = LONG_AGO
        self.config = create_station(
            path, id="hill", slot=3, group="fleet", hosts="tcp://10.0.0.3:7001", stations="tcp://10.0.0.3:7002"
        )

    def open(self) -> FileDirectory:
        self.settle()
        return FileDirectory(self.path, lambda: self.now)

    def settle(self) -> None:
        """What was written since the last call was written a minute ago."""
        self.now += 60_000_000_000
        for path in (*self.path.rglob("*"), self.path):
            if path.stat().st_mtime_ns > REALLY_NOW:
                os.utime(path, ns=(self.now, self.now))
        self.now += 60_000_000_000

    def host(self, name: str, number: int, slot: int = 3, key: str | None = None) -> HostCard:
        card = HostCard(name, slot << 32 | number, key or curve.generate().public, slot)
        write_card(self.path / "hosts" / f"{name}.pub", card)
        return card

    def peer(self, id: str, slot: int, **changed: Any) -> StationCard:
        card = replace(self.config.card, id=id, slot=slot, key=curve.generate().public, **changed)
        write_card(self.path / "peers" / f"{id}.pub", card)
        return card


@pytest.fixture
def station(tmp_path: Path) -> Station:
    return Station(tmp_path / "hill")


def test_hosts_are_known_by_their_key(station: Station) -> None:
    bob, ann = station.host("bob", 2), station.host("ann", 1)
    directory: Directory = station.open()
    assert directory.changes() == [HostKnown(ann), HostKnown(bob)]
    assert directory.changes() == []
    assert directory.hosts() == [ann, bob]
    assert directory.host(ann.key) == ann
    assert directory.host(curve.generate().public) is None


def test_peers_are_known_by_their_key_in_the_order_of_their_slots(station: Station) -> None:
    dale, creek = station.peer("dale", 5), station.peer("creek", 9)
    directory = station.open()
    assert directory.stations() == [dale, creek]
    assert directory.station(creek.key) == creek
    assert directory.station(station.config.card.key) is None
    assert not any(isinstance(change, PeersChanged) for change in directory.changes())


def test_a_new_host_and_a_new_key_are_seen_while_it_runs(station: Station) -> None:
    ann = station.host("ann", 1)
    directory = station.open()
    directory.changes()
    bob = station.host("bob", 2)
    station.settle()
    assert directory.changes() == [HostKnown(bob)]
    other = station.host("ann", 1)
    station.settle()
    assert directory.changes() == [HostKnown(other)]
    assert directory.host(ann.key) is None and directory.host(other.key) == other


def test_a_change_within_the_same_tick_of_the_clock_is_seen(station: Station) -> None:
    directory = station.open()
    directory.changes()
    ann = station.host("ann", 1)
    times = [(path, (path.stat().st_atime_ns, path.stat().st_mtime_ns)) for path in (station.path / "hosts",)]
    station.now = times[0][1][1] + 1_000
    assert directory.changes() == [HostKnown(ann)]
    bob = station.host("bob", 2)
    for path, ns in times:
        os.utime(path, ns=ns)  # the folder's time does not show the second host
    assert directory.changes() == [HostKnown(bob)]


def test_a_revoked_host_is_not_let_in_and_told_once(station: Station) -> None:
    ann, bob = station.host("ann", 1), station.host("bob", 2)
    write_revoked(station.path, "bob")
    directory = station.open()
    assert HostRevoked(bob) in directory.changes()
    assert directory.host(bob.key) is None and directory.hosts() == [ann] and directory.revoked() == [bob]
    write_revoked(station.path, "ann")
    station.settle()
    assert directory.changes() == [HostRevoked(ann)]
    assert directory.host(ann.key) is None
    assert directory.changes() == []


def test_a_host_that_was_revoked_before_its_card_came_is_not_let_in(station: Station) -> None:
    write_revoked(station.path, "ann")
    directory = station.open()
    directory.changes()
    ann = station.host("ann", 1)
    station.settle()
    assert directory.changes() == [HostKnown(ann), HostRevoked(ann)]
    assert directory.host(ann.key) is None


def test_a_damaged_card_stops_nobody_else_and_is_told_once(station: Station) -> None:
    ann = station.host("ann", 1)
    (station.path / "hosts" / "bob.pub").write_text("name = ")
    directory = station.open()
    first = directory.changes()
    assert HostKnown(ann) in first
    (fault,) = [change for change in first if isinstance(change, Fault)]
    assert "bob.pub is damaged" in fault.text
    assert directory.changes() == []
    (station.path / "hosts" / "bob.pub").unlink()
    bob = station.host("bob", 2)
    station.settle()
    assert directory.changes() == [HostKnown(bob)]


def test_a_card_that_gets_damaged_keeps_its_last_good_state(station: Station) -> None:
    ann = station.host("ann", 1)
    directory = station.open()
    directory.changes()
    (station.path / "hosts" / "ann.pub").unlink()
    (station.path / "hosts" / "ann.pub").write_text("")
    station.settle()
    assert [type(change) for change in directory.changes()] == [Fault]
    assert directory.host(ann.key) == ann


def test_a_card_that_is_taken_away_takes_its_host_out(station: Station) -> None:
    ann = station.host("ann", 1)
    directory = station.open()
    directory.changes()
    (station.path / "hosts" / "ann.pub").unlink()
    station.settle()
    assert directory.changes() == []
    assert directory.host(ann.key) is None


def test_a_fault_that_leaves_no_trace_when_it_is_mended_is_looked_at_again(station: Station) -> None:
    """BL-36: a check of keys that fails for a while, for a reason that no time of change shows."""
    ann = station.host("ann", 1)
    path = station.path / "hosts" / "ann.pub"
    good = path.read_bytes()
    path.write_bytes(b"#" * len(good))
    station.settle()
    stamp = path.stat().st_mtime_ns
    directory = station.open()
    assert [type(change) for change in directory.changes()] == [Fault]
    path.write_bytes(good)
    os.utime(path, ns=(stamp, stamp))
    assert directory.changes() == [HostKnown(ann)]


@pytest.mark.parametrize("same", ["number", "key", "file name"])
def test_of_two_cards_that_claim_the_same_the_first_holds(station: Station, same: str) -> None:
    ann = station.host("ann", 1)
    if same == "file name":
        write_card(station.path / "hosts" / "bob.pub", replace(ann, name="carl", number=ann.number + 1))
    else:
        station.host("bob", 1 if same == "number" else 2, key=ann.key if same == "key" else None)
    directory = station.open()
    changes = directory.changes()
    (fault,) = [change for change in changes if isinstance(change, Fault)]
    assert "bob.pub" in fault.text
    assert directory.hosts() == [ann]


def test_wrong_peers_stop_the_start(station: Station) -> None:
    own = station.config.card
    for wrong, text in (
        (replace(own, id="dale", slot=3, key=curve.generate().public), "is that of this station"),
        (replace(own, id="dale", slot=4), "is that of this station"),
        (replace(own, id="dale", slot=4, key=curve.generate().public, group="float"), "belongs to group 'float'"),
    ):
        write_card(station.path / "peers" / "dale.pub", wrong)
        with pytest.raises(KeyFileError, match=text):
            station.open()


def test_peers_that_change_while_it_runs_are_told(station: Station) -> None:
    dale = station.peer("dale", 5)
    directory = station.open()
    directory.changes()
    creek = station.peer("creek", 9)
    station.settle()
    assert directory.changes() == [PeersChanged()]
    assert directory.stations() == [dale, creek]
    station.peer("hill", 3)
    station.settle()
    assert [type(change) for change in directory.changes()] == [Fault]
    assert directory.stations() == [dale, creek]


def test_the_first_peer_of_a_running_station_is_told_too(station: Station) -> None:
    directory = station.open()
    directory.changes()
    station.peer("dale", 5)
    station.settle()
    assert directory.changes() == [PeersChanged()]


def test_settings_come_from_station_toml_and_change_while_it_runs(station: Station) -> None:
    path = station.path / "station.toml"
    plain = path.read_text()
    path.write_text(plain + "window_entries = 64\n")
    directory = station.open()
    assert directory.settings() == Settings(window_entries=64)
    assert directory.changes() == []
    path.write_text(plain + "heartbeat = 1_000_000\n")
    station.settle()
    assert directory.changes() == [SettingsChanged(Settings(heartbeat=1_000_000))]
    path.write_text(plain + "heartbeat = 0\n")
    station.settle()
    (fault,) = directory.changes()
    assert isinstance(fault, Fault) and "heartbeat must be an integer from 1" in fault.text
    assert directory.changes() == [], "told once"
    assert directory.settings().heartbeat == 1_000_000


def test_what_needs_a_restart_is_told(station: Station) -> None:
    directory = station.open()
    directory.changes()
    path = station.path / "station.toml"
    path.write_text(path.read_text().replace("tcp://10.0.0.3:7001", "tcp://10.0.0.3:7999"))
    station.settle()
    (fault,) = directory.changes()
    assert isinstance(fault, Fault) and "restart" in fault.text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"window": 1}, r"unknown name 'window'; did you mean send_window, window_bytes, window_entries"),
        ({"away-max": 1}, r"unknown name 'away-max'; did you mean .*away_max"),
        ({"heartbeat": "5s"}, r"heartbeat must be an integer from 1 to \d+, not '5s'"),
        ({"heartbeat": True}, "heartbeat must be an integer"),
        ({"heartbeat": -1}, "heartbeat must be an integer"),
        ({"heartbeat": 1.5}, "heartbeat must be an integer"),
        ({"message_bytes_max": 262_145}, "message_bytes_max must be an integer from 1 to 262144"),
        ({"poll_timeout": 5_000_000}, "poll_timeout_max must not be below poll_timeout"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_would_do(values: dict[str, Any], text: str) -> None:
    with pytest.raises(KeyFileError, match=text):
        read_settings(values, "station.toml")


def test_defaults_are_good_settings() -> None:
    assert read_settings({}, "station.toml") == Settings()
    ours = {name: getattr(Settings(), name) for name in Settings.__slots__}
    assert read_settings(ours, "station.toml") == Settings()
