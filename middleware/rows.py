"""The one record a message has at a station: the row of the message table.

A row is at once the PDU of the FIFO broadcast, the entry of the delivery log and the source of every
replay (overview section 6). Rows of origin k are numbered 1, 2, ...; (k, n) names a message everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

MH = tuple[int, int]
"""A mobile host: (number, incarnation). Number: slot << 32 | counter; incarnation: 64 random bits, 0 = not bound."""

MessageId = tuple[int, int]
"""(origin slot, number in the origin's stream)."""

COUNTER_MAX = (1 << 40) - 1
"""Number of a row in its stream: with the slot above it, it is the store's integer key."""

CLOCK_MAX = (1 << 63) - 1
"""Of a hybrid clock, microseconds."""

Vector = tuple[int, ...]
"""One counter per slot, indexed by slot; entry k means "everything of k up to and including". Missing tail = 0."""


class Kind(IntEnum):
    """What a row is; it fixes the audience."""

    BROADCAST = 0  # audience: every member host
    MAIL = 1  # audience: the host `addressee`
    REFUSED = 2  # audience: the sender; its own number was refused (unknown, revoked or gone addressee)
    ENROL = 3  # audience: nobody; host `host` is a member from here
    BIND = 4  # audience: nobody; the enrolled record of `host` belongs to `incarnation`
    JOIN = 5  # audience: nobody; a new `incarnation` of `host` has joined
    LEAVE = 6  # audience: nobody; `host` left for good
    EXPIRE = 7  # audience: nobody; custody of (`host`, `incarnation`) expired
    TOPIC = 8  # audience: who is subscribed to topic `addressee` in its place of the order
    RETAINED = 9  # the same; it is the topic's last value
    CLEAR = 10  # the same; the topic has no last value from here
    SUB = 11  # audience: the sender; it is subscribed to topic `addressee` from here
    UNSUB = 12  # audience: the sender; it is not subscribed to topic `addressee` any more
    NOSUB = 13  # audience: the sender; as UNSUB, since its subscription was refused
    ONLINE = 14  # audience: subscribers of the presence of `host`; it is attached, by attempt `number`
    OFFLINE = 15  # the same; it is away since attempt `number`


CONTROL_KINDS = frozenset({Kind.ENROL, Kind.BIND, Kind.JOIN, Kind.LEAVE, Kind.EXPIRE})
TOPIC_KINDS = frozenset({Kind.TOPIC, Kind.RETAINED, Kind.CLEAR})
SUBSCRIPTION_KINDS = frozenset({Kind.SUB, Kind.UNSUB, Kind.NOSUB})
PRESENCE_KINDS = frozenset({Kind.ONLINE, Kind.OFFLINE})
VALUE_KINDS = frozenset({Kind.RETAINED}) | PRESENCE_KINDS
"""What may be the last value of a topic."""
STATION_KINDS = CONTROL_KINDS | PRESENCE_KINDS
"""Rows that a station enters of itself: `number` is none of the host's own numbers."""

PRESENCE = 1 << 62
"""Topic number of the presence of host h: PRESENCE | h. Topics that people have made have smaller numbers."""


@dataclass(slots=True, frozen=True)
class Steps:
    """What a row on its way says above row n-1 of the same origin."""

    clock: int
    """By how much its hybrid clock is higher, from 1; 0: `Row.hlc` says it."""
    entries: tuple[tuple[int, int], ...]
    """(slot, step): by how much the entry of S is higher, from 1. `Row.stamp` has the other entries that changed."""


@dataclass(slots=True)
class Row:
    """One message. Immutable but for `position` (set once), `item` (a driver may drop cached bytes) and `lean`.

    One that came with `steps` gets its stamp and clock in values when its turn comes to be stored.
    """

    slot: int
    """Origin station."""
    n: int
    """Number in the origin's stream, from 1."""
    stamp: tuple[tuple[int, int], ...]
    """S: (slot, value) of the entries changed against row n-1 of the same origin; the own entry, n, is left out."""
    hlc: int
    """Hybrid logical clock, microseconds UTC, of the origin when the row was made."""
    kind: Kind
    host: int
    """Sender's host number (for control rows: the host concerned); 0 if none."""
    incarnation: int
    """Sender's incarnation (64 bits)."""
    number: int
    """Sender's own number of this message; for JOIN its order among the joins of its name; for presence the attempt."""
    taken: tuple[int, int]
    """(e, c) of the sender's DATA: what it had been given when it sent. History for the audit. Presence: (order of its
    incarnation among the joins of its name, 0)."""
    addressee: int
    """Host number for MAIL and REFUSED; topic number for messages on topics, subscriptions, presence; else 0."""
    item: bytes | None
    """The final encoded item for hosts (empty for control rows). None: dropped from memory, load from the store."""
    size: int
    """len(item) in bytes."""
    position: int | None = None
    """Place in this station's delivery order, from 1; None while it waits for its causal predecessors."""
    lean: bool = False
    """The item, of `size` bytes, is at other stations only: of mail to a host that was not expected here."""
    steps: Steps | None = None
    """Of a row on its way, which is in no table yet."""

    @property
    def held(self) -> int:
        """Bytes of the item that are here, in memory or in the store."""
        return 0 if self.lean else self.size

    @property
    def id(self) -> MessageId:
        """(slot, n), the name of the message everywhere."""
        return (self.slot, self.n)


@dataclass(slots=True, frozen=True)
class SpoolItem:
    """A message kept for an absent host, or as the last value of a topic, after its row may have been collected."""

    slot: int
    n: int
    item: bytes | None
    size: int
    topic: int = 0
    """Number of the topic for whose sake the host is owed it; 0: for no topic's."""
    sub: MessageId = (0, 0)
    """The SUB under which it is."""
    lean: ClassVar[bool] = False


@dataclass(slots=True, frozen=True)
class Item:
    """What one entry of a MSG frame says to a host: the decoded form of `Row.item`."""

    slot: int
    n: int
    sender: str
    incarnation32: int
    """Low 32 bits of the sender's incarnation."""
    number: int
    kind: Kind
    body: bytes
    topic: str = ""
    """Name of the topic, for kinds that have one."""
    hlc: int = 0
    """Hybrid clock of the row, for these kinds: the largest (hlc, slot) on a topic is its newest, everywhere."""
