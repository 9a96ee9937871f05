"""One station of live messages in virtual time: its clock, which is wrong, its lives, and its late timers."""

from __future__ import annotations

from random import Random
from typing import Protocol

from roamcast.middleware.delta_causal.errors import LiveRefused
from roamcast.middleware.delta_causal.messages import Deliver, Drop, LiveEffect, LiveMessage
from roamcast.middleware.delta_causal.settings import LiveSettings
from roamcast.middleware.delta_causal.station import LiveStation
from roamcast.middleware.effects import Reject
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.live.judge import LiveJudge
from roamcast.middleware.simulator.world import Alarm, World

BASE = 10_000_000
"""What a true clock reads at virtual time 0."""


class Surroundings(Protocol):
    """What a station has around it."""

    judge: LiveJudge

    def transmit(self, message: LiveMessage) -> None:
        """A message leaves."""

    def heard(self, node: LiveNode, message: LiveMessage) -> None:
        """The application was given a message, and may send others."""


class LiveNode:
    """One station over all its lives."""

    def __init__(
        self, world: World, around: Surroundings, slot: int, settings: LiveSettings, late: int, rng: Random,
        mutants: frozenset[str],
    ) -> None:  # fmt: skip
        self.slot = slot
        self.settings = settings
        self.offset = 0
        """Of its clock against the true time."""
        self.peers: tuple[int, ...] = ()
        self.refusals: dict[str, int] = {}
        self.restarts = -1
        self._world = world
        self._around = around
        self._late = late
        self._rng = rng
        self._mutants = mutants
        self._alarm = Alarm(world, self._expire)

    @property
    def reading(self) -> int:
        """Of its clock, now."""
        return BASE + self._world.now + self.offset

    def start(self) -> None:
        """A life begins; nothing is left of the one before."""
        self.restarts += 1
        self._alarm.clear()
        self._around.judge.life(self.slot, self.reading, self.settings.delta)
        self.core = LiveStation(self.slot, self.peers, self.settings, self.reading, self._mutants)

    def set_offset(self, offset: int) -> None:
        """The clock is set; the timer follows it."""
        self.offset = offset
        self._alarm.clear()
        self._expire()

    def send(self, to: list[int] | None) -> None:
        """The application sends, if it may."""
        try:
            message = self.core.send(to, b"", self.reading)
        except LiveRefused as refused:
            self.refusals[refused.code] = self.refusals.get(refused.code, 0) + 1
            return
        judge, name = self._around.judge, message.id
        goes_to = frozenset(self.peers if to is None else to)
        sent = judge.sent(self.slot, self.reading, self._world.now, name, goes_to, to is None)
        for slot in (*self.peers, self.slot):
            past = message.past.of(slot)
            judge.check_tag(slot, sent, past.entries, past.horizon, self.settings.entries_max)
        self._around.transmit(message)

    def receive(self, message: LiveMessage) -> None:
        """A copy comes."""
        effects = self.core.receive(message.src, message, self.reading)
        refused = [effect for effect in effects if isinstance(effect, Reject)]
        if refused:
            raise Violation("refused", [f"station {self.slot} refuses {message.id}: {refused[0].text}"])
        dropped = [effect.why.value for effect in effects if isinstance(effect, Drop)]
        self._around.judge.came(self.slot, self.reading, self._world.now, message.id, "".join(dropped))
        self._perform(effects)

    def configure(self, settings: LiveSettings) -> None:
        """Delta is another one from now on."""
        before, self.settings = self.settings, settings
        effects = self.core.configure(settings, self.reading)
        for effect in effects:
            if isinstance(effect, Deliver):
                self._give(effect.message, is_last_call=True)
        self._around.judge.life(self.slot, self.reading, settings.delta, before.delta)
        self._perform([])

    def _expire(self) -> None:
        self._perform(self.core.expire(self.reading))

    def _perform(self, effects: list[LiveEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self._give(effect.message)
        due = self.core.next_deadline()
        self._around.judge.rests(self.slot, self.reading, due)
        if due is not None:
            self._alarm.set(due - BASE - self.offset + self._rng.randint(0, self._late))

    def _give(self, message: LiveMessage, is_last_call: bool = False) -> None:
        self._around.judge.delivered(self.slot, self.reading, message.id, is_last_call)
        self._around.heard(self, message)
