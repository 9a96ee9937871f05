"""The causal unicast of one station: mail to one other station, each exactly once, in causal order among all stations.

Promise: a mail that was taken is delivered to its addressee exactly once, whatever is lost, doubled or overtaken on the
way and whoever crashes; a mail is delivered only after every mail to the same station that was sent in its past. It is
delivered as soon as these are: nothing waits without need. Ground: paper 002 and causal-unicast.md A.b; where it
differs: docs/protocols/causal-unicast.md.

Sans-IO. The driver works in ticks: `begin`, any inputs, `flush`; a tick without inputs is all that the timer wants. The
effects of `flush` are ordered; every MailPersist must be durable before anything behind it leaves the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from roamcast.middleware.causal_unicast.checks import fault_of
from roamcast.middleware.causal_unicast.effects import Arrived, MailEffect, MailLost, MailPersist, SendMail
from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.holding import Holding
from roamcast.middleware.causal_unicast.records import (
    COUNT_MAX,
    DropHeldMail,
    DropInbox,
    DropOutgoing,
    DropSRecord,
    InboxItem,
    Mail,
    MailAcks,
    MailFrame,
    MailImage,
    MailWrite,
    PutCount,
    PutHeldMail,
    PutInbox,
    PutOutgoing,
    PutRetired,
    PutSRecord,
)
from roamcast.middleware.causal_unicast.rules import Rules, superseded
from roamcast.middleware.causal_unicast.sending import Sending
from roamcast.middleware.causal_unicast.settings import MailSettings
from roamcast.middleware.effects import Notice, Reject
from roamcast.middleware.errors import LocalProtocolError, ensure


class MailStation:
    """One life of one station. Every method but the questions at the end belongs between `begin` and `flush`.

    Args:
        own: slot of this station.
        peers: slots of all other stations that have not ended.
        image: what the store holds; taken over.
        rules: the paper's rules as corrected; others only in tests.
        mutants: rules switched off, for tests that show that the rules are needed.
    """

    def __init__(
        self,
        own: int,
        peers: Iterable[int],
        image: MailImage,
        settings: MailSettings,
        rules: Rules | None = None,
        mutants: frozenset[str] = frozenset(),
    ) -> None:
        self._own = own
        self._peers = set(peers) - image.retired
        ensure(own not in self._peers and own not in image.retired, "a station is not its own peer, and lives")
        self._image = image
        self._settings = settings
        self._rules = rules or Rules()
        self._mutants = mutants
        self._holding = Holding(image, self._rules, self._awaits, mutants)
        self._sending = {peer: Sending(image.outgoing.get(peer, {}), settings) for peer in sorted(self._peers)}
        self._inbox_bytes = sum(item.size for item in image.inbox.values())
        self._risen: dict[int, None] = {}
        """Senders whose V has risen since held mail was last looked at."""
        self._postponed = 0
        self._now = 0
        self._writes: list[MailWrite] = []
        self._arrived: list[Arrived] = []
        self._acks: dict[int, dict[int, None]] = {}
        self._out: list[MailEffect] = []

    # ---- a tick ----

    def begin(self, now: int) -> None:
        """Open a tick. now: monotonic, microseconds."""
        self._now = now

    def flush(self) -> list[MailEffect]:
        """Close the tick: the ordered effects of everything since `begin`."""
        acks = [SendMail(peer, MailAcks(tuple(numbers))) for peer, numbers in self._acks.items()]
        self._acks = {}
        out = [*acks, *self._out] if "ack_early" in self._mutants else [*self._out, *acks]
        self._out = []
        for peer, sending in self._sending.items():
            outgoing = self._image.outgoing.get(peer)
            if outgoing:
                out += [SendMail(peer, mail) for mail in sending.take(outgoing, self._now)]
        return out

    # ---- the application ----

    def send(self, to: int, body: bytes) -> int:
        """Take a mail for station `to`; it is safe with the next MailPersist. Returns its number.

        A mail to itself takes a number too (every mail has a name of its own) but needs no record: all that was
        delivered here is in the inbox before it. Raises MailRefused, and nothing has changed.
        """
        image, own = self._image, self._own
        number = image.counts.get(own, 0) + 1
        counts = {**image.counts, own: number}
        records = tuple((sender, receiver, count) for (sender, receiver), count in sorted(image.records.items()))
        mail = Mail(own, to, tuple(sorted(counts.items())), records, body)
        self._check_send(mail)
        self._write(PutCount(own, number))
        if to == own:
            self._to_inbox(own, number, body)
        else:
            if "supersede_early" in self._mutants:
                self._supersede(mail)
            self._write(PutSRecord(own, to, number))
            self._write(PutOutgoing(mail))
            self._sending[to].add(mail)
        self._commit()
        return number

    def _check_send(self, mail: Mail) -> None:
        to, settings = mail.dst, self._settings
        if to in self._image.retired:
            raise MailRefused("retired", f"station {to} has ended")
        if to != self._own and to not in self._peers:
            raise MailRefused("unknown-station", f"there is no station {to}")
        if len(mail.body) > settings.body_bytes_max:
            raise MailRefused("too-large", f"{len(mail.body)} bytes; a mail has at most {settings.body_bytes_max}")
        if len(mail.records) > settings.records_max:
            raise MailRefused("too-many-records", f"a header of {len(mail.records)} records goes into no frame")
        if mail.number > COUNT_MAX:
            raise MailRefused("numbers-used-up", "this station has no numbers left")
        if to == self._own:
            if self._inbox_bytes >= settings.inbox_bytes_max:
                raise MailRefused("inbox-full", "the application of this station has to take its mail first")
        elif self._sending[to].bytes + mail.size > settings.outbox_bytes_max:
            raise MailRefused(
                "mailbox-full",
                f"station {to} has not acknowledged {len(self._image.outgoing[to])} mails yet; no more than "
                f"{settings.outbox_bytes_max} bytes are kept for it",
            )

    def taken(self, upto: int) -> None:
        """The application has everything up to this position and needs it no more. Raises LocalProtocolError."""
        image = self._image
        if upto > image.inbox_last:
            raise LocalProtocolError(f"position {upto} was not given; the last one is {image.inbox_last}")
        if upto > image.inbox_taken:
            for position in range(image.inbox_taken + 1, upto + 1):
                self._inbox_bytes -= image.inbox[position].size
            self._write(DropInbox(upto))
            self._commit()

    # ---- peers ----

    def receive(self, sender: int, frame: MailFrame) -> None:
        """A frame of `sender`, which the driver has authenticated."""
        if sender in self._image.retired:
            self._reject(sender, "mail-retired", f"station {sender} has ended")
        elif sender not in self._peers:
            self._reject(sender, "mail-unknown-slot", f"slot {sender} is not known here")
        elif isinstance(frame, MailAcks):
            self._acknowledged(sender, frame)
        else:
            self._receive_mail(sender, frame)

    def _receive_mail(self, sender: int, mail: Mail) -> None:
        """RECEIVE of A.b. What is acknowledged is durable; what is not, the sender repeats."""
        image, settings = self._image, self._settings
        known = self._peers | image.retired | {self._own}
        fault = fault_of(mail, sender, self._own, image.counts, known, settings)
        if fault is not None:
            self._reject(sender, *fault)
            return
        number = mail.number
        if image.counts.get(sender, 0) >= number or mail.id in image.held:
            if "duplicates_silent" not in self._mutants:
                self._acks.setdefault(sender, {})[number] = None
            return
        blocked = self._holding.blocked_by(mail)
        if self._inbox_bytes >= settings.inbox_bytes_max or self._is_too_much(mail, blocked is not None):
            self._postponed += 1
            return
        if blocked is not None:
            self._write(PutHeldMail(mail))
            self._holding.add(mail)
        else:
            self._deliver(mail)
            self._deliver_held()
        self._commit()
        self._acks.setdefault(sender, {})[number] = None

    def _is_too_much(self, mail: Mail, held: bool) -> bool:
        """Mail that waits is left with its sender if there is no room; what is deliverable always gets in.

        So what all the others wait for is never kept out by them.
        """
        if not held and "deliverable_limited" not in self._mutants:
            return False
        return self._holding.bytes + mail.size > self._settings.held_bytes_max

    def _acknowledged(self, sender: int, acks: MailAcks) -> None:
        """Mail is durable at its addressee: it leaves the outbox, and stands for the records that it carries.

        Not before: if this station were lost with the mail, nobody would know of them (supersede of A.b, put off).
        """
        sent = self.sent_number
        outgoing = self._image.outgoing.get(sender, {})
        if any(not 0 < number <= sent for number in acks.numbers):
            self._reject(sender, "mail-ahead", f"it acknowledges mail beyond {sent}, the last that was sent")
            return
        mails = [outgoing[number] for number in dict.fromkeys(acks.numbers) if number in outgoing]
        if not mails:
            return
        self._write(DropOutgoing(sender, tuple(mail.number for mail in mails)))
        for mail in mails:
            self._supersede(mail)
            self._sending[sender].acknowledged(mail, self._now)
        self._commit()

    def _supersede(self, mail: Mail) -> None:
        for key in superseded(self._image.records, mail.records, mail.dst):
            self._write(DropSRecord(*key))

    def link_up(self, peer: int) -> None:
        """There is a new connection to `peer`: what it has not acknowledged is sent again at once."""
        if peer in self._sending:
            self._sending[peer].link_up(self._now)

    # ---- delivery ----

    def _awaits(self, sender: int) -> bool:
        return sender not in self._image.retired or "retired_awaited" in self._mutants

    def _deliver(self, mail: Mail) -> None:
        """DELIVER of A.b: all by V as it was, then V. Records of stations that have ended do not come back."""
        image = self._image
        attached = {
            (sender, receiver): number
            for sender, receiver, number in mail.records
            if not {sender, receiver} & image.retired or "retired_recorded" in self._mutants
        }
        changes = self._rules.merge(image.counts, image.records, mail, attached)
        for (sender, receiver), number in changes.items():
            self._write(PutSRecord(sender, receiver, number) if number else DropSRecord(sender, receiver))
        for slot, count in mail.vector:
            if count > image.counts.get(slot, 0):
                self._write(PutCount(slot, count))
                self._risen[slot] = None
        if mail.id in image.held:
            self._holding.remove(mail)
            self._write(DropHeldMail(*mail.id))
        self._to_inbox(mail.src, mail.number, mail.body)
        if self._rules.scans(mail):
            self._holding.wake(self._risen)
            self._risen = {}

    def _deliver_held(self) -> None:
        """SCAN of A.b: until nothing that is held is deliverable; all of it is one step with what has released it."""
        while (mail := self._holding.next_ready()) is not None:
            self._deliver(mail)

    def _to_inbox(self, src: int, number: int, body: bytes) -> None:
        item = InboxItem(self._image.inbox_last + 1, src, number, body)
        self._write(PutInbox(item))
        self._inbox_bytes += item.size
        self._arrived.append(Arrived(item))

    # ---- the group ----

    def add(self, slot: int) -> None:
        """A station has joined, under a slot that nobody had before."""
        ensure(slot != self._own and slot not in self._image.retired, f"slot {slot} is given once")
        if slot not in self._peers:
            self._peers.add(slot)
            self._sending[slot] = Sending(self._image.outgoing.get(slot, {}), self._settings)

    def retire(self, slot: int) -> None:
        """A station has ended, in order or lost, and from now on no station takes anything of it. May be repeated.

        What it had sent and is not here is not waited for; what is here is delivered, and waited for.
        """
        ensure(slot != self._own, "a station does not retire itself")
        if slot in self._image.retired:
            return
        lost = tuple(self._image.outgoing.get(slot, ()))
        if lost:
            self._out.append(MailLost(slot, lost))
            self._out.append(Notice("warning", "mail-lost", {"to": slot, "mails": len(lost)}))
        self._write(PutRetired(slot))
        self._peers.discard(slot)
        self._sending.pop(slot, None)
        self._acks.pop(slot, None)
        self._holding.wake([slot])
        self._deliver_held()
        self._commit()

    def configure(self, settings: MailSettings) -> None:
        """Other settings hold from now on."""
        self._settings = settings
        for sending in self._sending.values():
            sending.configure(settings)

    # ---- time ----

    def next_deadline(self) -> int | None:
        """When `flush` has something to send again; None: nothing is under way."""
        return min((sending.due for sending in self._sending.values() if sending.due is not None), default=None)

    # ---- questions ----

    @property
    def sent_number(self) -> int:
        """Number of the newest own mail."""
        return self._image.counts.get(self._own, 0)

    def known_of(self, peer: int) -> int:
        """The highest number of a mail of `peer` that anything here tells of."""
        held = (dict(mail.vector).get(peer, 0) for mail in self._image.held.values())
        return max(self._image.counts.get(peer, 0), *held, 0)

    def is_older(self, peer: int, sent: int, known: int) -> bool:
        """Whether the store of `peer` went back in time, if it says that its `sent_number` and `known_of` this are so.

        Ask when its link is set up: mail that is under way on another connection may know more than what it said.
        """
        return sent < self.known_of(peer) or known < self.acknowledged_by(peer)

    def acknowledged_by(self, peer: int) -> int:
        """The highest own number that `peer` has ever acknowledged."""
        return self._image.acknowledged.get(peer, 0)

    def unread(self) -> tuple[InboxItem, ...]:
        """What was delivered here and not taken, in order."""
        return tuple(self._image.inbox.values())

    def unacknowledged(self, peer: int) -> int:
        """Mails that `peer` has not acknowledged. A station that ends in order waits until it is 0 for all."""
        return len(self._image.outgoing.get(peer, ()))

    def status(self) -> dict[str, Any]:
        """What an operator wants to know; plain data.

        `unacknowledged`: per peer, mails and bytes; `held`, `unread`: mails; `postponed`: times since the start that a
        mail was left with its sender for want of room; `records`: in R.
        """
        image = self._image
        return {
            "sent": self.sent_number,
            "unacknowledged": {
                peer: {"mails": len(image.outgoing[peer]), "bytes": sending.bytes}
                for peer, sending in self._sending.items()
                if image.outgoing.get(peer)
            },
            "held": len(image.held),
            "held_bytes": self._holding.bytes,
            "unread": len(image.inbox),
            "unread_bytes": self._inbox_bytes,
            "postponed": self._postponed,
            "records": len(image.records),
        }

    # ---- books ----

    def _write(self, write: MailWrite) -> None:
        self._image.apply(write)
        self._writes.append(write)

    def _commit(self) -> None:
        """One input, one step; the application hears of what has come behind it."""
        self._out.append(MailPersist(tuple(self._writes)))
        self._out += self._arrived
        self._writes, self._arrived = [], []

    def _reject(self, sender: int, code: str, text: str) -> None:
        self._out.append(Reject(sender, code, text))
