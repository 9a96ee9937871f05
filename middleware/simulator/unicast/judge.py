"""What really happened, by the writes that became durable, and whether every promise was kept.

Happened-before is rebuilt from events alone: each mail has the set of all mails in its past, as bits of a number. The
matrix protocol runs beside the stations: each must deliver the same mails, in the same order, in the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from roamcast.middleware.causal_unicast.records import (
    DropInbox,
    DropOutgoing,
    MailId,
    MailImage,
    MailWrite,
    PutHeldMail,
    PutInbox,
    PutOutgoing,
    PutRetired,
)
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.unicast.matrix import MatrixStation, Stamped


class MailJudge:
    """Hears of every durable step. A step is one input of one station."""

    def __init__(self) -> None:
        self.invariants = True
        """They are checked after every step; a test of what comes of their breach does without."""
        self.closed: set[int] = set()
        """Stations of which nobody takes anything any more."""
        self.deliveries = self.waits = self.compared = 0
        self.told_lost: set[MailId] = set()
        self.acked: dict[tuple[int, int], int] = {}
        """(station, peer) -> highest number that the peer has acknowledged."""
        self.read: dict[int, int] = {}
        """Station -> position up to which its application has said, durably, that it needs nothing any more."""
        self._bits: dict[MailId, int] = {}
        self._mails: list[MailId] = []
        self._to: list[int] = []
        self._past: list[int] = []
        """Of each mail: all mails before it."""
        self._sent_to: dict[int, int] = {}
        self._sent_by: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        """Station -> all mails that were sent in its past."""
        self._taken: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._lost = 0
        self._positions: dict[int, int] = {}
        self._stamped: list[Stamped | None] = []
        self._matrix: dict[int, MatrixStation] = {}
        self._retired: dict[int, set[int]] = {}

    # ---- steps ----

    def committed(self, slot: int, writes: Sequence[MailWrite], image: MailImage) -> None:
        """A step of `slot` has become durable; `image` is what it left."""
        deliveries: list[MailId] = []
        for write in writes:
            match write:
                case PutOutgoing(mail):
                    self._send(slot, mail.dst, mail.id)
                case PutInbox(item):
                    self._place(slot, item.position)
                    if item.src == slot:
                        self._send(slot, slot, (item.src, item.number))
                        self._deliver(slot, (item.src, item.number))
                    else:
                        deliveries.append((item.src, item.number))
                case PutHeldMail(mail):
                    self._take(slot, mail.id)
                    self.waits += 1
                case PutRetired(station):
                    self._retired.setdefault(slot, set()).add(station)
                case DropInbox(upto):
                    self.read[slot] = upto
                case DropOutgoing(peer, numbers):
                    self.acked[slot, peer] = max(self.acked.get((slot, peer), 0), *numbers)
        self._compare(slot, deliveries)
        if self.invariants:
            self._check_invariants(slot, image)

    def _send(self, slot: int, to: int, mail_id: MailId) -> None:
        if mail_id in self._bits:
            raise Violation("number", [f"{mail_id} was given twice"])
        bit = 1 << len(self._mails)
        self._bits[mail_id] = bit
        self._mails.append(mail_id)
        self._to.append(to)
        self._past.append(self._seen.get(slot, 0))
        self._stamped.append(None if to == slot else self._station(slot).send(to))
        self._sent_to[to] = self._sent_to.get(to, 0) | bit
        self._sent_by[slot] = self._sent_by.get(slot, 0) | bit
        self._seen[slot] = self._seen.get(slot, 0) | bit
        if to in self.closed:
            self._lost |= bit

    def _place(self, slot: int, position: int) -> None:
        if position != self._positions.get(slot, 0) + 1:
            raise Violation("position", [f"station {slot} gave {position} after {self._positions.get(slot, 0)}"])
        self._positions[slot] = position

    def _take(self, slot: int, mail_id: MailId) -> None:
        bit = self._bits.get(mail_id)
        if bit is None or self._to[bit.bit_length() - 1] != slot:
            raise Violation("invented", [f"station {slot} took {mail_id}"])
        if not self._taken.get(slot, 0) & bit:
            self._taken[slot] = self._taken.get(slot, 0) | bit
            if self._lost & bit:
                raise Violation("after the end", [f"station {slot} took {mail_id}"])
            stamped = self._stamped[bit.bit_length() - 1]
            if stamped is not None:
                self._station(slot).held[mail_id] = stamped

    def _deliver(self, slot: int, mail_id: MailId) -> None:
        self._take(slot, mail_id)
        bit = self._bits[mail_id]
        before = self._past[bit.bit_length() - 1]
        if self._delivered.get(slot, 0) & bit:
            raise Violation("twice", [f"station {slot} delivered {mail_id} again"])
        missing = self._sent_to[slot] & before & ~self._delivered.get(slot, 0) & ~self._lost
        if missing:
            raise Violation("order", [f"station {slot} delivered {mail_id} before {self._names(missing)}"])
        self._delivered[slot] = self._delivered.get(slot, 0) | bit
        self._seen[slot] = self._seen.get(slot, 0) | before | bit
        self.deliveries += 1

    def close(self, slot: int) -> None:
        """Nobody takes anything of `slot` from now on: what is not taken is lost, and so is all that is sent to it."""
        self.closed.add(slot)
        taken = 0
        for mails in self._taken.values():
            taken |= mails
        self._lost |= self._sent_to.get(slot, 0) | (self._sent_by.get(slot, 0) & ~taken)

    # ---- the matrix ----

    def _station(self, slot: int) -> MatrixStation:
        return self._matrix.setdefault(slot, MatrixStation(slot))

    def _compare(self, slot: int, deliveries: Sequence[MailId]) -> None:
        """Order and instant. Between the end of a station and the hour at which this one hears of it, mail that waits
        for lost mail alone may come at any time: its record may be gone, or still be there.
        """
        station, retired = self._station(slot), self._retired.get(slot, set())
        for mail_id in deliveries:
            self._deliver(slot, mail_id)
            ready = station.ready(retired)
            if self.closed <= retired:
                self.compared += 1
                if mail_id != next(iter(ready), None):
                    raise Violation("matrix", [f"station {slot} delivered {mail_id}; by the matrix these are: {ready}"])
            elif not station.is_deliverable(mail_id, self.closed):
                raise Violation("matrix", [f"station {slot} delivered {mail_id}, which waits by the matrix"])
            station.deliver(mail_id)
        ready = station.ready(retired)
        if ready:
            raise Violation("matrix", [f"station {slot} keeps back {ready}"])

    # ---- invariants (A.c) ----

    def _check_invariants(self, slot: int, image: MailImage) -> None:
        seen, records = self._seen.get(slot, 0), image.records
        covered = 0
        for (sender, receiver), number in records.items():
            if receiver == slot:
                raise Violation("I2", [f"station {slot} has a record from {sender} to itself"])
            if number > image.counts.get(sender, 0):
                raise Violation("I3", [f"station {slot} has a record of mail {number} of {sender}"])
            if {sender, receiver} & image.retired:
                raise Violation("I6", [f"station {slot} has a record from {sender} to {receiver}"])
            bit = self._bits.get((sender, number), 0)
            if not bit & self._sent_to.get(receiver, 0):
                raise Violation("I3", [f"station {slot} has a record of mail {number} of {sender} to {receiver}"])
            covered |= (bit | self._past[bit.bit_length() - 1]) & self._sent_to[receiver]
        stations = {station for key in records for station in key} | {slot}
        if len(records) > (len(stations) - 1) ** 2:
            raise Violation("I5", [f"station {slot} has {len(records)} records among {len(stations)} stations"])
        for receiver, mails in self._sent_to.items():
            if receiver in image.retired or receiver == slot:
                continue
            open_mails = mails & seen & ~self._delivered.get(receiver, 0) & ~self._lost & ~covered
            if open_mails and self.closed:
                open_mails &= ~self._guarded(receiver, seen)
            if open_mails:
                raise Violation("I1", [f"station {slot} has no record of {self._names(open_mails)}"])
        self._check_i4(slot, image)

    def _guarded(self, receiver: int, seen: int) -> int:
        """Mail held at `receiver` of a station that has ended, in this past: it stands for itself and its own past."""
        guarded = 0
        for mail_id in self._station(receiver).held:
            bit = self._bits[mail_id]
            if bit & seen and mail_id[0] in self.closed:
                guarded |= bit | self._past[bit.bit_length() - 1]
        return guarded

    def _check_i4(self, slot: int, image: MailImage) -> None:
        undelivered = self._sent_to.get(slot, 0) & ~self._delivered.get(slot, 0) & ~self._lost
        while undelivered:
            bit = undelivered & -undelivered
            undelivered ^= bit
            sender, number = self._mails[bit.bit_length() - 1]
            if image.counts.get(sender, 0) >= number:
                raise Violation("I4", [f"station {slot} counts {number} of {sender}, which is not delivered"])

    # ---- the end ----

    def undelivered(self) -> list[str]:
        """Mails that are owed."""
        owed = 0
        for slot, mails in self._sent_to.items():
            owed |= mails & ~self._delivered.get(slot, 0) & ~self._lost
        return [] if not owed else [f"not delivered: {self._names(owed)}"]

    def untold(self, slot: int) -> list[str]:
        """Mails of `slot` to stations that have ended, which did not get them, and of which it was not told."""
        found = []
        for station in sorted(self.closed):
            open_mails = self._sent_to.get(station, 0) & self._sent_by.get(slot, 0) & ~self._taken.get(station, 0)
            names = [self._mails[number] for number in _bits_of(open_mails)]
            found += [f"nobody was told that {name} is lost" for name in names if name not in self.told_lost]
        return found

    def knows(self, slot: int, station: int) -> int:
        """Highest number of mail of `station` in the past of `slot`, or of what it holds."""
        past = self._seen.get(slot, 0)
        for mail_id in self._station(slot).held:
            bit = self._bits[mail_id]
            past |= bit | self._past[bit.bit_length() - 1]
        return max((self._mails[number][1] for number in _bits_of(past & self._sent_by.get(station, 0))), default=0)

    @property
    def sent(self) -> int:
        """Mails."""
        return len(self._mails)

    def _names(self, bits: int) -> str:
        return ", ".join(f"{self._mails[number]} to {self._to[number]}" for number in list(_bits_of(bits))[:5])


def _bits_of(bits: int) -> list[int]:
    found = []
    while bits:
        bit = bits & -bits
        bits ^= bit
        found.append(bit.bit_length() - 1)
    return found
