"""The group's record of this station: true after every start, and never revived once it is over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roamcast.middleware.lan_update.errors import LanRefused
from roamcast.middleware.lan_update.records import Version
from roamcast.middleware.membership.view import View
from roamcast.mss_station import rotation, schema
from roamcast.mss_station.errors import StationRetired
from roamcast.mss_station.own_record import OwnRecord, check_membership, wanted_record
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.tally import Tally
from roamcast.transport.map_codec import decode_map, encode_map
from roamcast.transport.station_files import StationConfig, create_station

HOSTS, STATIONS = "tcp://10.0.0.3:1", "tcp://10.0.0.3:2"


class Home:
    """A station's directory, and the group's record of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: StationConfig = create_station(path, id="hill", slot=3, group="g", hosts=HOSTS, stations=STATIONS)
        self.value: bytes | None = None
        self.refuses = False
        self.puts = 0
        self.tally = Tally()
        self.own = OwnRecord(path, self.config.card, self.read, lambda: None, self.put, self.tally)

    def read(self) -> tuple[bytes | None, StationRecord | None]:
        return self.value, None if self.value is None else schema.read_station("stations/hill", self.value)

    def put(self, key: str, value: bytes) -> Version:
        assert key == "stations/hill"
        if self.refuses:
            raise LanRefused("away too long")
        self.puts += 1
        self.value = value
        return Version(1, 0, "hill", 1)

    def record(self) -> StationRecord:
        record = self.read()[1]
        assert record is not None
        return record


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "hill")


def test_a_first_record_says_what_the_files_say(home: Home) -> None:
    home.own.publish()
    record, card = home.record(), home.config.card
    assert (record.id, record.slot, record.generation, record.state) == ("hill", 3, card.generation, "active")
    assert (record.hosts, record.stations) == (HOSTS, STATIONS)
    assert (record.keys, record.signing, record.host_key) == ((card.key,), (card.signing_key,), card.key)


def test_nothing_is_put_while_it_is_true(home: Home) -> None:
    home.own.publish()
    home.own.due = True
    home.own.publish()
    home.own.publish()
    assert home.puts == 1


def test_a_new_address_is_told_and_the_rest_is_kept(home: Home) -> None:
    home.own.publish()
    assert home.value is not None
    moved = decode_map(home.value) | {"stations": "tcp://old:2", "clusters": [1], "heir": None}
    home.value = encode_map(moved)
    home.own.due = True
    home.own.publish()
    assert home.record().stations == STATIONS and decode_map(home.value)["clusters"] == [1]


def test_a_refused_put_is_tried_again(home: Home) -> None:
    home.refuses = True
    home.own.publish()
    assert home.value is None and home.tally.counters["notice.own_record_not_published"] == 1
    home.refuses = False
    home.own.publish()
    assert home.value is not None


def test_the_keys_of_a_rotation_are_announced_newest_first(home: Home) -> None:
    home.own.publish()
    coming = rotation.begin(home.path, home.record())
    wanted = wanted_record(home.path, home.config.card, home.record())
    assert wanted.keys == (coming.curve.public, home.config.card.key)
    assert wanted.signing == (coming.signing_key, home.config.card.signing_key)
    assert wanted.key_for_hosts == home.config.card.key, "hosts keep the key that they know"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"state": "retired"}, "it is retired"),
        ({"state": "lost"}, "it is lost"),
        ({"generation": 77}, "two stations have joined under one id"),
        ({"slot": 9}, "slot 9 under another generation"),
    ],
    ids=str,
)
def test_a_station_whose_membership_is_over_must_not_run(home: Home, changed: dict[str, str], said: str) -> None:
    home.own.publish()
    check_membership(home.config.card, home.record())
    check_membership(home.config.card, None)
    check_membership(home.config.card, replace(home.record(), state="retiring", heir="dale"))
    with pytest.raises(StationRetired, match=said):
        check_membership(home.config.card, replace(home.record(), **changed))  # type: ignore[arg-type]


def test_a_station_that_has_handed_over_runs_until_it_was_heard(home: Home) -> None:
    home.own.publish()
    card, record = home.config.card, replace(home.record(), state="retired", heir="dale")
    handed = View((3, 4), retiring=4, handing=True)
    check_membership(card, record, handed)
    with pytest.raises(StationRetired, match="it is retired"):
        check_membership(card, record, View((3, 4)))
    with pytest.raises(StationRetired, match="it is lost"):
        check_membership(card, replace(record, state="lost"), handed)


@pytest.mark.parametrize(("state", "said"), [("retired", "it is retired"), ("active", "it is no member any more")])
def test_a_station_that_was_told_of_its_end_must_not_run(home: Home, state: str, said: str) -> None:
    home.own.publish()
    told = View((3, 4), {3: (4, ())}, retiring=4, handing=True)
    with pytest.raises(StationRetired, match=said):
        check_membership(home.config.card, replace(home.record(), state=state), told)
