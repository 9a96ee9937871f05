"""Steady traffic of live messages to single stations: how long they wait after their arrival, and what their tags hold.

The stations are the cores themselves, with true clocks and exact timers; nothing is judged here. The setting is that
of delta-causal.md B.e: delta 100 ms, 1 % loss, most delays short, every tenth drawn from a heavy tail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from roamcast.middleware.delta_causal.messages import Deliver, LiveEffect, LiveMessage
from roamcast.middleware.delta_causal.past import Id
from roamcast.middleware.delta_causal.settings import LiveSettings
from roamcast.middleware.delta_causal.station import LiveStation
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.world import Alarm, World

DELTA = 100 * MS
LOSS, TAIL = 0.01, 0.1
MEAN, TAIL_MEAN = 14 * MS, 80 * MS
"""Of the delay, an exponential time; in the tail. B.e does not give the law: with this one its numbers come out."""


@dataclass(frozen=True, slots=True)
class Load:
    """Each of so many stations sends one message every `gap` microseconds on average, to any other or to all."""

    stations: int
    gap: int
    is_broadcast: bool = False


@dataclass(slots=True)
class Measured:
    """Sums over the messages of some runs; times in microseconds."""

    messages: int = 0
    entries: int = 0
    """Of their tags."""
    deliveries: int = 0
    waited: int = 0
    until_deadline: int = 0
    """What they would have waited under tags of one stamp: until stamp + delta."""

    def add(self, other: Measured) -> None:
        """Another run."""
        self.messages += other.messages
        self.entries += other.entries
        self.deliveries += other.deliveries
        self.waited += other.waited
        self.until_deadline += other.until_deadline

    @property
    def wait_ms(self) -> float:
        """Mean wait of a message after its arrival."""
        return self.waited / self.deliveries / MS

    @property
    def deadline_ms(self) -> float:
        """The same under tags of one stamp."""
        return self.until_deadline / self.deliveries / MS

    @property
    def mean_entries(self) -> float:
        """Entries in a tag."""
        return self.entries / self.messages


class LoadModel:
    """One run. Traffic and delays are the same for all settings with an equal `rng`."""

    def __init__(self, load: Load, settings: LiveSettings, rng: Random) -> None:
        self._load = load
        self._rng = rng
        self._world = World()
        self._measured = Measured()
        self._came: dict[tuple[int, Id], int] = {}
        settings = replace(settings, delta=DELTA, skew=MS)
        slots = range(load.stations)
        self._start = settings.quiet + 1
        self._stations = [LiveStation(slot, set(slots) - {slot}, settings, 0) for slot in slots]
        self._alarms = [Alarm(self._world, lambda slot=slot: self._expire(slot)) for slot in slots]  # type: ignore[misc]

    def run(self, messages: int) -> Measured:
        """Send so many; those of the first two delta are not measured."""
        load, rng, world = self._load, self._rng, self._world
        warm = self._start + 2 * DELTA
        end = warm + messages * load.gap // load.stations
        for slot in range(load.stations):
            time = self._start + rng.randrange(load.gap)
            while time < end:
                to = rng.randrange(load.stations - 1)
                goes_to = None if load.is_broadcast else [to + (to >= slot)]
                delays = [self._delay() for _ in range(load.stations if goes_to is None else 1)]
                world.at(time, self._send, slot, goes_to, delays, time >= warm)
                time += 1 + int(rng.expovariate(1 / load.gap))
        world.run_until(end + 10 * DELTA, 1 << 40)
        return self._measured

    def _delay(self) -> int | None:
        """Of one message on its way; None: it is lost."""
        rng = self._rng
        if rng.random() < LOSS:
            return None
        return int(rng.expovariate(1 / (TAIL_MEAN if rng.random() < TAIL else MEAN)))

    def _send(self, slot: int, to: list[int] | None, delays: list[int | None], is_measured: bool) -> None:
        message = self._stations[slot].send(to, b"", self._world.now)
        if is_measured:
            self._measured.messages += 1
            self._measured.entries += message.past.size
        others = to or [other for other in range(self._load.stations) if other != slot]
        for other, delay in zip(others, delays, strict=False):
            if delay is not None:
                self._world.after(delay, self._arrive, other, message, is_measured)

    def _arrive(self, slot: int, message: LiveMessage, is_measured: bool) -> None:
        now = self._world.now
        if is_measured and now <= message.stamp + DELTA:
            self._came[slot, message.id] = now
        self._perform(slot, self._stations[slot].receive(message.src, message, now))

    def _expire(self, slot: int) -> None:
        self._perform(slot, self._stations[slot].expire(self._world.now))

    def _perform(self, slot: int, effects: list[LiveEffect]) -> None:
        measured = self._measured
        for effect in effects:
            if isinstance(effect, Deliver):
                came = self._came.pop((slot, effect.message.id), None)
                if came is not None:
                    measured.deliveries += 1
                    measured.waited += self._world.now - came
                    measured.until_deadline += effect.message.stamp + DELTA - came
        self._alarms[slot].set(self._stations[slot].next_deadline())
