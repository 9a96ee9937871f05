"""What really happened, by the true order of events, and whether every promise of delta-causal.md B.c was kept.

Happened-before is rebuilt from sends and deliveries alone: each message has the set of all messages in its past, as
bits of a number. What a station's clock reads is told, never asked of the core. A message waits rightly for what is
*open*: a message in its past to the same station, stamped at most delta before it, neither delivered there nor over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.live.options import UNBOUNDED, LiveOptions

Name = tuple[int, int]
"""(stamp, sender)."""


@dataclass(slots=True)
class Sent:
    """One message."""

    name: Name
    bit: int
    to: frozenset[int]
    is_broadcast: bool
    delta: int
    past: int
    """Messages before it."""
    time: int
    """When it was sent truly."""
    reach: dict[int, int] = field(default_factory=dict)
    """Station -> when this message is settled there, everything stamped up to this is."""

    @property
    def over(self) -> int:
        """The first reading at which it is over."""
        return self.name[0] + self.delta + 1

    def is_in_list(self, slot: int) -> bool:
        """Whether it may stand in the list for `slot`: broadcasts stand in that for their sender too."""
        return slot in self.to or (self.is_broadcast and slot == self.name[1])


@dataclass(slots=True)
class Taken:
    """A message that a station has accepted and not delivered."""

    sent: Sent
    awaited: list[Sent]
    """Open when it came."""
    is_prompt: bool
    """Nothing that matters was cut from its list: it has to be delivered as soon as it may."""


@dataclass(slots=True)
class Place:
    """One station."""

    reading: int = 0
    """The largest of this life."""
    delta: int = 0
    quiet: int = 0
    """In this life, nothing has to be taken up to this reading."""
    seen: int = 0
    """Messages in its past, over all lives."""
    newest: int = 0
    """The largest stamp among them."""
    delivered: set[Name] = field(default_factory=set)
    """Over all lives."""
    passed: int = 0
    """The past of all that was delivered."""
    accepted: set[Name] = field(default_factory=set)
    waiting: dict[Name, Taken] = field(default_factory=dict)


class LiveJudge:
    """Hears of everything; raises Violation at the first broken promise."""

    def __init__(self, options: LiveOptions) -> None:
        self.options = options
        self.skew = options.spread + options.allowance
        self.invariants = True
        """Stamps and tags are checked too; a test of what an application notices does without."""
        self.sane = not options.leaps and not options.mad
        """Clocks are never further from the truth than the spread."""
        self.places: dict[int, Place] = {}
        self.messages: dict[Name, Sent] = {}
        self.deliveries = self.waits = self.prompt = 0
        self.drops: dict[str, int] = {}
        self._by_stamp: list[tuple[Name, Sent]] = []
        self._delta_max = 0

    # ---- what a station does ----

    def life(self, slot: int, reading: int, delta: int, pause_from: int | None = None) -> None:
        """It starts, or changes delta; then `pause_from` is the delta that it had, and its clock goes on."""
        place = self.places.setdefault(slot, Place())
        before = pause_from or delta
        if pause_from is not None and place.waiting:
            raise Violation("J4", [f"station {slot} forgets {sorted(place.waiting)} when delta changes"])
        place.reading = reading if pause_from is None else max(place.reading, reading)
        place.quiet = place.reading + max(before, delta) + (2 if pause_from is None else 3) * self.skew + 1
        place.delta = delta
        place.waiting.clear()
        place.accepted.clear()

    def sent(self, slot: int, reading: int, time: int, name: Name, to: frozenset[int], is_broadcast: bool) -> Sent:
        """A message leaves."""
        place = self._at(slot, reading)
        is_wrong = name[0] <= place.newest or name[0] < place.reading
        if name in self.messages or (is_wrong and self.invariants):
            raise Violation("J1", [f"station {slot} stamps {name} at {place.reading} after {place.newest}"])
        bit = 1 << len(self.messages)
        sent = Sent(name, bit, to, is_broadcast, place.delta, place.seen, time)
        self.messages[name] = sent
        self._delta_max = max(self._delta_max, place.delta)
        insort(self._by_stamp, (name, sent), key=lambda entry: entry[0])
        place.seen |= bit
        place.newest = name[0]
        return sent

    def came(self, slot: int, reading: int, time: int, name: Name, dropped: str) -> None:
        """A copy came and was accepted (dropped = ''), or dropped for this reason."""
        place, sent = self._at(slot, reading), self.messages[name]
        is_late = place.reading >= sent.over
        if dropped:
            self._check_drop(slot, place, sent, dropped, time)
            self.drops[dropped] = self.drops.get(dropped, 0) + 1
            return
        if is_late:
            raise Violation("J3", [f"station {slot} takes {name} at {place.reading}, it is over at {sent.over}"])
        if name in place.accepted or name in place.delivered:
            raise Violation("J7", [f"station {slot} takes {name} again"])
        if name[0] > place.reading + self.skew:
            raise Violation("ahead", [f"station {slot} takes {name} at {place.reading}"])
        ahead = max(0, name[0] - sent.time - self.options.spread)
        if self.sane and time - sent.time > sent.delta + self.options.spread + ahead:
            raise Violation("age", [f"station {slot} takes {name} at the true age of {time - sent.time}"])
        related = self._related(sent, slot)
        awaited = [one for one in related if slot in one.to and self._is_open(place, one)]
        place.accepted.add(name)
        place.waiting[name] = Taken(sent, awaited, self._is_prompt(related))
        self.waits += bool(awaited)

    def delivered(self, slot: int, reading: int, name: Name, is_last_call: bool) -> None:
        """The application has it. is_last_call: what waits is handed down because delta changes."""
        place = self._at(slot, reading)
        taken = place.waiting.pop(name, None)
        if taken is None or name in place.delivered:
            raise Violation("J7", [f"station {slot} delivers {name}, which it has not, or had before"])
        sent = taken.sent
        if place.passed & sent.bit:
            for other in place.delivered:
                after = self.messages[other]
                if after.past & sent.bit and sent.over > other[0]:
                    raise Violation("J2", [f"station {slot} delivers {name} after {other}"])
        if not is_last_call and (early := [one.name for one in taken.awaited if self._is_open(place, one)]):
            raise Violation("J2", [f"station {slot} delivers {name} at {place.reading}, before {early}"])
        place.delivered.add(name)
        place.passed |= sent.past
        place.seen |= sent.past | sent.bit
        place.newest = max(place.newest, name[0])
        self.deliveries += 1
        self.prompt += taken.is_prompt

    def rests(self, slot: int, reading: int, due: int | None) -> None:
        """It has done all that there was to do at this reading, and wants to be called when its clock reads `due`."""
        place = self._at(slot, reading)
        for name, taken in place.waiting.items():
            deadline = taken.sent.over - 1
            if place.reading >= deadline:
                raise Violation("J4", [f"station {slot} still keeps {name} back at {place.reading}"])
            opened = [one for one in taken.awaited if self._is_open(place, one)]
            if taken.is_prompt:
                if not opened:
                    raise Violation("J5", [f"station {slot} keeps {name} back at {place.reading} for nothing"])
                deadline = max(one.over for one in opened)
            if due is None or due > deadline:
                raise Violation("timer", [f"station {slot} wants none until {due}, but {name} is due at {deadline}"])

    def check_tag(self, slot: int, sent: Sent, entries: Iterable[Name], horizon: int, bound: int | None) -> None:
        """One list of the tag of a message that leaves (J6); and all that it has to say is in it."""
        if not self.invariants:
            return
        entries = list(entries)
        known = [self.messages.get(entry) for entry in entries]
        oldest, stamp = sent.name[0] - sent.delta, sent.name[0]
        if bound is not None and len(entries) > bound:
            raise Violation("J6", [f"{len(entries)} entries for {slot} in {sent.name}"])
        if any(not one or not one.bit & sent.past or not one.is_in_list(slot) for one in known):
            raise Violation("J6", [f"{entries} for {slot} in {sent.name}: some is not in its past"])
        if any(not max(oldest, horizon + 1) <= entry[0] < stamp for entry in entries) or (
            horizon and not oldest <= horizon < stamp
        ):
            raise Violation("J6", [f"{entries} and {horizon} for {slot} in {sent.name}, delta {sent.delta}"])
        keyed = self.options.rule == "horizon"
        if keyed and len({sender for _, sender in entries}) < len(entries):
            raise Violation("J6", [f"{entries} for {slot} in {sent.name}: a sender twice"])
        covered, reach = 0, horizon
        for one in filter(None, known):
            covered |= one.bit | one.past
            reach = max(reach, one.reach[slot])
        if not keyed and bound is not None and len(entries) == bound:
            reach = max(reach, entries[0][0])
        sent.reach[slot] = reach
        for one in self._related(sent, slot):
            is_settled = one.name in self.places[slot].delivered or slot == sent.name[1]
            if slot in one.to and not is_settled and not covered & one.bit and one.name[0] > reach:
                raise Violation("tag", [f"{sent.name} does not say that {one.name} comes first at {slot}"])

    # ---- facts ----

    def _at(self, slot: int, reading: int) -> Place:
        place = self.places[slot]
        place.reading = max(place.reading, reading)
        return place

    def _related(self, sent: Sent, slot: int) -> list[Sent]:
        """What has to stand in its list for `slot`. Those of another delta are kept apart by pauses."""
        start = bisect_left(self._by_stamp, (sent.name[0] - self._delta_max, 0), key=lambda entry: entry[0])
        return [
            one
            for _, one in self._by_stamp[start:]
            if one.bit & sent.past and one.delta == sent.delta and one.over > sent.name[0] and one.is_in_list(slot)
        ]

    def _is_open(self, place: Place, one: Sent) -> bool:
        return place.reading < one.over and one.name not in place.delivered

    def _is_prompt(self, related: list[Sent]) -> bool:
        """By the true number of constraints (J5)."""
        bound = self.options.entries_max
        if bound == UNBOUNDED:
            return True
        if self.options.rule == "paper":
            return len(related) < bound
        return len({one.name[1] for one in related}) <= bound

    def _check_drop(self, slot: int, place: Place, sent: Sent, why: str, time: int) -> None:
        reading, stamp = place.reading, sent.name[0]
        is_true = {
            "late": reading >= sent.over,
            "duplicate": sent.name in place.accepted,
            "quiet": reading <= place.quiet,
            "ahead": stamp > reading + self.skew and not (self.sane and self.options.allowance > 10_000),
            "delta": sent.delta != place.delta,
        }
        if not is_true.get(why, False):
            raise Violation("dropped", [f"station {slot} drops {sent.name} at {reading}: {why}"])
        if why == "late" and self.sane and time - sent.time <= sent.delta - self.options.spread:
            raise Violation("age", [f"station {slot} drops {sent.name} at the true age of {time - sent.time}"])
