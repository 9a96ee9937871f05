"""The station's core: FIFO broadcast, causal delivery and custody over one message table.

The driver works in ticks: `begin`, any inputs, `expire`, `flush`. The effects of `flush` are ordered; every Persist
must be durable before anything behind it leaves the process. Source: overview sections 5-8, composition.md part 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roamcast.middleware import station_frames as sf
from roamcast.middleware.custody.admission import Admission
from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.bodies import Bodies
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.expiry import Expiry
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.handoff import Handoff
from roamcast.middleware.custody.heir import Heir
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.live import Live
from roamcast.middleware.custody.log_events import log_enrolled
from roamcast.middleware.custody.presence import Presence
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.retention import Retention
from roamcast.middleware.custody.sessions import Sessions
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.custody.uplink import Uplink
from roamcast.middleware.effects import Channel, Effect, Halt
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.host_frames import Move, Seen, UpFrame
from roamcast.middleware.lan_update.records import LanFrame
from roamcast.middleware.live_frames import LiveCast
from roamcast.middleware.membership.group import Group
from roamcast.middleware.membership.reservation import Reservation
from roamcast.middleware.membership.snapshot import Newcomer, Sponsor
from roamcast.middleware.rows import Item, Kind
from roamcast.middleware.settings import SECOND, Settings
from roamcast.middleware.station.delivery import Delivery
from roamcast.middleware.station.status import status
from roamcast.middleware.topics import Topics
from roamcast.middleware.writes import DurableState, PutRecord, PutRow

WALL_JUMP = 300 * SECOND


class StationCore:
    """One station, sans-IO. Every method but `status` and `next_deadline` belongs between `begin` and `flush`."""

    def __init__(
        self,
        *,
        slot: int,
        founders: Sequence[int],
        settings: Settings,
        image: DurableState,
        encode_item: Callable[[Item], bytes],
        mutants: frozenset[str] = frozenset(),
        layout: Layout = FLAT,
    ) -> None:
        """Args: slot: own slot. image: what the store holds; taken over. founders: members, if it holds no view.
        mutants: rules switched off, for tests that show that the rules are needed.
        """
        self.ledger = Ledger(slot, founders, settings, image, encode_item, mutants, layout)
        self.asking = Asking(self.ledger)
        self.subscriptions = Subscriptions(self.ledger)
        self.bodies = Bodies(self.ledger)
        self.downlink = Downlink(self.ledger, self.subscriptions, self.bodies)
        self.live = Live(self.ledger, self.downlink, self.subscriptions)
        self.gate = Gate(self.ledger)
        shared = self.ledger, self.downlink, self.asking
        self.expiry = Expiry(*shared, self.gate, self.subscriptions)
        self.sessions = Sessions(*shared, self.expiry, self.gate, self.subscriptions)
        self.presence = Presence(self.ledger, self.gate)
        self.uplink = Uplink(*shared, self.expiry, self.gate, self.sessions, self.subscriptions, self.presence)
        self.handoff = Handoff(self.ledger, self.sessions, self.asking, self.expiry, self.gate)
        self.retention = Retention(*shared, self.expiry, self.bodies)
        self.admission = Admission(self.ledger, self.sessions, self.asking, self.gate, self.bodies)
        self.sessions.ask_host, self.sessions.opened = self.admission.request, self.admission.opened
        self.sessions.live = self.live
        self.heir = Heir(self.ledger, self.sessions, self.asking, self.retention, self.presence, self.bodies)
        self.group = Group(self.ledger)
        self._delivery = Delivery(self.ledger, self.expiry, self.downlink, self.subscriptions, self.live)
        self.reservation = Reservation(self.ledger, dict(image.reserved))
        self.sponsor = Sponsor(self.ledger)
        sponsored = self.ledger.view.sponsor
        self.newcomer = Newcomer(self.ledger, image.last_position, len(image.rows)) if sponsored else None
        self._closed_by_driver: str | None = None
        self._started = False

    # ---- a tick ----

    def begin(self, now: int, wall: int) -> None:
        """Open a tick. now: monotonic, wall: UTC; microseconds."""
        ledger = self.ledger
        if not self._started:
            self._start(now, wall)
        elif abs((wall - now) - (ledger.wall - ledger.now)) > WALL_JUMP:
            ledger.clock_jumped_at = now
        ledger.now, ledger.wall = now, wall
        self.live.follow()

    def _start(self, now: int, wall: int) -> None:
        """First tick of a life: finish what the last one accepted; every record is away from now on at the latest."""
        ledger = self.ledger
        self._started = True
        ledger.now, ledger.wall, ledger.clock_jumped_at = now, wall, now
        self.live.start()
        for record in ledger.all_records():
            record.away_from = now
            record.away_since = record.away_since or wall
            self.asking.schedule(record)
        if self.newcomer is not None:
            return
        self.presence.start()
        if writes := ledger.last.catch_up():
            ledger.persist(*writes)
        for slot in ledger.view.final:
            self._ended(slot)  # a crash may have cut it short
        for slot in ledger.fifo.origins:
            self._delivery.run(slot)

    def flush(self) -> list[Effect]:
        """Close the tick: the ordered effects of everything since `begin`."""
        ledger = self.ledger
        if self.newcomer is None:
            self._advance_group()
            self._delivery.run(ledger.own)
            ledger.out += self.live.tagged(ledger.fifo.pump(ledger.now))
            self.uplink.flush()
            self.live.flush()
            self.bodies.expire(giving_up=False)
            ledger.out += ledger.fifo.tick(ledger.now, ledger.hlc)
        out, ledger.out = ledger.out, []
        return out

    # ---- inputs ----

    def receive_host(self, channel: Channel, host: int, frame: UpFrame) -> None:
        """A host's frame; `host` is the number of the name that the driver authenticated."""
        if self.newcomer is not None or self.ledger.view.handing:
            self.ledger.tell(channel, Move(self.ledger.stations))
            return
        if isinstance(frame, Seen):
            self.admission.seen(channel, host, frame)
            return
        self.uplink.receive(channel, host, frame)
        self._delivery.run(self.ledger.own)

    def receive_peer(self, slot: int, frame: sf.PeerFrame) -> None:
        """A frame of the linked station `slot`."""
        ledger = self.ledger
        if self.newcomer is not None:
            if isinstance(frame, sf.Snapshot):
                self.newcomer.receive(slot, frame)
            elif isinstance(frame, sf.Claims) and slot == ledger.view.sponsor:
                self.newcomer.told(frame)
            return
        if slot not in ledger.fifo.peers:
            self.group.stranger(slot)
            return
        if ledger.fifo.hear(slot, ledger.now):
            self.asking.peer_is_back(slot)
            self.handoff.peer_is_back(slot)
        if isinstance(frame, LiveCast):
            self.live.receive(slot, frame)
        elif isinstance(frame, sf.DataBatch):
            self.live.learn(frame)
            rows, effects = ledger.fifo.receive_data(slot, frame, ledger.now)
            for row in rows:
                ledger.persist(PutRow(row))
            ledger.out += effects
            if rows:
                self._delivery.run(frame.origin)
        elif isinstance(frame, sf.Claims):
            if self.group.learn(slot, frame):
                ledger.out += ledger.fifo.receive_claims(slot, frame, ledger.now)
        elif isinstance(frame, sf.Nack):
            ledger.out += self.live.tagged(ledger.fifo.receive_nack(slot, frame))
        elif isinstance(frame, sf.BodyFrame):
            self.bodies.receive(slot, frame)
        elif not isinstance(frame, LanFrame):
            self._receive_group(slot, frame)

    def _receive_group(self, slot: int, frame: sf.CustodyFrame | sf.GroupFrame) -> None:
        """What stations say to each other about hosts and about the group."""
        match frame:
            case sf.Adopt():
                self.heir.adopt(slot, frame)
            case sf.AdoptPart():
                self.heir.adopt_part(slot, frame)
            case sf.Adopted():
                self.heir.adopted(slot, frame)
            case sf.Reserve():
                self.reservation.reserve(slot, frame)
            case sf.Reserved():
                self.reservation.reserved_by(slot, frame)
            case sf.SnapshotReq():
                self.sponsor.receive(slot, frame)
            case sf.Snapshot():
                return  # a late copy: it is here
            case _ if self.ledger.view.handing or self.heir.holds(frame.mh):
                return  # the heir answers, once the station that had the custody has ended
            case sf.Claimed() | sf.Noted() | sf.GroupQuery():
                self.admission.receive(slot, frame)
            case _:
                self.handoff.receive(slot, frame)
        self._delivery.run(self.ledger.own)

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
        self.learn_host(number, name)
        ledger = self.ledger
        if self.newcomer is not None or ledger.view.retiring or not ledger.view.serving:
            return  # the driver has seen that it may not: enrol it at another one
        base = ledger.vector()
        record = Record((number, 0), 0, base=base, t_vector=base, away_since=ledger.wall, away_from=ledger.now)
        ledger.add(record)
        log_enrolled(ledger, record)
        ledger.write_row(Kind.ENROL, number, 0, PutRecord(record.image()))
        self._delivery.run(ledger.own)

    def revoke(self, number: int) -> None:
        """The host may not come any more."""
        if self.newcomer is None and not self.ledger.view.handing:
            self.expiry.revoke(number)
        self.ledger.revoked.add(number)  # a record that is being handed over is the heir's to end
        self._delivery.run(self.ledger.own)

    def set_topics(self, topics: Topics) -> None:
        """The topics and the rights on them, from now on; also before the first host is heard."""
        if self.newcomer is None and not self.ledger.view.handing:
            self.subscriptions.configure(topics)
            self.presence.configured()
            self._delivery.run(self.ledger.own)

    def configure(self, settings: Settings) -> None:
        """New settings, from now on."""
        self.ledger.settings = self.ledger.fifo.settings = settings
        self.live.configure()

    def set_layout(self, layout: Layout) -> None:
        """Other clusters of stations from now on; the layout has no fault."""
        self.ledger.fifo.set_layout(layout)

    def peer_clock(self, slot: int, ahead: int) -> None:
        """The clock of station `slot` is `ahead` of the own one, microseconds, as its LINK has just said."""
        self.live.gate.compare(slot, ahead)

    # ---- commands on the group ----

    def reserve(self, id: str, generation: int) -> None:
        """A newcomer asks for a slot; SlotGiven follows when all stations have confirmed one."""
        self.reservation.propose(id, generation)

    def add_station(self, slot: int) -> None:
        """The newcomer of `slot` is a member from now on, and may take the snapshot of this station."""
        self.group.add(slot)

    def retire(self, heir: int) -> None:
        """This station is to end in order: its hosts move, `heir` takes the place for those that sleep."""
        self.heir.retire(heir)

    def close_station(self, slot: int, heir: int) -> None:
        """Station `slot` has ended; heir 0: it is lost for good."""
        ledger = self.ledger
        if slot == ledger.own:
            ledger.out.append(Halt("this station has been retired; its slot is never used again"))
        elif self.newcomer is not None:
            self.newcomer.ended.add(slot)
        elif slot in self.ledger.view.members:
            self.group.close(slot, heir)

    def release_station(self, slot: int) -> None:
        """The hosts of the lost station `slot` are not waited for any more: those that come are told of a gap."""
        self.group.release(slot)

    def _advance_group(self) -> None:
        """Settle what can be settled of the group, and what this station asks of itself."""
        ledger, group = self.ledger, self.group
        if len(ledger.view.members) > 1:
            for slot in group.advance():
                ending = ledger.view.final[slot]
                self._ended(slot)
                ledger.notice("warning", "station-ended", slot=slot, heir=ending.heir, cut=ending.cut)
            group.give_up()
            for origin in group.take_deliverable():
                self._delivery.run(origin)
            self.admission.vouch()
        while ledger.to_own:
            frames, ledger.to_own = ledger.to_own, []
            for frame in frames:
                self._receive_group(ledger.own, frame)

    def _ended(self, slot: int) -> None:
        """What the end of a station changes for hosts here."""
        if heir := self.ledger.view.heir_of(slot):
            self.heir.take_place(slot, heir)
            if heir == self.ledger.own:
                self.live.pause()
        else:
            self.heir.forget(slot)
        self.presence.ended(slot)
        self.admission.settle()
        self.sessions.call_again(slot)

    # ---- settings and gates ----

    def set_stations(self, stations: tuple[tuple[str, int, str, bytes], ...]) -> None:
        """(id, slot, endpoint, key) of the stations that serve hosts: what a WELCOME says."""
        self.ledger.stations = stations

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
        if self.newcomer is not None:
            self.newcomer.expire()
            return
        self.reservation.expire()
        self.live.expire()
        self.heir.expire()
        self.admission.expire()
        if not ledger.view.handing:
            self.asking.expire()
            self.handoff.expire()
            self.presence.expire()
            self.bodies.expire()
        due = self.retention.due()
        if due is not None and due <= ledger.now and (not ledger.view.handing or "r_runs_on" in ledger.mutants):
            self.retention.collect()
            self._check_uplinks()
        self.uplink.hang_up_silent()
        self.sessions.remind_held()
        self._delivery.run(ledger.own)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next; None: nothing to wait for."""
        ledger = self.ledger
        if self.newcomer is not None:
            return self.newcomer.next_deadline()
        candidates = [
            self.reservation.next_deadline(),
            self.live.next_deadline(),
            self.heir.next_deadline(),
            self.admission.next_deadline(),
            *([] if ledger.view.handing else self._custody_deadlines()),
            ledger.fifo.next_deadline(ledger.now),
            self.uplink.silence_at if ledger.channels else None,
            min((wait_at for _, _, wait_at in self.sessions.held.values()), default=None),
        ]
        return min((due for due in candidates if due is not None), default=None)

    def _custody_deadlines(self) -> list[int | None]:
        parts = self.asking, self.handoff, self.presence, self.bodies
        return [*(part.next_deadline() for part in parts), self.retention.due()]

    def status(self) -> dict[str, Any]:
        """What an operator wants to know; plain data."""
        return status(self)
