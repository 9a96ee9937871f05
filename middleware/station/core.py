"""The station's core: FIFO broadcast, causal delivery and custody over one message table.

The driver works in ticks: `begin`, any inputs, `expire`, `flush`. The effects of `flush` are ordered; every Persist
must be durable before anything behind it leaves the process. Source: overview sections 5-8, composition.md part 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.handoff import Handoff
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.retention import Retention
from roamcast.middleware.custody.sessions import Sessions
from roamcast.middleware.custody.uplink import Uplink
from roamcast.middleware.effects import Channel, Effect, Reject
from roamcast.middleware.host_frames import UpFrame
from roamcast.middleware.rows import CONTROL_KINDS, Item, Kind
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station.status import status
from roamcast.middleware.station_frames import Claims, DataBatch, Nack, PeerFrame
from roamcast.middleware.writes import DurableState, PlaceRow, PutRecord, PutRow

WALL_JUMP = 300 * SECOND


class StationCore:
    """One station, sans-IO. Every method but `status` and `next_deadline` belongs between `begin` and `flush`."""

    def __init__(
        self,
        *,
        slot: int,
        members: Sequence[int],
        settings: Settings,
        image: DurableState,
        encode_item: Callable[[Item], bytes],
        mutants: frozenset[str] = frozenset(),
    ) -> None:
        """Args: slot: own slot. members: all slots, own included. image: what the store holds; taken over.

        mutants: rules switched off, for tests that show that the rules are needed.
        """
        self.ledger = Ledger(slot, members, settings, image, encode_item, mutants)
        self.asking = Asking(self.ledger)
        self.downlink = Downlink(self.ledger)
        self.gate = Gate(self.ledger)
        self.expiry = Expiry(self.ledger, self.downlink, self.asking, self.gate)
        self.sessions = Sessions(self.ledger, self.downlink, self.asking, self.expiry, self.gate)
        self.uplink = Uplink(self.ledger, self.downlink, self.asking, self.expiry, self.gate, self.sessions)
        self.handoff = Handoff(self.ledger, self.sessions, self.asking, self.expiry, self.gate)
        self.retention = Retention(self.ledger, self.downlink, self.asking, self.expiry)
        self._closed_by_driver: str | None = None
        self._started = False
        self._silence_at = 0

    # ---- a tick ----

    def begin(self, now: int, wall: int) -> None:
        """Open a tick. now: monotonic, wall: UTC; microseconds."""
        ledger = self.ledger
        if not self._started:
            self._start(now, wall)
        elif abs((wall - now) - (ledger.wall - ledger.now)) > WALL_JUMP:
            ledger.clock_jumped_at = now
        ledger.now, ledger.wall = now, wall

    def _start(self, now: int, wall: int) -> None:
        """First tick of a life: finish what the last one accepted; every record is away from now on at the latest."""
        ledger = self.ledger
        self._started = True
        ledger.now, ledger.wall, ledger.clock_jumped_at = now, wall, now
        for record in ledger.all_records():
            record.away_from = now
            record.away_since = record.away_since or wall
            self.asking.schedule(record)
        for slot in ledger.fifo.members:
            self._deliver(slot)

    def flush(self) -> list[Effect]:
        """Close the tick: the ordered effects of everything since `begin`."""
        ledger = self.ledger
        self._deliver(ledger.own)
        ledger.out += ledger.fifo.pump(ledger.now)
        self.uplink.flush()
        self.downlink.flush()
        ledger.out += ledger.fifo.tick(ledger.now, ledger.hlc)
        out, ledger.out = ledger.out, []
        return out

    # ---- inputs ----

    def receive_host(self, channel: Channel, host: int, frame: UpFrame) -> None:
        """A host's frame; `host` is the number of the name that the driver authenticated."""
        self.uplink.receive(channel, host, frame)
        self._deliver(self.ledger.own)

    def receive_peer(self, slot: int, frame: PeerFrame) -> None:
        """A frame of the linked station `slot`."""
        ledger = self.ledger
        if slot not in ledger.fifo.peers:
            ledger.out.append(Reject(slot, "bad-station", f"no peer has slot {slot}"))
            return
        if ledger.fifo.hear(slot, ledger.now):
            self.asking.peer_is_back(slot)
            self.handoff.peer_is_back(slot)
        if isinstance(frame, DataBatch):
            rows, effects = ledger.fifo.receive_data(slot, frame, ledger.now)
            for row in rows:
                ledger.persist(PutRow(row))
            ledger.out += effects
            if rows:
                self._deliver(frame.origin)
        elif isinstance(frame, Claims):
            ledger.out += ledger.fifo.receive_claims(slot, frame, ledger.now)
        elif isinstance(frame, Nack):
            ledger.out += ledger.fifo.receive_nack(slot, frame)
        else:
            self.handoff.receive(slot, frame)
            self._deliver(ledger.own)

    def channel_lost(self, channel: Channel) -> None:
        """A connection of a host ended, or could not be sent to."""
        self.sessions.channel_lost(channel)

    def channel_full(self, channel: Channel, prev: int | None = None) -> None:
        """A connection took no more; prev: that of the first Deliver it did not take in the last tick."""
        self.downlink.full(channel, prev)

    def learn_host(self, number: int, name: str) -> None:
        """The directory names a host."""
        self.ledger.names[number] = name
        self.ledger.numbers[name] = number

    def enrol(self, number: int, name: str) -> None:
        """Enrol a host here: its custody record (no incarnation yet) and its ENROL row in one write (overview 8)."""
        ledger = self.ledger
        self.learn_host(number, name)
        base = ledger.vector()
        record = Record((number, 0), 0, base=base, t_vector=base, away_since=ledger.wall, away_from=ledger.now)
        ledger.add(record)
        ledger.write_row(Kind.ENROL, number, 0, PutRecord(record.image()))
        self._deliver(ledger.own)

    def revoke(self, number: int) -> None:
        """The host may not come any more."""
        self.expiry.revoke(number)
        self._deliver(self.ledger.own)

    def configure(self, settings: Settings) -> None:
        """New settings, from now on."""
        self.ledger.settings = self.ledger.fifo.settings = settings

    def set_linked(self) -> None:
        """A configured peer has answered LINK since the start: new numbers may be given."""
        self.gate.linked = True
        self._release()

    def set_uplinks(self, reason: str | None) -> None:
        """Text: hosts' messages are not taken and hosts are told why. None: taken (unless the log is full)."""
        self._closed_by_driver = reason
        self._check_uplinks()

    def _check_uplinks(self) -> None:
        reason, by = self._closed_by_driver, 0
        if reason is None and self.retention.full():
            by = self.retention.holder()
            reason = "the log is full; a station holds back its collection"
        self.gate.reason, self.gate.by = reason, by
        if reason is None:
            self._release()

    def _release(self) -> None:
        """If nothing keeps the gate shut any more: those who waited for it go on."""
        if self.gate.closed() is None:
            self.sessions.release_held()
            self.uplink.gate_opened()

    # ---- time ----

    def expire(self) -> None:
        """Every timer that is due."""
        ledger = self.ledger
        self.asking.expire()
        self.handoff.expire()
        due = self.retention.due()
        if due is not None and due <= ledger.now:
            self.retention.collect()
            self._check_uplinks()
        self._silent_channels()
        for channel, (host, hello, wait_at) in list(self.sessions.held.items()):
            if wait_at <= ledger.now:
                self.sessions.held[channel] = (host, hello, ledger.now + ledger.settings.wait_interval)
                self.gate.say(channel)
        self._deliver(ledger.own)

    def _silent_channels(self) -> None:
        """Hang up channels that have been silent for twice their ping interval and the slack."""
        ledger = self.ledger
        if ledger.now < self._silence_at:
            return
        self._silence_at = ledger.now + ledger.settings.silence_slack // 2
        for channel, record in list(ledger.channels.items()):
            if ledger.now - record.heard > 2 * record.ping_us + ledger.settings.silence_slack:
                self.sessions.channel_lost(channel)
                ledger.hang_up(channel, "silent")

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next; None: nothing to wait for."""
        ledger = self.ledger
        candidates = [
            self.asking.next_deadline(),
            self.handoff.next_deadline(),
            self.retention.due(),
            ledger.fifo.next_deadline(ledger.now),
            self._silence_at if ledger.channels else None,
            min((wait_at for _, _, wait_at in self.sessions.held.values()), default=None),
        ]
        return min((due for due in candidates if due is not None), default=None)

    # ---- delivery ----

    def _deliver(self, origin: int) -> None:
        """Place what can be placed from the head of `origin` on; rows of members change the books in the same write."""
        ledger = self.ledger
        stream = ledger.table.origins[origin]
        if stream.delivered == stream.stored:
            return
        for row in ledger.causal.deliver(origin):
            ledger.merge_clock(row.hlc)
            place = PlaceRow(row.slot, row.n, row.position or 0, row.hlc)
            if row.kind in CONTROL_KINDS:
                ledger.persist(place, *self.expiry.membership(row))
                self.expiry.after(row)
            else:
                ledger.persist(place)

    def status(self) -> dict[str, Any]:
        """What an operator wants to know; plain data."""
        return status(self)
