"""What the benchmark says of live messages: what hosts count and judge, and the tables, at sizes that take no time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from bench import live_flood, live_load, live_tables
from bench.child import ChildFailed
from bench.light_host import STAMP, Counts
from bench.live_fleet import LiveFleet
from bench.live_host import HEAD, Given, LiveStationHost, Reading
from bench.plan import quick_plan

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Data, LiveData, LiveMsg, LiveRefused, Welcome
from roamcast.middleware.rows import Item, Kind
from roamcast.transport.codec import decode_up, encode_down, encode_item, encode_msg

DEADLINE_US = 50_000


@pytest.fixture
def router() -> Iterator[zmq.Socket[bytes]]:
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.bind("inproc://station")
    yield socket
    context.destroy(linger=0)


class Host:
    """A host, what it was given, and what its station gets."""

    def __init__(self, router: zmq.Socket[bytes]) -> None:
        self.router = router
        place = {
            "endpoint": "inproc://station", "key": None, "label": "1", "name": "h1", "slot": 1, "incarnation": 7,
        }  # fmt: skip
        self.given = Given(Reading(), DEADLINE_US)
        shared: Any = Counts(), OrderedDict(), OrderedDict(), self.given, OrderedDict()
        self.host = LiveStationHost(router.context, place, *shared)
        self.host.take(encode_down(Welcome(PROTOCOL_VERSION, 1, 0, False, 300, 1 << 18, 512)))

    def live(self, last: int, station: int, ago_us: int = 0, on_its_way_us: int = 0, left: int = 1_000_000) -> None:
        """A live message comes that was sent so long ago, and taken at once; handed down so long ago."""
        body = HEAD.pack(time.monotonic_ns() - 1_000 * ago_us, station) + b"body"
        taken_us = time.time_ns() // 1_000 - ago_us
        self.host.take(
            encode_down(
                LiveMsg(
                    last=last, id=(taken_us, station), sender="h2", incarnation32=7, kind=Kind.BROADCAST, topic="",
                    left=left, at=time.time_ns() // 1_000 - on_its_way_us, body=body,
                )
            )
        )  # fmt: skip

    def said(self) -> list[Any]:
        """What has come at the station."""
        found = []
        while self.router.poll(100):
            found.append(decode_up(self.router.recv_multipart()[1]))
        return found


@pytest.fixture
def host(router: zmq.Socket[bytes]) -> Host:
    return Host(router)


def test_ages_are_told_by_whether_the_sender_is_at_the_same_station(host: Host) -> None:
    host.live(300, 1, 2_000)
    host.live(300, 2, 9_000)
    host.live(300, 2, 11_000)
    told = host.given.told()
    assert (told["given"], told["one"]["count"], told["two"]["count"], told["older"]) == (3, 1, 2, 0)
    assert told["one"]["p50"] >= 2 and told["two"]["p50"] >= 9 and told["late"]["count"] == 0


def test_what_follows_a_frame_that_was_lost_does_not_count_as_given(host: Host) -> None:
    host.live(301, 1)
    assert (host.given.given, host.given.unfit) == (0, 1)
    item = encode_item(Item(1, 1, "h2", 7, 1, Kind.BROADCAST, STAMP.pack(5) + b"row"))
    host.host.take(encode_msg(300, 301, [(301, item)]))
    host.live(301, 1)
    assert (host.given.given, host.given.unfit) == (1, 1)


def test_late_is_what_the_reader_cannot_have_been_slow_by(host: Host) -> None:
    host.live(300, 1, DEADLINE_US + 30_000_000)
    assert host.given.told()["late"]["count"] == 1
    host.given.reading._busy = 60_000_000_000
    host.live(300, 1, DEADLINE_US + 30_000_000)
    told = host.given.told()
    assert (told["past"]["count"], told["late"]["count"]) == (2, 1), "it may have come in time, and lain unread"


def test_what_was_on_its_way_for_longer_than_it_had_left_is_not_given(host: Host) -> None:
    host.live(300, 1)
    host.live(300, 1, on_its_way_us=3_000_000, left=2_000_000)
    host.live(300, 1, on_its_way_us=1_000_000, left=2_000_000)
    assert (host.given.given, host.given.aged) == (2, 1)


def test_what_is_refused_is_counted_by_code(host: Host) -> None:
    host.host.take(encode_down(LiveRefused("busy", "no time")))
    assert host.given.told()["refused"] == {"busy": 1} and not host.host.counts.other


def test_a_live_message_follows_what_its_host_sent_before(host: Host) -> None:
    host.host.greet()
    host.host.publish(b"row")
    assert host.host.publish_live(64, DEADLINE_US)
    *_, row, live = host.said()
    assert isinstance(row, Data) and isinstance(live, LiveData)
    assert (live.number, live.deadline, len(live.body)) == (1, DEADLINE_US, 64)
    sent_ns, station = HEAD.unpack_from(live.body)
    assert 0 < sent_ns <= time.monotonic_ns() and station == 1


def test_what_a_socket_does_not_take_is_dropped_if_it_is_live_and_waits_if_not(router: zmq.Socket[bytes]) -> None:
    router.setsockopt(zmq.RCVHWM, 1)
    router.bind("inproc://full")
    host = Host(router)
    taken = 0
    while host.host.publish_live(64, DEADLINE_US) and taken < 5_000:
        taken += 1
    assert taken < 5_000
    host.host.publish(b"row")
    assert not host.host.push() and not host.host.publish_live(64, DEADLINE_US)
    host.said()
    assert host.host.push()


@pytest.mark.parametrize("most", [12.5, 90.0, 100.0, 733.0, 80_000.0])
def test_the_capacity_is_found_from_either_side(monkeypatch: pytest.MonkeyPatch, most: float) -> None:
    monkeypatch.setattr(live_load.Side, "_carries", lambda side, rate, plan: rate <= most)
    found = live_load.Side.capacity(live_load.Side.__new__(live_load.Side), quick_plan((2,)))
    assert min(most, live_load.LAST_RATE) / 1.1 <= found <= most


def test_nothing_carried_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_load.Side, "_carries", lambda side, rate, plan: False)
    with pytest.raises(ChildFailed, match="not even 12 live messages a second are carried"):
        live_load.Side.capacity(live_load.Side.__new__(live_load.Side), quick_plan((2,)))


def test_two_stations_and_two_relays_carry_a_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_load, "QUICK_FACTORS", (0.5,))
    monkeypatch.setattr(live_load.Side, "capacity", lambda side, plan: 100.0)
    found = live_load.measure(tmp_path, 2, quick_plan((2,)))
    (cell,) = found["cells"]
    for name in (live_load.STATION, live_load.BARE):
        assert 0 < cell[name]["given"] <= 7 * cell[name]["sent"], name
    assert "2 stations, 0.5 x" in live_tables.load([found])


def test_causes_are_shares_of_what_was_to_be_given() -> None:
    counts = {"live_shed": 10, "live_unsent": 4, "live_untaken": 7, "taken": 90, "given": 600}
    found = live_load.causes(counts, 700, 8, 2, 14)
    assert found == {
        live_load.SHED: 70 / 700, live_load.BETWEEN: 16 / 700, live_load.OVER: 14 / 700, live_load.UNREADY: 7 / 700,
    }  # fmt: skip


def round_of(lost: int = 0, late: int = 0) -> dict[str, Any]:
    way = {"count": 1, "p50": 2.0, "p99": 3.0, "most": 4.0}
    return {
        "one": way, "two": way, "lost": lost, "messages": 1, "live_given": 0, "counts": {"taken": 5},
        "flood": {"sent": 10, "untaken": 2, "seconds": 1.0}, "late": {"count": late, "most_ms": 1.0 * late},
        "past": {"count": late, "most_ms": 1.0 * late}, "durable_rate": 3.0, "missing": 0.1,
        "causes": dict.fromkeys(live_load.CAUSES, 0.01),
    }  # fmt: skip


@pytest.mark.parametrize(("lost", "late"), [(0, 0), (1, 0), (0, 1)])
def test_a_durable_message_lost_or_a_live_one_late_is_no_good(lost: int, late: int) -> None:
    names = list(live_tables.BESIDE)
    back = {"deadline_us": DEADLINE_US, "broadcasts": True, **live_flood.worst([round_of(), round_of(late=late)])}
    found = {
        "asked": 100.0,
        "flood": {name: live_flood.best([round_of(), round_of(lost)]) for name in names},
        "reverse": [back],
    }
    assert live_flood.is_good(found) == (not lost and not late)
    assert "flood elsewhere" in live_tables.flood(found)
    assert "deadline 50 ms, 3 broadcasts/s" in live_tables.reverse(found["reverse"])


def test_a_fleet_of_relays_needs_no_station() -> None:
    fleet = LiveFleet("bare", [])
    assert fleet._live.told()["given"] == 0
    fleet.close()
