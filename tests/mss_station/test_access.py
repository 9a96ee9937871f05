"""Who may come in: by key, and how often."""

from __future__ import annotations

import pytest

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.settings import SECOND
from roamcast.mss_station import schema
from roamcast.mss_station.access import HANDSHAKES_BURST, Access
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.schema import HostCard, StationRecord
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import generate
from roamcast.transport.publish_sockets import PUBLISH
from roamcast.transport.station_files import StationCard
from roamcast.transport.station_sockets import HOSTS, STATIONS
from roamcast.transport.zap import TRY_LATER

ANN, BOB, DALE, DALES_NEXT, CREEK, TOKEN = (generate().public for _ in range(6))
OWN = StationCard("hill", 3, "g", 8, "tcp://10.0.0.3:1", "tcp://10.0.0.3:2", generate().public, "0" * 64)


def entry(key: str, value: bytes) -> Entry:
    return Entry(key, Version(1, 0, "hill", 7), value)


class Door:
    """The access of a station that knows the hosts ann and bob, the station dale, and creek, which was retired."""

    def __init__(self) -> None:
        self.directory = LanDirectory(OWN, {})
        for number, (name, key) in enumerate((("ann", ANN), ("bob", BOB)), start=1):
            card = HostCard(name, 3 << 32 | number, key, 3)
            self.directory.apply(entry(schema.host_key(name), schema.host_value(card)))
        for record in (
            StationRecord("dale", 4, 9, "tcp://a:1", "tcp://a:2", (DALES_NEXT, DALE), ("0" * 64,)),
            StationRecord("creek", 5, 9, "tcp://b:1", "tcp://b:2", (CREEK,), ("1" * 64,), schema.RETIRED),
        ):
            self.directory.apply(entry(schema.station_key(record.id), schema.station_value(record)))
        self.now = 0
        self.tally = Tally()
        self.invited = {TOKEN}
        self.access = Access(self.directory, 1_000_000, self.tally, lambda: self.now, lambda key: key in self.invited)

    def ask(self, domain: str, key: str) -> str | None:
        return self.access.allow(domain, key, "10.0.0.9")


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_key_opens_its_own_door_only(door: Door) -> None:
    assert [door.ask(HOSTS, key) for key in (ANN, DALE, generate().public)] == ["host:ann", None, None]
    assert [door.ask(STATIONS, key) for key in (DALE, ANN)] == ["station:dale", None]
    assert door.ask("other", ANN) is None


def test_what_is_published_is_for_active_peers_alone(door: Door) -> None:
    """No host, no newcomer, nobody who has ended."""
    keys = (DALE, DALES_NEXT, CREEK, ANN, TOKEN)
    assert [door.ask(PUBLISH, key) for key in keys] == ["station:dale", "station:dale", None, None, None]


def test_a_station_comes_in_with_its_next_key_and_the_one_before(door: Door) -> None:
    assert [door.ask(STATIONS, key) for key in (DALES_NEXT, DALE)] == ["station:dale"] * 2
    assert door.access.slot_of("dale") == 4 and door.access.retired("dale") is None


def test_a_retired_station_comes_in_to_be_told(door: Door) -> None:
    assert door.ask(STATIONS, CREEK) == "station:creek"
    assert door.access.slot_of("creek") is None
    told = door.access.retired("creek")
    assert told is not None and "creek: it is retired" in told
    assert door.access.retired("nobody") is None


def test_an_invitation_opens_the_door_of_stations_for_a_join_until_it_is_over(door: Door) -> None:
    assert [door.ask(domain, TOKEN) for domain in (STATIONS, HOSTS)] == [f"join:{TOKEN}", None]
    assert door.access.slot_of(TOKEN) is None
    door.invited.clear()
    assert door.ask(STATIONS, TOKEN) is None


def test_a_revoked_host_is_let_in_no_more(door: Door) -> None:
    assert door.access.number_of("ann") == 3 << 32 | 1
    door.directory.apply(entry(schema.revocation_key("ann", ANN), schema.revocation_value()))
    assert door.ask(HOSTS, ANN) is None and door.access.number_of("ann") is None


@pytest.mark.parametrize(
    ("domain", "key", "user"),
    [(HOSTS, ANN, "host:ann"), (STATIONS, DALE, "station:dale"), (STATIONS, TOKEN, f"join:{TOKEN}")],
    ids=["hosts", "stations", "newcomers"],
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
