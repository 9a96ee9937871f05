"""What is told of the clusters: roles, who forwards, who is behind, what is parted; on the core's own books."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from roamcast.middleware.fifo_broadcast.core import FifoEntity
from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.membership.view import GroupView, View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station_frames import Beyond, Claims
from roamcast.middleware.writes import DurableState
from roamcast.mss_station import schema
from roamcast.mss_station.cluster_port import ClusterPort, lines
from roamcast.mss_station.directory import LanDirectory
from roamcast.mss_station.schema import StationRecord
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import generate
from roamcast.transport.station_files import StationCard

NAMES = {1: "ann", 2: "bay", 3: "cap", 4: "den", 5: "elm"}
KEYS = {slot: generate().public for slot in NAMES}
TWO = "north: ann bay cap / south: bay cap den / standbys: cap"


class Bench:
    """The port of one station; `elm` is named nowhere, so it is in the first cluster."""

    def __init__(self, own: int) -> None:
        self.now = 100 * SECOND
        self.view = View(tuple(NAMES))
        card = StationCard(NAMES[own], own, "g", 1, "tcp://x:1", "tcp://x:2", KEYS[own], "ab" * 32)
        self.directory = LanDirectory(card, {})
        for slot, id in NAMES.items():
            record = StationRecord(id, slot, slot, "tcp://x:1", "tcp://x:2", (KEYS[slot],), ("ab" * 32,))
            self.put(schema.station_key(id), schema.station_value(record))
        table = MessageTable(tuple(NAMES), DurableState())
        self.fifo = FifoEntity(own, self.view, Settings(), table, frozenset())
        server: Any = SimpleNamespace(
            core=SimpleNamespace(ledger=SimpleNamespace(fifo=self.fifo)), clock=SimpleNamespace(now=lambda: self.now)
        )
        self.tally = Tally()
        self.port = ClusterPort(self.directory, server, self.tally)

    def put(self, key: str, value: bytes) -> None:
        self.directory.apply(Entry(key, Version(1, 0, "ann", 7), value))

    def split(self, text: str = TWO) -> None:
        self.put(schema.setting_key("clusters"), schema.setting_value(text))
        self.fifo.set_layout(self.directory.layout())

    def hear(self, *slots: int, stored: int = 0, beyond: Beyond | None = None) -> None:
        """Claims of these stations: that they have so many rows of elm."""
        for slot in slots:
            self.fifo.hear(slot, self.now)
            told = ((5, stored),) if stored else ()
            view = GroupView(self.view.members)
            self.fifo.receive_claims(slot, Claims(True, told, (), (), 0, 9, (), view, beyond), self.now)

    def end(self, *slots: int) -> None:
        self.view = replace(self.view, closed=self.view.closed | dict.fromkeys(slots, (0, ())))
        self.fifo.follow(self.view)

    def status(self) -> Any:
        told = self.port.status()
        assert told is not None
        return told

    def text(self) -> str:
        return "\n".join(lines(self.port.status()))


def test_a_flat_group_has_nothing_to_tell() -> None:
    bench = Bench(1)
    bench.port.look()
    assert bench.port.status() is None and bench.text() == ""


@pytest.mark.parametrize(
    ("own", "clusters", "role", "forwards"),
    [
        (1, ["north"], "station", False),
        (2, ["north", "south"], "gateway", True),
        (3, ["north", "south"], "standby", False),
        (4, ["south"], "station", False),
        (5, ["north"], "station", False),
    ],
)
def test_each_station_knows_its_clusters_and_role(own: int, clusters: list[str], role: str, forwards: bool) -> None:
    bench = Bench(own)
    bench.split()
    bench.hear(*(slot for slot in NAMES if slot != own))
    told = bench.status()
    assert (told["own"], told["role"], told["forwards"]) == (clusters, role, forwards)
    assert [(one["name"], one["stations"]) for one in told["clusters"]] == [
        ("north", ["ann", "bay", "cap", "elm"]), ("south", ["bay", "cap", "den"]),
    ]  # fmt: skip
    (joint,) = told["joints"]
    assert joint == {
        "clusters": ["north", "south"], "gateways": ["bay", "cap"], "standbys": ["cap"], "forwards": "bay",
    }  # fmt: skip
    assert told["parted"] == []
    what = "" if role == "station" else f"a {role} "
    assert f"this station is {what}in {' and '.join(clusters)}\n" in bench.text()
    assert "between north and south: bay, cap (standby); bay forwards" in bench.text()


def test_a_standby_that_has_taken_over_is_told_in_status_and_log() -> None:
    bench = Bench(3)
    bench.split()
    bench.hear(1, 2, 4, 5)
    bench.port.look()
    bench.now += 14 * SECOND
    bench.hear(1, 4, 5)
    bench.port.look()
    assert "notice.gateway_changed" not in bench.tally.counters
    bench.now += 2 * SECOND
    bench.port.look()
    told = bench.status()
    assert (told["role"], told["forwards"], told["joints"][0]["forwards"]) == ("standby", True, "cap")
    assert "this station is a standby in north and south, and has taken over" in bench.text()
    assert "bay, cap (standby); cap forwards" in bench.text() and "bay is silent" in bench.text()
    assert bench.tally.counters["notice.gateway_changed"] == 1
    bench.hear(2)
    bench.port.look()
    assert not bench.status()["forwards"] and bench.tally.counters["notice.gateway_changed"] == 2


def test_who_forwards_between_other_clusters_is_known_from_gateways_that_see_them() -> None:
    bench = Bench(1)
    bench.split("a: ann bay cap / b: bay den elm / c: cap den")
    bench.now += 16 * SECOND

    def forwards() -> dict[str, str | None]:
        return {" ".join(joint["clusters"]): joint["forwards"] for joint in bench.status()["joints"]}

    for down, leader in (((), "den"), ((4,), None)):
        for gateway in (2, 3):
            bench.hear(gateway, beyond=Beyond(bench.fifo.place.mark, (), (), (), down))
        assert forwards() == {"a b": "bay", "a c": "cap", "b c": leader}
        bench.port.look()
    assert "notice.gateway_changed" not in bench.tally.counters, "that is told by those who see it"


def test_without_any_gateway_that_lives_nobody_forwards() -> None:
    bench = Bench(1)
    bench.split()
    bench.hear(2, 3, 5)
    bench.now += 16 * SECOND
    bench.hear(5)
    told = bench.status()
    assert told["joints"][0]["forwards"] is None and told["parted"] == []
    assert "bay, cap (standby); all are silent, so stations send to each other directly" in bench.text()


def test_who_is_behind_is_told_in_messages() -> None:
    bench = Bench(2)
    bench.split()
    bench.hear(5, stored=7)
    bench.now += 16 * SECOND
    bench.hear(1, stored=7)
    bench.hear(3, 4, stored=5)
    north, south = bench.status()["clusters"]
    assert [(one["station"], one["rows"], one["live"]) for one in north["behind"]] == [
        ("bay", 7, True), ("cap", 2, True), ("elm", 0, False),
    ]  # fmt: skip
    assert [(one["station"], one["rows"]) for one in south["behind"]] == [("bay", 7), ("cap", 2), ("den", 2)]
    shown = bench.text()
    assert "south: bay, cap, den; bay is 7 messages behind; cap is 2 messages behind; den is 2 messages behind" in shown
    assert "; elm is silent\n" in shown


def test_what_lies_beyond_a_gateway_is_told_as_the_gateway_knows_it() -> None:
    bench = Bench(1)
    bench.split()
    bench.hear(3, 5, stored=9)
    bench.hear(2, stored=9, beyond=Beyond(bench.fifo.place.mark, ((5, 6),), (), (), (4,)))
    (den,) = [one for one in bench.status()["clusters"][1]["behind"] if one["station"] == "den"]
    assert den == {"station": "den", "rows": None, "live": False}
    by_gateway = {one["gateway"]: (one["rows"], one["silent"]) for one in bench.status()["beyond"]}
    assert by_gateway["bay"] == (3, ["den"])
    assert "beyond bay: some stations lack messages, 3 at most; den not heard" in bench.text()


def test_parted_clusters_are_an_alarm() -> None:
    bench = Bench(1)
    bench.split()
    bench.hear(2, 3, 4, 5)
    bench.end(2)
    assert bench.status()["parted"] == [] and bench.status()["joints"][0]["gateways"] == ["cap"]
    bench.end(3)
    assert bench.status()["parted"] == [["north", "south"]]
    assert "alarm: north and south are parted, their gateways have ended" in bench.text()
    assert "clusters: not in use, see the alarm; by the setting this station is" in bench.text()
