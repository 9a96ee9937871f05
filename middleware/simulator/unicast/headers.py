"""A timed model of traffic that counts what headers carry: records of paper 002 in three forms, entries of SES.

All protocols deliver the same mail at the same instants, so one run serves them all. Delays are exponential with mean
1, links are not FIFO, nothing is lost. The rules are those of the core. SES (Schiper, Eggli, Sandoz) keeps one vector
for every station that anything was sent to in the past, and prunes none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from roamcast.middleware.causal_unicast.records import Key, Mail
from roamcast.middleware.causal_unicast.rules import Rules, superseded
from roamcast.middleware.simulator.unicast.patterns import targets

PLAIN, AT_SEND, AT_ACK = "CMD", "superseded at once", "superseded when acknowledged"
FORMS = (PLAIN, AT_SEND, AT_ACK)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent."""

    stations: int
    pattern: str
    rate: float
    """Sends of a station in the mean delay, answers not counted."""
    reply: float
    """Chance that a delivery causes an answer."""


@dataclass(slots=True)
class Sizes:
    """Over all mail after the warm-up."""

    mails: int = 0
    records: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FORMS, 0))
    most: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FORMS, 0))
    entries: int = 0
    """Of SES."""

    def add(self, other: Sizes) -> None:
        """Another run of the same traffic."""
        self.mails += other.mails
        self.entries += other.entries
        for form in FORMS:
            self.records[form] += other.records[form]
            self.most[form] = max(self.most[form], other.most[form])


@dataclass(slots=True)
class _Carried:
    """One mail in all forms: they differ in their records only."""

    forms: dict[str, Mail]
    entries: frozenset[int]

    @property
    def plain(self) -> Mail:
        return self.forms[PLAIN]


@dataclass(slots=True)
class _Station:
    counts: dict[int, int] = field(default_factory=dict)
    records: dict[str, dict[Key, int]] = field(default_factory=lambda: {form: {} for form in FORMS})
    entries: set[int] = field(default_factory=set)
    held: list[_Carried] = field(default_factory=list)


class HeaderModel:
    """One run."""

    def __init__(self, traffic: Traffic, rng: Random) -> None:
        self.sizes = Sizes()
        self._traffic = traffic
        self._rng = rng
        self._rules = Rules()
        self._stations = [_Station() for _ in range(traffic.stations)]
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._sequence = count()
        self._now = 0.0
        self._measures = False

    def run(self, mails: int) -> Sizes:
        """A warm-up in which everybody hears of everybody, then `mails` sends."""
        traffic = self._traffic
        warm = 15 + 15 / traffic.rate
        for slot in range(traffic.stations):
            self._next_occasion(slot)
        while self.sizes.mails < mails:
            self._now, _, action, arguments = heappop(self._events)
            self._measures = self._now >= warm
            action(*arguments)
        return self.sizes

    def _after(self, mean: float, action: Any, *arguments: Any) -> None:
        heappush(self._events, (self._now + self._rng.expovariate(1 / mean), next(self._sequence), action, arguments))

    def _next_occasion(self, slot: int) -> None:
        """Several sends at one occasion make occasions rarer."""
        slots = range(self._traffic.stations)
        to = targets(self._traffic.pattern, slot, slots, self._rng)
        if to:
            self._after(len(to) / self._traffic.rate, self._occasion, slot, to)

    def _occasion(self, slot: int, to: list[int]) -> None:
        for target in to:
            self._send(slot, target)
        self._next_occasion(slot)

    def _send(self, slot: int, to: int) -> None:
        station = self._stations[slot]
        number = station.counts[slot] = station.counts.get(slot, 0) + 1
        vector = tuple(sorted(station.counts.items()))
        forms = {}
        for form, records in station.records.items():
            carried = tuple((*key, sent) for key, sent in records.items())
            forms[form] = mail = Mail(slot, to, vector, carried, b"")
            if form == AT_SEND:
                self._supersede(records, mail)
            records[slot, to] = number
        carried_mail = _Carried(forms, frozenset(station.entries))
        station.entries.add(to)
        self._count(carried_mail)
        self._after(1, self._arrive, carried_mail)

    def _count(self, carried: _Carried) -> None:
        if self._measures:
            sizes = self.sizes
            sizes.mails += 1
            sizes.entries += len(carried.entries)
            for form, mail in carried.forms.items():
                sizes.records[form] += len(mail.records)
                sizes.most[form] = max(sizes.most[form], len(mail.records))

    def _arrive(self, carried: _Carried) -> None:
        mail = carried.plain
        station = self._stations[mail.dst]
        self._after(1, self._acknowledge, carried)
        delivered = []
        station.held.append(carried)
        while ready := [one for one in station.held if self._is_deliverable(station, one.plain)]:
            station.held.remove(ready[0])
            self._deliver(station, ready[0])
            delivered.append(ready[0].plain)
        for one in delivered:
            if self._rng.random() < self._traffic.reply:
                self._send(one.dst, one.src)

    def _is_deliverable(self, station: _Station, mail: Mail) -> bool:
        return all(station.counts.get(sender, 0) >= number for sender, number in self._rules.awaited(mail))

    def _deliver(self, station: _Station, carried: _Carried) -> None:
        for form, mail in carried.forms.items():
            attached = {(sender, receiver): number for sender, receiver, number in mail.records}
            records = station.records[form]
            for key, number in self._rules.merge(station.counts, records, mail, attached).items():
                if number:
                    records[key] = number
                else:
                    del records[key]
        for slot, sent in carried.plain.vector:
            station.counts[slot] = max(sent, station.counts.get(slot, 0))
        station.entries |= carried.entries - {carried.plain.dst}

    def _acknowledge(self, carried: _Carried) -> None:
        mail = carried.forms[AT_ACK]
        self._supersede(self._stations[mail.src].records[AT_ACK], mail)

    def _supersede(self, records: dict[Key, int], mail: Mail) -> None:
        for key in superseded(records, mail.records, mail.dst):
            del records[key]
