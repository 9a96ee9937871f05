"""What the causal unicast keeps and sends: mail with its header, durable writes, and the image that they make up."""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[int, int]
"""Of an s-record: (sender, receiver)."""
MailId = tuple[int, int]
"""(sender, its send number)."""

COUNT_MAX = (1 << 63) - 1
OVERHEAD, PER_COUNT, PER_RECORD = 64, 16, 24
"""Bytes that a mail is taken to cost beyond its body, and for each part of its header."""


@dataclass(slots=True, frozen=True)
class Mail:
    """One unicast message with its header as it was when it was sent (paper 002, section 3.3)."""

    src: int
    dst: int
    vector: tuple[tuple[int, int], ...]
    """V(m): (slot, number of unicasts it has sent in this one's past), ascending by slot; absent = 0."""
    records: tuple[tuple[int, int, int], ...]
    """R(m): (sender, receiver, send number), ascending; at most one for each pair."""
    body: bytes

    @property
    def number(self) -> int:
        """Its place among all that its sender has sent, to anybody; 0 in a header that makes no sense."""
        return next((count for slot, count in self.vector if slot == self.src), 0)

    @property
    def id(self) -> MailId:
        """(sender, number)."""
        return (self.src, self.number)

    @property
    def size(self) -> int:
        """Bytes for all limits."""
        return OVERHEAD + PER_COUNT * len(self.vector) + PER_RECORD * len(self.records) + len(self.body)


@dataclass(slots=True, frozen=True)
class MailAcks:
    """Mail of the receiver of this frame that is durable here, by its numbers.

    They are listed: links are not FIFO, and a number counts what was sent to anybody.
    """

    numbers: tuple[int, ...]


MailFrame = Mail | MailAcks


@dataclass(slots=True, frozen=True)
class InboxItem:
    """A mail that was delivered here; positions are 1, 2, ... in the order of delivery."""

    position: int
    src: int
    number: int
    body: bytes

    @property
    def size(self) -> int:
        """Bytes for the limit of the inbox."""
        return OVERHEAD + len(self.body)


@dataclass(slots=True, frozen=True)
class PutCount:
    """V[slot] is `count` now; of the own slot, the number of the newest own mail."""

    slot: int
    count: int


@dataclass(slots=True, frozen=True)
class PutSRecord:
    """R[sender, receiver] is `number` now."""

    sender: int
    receiver: int
    number: int


@dataclass(slots=True, frozen=True)
class DropSRecord:
    """R has no record of this pair any more."""

    sender: int
    receiver: int


@dataclass(slots=True, frozen=True)
class PutOutgoing:
    """An own mail that its addressee has not acknowledged yet."""

    mail: Mail


@dataclass(slots=True, frozen=True)
class DropOutgoing:
    """`peer` has acknowledged these; the highest of them is remembered."""

    peer: int
    numbers: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class PutHeldMail:
    """A mail waits here for what comes before it."""

    mail: Mail


@dataclass(slots=True, frozen=True)
class DropHeldMail:
    """It waits no more: it is in the inbox."""

    src: int
    number: int


@dataclass(slots=True, frozen=True)
class PutInbox:
    """A mail was delivered here."""

    item: InboxItem


@dataclass(slots=True, frozen=True)
class DropInbox:
    """The application has taken everything up to this position."""

    upto: int


@dataclass(slots=True, frozen=True)
class PutRetired:
    """The station has ended: records from and to it and mail to it go, and never come back."""

    slot: int


MailWrite = (
    PutCount
    | PutSRecord
    | DropSRecord
    | PutOutgoing
    | DropOutgoing
    | PutHeldMail
    | DropHeldMail
    | PutInbox
    | DropInbox
    | PutRetired
)


@dataclass(slots=True)
class MailImage:
    """Everything durable of the causal unicast at one station. `apply` is the reference meaning of every write."""

    counts: dict[int, int] = field(default_factory=dict)
    """V."""
    records: dict[Key, int] = field(default_factory=dict)
    """R."""
    outgoing: dict[int, dict[int, Mail]] = field(default_factory=dict)
    """Addressee -> number -> mail, numbers ascending."""
    held: dict[MailId, Mail] = field(default_factory=dict)
    inbox: dict[int, InboxItem] = field(default_factory=dict)
    """By position, ascending."""
    inbox_last: int = 0
    """Highest position ever given."""
    inbox_taken: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Addressee -> highest own number that it has acknowledged."""
    retired: set[int] = field(default_factory=set)

    def apply(self, write: MailWrite) -> None:
        """Apply one write."""
        match write:
            case PutCount(slot, count):
                self.counts[slot] = count
            case PutSRecord(sender, receiver, number):
                self.records[sender, receiver] = number
            case DropSRecord(sender, receiver):
                self.records.pop((sender, receiver), None)
            case PutOutgoing(mail):
                self.outgoing.setdefault(mail.dst, {})[mail.number] = mail
            case DropOutgoing(peer, numbers):
                for number in numbers:
                    self.outgoing.get(peer, {}).pop(number, None)
                self.acknowledged[peer] = max(self.acknowledged.get(peer, 0), *numbers)
            case PutHeldMail(mail):
                self.held[mail.id] = mail
            case DropHeldMail(src, number):
                self.held.pop((src, number), None)
            case PutInbox(item):
                self.inbox[item.position] = item
                self.inbox_last = max(self.inbox_last, item.position)
            case DropInbox(upto):
                for position in range(self.inbox_taken + 1, upto + 1):
                    self.inbox.pop(position, None)
                self.inbox_taken = upto
            case PutRetired(slot):
                self.retired.add(slot)
                self.outgoing.pop(slot, None)
                for key in [key for key in self.records if slot in key]:
                    del self.records[key]

    def copy(self) -> MailImage:
        """A copy that shares only immutable parts."""
        return MailImage(
            dict(self.counts), dict(self.records), {peer: dict(mails) for peer, mails in self.outgoing.items()},
            dict(self.held), dict(self.inbox), self.inbox_last, self.inbox_taken, dict(self.acknowledged),
            set(self.retired),
        )  # fmt: skip
