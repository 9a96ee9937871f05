"""What must be true when nothing happens any more (I10, O10, O11, idle promise of Q5). The stores may be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roamcast.middleware.host_frames import Ping, Pong
from roamcast.middleware.station_frames import Claims, PeerFrame
from roamcast.middleware.writes import RecordImage

if TYPE_CHECKING:
    from roamcast.middleware.simulator.host_node import HostNode
    from roamcast.middleware.simulator.run import Simulation

QUESTIONS = ("Query", "Probe", "NoRec", "Cancel", "Spooled", "Expire", "XAck", "Accept", "Released", "GroupQuery")
"""Custody frames that a host which vanished in mid-handoff may still cause, ever more rarely."""


def undrained(simulation: Simulation) -> list[str]:
    """Rows that a station still holds: none may stay for a host that is away, since it has its spool."""
    left = []
    for slot in simulation.slots:
        station = simulation.stations[slot]
        station.disk.sync()
        rows = station.disk.state.rows
        if rows:
            waiting = sum(row.position is None for row in rows.values())
            left.append(f"station {slot} holds {len(rows)} rows ({waiting} undelivered), the first is {min(rows)}")
    return left


def unsettled(simulation: Simulation, living: Sequence[HostNode]) -> list[str]:
    """Spools not yet acknowledged, and hosts without exactly one open, unlinked custody record."""
    left = simulation.operators.unfinished()
    for slot in simulation.slots:
        station = simulation.stations[slot]
        station.disk.sync()
        state = station.disk.state
        spooled = [key for key, entries in state.spools.items() if entries and _lives(key[0], living)]
        if spooled:
            left.append(f"station {slot} still holds a spool of record {spooled[0]}")
        kept = {(value.slot, value.n) for value in state.last.values()}
        if (idle := state.items.keys() - kept) and not any(state.spools.values()):
            left.append(f"station {slot} holds items {sorted(idle)[:3]} that no spool and no topic names")
    for host in living:
        left += _custody(simulation, host)
    return left


def _custody(simulation: Simulation, host: HostNode) -> list[str]:
    incarnation = host.disk.state.incarnation
    records = [
        (slot, record)
        for slot in simulation.slots
        for record in simulation.stations[slot].disk.state.records.values()
        if record.mh[0] == host.number and record.state != "tomb" and not _never_joined(record, incarnation)
    ]
    if len(records) == 1:
        record = records[0][1]
        if record.state == "open" and not record.link and record.mh[1] == incarnation:
            return []
    words = [f"{record.state} record ({record.mh[1] & 0xFFFF:04x}, {record.arr}) at {slot}" for slot, record in records]
    return [f"{host.name} ({incarnation & 0xFFFF:04x}) has {', '.join(words) or 'no custody record'}"]


def _never_joined(record: RecordImage, incarnation: int) -> bool:
    """A join that an incarnation, gone since, never confirmed: it holds nothing and goes when its time is up."""
    return bool(record.join) and record.mh[1] != incarnation


def _lives(number: int, living: Sequence[HostNode]) -> bool:
    return any(host.number == number for host in living)


class Meter:
    """Counts what is sent from now on. The idle promise: one CLAIMS per station and heartbeat, and pings."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._since = simulation.world.now
        self._claims = dict.fromkeys(simulation.slots, 0)
        self._noise: list[str] = []
        lost = bool(simulation.operators.lost)  # and with it, perhaps, a LEAVE
        vanished = any(host.vanished or (lost and host.left) for host in simulation.hosts)
        self._excused = QUESTIONS if vanished or simulation.options.expiry else ()
        simulation.wired.tap = self._wired
        simulation.radio.tap = self._radio

    def _wired(self, slot: int, frame: PeerFrame) -> None:
        if isinstance(frame, Claims):
            self._claims[slot] += 1
        elif type(frame).__name__ not in self._excused:
            self._noise.append(f"{type(frame).__name__} of station {slot} at {self._simulation.world.now} us")

    def _radio(self, frame: Any) -> None:
        if not isinstance(frame, (Ping, Pong)):
            self._noise.append(f"{type(frame).__name__} on a host link at {self._simulation.world.now} us")

    def noise(self) -> list[str]:
        """What else was sent; stops counting."""
        self._simulation.wired.tap = self._simulation.radio.tap = None
        peers = len(self._simulation.slots) - 1
        beats = 1 + (self._simulation.world.now - self._since) // self._simulation.options.heartbeat
        for slot, count in self._claims.items():
            if count > beats * peers:
                self._noise.append(f"{count} CLAIMS of station {slot} to {peers} peers in {beats} heartbeats")
        return self._noise
