"""What an element keeps: the streams of its cluster, and who belongs to it. All of it is durable, nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roamcast.middleware.clusters.frames import Counts, Item


@dataclass(slots=True)
class Stream:
    """One stream, as far as it is here."""

    floor: int = 0
    """Up to here everybody knows that everybody has it, and it is not kept any more."""
    stored: int = 0
    items: dict[int, Item] = field(default_factory=dict)
    """Those in between, by number."""


class StreamTable:
    """All streams of one cluster at one element. Empty where `streams` do not begin elsewhere."""

    def __init__(self, streams: Iterable[int], base: Counts = (), origins: Counts = ()) -> None:
        start = dict(base)
        self.streams = {j: Stream(start.get(j, 0), start.get(j, 0)) for j in streams}
        self.origins = dict(origins)
        """Of each station whose rows have come, in whatever streams: the highest number here."""

    def add(self, stream: int) -> None:
        """One more stream."""
        self.streams.setdefault(stream, Stream())

    def append(self, stream: int, item: Item) -> int:
        """The next entry of a stream. Returns its number."""
        kept = self.streams[stream]
        kept.stored += 1
        kept.items[kept.stored] = item
        self.origins[item.slot] = max(item.n, self.origins.get(item.slot, 0))
        return kept.stored

    def collect(self, stream: int, up_to: int) -> None:
        """Entries up to this number are not needed any more."""
        kept = self.streams[stream]
        while kept.floor < up_to:
            kept.floor += 1
            del kept.items[kept.floor]

    def span(self, stream: int, first: int, last: int) -> tuple[Item, ...]:
        """Entries first..last, as far as they are here."""
        kept = self.streams[stream]
        if first <= kept.floor:
            return ()
        return tuple(kept.items[n] for n in range(first, min(last, kept.stored) + 1))

    def base(self) -> Counts:
        """Where a newcomer begins that is given what was delivered here."""
        return tuple((j, kept.stored) for j, kept in sorted(self.streams.items()))

    def kept(self) -> Iterator[tuple[int, int, Item]]:
        """(stream, number, entry) of all that is kept."""
        for j, stream in self.streams.items():
            yield from ((j, n, item) for n, item in stream.items.items())


@dataclass(slots=True)
class Roster:
    """Who belongs to one cluster, as one element knows it. It only grows; an element that has ended stays in it."""

    cluster: int
    own: int
    stations: set[int]
    gateways: set[int]
    closed: set[int] = field(default_factory=set)
    added: dict[int, Counts] = field(default_factory=dict)
    """Elements that have been added, with what their rows begin with."""

    @property
    def members(self) -> list[int]:
        """All, also those that have ended."""
        return sorted(self.stations | self.gateways)

    @property
    def living(self) -> list[int]:
        """Those whose claims count, this one included."""
        return [i for i in self.members if i not in self.closed]

    @property
    def peers(self) -> list[int]:
        """The same without this one."""
        return [i for i in self.living if i != self.own]

    def add(self, element: int, is_gateway: bool, base: Counts) -> None:
        """One more."""
        (self.gateways if is_gateway else self.stations).add(element)
        self.added[element] = base
