"""Frames between the elements of one cluster, and what an element asks of its driver.

An element is a station or a gateway; it has one stream in each of its clusters. A stream is numbered 1, 2, ...: the
rows of a station under their own numbers, the relays of a gateway under its. A row says itself whose it is (LSRC) and
which (LSEQ): `slot` and `n`. All counters say "up to and including".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

Counts = tuple[tuple[int, int], ...]
"""(element, number), ascending; what is left out is not spoken of."""


class Item(Protocol):
    """What streams are made of: a row, as far as anybody looks into it here."""

    @property
    def slot(self) -> int:
        """The station whose row it is."""

    @property
    def n(self) -> int:
        """Its number there."""


@dataclass(frozen=True, slots=True)
class Data:
    """Consecutive entries of one stream: to all for the first time, or to one that has asked. No claims ride in it."""

    stream: int
    first: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Nack:
    """The sender lacks these numbers of a stream."""

    stream: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Added:
    """An element that has joined. Its rows in all minima begin with `base`."""

    element: int
    is_gateway: bool
    base: Counts


@dataclass(frozen=True, slots=True)
class Claims:
    """What the sender knows. Claims are true for ever and merged by maximum; any of them may be left out."""

    full: bool
    stored: Counts
    """ACK: of each stream, what the sender has. A gateway: what all beyond it have as well."""
    stable: Counts
    """PACK: of each stream, what everybody has, as far as the sender knows; a gateway: and all beyond it know."""
    room: Counts
    """Of a gateway: what it has passed on to all that live. Holds back senders, and says nothing else."""
    sent: int
    """Highest own number sent."""
    want: tuple[int, ...]
    """These are asked for everything they claim."""
    closed: Counts
    """Elements that have ended, and how far the sender itself has their streams."""
    elements: tuple[int, ...]
    """Those that have been added since the beginning and are counted by the sender."""
    added: tuple[Added, ...]
    """Those of them that not all have shown to count."""


Frame = Data | Nack | Claims


@dataclass(frozen=True, slots=True)
class ToAll:
    """One frame for every other element of the cluster, also those that are not heard of."""

    cluster: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class ToOne:
    """One frame for one element."""

    cluster: int
    element: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class Ended:
    """The others have removed this element: it stops in all its clusters."""

    cluster: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A frame makes no sense and was not used."""

    cluster: int
    element: int
    why: str


Effect = ToAll | ToOne | Ended | Refused
