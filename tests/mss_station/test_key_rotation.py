"""A rotation in a running station: what is waited for, in which order, and a disk that is full in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.mss_station import rotation, schema
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.errors import WrongUse
from roamcast.mss_station.key_rotation import KeyRotation
from roamcast.mss_station.own_record import wanted_record
from roamcast.mss_station.tally import Tally
from roamcast.transport.errors import KeyFileError
from roamcast.transport.station_files import StationConfig, create_station, read_station


class Probes:
    """Peers that let a key in when the test says so."""

    def __init__(self) -> None:
        self.missing = ["dale", "glen"]
        self.looks = 0
        self.closed = False

    def look(self, peers: object, now: int) -> list[str]:
        self.looks += 1
        return list(self.missing)

    def close(self) -> None:
        self.closed = True


class Rotating:
    """The station hill with its rotation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: StationConfig = create_station(
            path, id="hill", slot=3, group="g", hosts="tcp://10.0.0.3:1", stations="tcp://10.0.0.3:2"
        )
        self.directory = LanDirectory(self.config.card, {})
        self.due = False
        self.taken_over = 0
        self.tally = Tally()
        self.start()

    def start(self) -> None:
        self.probes = Probes()
        self.rotation = KeyRotation(
            self.path,
            self.directory,
            lambda keys: self.probes,  # type: ignore[arg-type, return-value]
            lambda: {"glen": ("tcp://g:2", "k"), "dale": ("tcp://d:2", "k")},
            self.announce,
            self.take_over,
            self.tally,
        )

    def announce(self) -> None:
        self.due = True

    def take_over(self) -> None:
        self.taken_over += 1
        self.config = read_station(self.path)

    def publish(self) -> None:
        """As OwnRecord does, and it is durable."""
        record = wanted_record(self.path, self.config.card, self.directory.own_record())
        key = schema.station_key("hill")
        self.directory.apply(Entry(key, Version(1, 0, "hill", 1), schema.station_value(record)))
        self.due = False

    def known(self) -> tuple[str, ...]:
        return self.directory.keys("hill")


@pytest.fixture
def rotating(tmp_path: Path) -> Rotating:
    return Rotating(tmp_path / "hill")


def test_peers_are_asked_once_they_can_know_the_key_and_the_switch_waits_for_all(rotating: Rotating) -> None:
    with pytest.raises(WrongUse):
        rotating.rotation.begin()
    rotating.publish()
    old = rotating.config.card.key
    assert rotating.rotation.waits_for() is None
    rotating.rotation.begin()
    assert rotating.due and rotating.rotation.waits_for() == ["dale", "glen"]
    rotating.rotation.look(0)
    assert rotating.probes.looks == 0, "the record is not durable yet"
    rotating.publish()
    assert rotating.known()[1] == old
    rotating.rotation.look(1)
    rotating.probes.missing = ["glen"]
    rotating.rotation.look(2)
    assert rotating.rotation.waits_for() == ["glen"] and rotating.taken_over == 0
    rotating.probes.missing = []
    rotating.rotation.look(3)
    assert rotating.taken_over == 1 and rotating.due and rotating.probes.closed
    assert rotating.rotation.waits_for() is None and rotating.config.card.key == rotating.known()[0] != old
    rotating.publish()
    assert rotating.known() == (rotating.config.card.key,)
    rotating.rotation.look(4)
    assert rotating.taken_over == 1


def test_a_start_goes_on_with_it(rotating: Rotating) -> None:
    rotating.publish()
    rotating.rotation.begin()
    rotating.publish()
    rotating.start()
    assert rotating.rotation.waits_for() == ["dale", "glen"]
    rotating.probes.missing = []
    rotating.rotation.look(0)
    assert rotating.taken_over == 1


def test_a_switch_that_the_disk_does_not_take_is_tried_again(
    rotating: Rotating, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotating.publish()
    rotating.rotation.begin()
    rotating.publish()
    rotating.probes.missing = []

    def full(path: Path, text: str, mode: int = 0) -> None:
        raise KeyFileError(f"{path} cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(rotation, "replace_file", full)
        rotating.rotation.look(0)
    assert rotating.taken_over == 0 and rotating.tally.counters["notice.keys_not_switched"] == 1
    assert rotating.rotation.waits_for() == []
    rotating.rotation.look(1)
    assert rotating.taken_over == 1 and rotation.pending(rotating.path) is None


def test_a_record_that_says_something_else_is_not_taken_for_the_announcement(rotating: Rotating) -> None:
    rotating.publish()
    rotating.rotation.begin()
    rotating.publish()
    record = rotating.directory.own_record()
    assert record is not None
    back = replace(record, keys=record.keys[1:])
    rotating.directory.apply(Entry("stations/hill", Version(2, 0, "dale", 1), schema.station_value(back)))
    rotating.probes.missing = []
    rotating.rotation.look(0)
    assert rotating.taken_over == 0 and rotating.probes.looks == 0
