"""The end of custody: expiry, leave, revocation, and what membership rows change.

Sources: causal-broadcast.md (b) 'Expiry', B12, B13; one-order.md O-3; overview sections 6, 8, 10.
"""

from __future__ import annotations

from dataclasses import replace

from roamcast.middleware.custody.asking import Asking
from roamcast.middleware.custody.downlink import Downlink
from roamcast.middleware.custody.gate import Gate
from roamcast.middleware.custody.ledger import Ledger
from roamcast.middleware.custody.record import Record
from roamcast.middleware.custody.subscriptions import Subscriptions
from roamcast.middleware.custody.takeovers import Takeovers
from roamcast.middleware.delivery_log import EXPIRED, LEFT, MEMBER
from roamcast.middleware.host_frames import Refused, Replaced
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.station_frames import Accept, Expire
from roamcast.middleware.vectors import merged
from roamcast.middleware.writes import HostEntry, PutHost, PutRecord, Write


class Expiry:
    """Turns records into tombs and says what rows mean for members."""

    def __init__(
        self, ledger: Ledger, downlink: Downlink, asking: Asking, gate: Gate, subscriptions: Subscriptions
    ) -> None:
        self.ledger = ledger
        self.subscriptions = subscriptions
        self.gate = gate
        self.downlink = downlink
        self.asking = asking
        self.takeovers = Takeovers(ledger)

    def expire(self, record: Record) -> None:
        """Custody of an absent host ends: nothing is kept for it, it will be told that messages were missed."""
        self.bury(record, Kind.EXPIRE)

    def bury(self, record: Record, kind: Kind) -> None:
        """The record becomes a tomb, with the row that says why, in one write; the former station is freed."""
        ledger = self.ledger
        self._silence(record)
        self._entomb(record)
        writes = ledger.spools.trim(record, ledger.table.last_position)
        ledger.log(MEMBER, *record.mh, LEFT if kind is Kind.LEAVE else EXPIRED, record.base)
        if self.gate.linked:
            ledger.write_row(kind, *record.mh, PutRecord(record.image()), *writes)
        else:
            ledger.save(record, "tombstone", *writes)
        self._free_former(record)

    def _entomb(self, record: Record) -> None:
        record.state = "tomb"
        record.join = 0
        self.subscriptions.end_all(record)
        if "tomb_no_u" not in self.ledger.mutants:
            record.base = merged(record.base, self.ledger.vector())
        if record.link and record.confirmed:
            record.ready = True

    def entomb_for(self, record: Record, bound: tuple[int, ...]) -> None:
        """EXPIRE of the successor: all that it may have sent is below `bound`. A tomb, still claimable."""
        ledger = self.ledger
        self._entomb(record)
        record.base = merged(record.base, bound)
        ledger.log(MEMBER, *record.mh, EXPIRED, record.base)
        ledger.save(record, "tombstone", *ledger.spools.trim(record, ledger.table.last_position))
        self._free_former(record)

    def _free_former(self, record: Record) -> None:
        if record.link and record.prev is not None:
            if record.ready:
                self.ledger.ask(record.prev, Accept(record.mh, record.arr))
            else:
                self.ledger.ask(record.prev, Expire(record.mh, record.arr, record.base))
            self.asking.schedule(record)

    def _silence(self, record: Record) -> None:
        """No frame goes to the record's channel any more."""
        channel = self.ledger.unbind(record)
        if channel is not None:
            self.downlink.remove(channel)

    # ---- members ----

    def membership(self, row: Row) -> list[Write]:
        """What a control row changes of its host, to be written with the row's position."""
        ledger = self.ledger
        match row.kind:
            case Kind.ENROL if row.host not in ledger.hosts:
                entry = HostEntry(row.host, 0, (0, 0, 0), False)
            case Kind.BIND | Kind.JOIN:
                entry, _ = ledger.bind_row(row)
                ledger.raise_join_order(row.number)
            case Kind.LEAVE:
                entry = replace(ledger.hosts.get(row.host) or HostEntry(row.host, 0, (0, 0, 0), False), gone=True)
            case _:
                return []
        ledger.hosts[row.host] = entry
        return [PutHost(entry)]

    def after(self, row: Row) -> None:
        """After a control row took its place: end what it ends here."""
        if row.kind is Kind.BIND or row.kind is Kind.JOIN:
            self.end_replaced(row.host)
            for record in self.ledger.of_host(row.host):
                elsewhere = record.mh[1] == row.incarnation and row.slot != self.ledger.own
                if record.join and (elsewhere or (record.channel is None and record.join < row.number)):
                    self._silence(record)
                    self.ledger.drop(record)  # abandoned: the host has joined since
        elif row.kind is Kind.LEAVE:
            self.end_gone(row.host)

    def end_gone(self, number: int) -> None:
        """All custody of a host that has left, or was revoked, ends."""
        self._end_all(number, Refused("gone", "this host has left"))

    def end_replaced(self, number: int) -> None:
        """Records of older incarnations expire; their channels are told for good."""
        for record in self.ledger.of_host(number):
            if record.state == "open" and self.ledger.outlived(record):
                self.name_replaced(record)
                self.end(record, Replaced(0))

    def name_replaced(self, record: Record) -> None:
        """Tell the operator; an attached device that loses its name to another one is a clone or its original."""
        attached = record.channel is not None
        name = self.ledger.name_of(record.mh[0])
        level = "alarm" if attached else "warning"
        self.ledger.notice(level, "host-replaced", host=name, incarnation=record.mh[1] & 0xFFFF)
        if attached:
            self.takeovers.count(record.mh[0])

    def revoke(self, number: int) -> None:
        """The operator ends a host: channels closed, records become tombs."""
        ledger = self.ledger
        ledger.revoked.add(number)
        entry = ledger.hosts.get(number) or HostEntry(number, 0, (0, 0, 0), False)
        if not entry.gone:
            ledger.hosts[number] = replace(entry, gone=True)
            ledger.log(MEMBER, number, 0, LEFT, ())
            ledger.persist(PutHost(ledger.hosts[number]))
        self._end_all(number, Refused("revoked", "this host was revoked"))

    def _end_all(self, number: int, word: Refused) -> None:
        for record in self.ledger.of_host(number):
            if record.state == "open":
                self.end(record, word)

    def end(self, record: Record, word: Refused | Replaced) -> None:
        """Custody of an open record ends; its host is told why."""
        self._say_last(record, word)
        if record.join:
            self.ledger.drop(record)
        else:
            self.expire(record)

    def _say_last(self, record: Record, word: Refused | Replaced) -> None:
        if record.channel is not None:
            channel = record.channel
            self._silence(record)
            self.ledger.tell(channel, word)
            self.ledger.hang_up(channel, "the host's membership ended")
