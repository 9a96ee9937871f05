"""Host connections and the wired net as an adversary: what they may do, and what they may not."""

from __future__ import annotations

from random import Random

from roamcast.middleware.host_frames import Ack as UpAck
from roamcast.middleware.host_frames import DownFrame, Pong, UpFrame
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.simulator.links import Connection, LinkModel, RadioNet, WiredNet, on_the_wire
from roamcast.middleware.simulator.world import Trace, World
from roamcast.middleware.station_frames import DataBatch, Nack, PeerFrame, SpoolPart


class FakeHost:
    """Obeys the contract of HostSide."""

    name = "h1"
    number = 7

    def __init__(self) -> None:
        self.frozen_until = 0
        self.on = True
        self.heard: list[int] = []
        self.cuts: list[Connection] = []
        self.links: list[Connection] = []

    def covered(self, slot: int) -> bool:
        return self.on

    def linked(self, connection: Connection) -> None:
        self.links.append(connection)

    def cut(self, connection: Connection, reason: str) -> None:
        self.cuts.append(connection)

    def hear(self, connection: Connection, frame: DownFrame) -> None:
        assert isinstance(frame, Pong)
        self.heard.append(frame.sent)


class FakeStation:
    """Obeys the contract of StationSide."""

    slot = 1
    life = 1

    def __init__(self) -> None:
        self.up = True
        self.known = True
        self.heard: list[int] = []
        self.frames: list[tuple[int, PeerFrame]] = []

    def admits(self, number: int) -> bool:
        return self.known

    def hear_host(self, connection: Connection, frame: UpFrame) -> None:
        assert isinstance(frame, UpAck)
        self.heard.append(frame.c)

    def hear_peer(self, slot: int, frame: PeerFrame) -> None:
        self.frames.append((slot, frame))


class Radio:
    def __init__(self, seed: int, **knobs: float) -> None:
        self.world = World()
        model = LinkModel(**knobs)  # type: ignore[arg-type]
        self.net = RadioNet(self.world, Trace(self.world, lambda event: None), model, Random(seed))
        self.host, self.station = FakeHost(), FakeStation()
        self.connection = self.net.connect(self.host, self.station)

    def run(self, duration: int = 1_000_000) -> None:
        assert self.world.run_until(self.world.now + duration, 10_000)


def test_a_living_connection_is_fifo_both_ways_and_loses_nothing() -> None:
    for seed in range(20):
        radio = Radio(seed)
        for number in range(30):
            radio.net.send_up(radio.connection, UpAck(1, number))
        radio.run()
        assert radio.host.links == [radio.connection]
        for number in range(30):
            assert radio.net.send_down(radio.connection, Pong(number)) == "sent"
            radio.run(100)
        radio.run()
        assert radio.station.heard == radio.host.heard == list(range(30))


def test_a_cut_loses_a_suffix_in_each_direction() -> None:
    ends = []
    for seed in range(60):
        radio = Radio(seed)
        radio.run()
        for number in range(10):
            radio.net.send_up(radio.connection, UpAck(1, number))
            radio.net.send_down(radio.connection, Pong(number))
        radio.run(2_500)
        radio.net.break_(radio.connection)
        radio.net.send_up(radio.connection, UpAck(1, 99))
        radio.run()
        for heard in (radio.station.heard, radio.host.heard):
            assert heard == list(range(len(heard)))
        ends.append((len(radio.station.heard), len(radio.host.heard)))
    assert len(dict.fromkeys(ends)) > 10


def test_either_side_may_notice_a_cut_first_or_never() -> None:
    seen = []
    for seed in range(60):
        radio = Radio(seed)
        radio.run()
        radio.net.break_(radio.connection)
        radio.run()
        seen.append((bool(radio.host.cuts), radio.net.send_down(radio.connection, Pong(1))))
    assert sorted(dict.fromkeys(seen)) == [(False, "lost"), (False, "sent"), (True, "lost"), (True, "sent")]


def test_frames_of_a_closed_connection_may_arrive_late_but_none_comes_down() -> None:
    late = 0
    for seed in range(60):
        radio = Radio(seed)
        radio.run()
        radio.net.send_up(radio.connection, UpAck(1, 0))
        radio.net.send_down(radio.connection, Pong(0))
        radio.net.close(radio.connection)
        radio.run(6_000)
        early = len(radio.station.heard)
        radio.run()
        late += len(radio.station.heard) - early
        assert radio.host.heard == []
    assert late > 5


def test_a_frame_can_vanish_inside_a_session() -> None:
    radio = Radio(3, radio_loss=0.5)
    radio.run()
    for number in range(40):
        radio.net.send_down(radio.connection, Pong(number))
    radio.run()
    assert 5 < len(radio.host.heard) < 35
    assert radio.host.heard == sorted(radio.host.heard)


def test_a_full_queue_refuses_and_a_frozen_host_fills_it() -> None:
    radio = Radio(1, queue_max=3)
    radio.run()
    radio.host.frozen_until = radio.world.now + 50_000
    assert [radio.net.send_down(radio.connection, Pong(number)) for number in range(4)] == ["sent"] * 3 + ["full"]
    radio.run(40_000)
    assert radio.host.heard == []
    radio.run()
    assert radio.host.heard == [0, 1, 2]


def test_no_handshake_without_station_coverage_or_key() -> None:
    for obstacle in ("up", "on", "known"):
        radio = Radio(1)
        setattr(radio.host if obstacle == "on" else radio.station, obstacle, False)
        radio.net.send_up(radio.connection, UpAck(1, 0))
        radio.run()
        assert (radio.host.links, radio.station.heard, radio.connection.cut) == ([], [], True)


def test_a_connection_dies_with_the_process_of_the_station() -> None:
    radio = Radio(1)
    radio.run()
    radio.station.life = 2
    radio.net.send_up(radio.connection, UpAck(1, 0))
    radio.run()
    assert radio.station.heard == []


def wired(seed: int, **knobs: float) -> tuple[World, WiredNet, FakeStation]:
    world, station = World(), FakeStation()
    net = WiredNet(world, LinkModel(**knobs), Random(seed), {1: station, 2: FakeStation()})  # type: ignore[arg-type]
    return world, net, station


def test_the_wired_net_loses_repeats_and_reorders() -> None:
    world, net, station = wired(4, wired_loss=0.3, wired_repeat=0.3)
    for number in range(1, 101):
        net.send(2, 1, Nack(2, number, number))
    world.run_until(1_000_000, 10_000)
    arrived = [frame.first for _, frame in station.frames if isinstance(frame, Nack)]
    assert len(dict.fromkeys(arrived)) < 95
    assert len(arrived) > len(dict.fromkeys(arrived))
    assert arrived != sorted(arrived)


def test_a_partition_lasts_until_its_time_or_the_healing() -> None:
    world, net, station = wired(4)
    net.partition(1, 2, 1_000)
    net.send(2, 1, Nack(2, 1, 1))
    assert not net.answers(2, 1)
    world.run_until(1_000, 100)
    assert net.answers(2, 1)
    net.partition(2, 1, 5_000_000)
    net.heal()
    net.send(2, 1, Nack(2, 2, 2))
    world.run_until(1_000_000, 100)
    assert station.frames == [(2, Nack(2, 2, 2))]


def test_rows_arrive_as_copies_without_position_and_with_their_item() -> None:
    row = Row(2, 1, (), 5, Kind.BROADCAST, 9, 8, 1, (1, 0), 0, None, 4, position=17)
    sent = on_the_wire(DataBatch(2, (row,)), lambda slot, n: b"from the store")
    assert isinstance(sent, DataBatch)
    (copy,) = sent.rows
    assert copy is not row
    assert (copy.position, copy.item, copy.id) == (None, b"from the store", (2, 1))
    assert on_the_wire(SpoolPart((1, 1), 1, 0, 1, ()), lambda slot, n: b"") == SpoolPart((1, 1), 1, 0, 1, ())


def test_a_tap_sees_what_is_sent() -> None:
    radio = Radio(1)
    radio.run()
    seen: list[UpFrame | DownFrame] = []
    radio.net.tap = seen.append
    radio.net.send_down(radio.connection, Pong(1))
    radio.net.send_up(radio.connection, UpAck(1, 2))
    assert seen == [Pong(1), UpAck(1, 2)]
