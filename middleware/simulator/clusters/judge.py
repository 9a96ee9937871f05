"""What every element really accepted and said, and whether the promises of fifo-broadcast.md (c) 1-7 were kept.

The judge knows rows by what was entered, and who lives by what was done to it; it never asks a core. It checks a level
at the instant at which an element tells it: level 2 of a row means that every living station has it, level 3 that every
living station has told level 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roamcast.middleware.simulator.checkers import Violation

Place = tuple[int, int]
"""(element, cluster)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row, as it travels."""

    slot: int
    n: int
    text: str


@dataclass(slots=True)
class Seen:
    """One element in one cluster."""

    accepted: dict[int, int] = field(default_factory=dict)
    """By station: how far its rows are here."""
    levels: dict[tuple[int, int], int] = field(default_factory=dict)
    """(level, station) -> how far; over all lives."""
    life: dict[tuple[int, int], int] = field(default_factory=dict)
    """The same in this life."""
    base: dict[int, int] = field(default_factory=dict)
    """What a newcomer begins with."""


class ClusterJudge:
    """Hears of everything; raises Violation at the first broken promise."""

    def __init__(self) -> None:
        self.entered: dict[int, list[Entry]] = {}
        self.places: dict[Place, Seen] = {}
        self.stations: dict[int, Place] = {}
        """Those that live: their rows reach level 3, and all rows reach them."""
        self.ever_stations: set[int] = set()
        """All that are or were stations."""
        self.removed: set[int] = set()
        self.accepted = 0
        self.told = {2: 0, 3: 0}

    # ---- what happens ----

    def joins(self, element: int, cluster: int, is_station: bool, sponsor: Place | None = None) -> None:
        """It is there from now on; a newcomer has what its sponsor has."""
        seen = Seen()
        if sponsor is not None:
            seen.base = dict(self.places[sponsor].accepted)
            seen.accepted = dict(seen.base)
        self.places[element, cluster] = seen
        if is_station:
            self.stations[element] = element, cluster
            self.ever_stations.add(element)

    def ends(self, element: int) -> None:
        """It is removed: the others go on without it."""
        self.stations.pop(element, None)
        self.removed.add(element)

    def starts(self, place: Place) -> None:
        """A life begins: levels are learned anew."""
        self.places[place].life.clear()

    def enter(self, station: int) -> Entry:
        """The station wants to send its next row."""
        rows = self.entered.setdefault(station, [])
        rows.append(Entry(station, len(rows) + 1, f"{station}/{len(rows) + 1}"))
        return rows[-1]

    def takes(self, place: Place, entry: Entry) -> None:
        """An element has accepted a row (rule 1; of a newcomer, rule 7)."""
        if self._is_out(place):
            return
        seen, rows = self.places[place], self.entered.get(entry.slot, [])
        before = seen.accepted.get(entry.slot, 0)
        if entry.n > len(rows) or rows[entry.n - 1] != entry:
            raise Violation("1 unknown", [f"{place} takes {entry}, which nobody has entered"])
        if entry.n != before + 1:
            raise Violation("1 order", [f"{place} takes ({entry.slot}, {entry.n}) after {before}"])
        seen.accepted[entry.slot] = entry.n
        self.accepted += 1

    def tells(self, place: Place, level: int, station: int, number: int) -> None:
        """An element says that a level has come this far (rules 1, 2, 3)."""
        if self._is_out(place):
            return
        seen = self.places[place]
        if number > seen.accepted.get(station, 0):
            raise Violation(f"{level} ahead", [f"{place} tells level {level} of ({station}, {number}): not there"])
        if level == 3 and number > max(seen.levels.get((2, station), 0), seen.base.get(station, 0)):
            raise Violation("3 ahead", [f"{place} tells level 3 of ({station}, {number}), not level 2"])
        if number < seen.life.get((level, station), 0):
            raise Violation("1 levels", [f"{place} tells level {level} of ({station}, {number}) after a higher one"])
        seen.life[level, station] = number
        if number <= seen.levels.get((level, station), 0):
            return
        seen.levels[level, station] = number
        self.told[level] += 1
        for other in self.stations.values():
            there = self.places[other]
            has = there.accepted.get(station, 0)
            if level == 3:
                has = max(there.levels.get((2, station), 0), there.base.get(station, 0))
            if has < number:
                what = "has it" if level == 2 else "knows that all have it"
                witness = f"{place} tells level {level} of ({station}, {number}); {other} {what} up to {has}"
                raise Violation(f"{level} early", [witness])

    def _is_out(self, place: Place) -> bool:
        """A gateway that was removed and has not heard of it yet."""
        return place[0] in self.removed and place[0] not in self.ever_stations

    # ---- the end ----

    def is_done(self) -> bool:
        """Whether all rows of the living are known to be everywhere."""
        return not self._open()

    def _open(self) -> list[str]:
        lacks = []
        for place in self.stations.values():
            seen = self.places[place]
            for station, rows in self.entered.items():
                number = len(rows) if station not in self.removed else seen.accepted.get(station, 0)
                for level in (2, 3):
                    has = max(seen.levels.get((level, station), 0), seen.base.get(station, 0))
                    if has < number:
                        lacks.append(f"{place}: level {level} of station {station} at {has} of {number}")
        return lacks

    def finish(self) -> None:
        """Nothing more will come (rules 4 and 6)."""
        if lacks := self._open():
            raise Violation("4 unfinished", lacks[:5])
        for station in self.removed:
            ends = {place: self.places[place].accepted.get(station, 0) for place in self.stations.values()}
            if len(set(ends.values())) > 1:
                raise Violation("6 prefix", [f"of removed {station} the survivors have {ends}"])
