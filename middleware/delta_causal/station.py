"""The delta-causal core of one station: live messages to some or all other stations, each within delta or not at all.

Promise: of two messages to the same station, m1 in the past of m2 and stamped at most delta before it, m1 is never
delivered after m2. Nothing is taken that is older than delta, everything that is taken is delivered by then, nothing
twice. A message waits only for what it has to, unless its tag was cut (`entries_max`). No loss, delay, restart or wrong
clock changes that. Ground: paper 003 and delta-causal.md B.b; where it differs: docs/protocols/delta-causal.md.

Sans-IO. Every input takes `now`, a reading of the station's clock in microseconds; the core goes on with the largest
reading that it has seen. Nothing is durable: a start, like a change of delta, is a pause (`LiveSettings.quiet`).
"""

from __future__ import annotations

from collections.abc import Iterable

from roamcast.middleware.delta_causal.checks import Fault, fault_of
from roamcast.middleware.delta_causal.errors import LiveRefused
from roamcast.middleware.delta_causal.messages import Deliver, Drop, LiveEffect, LiveMessage, Why
from roamcast.middleware.delta_causal.past import NOTHING, HorizonRule, Lists, PaperRule, Past, lists_of
from roamcast.middleware.delta_causal.settings import LiveSettings, Rule
from roamcast.middleware.delta_causal.window import Window
from roamcast.middleware.effects import Reject
from roamcast.middleware.errors import ensure


class LiveStation:
    """One life of one station.

    Args:
        own: slot of this station.
        peers: slots of all other stations that have not ended.
        now: reading of the clock, microseconds.
        mutants: rules switched off, for tests that show that the rules are needed.
    """

    def __init__(
        self,
        own: int,
        peers: Iterable[int],
        settings: LiveSettings,
        now: int,
        mutants: frozenset[str] = frozenset(),
    ) -> None:
        self._own = own
        self._peers = set(peers)
        self._known = {*self._peers, own}
        """Every slot that there is or was."""
        ensure(own not in self._peers, "a station is not its own peer")
        self._mutants = mutants
        self._clock = now
        self._last = 0
        """The largest stamp in the past of this station."""
        self._begin(settings, 0 if "no_quarantine" in mutants else settings.quiet)

    def _begin(self, settings: LiveSettings, pause: int) -> None:
        """Nothing is known of the past, and all of it is over once the pause is."""
        self._use(settings)
        self._window = Window(self._own, settings.delta, self._mutants)
        self._lists = Lists()
        self.quiet_until = max(self._clock, self._last) + pause
        """Nothing is sent or taken up to this reading."""

    def _use(self, settings: LiveSettings) -> None:
        self._settings = settings
        rule = HorizonRule if settings.rule is Rule.HORIZON else PaperRule
        self._rule: HorizonRule | PaperRule = rule(settings.entries_max)

    # ---- inputs ----

    def send(self, destinations: Iterable[int] | None, body: bytes, now: int) -> LiveMessage:
        """A message for these stations; None: for all others. It is forgotten then, and counts as delivered here.

        Raises LiveRefused with code quiet | ahead | too-large | unknown-station, and nothing has changed.
        """
        self._advance(now)
        to = None if destinations is None else tuple(sorted(set(destinations)))
        stamp = max(self._clock, self._last + ("equal_stamps" not in self._mutants))
        self._check_send(to, body, stamp)
        self._last = stamp
        past = self._lists.without(stamp - self._settings.delta)
        message = LiveMessage(self._own, stamp, self._settings.delta, to, past, body)
        rest = self._rule.sent(past.rest, message.id) if to is None else past.rest
        slots = past.each if to is None else to
        each = {slot: self._rule.sent(past.of(slot), message.id) for slot in slots}
        self._lists = lists_of(rest, {**past.each, **each})
        return message

    def receive(self, sender: int, message: LiveMessage, now: int) -> list[LiveEffect]:
        """A message came from station `sender`. Effects: what it was refused or dropped for, and what is delivered."""
        self._advance(now)
        if fault := self._fault_of(sender, message):
            return [Reject(sender, *fault), *self._poll()]
        if why := self._dropped_for(message):
            return [Drop(message.src, message.stamp, why), *self._poll()]
        self._window.take(message, self._awaited(message), self._clock)
        return self._poll()

    def refusal(self, message: LiveMessage, now: int) -> Why | None:
        """Why the message would be dropped if it came now, before anything is kept of it; None: it would not."""
        self._advance(now)
        return self._dropped_for(message)

    def expire(self, now: int) -> list[LiveEffect]:
        """The timer: `next_deadline` has passed, perhaps long ago."""
        self._advance(now)
        return self._poll()

    def next_deadline(self) -> int | None:
        """The reading of the clock at which `expire` is wanted; None: not at all."""
        return self._window.next_deadline()

    def configure(self, settings: LiveSettings, now: int) -> list[LiveEffect]:
        """Other settings. If delta or the rule changes: what waits is delivered, and a pause begins as at a start.

        In the pause nothing is taken, so what is missing before it can never come after it. The longer delta counts.
        """
        self._advance(now)
        before = self._settings
        if (settings.delta, settings.rule) == (before.delta, before.rule):
            self._use(settings)
            return self._poll()
        effects = [*self._poll(), *map(Deliver, self._window.waiting())]
        self._begin(settings, max(before.quiet, settings.quiet))
        return effects

    # ---- beside another order ----

    def tail(self, now: int) -> Past:
        """What everything that is sent from here now comes after, of what may still come anywhere.

        Entries, and a horizon that stands for all that is older: for something of another kind that must not be
        followed by its live predecessors. NOTHING: there are none that are not over at every station.
        """
        self._advance(now)
        quiet, delta = self.quiet_until - self._settings.delta, self._settings.delta
        if self.is_past(max(self._last, quiet)):
            return NOTHING
        rest = self._lists.rest
        horizon = max(rest.horizon, self._clock - delta - 1, quiet)
        return Past(tuple(entry for entry in rest.entries if entry[0] > horizon), horizon)

    def settle(self, past: Past, now: int) -> list[LiveEffect]:
        """Something comes here that follows `past`, a tail of another station, and cannot wait.

        What waits and may be in that past is delivered at once, in the order of stamps; what of it comes later is
        dropped. If all entries were delivered here, nothing else was in that past but what is older than the horizon.
        """
        self._advance(now)
        self._settle(past)
        return self._poll()

    def inherit(self, past: Past, now: int) -> list[LiveEffect]:
        """The same; and what is sent from here later follows `past` too."""
        self._advance(now)
        self._settle(past)
        effects = self._poll()
        most = self._ahead_most
        entries = tuple(entry for entry in past.entries if entry[0] <= most and entry[1] in self._known)
        past = Past(entries, min(past.horizon, most))
        self._last = max(self._last, past.horizon, *(stamp for stamp, _ in entries))
        joined, lists = self._rule.joined, self._lists
        each = {slot: joined(mine, past) for slot, mine in lists.each.items()}
        over = max(self._clock, self._last) - self._settings.delta
        self._lists = lists_of(joined(lists.rest, past), each).without(over)
        return effects

    def pause(self, now: int) -> list[LiveEffect]:
        """What was sent or delivered by a station that is gone is in the past here, and nobody knows it: as a start."""
        self._advance(now)
        effects = [*self._poll(), *map(Deliver, self._window.waiting())]
        self._begin(self._settings, self._settings.quiet)
        return effects

    def is_past(self, stamp: int) -> bool:
        """Whether what is stamped so is over at every station."""
        return stamp < self._clock - self._settings.delta - self._settings.skew

    def bound(self, reading: int) -> int:
        """No stamp that was taken anywhere when some clock of the group read `reading` is above this."""
        return reading + 2 * self._settings.skew

    def follow(self, peers: Iterable[int]) -> None:
        """These are all other stations that have not ended."""
        self._peers = set(peers)
        self._known |= self._peers

    @property
    def _ahead_most(self) -> int:
        """No stamp of the group is above this now, and no tail's horizon."""
        return self.bound(self._clock)

    def _settle(self, past: Past) -> None:
        window, clock = self._window, self._clock
        lacked = (entry[0] for entry in past.entries if window.lacks(entry, clock))
        window.settle(min(max(past.horizon, *lacked, 0), self._ahead_most), clock)

    def add(self, slot: int) -> None:
        """A station has joined."""
        ensure(slot not in self._known, f"slot {slot} is given once")
        self._peers.add(slot)
        self._known.add(slot)

    def remove(self, slot: int) -> None:
        """A station has ended. What it had sent may stand in tags until it is over."""
        self._peers.discard(slot)

    # ---- questions ----

    @property
    def waiting(self) -> int:
        """Messages that were taken and are not delivered."""
        return len(self._window.waiting())

    @property
    def kept(self) -> int:
        """Messages of the last delta in memory, most of them as names alone."""
        return len(self._window)

    def read(self, now: int) -> int:
        """The reading that counts now: the largest so far."""
        self._advance(now)
        return self._clock

    @property
    def clock(self) -> int:
        """The largest reading so far."""
        return self._clock

    @property
    def newest(self) -> int:
        """The largest stamp in the past of this station."""
        return self._last

    @property
    def lists(self) -> Lists:
        """What a message that is sent now would carry, and what is over meanwhile."""
        return self._lists

    # ---- rules ----

    def _advance(self, now: int) -> None:
        self._clock = now if "clock_back" in self._mutants else max(self._clock, now)

    def _check_send(self, to: tuple[int, ...] | None, body: bytes, stamp: int) -> None:
        settings = self._settings
        if self._clock <= self.quiet_until:
            raise LiveRefused("quiet", f"live service pauses until the clock reads {self.quiet_until}")
        if stamp > self._clock + settings.skew:
            raise LiveRefused("ahead", f"its stamp would be {stamp} while the clock reads {self._clock}")
        if len(body) > settings.body_bytes_max:
            raise LiveRefused("too-large", f"{len(body)} bytes; a message has at most {settings.body_bytes_max}")
        if to is not None and (strangers := [slot for slot in to if slot not in self._peers]):
            raise LiveRefused("unknown-station", f"there is no other station {strangers[0]}")

    def _fault_of(self, sender: int, message: LiveMessage) -> Fault | None:
        if sender not in self._peers:
            return "live-stranger", f"station {sender} is no member of the group"
        return fault_of(message, sender, self._own, self._known, self._settings)

    def _dropped_for(self, message: LiveMessage) -> Why | None:
        clock, settings, mutants = self._clock, self._settings, self._mutants
        if clock <= self.quiet_until:
            return Why.QUIET
        if message.delta != settings.delta and "any_delta" not in mutants:
            return Why.DELTA
        if message.stamp > clock + settings.skew and "ahead_taken" not in mutants:
            return Why.AHEAD
        if clock > message.stamp + settings.delta:
            return Why.LATE
        if message.id in self._window and "duplicates_taken" not in mutants:
            return Why.DUPLICATE
        if message.stamp <= self._window.settled:
            return Why.OVERTAKEN
        return Why.FULL if self._is_full_for(message) else None

    def _is_full_for(self, message: LiveMessage) -> bool:
        window, settings = self._window, self._settings
        if window.held[message.src] >= settings.kept_max:
            return True
        is_over = window.bytes_waiting + message.size > settings.waiting_bytes_max
        return is_over and window.has_to_wait(self._awaited(message), self._clock)

    def _awaited(self, message: LiveMessage) -> Past:
        past = message.past.of(self._own)
        return Past(past.entries) if "cut_ignored" in self._mutants else self._rule.awaited(past)

    def _poll(self) -> list[LiveEffect]:
        """Deliver what is ready, then forget what is over."""
        effects: list[LiveEffect] = []
        while message := self._window.next_ready(self._clock):
            if "late_at_poll" in self._mutants and self._clock > message.stamp + self._settings.delta:
                continue
            self._merge(message)
            effects.append(Deliver(message))
        self._window.forget(self._clock)
        return effects

    def _merge(self, message: LiveMessage) -> None:
        """Everything in the past of `message` is in this station's past now, and so is the message itself.

        Lists of this station itself are left out: whatever they name is settled here.
        """
        if "raw_stamps" not in self._mutants:
            self._last = max(self._last, message.stamp)
        if "no_merge" in self._mutants:
            return
        mine, its, delivered = self._lists, message.past, self._rule.delivered
        to = message.destinations
        rest = delivered(mine.rest, its.rest, message.id, to is None)
        slots = {*mine.each, *its.each, *(to or ())} - {self._own}
        each = {slot: delivered(mine.of(slot), its.of(slot), message.id, to is None or slot in to) for slot in slots}
        self._lists = lists_of(rest, each).without(max(self._clock, self._last) - self._settings.delta)
