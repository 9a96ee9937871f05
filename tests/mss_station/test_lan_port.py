"""The LAN update layer in the station's ticks: one transaction, sends behind it, what happens when they fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from roamcast.middleware.lan_update.records import Entry, LanAck, LanImage, LanPacket, LanWrite, Version
from roamcast.middleware.settings import MS, SECOND
from roamcast.mss_station import schema
from roamcast.mss_station.directory import Change, HostKnown, LanDirectory, SettingsChanged
from roamcast.mss_station.lan_port import LanPort
from roamcast.mss_station.schema import HostCard, StationRecord
from roamcast.mss_station.signing import Signer
from roamcast.mss_station.tally import Tally
from roamcast.transport.curve import generate
from roamcast.transport.station_codec import decode_peer
from roamcast.transport.station_files import StationCard

WALL = 1_700_000_000 * SECOND
CURVE = {id: generate().public for id in ("s1", "s2")}
SECRETS = {id: Ed25519PrivateKey.from_private_bytes(id.encode() * 16) for id in ("s1", "s2")}
SLOTS = {"s1": 1, "s2": 2}
ANN = HostCard("ann", 1 << 32 | 1, generate().public, 1)


def record(id: str) -> Entry:
    signing = SECRETS[id].public_key().public_bytes_raw().hex()
    value = StationRecord(id, SLOTS[id], SLOTS[id], f"tcp://{id}:1", f"tcp://{id}:2", (CURVE[id],), (signing,))
    entry = Entry(schema.station_key(id), Version(WALL, 0, id, 1), schema.station_value(value))
    return replace(entry, signature=Signer(SECRETS[id], "g").sign(entry))


class Station:
    """One station's port over an image that is its disk; frames that it sends wait in `sent`."""

    def __init__(self, id: str) -> None:
        self.slot = SLOTS[id]
        self.disk = LanImage({each.key: each for each in map(record, SLOTS)})
        signing = SECRETS[id].public_key().public_bytes_raw().hex()
        card = StationCard(id, self.slot, "g", self.slot, f"tcp://{id}:1", f"tcp://{id}:2", CURVE[id], signing)
        self.directory = LanDirectory(card, self.disk.entries)
        self.tally = Tally()
        self.sent: list[LanPacket | LanAck] = []
        self.takes: bool | None = True
        self.now = 0
        self.port = LanPort(card, self.copy(), Signer(SECRETS[id], "g"), self.directory, self.tally, self.send)

    def copy(self) -> LanImage:
        disk = self.disk
        return LanImage(dict(disk.entries), disk.alive, list(disk.found), {k: dict(v) for k, v in disk.history.items()})

    def send(self, slot: int, data: bytes) -> bool | None:
        frame = decode_peer(data)
        assert slot != self.slot and isinstance(frame, LanPacket | LanAck)
        if self.takes:
            self.sent.append(frame)
        return self.takes

    def tick(self, *inputs: Callable[[LanPort], object], commit: bool = True) -> tuple[list[LanWrite], list[Change]]:
        self.now += MS
        self.port.begin(self.now, WALL + self.now)
        before = len(self.sent)
        for each in inputs:
            each(self.port)
        writes, changes = self.port.flush()
        assert len(self.sent) == before, "nothing is sent before the commit"
        if commit:
            for write in writes:
                self.disk.apply(write)
            self.port.committed()
        return writes, changes

    def hear(self, slot: int, frame: LanPacket | LanAck, commit: bool = True) -> tuple[list[LanWrite], list[Change]]:
        return self.tick(lambda port: port.receive(slot, frame), commit=commit)

    def start_again(self) -> list[Change]:
        return self.port.start_again(self.copy())

    def taken(self) -> list[LanPacket | LanAck]:
        sent, self.sent = self.sent, []
        return sent


class Pair:
    """Two stations whose frames are carried by hand."""

    def __init__(self) -> None:
        self.one, self.other = Station("s1"), Station("s2")

    def settle(self) -> list[Change]:
        """Carry frames until none is under way; returns what the other station has learned."""
        learned: list[Change] = []
        while self.one.sent or self.other.sent:
            for source, target in ((self.one, self.other), (self.other, self.one)):
                for frame in source.taken():
                    _, changes = target.hear(source.slot, frame)
                    learned += changes if target is self.other else []
        return learned


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.one.tick()
    pair.other.tick()
    pair.settle()
    return pair


def test_what_is_put_at_one_station_is_learned_by_the_other(pair: Pair) -> None:
    writes, changes = pair.one.tick(lambda port: port.put("hosts/ann", schema.host_value(ANN)))
    assert writes and changes == [HostKnown(ANN)]
    assert pair.settle() == [HostKnown(ANN)]
    assert pair.other.directory.hosts() == [ANN]
    assert pair.other.disk.entries == pair.one.disk.entries


def test_a_packet_is_acknowledged_only_when_it_is_durable(pair: Pair) -> None:
    pair.one.tick(lambda port: port.put("hosts/ann", schema.host_value(ANN)))
    (packet,) = pair.one.taken()
    _, changes = pair.other.hear(1, packet, commit=False)
    assert changes == [HostKnown(ANN)] and pair.other.taken() == []
    pair.other.start_again()
    assert pair.other.directory.hosts() == [], "unlearned"
    pair.other.tick()
    assert not any(isinstance(frame, LanAck) for frame in pair.other.sent)
    pair.one.now += 3 * SECOND
    pair.one.tick()
    assert HostKnown(ANN) in pair.settle(), "and learned again"


def test_a_put_of_a_tick_that_was_rolled_back_never_was(pair: Pair) -> None:
    pair.one.tick(lambda port: port.put("settings/window-entries", schema.setting_value(7)), commit=False)
    assert pair.one.directory.settings().window_entries == 7
    (change,) = pair.one.start_again()
    assert isinstance(change, SettingsChanged) and change.settings.window_entries == 512
    pair.one.tick()
    assert pair.settle() == [] and "settings/window-entries" not in pair.other.disk.entries


def test_a_packet_for_a_peer_that_is_not_linked_waits_for_the_link(pair: Pair) -> None:
    pair.one.takes = None
    pair.one.tick(lambda port: port.put("hosts/ann", schema.host_value(ANN)))
    assert pair.one.taken() == [] and pair.one.port.lapsed() == []
    pair.one.takes = True
    pair.one.tick(lambda port: port.heard(2))
    assert HostKnown(ANN) in pair.settle()


def test_a_packet_that_a_full_link_did_not_take_has_failed_and_comes_again(pair: Pair) -> None:
    pair.one.takes = False
    pair.one.tick(lambda port: port.put("hosts/ann", schema.host_value(ANN)))
    assert pair.one.port.next_deadline() == 0
    pair.one.takes = True
    pair.one.tick()
    assert pair.one.port.lapsed() == [2]
    pair.one.now += 3 * SECOND
    pair.one.tick(lambda port: port.heard(2))
    assert HostKnown(ANN) in pair.settle() and pair.one.port.lapsed() == []


def test_an_entry_whose_signature_is_not_the_authors_is_refused_and_told(pair: Pair) -> None:
    pair.one.tick(lambda port: port.put("hosts/ann", schema.host_value(ANN)))
    (packet,) = pair.one.taken()
    assert isinstance(packet, LanPacket)
    (entry,) = packet.entries
    forged = replace(entry, value=schema.host_value(replace(ANN, key=generate().public)))
    _, changes = pair.other.hear(1, replace(packet, entries=(forged,)))
    assert changes == [] and "hosts/ann" not in pair.other.disk.entries
    assert pair.other.port.status()["dropped"] == {"bad-signature": 1}


def test_a_concurrent_write_that_lost_is_told_and_kept(pair: Pair) -> None:
    key = "settings/window-entries"
    pair.one.tick(lambda port: port.put(key, schema.setting_value(7)))
    pair.other.now += SECOND
    pair.other.tick(lambda port: port.put(key, schema.setting_value(9)))
    pair.settle()
    for station in (pair.one, pair.other):
        assert station.directory.settings().window_entries == 9
        assert station.tally.counters["notice.concurrent_write_lost"] == 1
        lost = [line for line in station.disk.history[key].values() if line.lost_to]
        assert [line.entry.version.node for line in lost] == ["s1"]


def test_the_status_names_what_is_wrong_with_the_configuration(pair: Pair) -> None:
    pair.one.tick(lambda port: port.put("settings/window-entries", b"\xff"))
    pair.settle()
    for station in (pair.one, pair.other):
        (fault,) = station.port.status()["faults"]
        assert "settings/window-entries" in fault
