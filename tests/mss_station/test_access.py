"""Who may come in: by key, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from roamcast.middleware.settings import SECOND
from roamcast.mss_station.access import HANDSHAKES_BURST, Access
from roamcast.mss_station.directory import FileDirectory
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import generate
from roamcast.transport.station_files import HostCard, StationCard, create_station, write_card
from roamcast.transport.station_sockets import HOSTS, STATIONS
from roamcast.transport.zap import TRY_LATER

ANN, BOB, DALE = (generate().public for _ in range(3))


class Door:
    """The access of a station that knows the hosts ann and bob, and the station dale."""

    def __init__(self, path: Path) -> None:
        create_station(path, id="hill", slot=3, group="g", hosts="tcp://10.0.0.3:1", stations="tcp://10.0.0.3:2")
        write_card(
            path / "peers" / "dale.pub", StationCard("dale", 4, "g", 9, "tcp://a:1", "tcp://a:2", DALE, "0" * 64)
        )
        for number, (name, key) in enumerate((("ann", ANN), ("bob", BOB)), start=1):
            write_card(path / "hosts" / f"{name}.pub", HostCard(name, 3 << 32 | number, key, 3))
        directory = FileDirectory(path)
        directory.changes()
        self.now = 0
        self.tally = Tally()
        self.access = Access(directory, 1_000_000, self.tally, lambda: self.now)

    def ask(self, domain: str, key: str) -> str | None:
        return self.access.allow(domain, key, "10.0.0.9")


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path / "hill")


def test_a_key_opens_its_own_door_only(door: Door) -> None:
    assert [door.ask(HOSTS, key) for key in (ANN, DALE, generate().public)] == ["host:ann", None, None]
    assert [door.ask(STATIONS, key) for key in (DALE, ANN)] == ["station:dale", None]
    assert door.ask("other", ANN) is None


@pytest.mark.parametrize(
    ("domain", "key", "user"),
    [(HOSTS, ANN, "host:ann"), (STATIONS, DALE, "station:dale")],
    ids=["hosts", "stations"],
)
def test_one_key_cannot_come_without_end(door: Door, domain: str, key: str, user: str) -> None:
    """Each connection takes a file until it is closed by its client, and moves the ROUTER's count of ids on by one."""
    answers = [door.ask(domain, key) for _ in range(HANDSHAKES_BURST + 2)]
    assert answers == [user] * HANDSHAKES_BURST + [TRY_LATER] * 2
    assert door.tally.counters["refused.handshake_rate"] == 2
    assert door.ask(HOSTS, BOB) == "host:bob", "nobody else waits for it"
    door.now = SECOND
    assert [door.ask(domain, key) for _ in range(2)] == [user, TRY_LATER]


def test_a_banned_host_stays_out_for_its_time(door: Door) -> None:
    door.access.ban("ann", 5 * SECOND)
    door.access.ban("unknown", 5 * SECOND)
    assert [door.ask(HOSTS, key) for key in (ANN, BOB)] == [None, "host:bob"]
    door.now = 5 * SECOND
    assert door.ask(HOSTS, ANN) == "host:ann"
