"""Collects what a tick saves and sends, so that one `Save` stands in front of everything that it covers."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from roamcast.middleware.host_frames import LiveData, UpFrame
from roamcast.middleware.mobile_host.effects import AgentEffect, Report, Save, SendLive, SendUp
from roamcast.middleware.mobile_host.state import Acked, AgentImage, Epoch, Fact, OutboxTrimmed, Queued, Welcomed

_LATE: dict[type, str] = {Queued: "number_late", Welcomed: "welcome_late", Acked: "c_late"}
"""Mutants that save a fact behind what it covers."""


class Journal:
    """Facts and effects of the present tick."""

    def __init__(self, image: AgentImage, mutants: Set[str]) -> None:
        self._mutants = mutants
        self._epoch = image.epoch
        self._facts: list[Fact] = []
        self._lazy: list[Fact] = []
        self._effects: list[AgentEffect] = []

    def save(self, *facts: Fact) -> None:
        """Durable before anything of this tick leaves."""
        self._facts += facts

    def save_lazily(self, fact: Fact) -> None:
        """Durable with the next facts that must be, before them."""
        if isinstance(fact, OutboxTrimmed) and self._lazy and isinstance(self._lazy[-1], OutboxTrimmed):
            self._lazy.pop()
        self._lazy.append(fact)

    def emit(self, effect: AgentEffect) -> None:
        """Append an effect."""
        self._effects.append(effect)

    def send(self, frame: UpFrame) -> None:
        """Send a frame up."""
        self._effects.append(SendUp(frame))

    def send_live(self, frame: LiveData) -> None:
        """Send it up now or not at all."""
        self._effects.append(SendLive(frame))

    def report(self, event: str, **fields: Any) -> None:
        """Tell the driver."""
        self._effects.append(Report(event, fields))

    def flush(self, epoch: int) -> list[AgentEffect]:
        """Take all that was collected; an `epoch` that has risen is durable before the HELLO that says it."""
        effects, self._effects = self._effects, []
        if epoch != self._epoch and (self._facts or "epoch_late" not in self._mutants):
            self._epoch = epoch
            self._facts.append(Epoch(epoch))
        if not self._facts:
            return effects
        facts = (*self._lazy, *self._facts)
        self._lazy, self._facts = [], []
        if not self._mutants:
            return [Save(facts), *effects]
        late = tuple(fact for fact in facts if _LATE.get(type(fact)) in self._mutants)
        first = tuple(fact for fact in facts if _LATE.get(type(fact)) not in self._mutants)
        return [*([Save(first)] if first else []), *effects, *([Save(late)] if late else [])]
