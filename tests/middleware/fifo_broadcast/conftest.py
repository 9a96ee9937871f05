"""A group of FifoEntities on a wire that a test may lose, repeat and reorder at will."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.middleware.effects import Broadcast, Effect, SendPeer
from roamcast.middleware.fifo_broadcast.core import FifoEntity
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.rows import Kind, Row
from roamcast.middleware.settings import Settings
from roamcast.middleware.simulator.disk import copy_state
from roamcast.middleware.simulator.links import on_the_wire
from roamcast.middleware.station_frames import Claims, DataBatch, Nack, PeerFrame
from roamcast.middleware.writes import DurableState, PutRow

Flight = tuple[int, int, PeerFrame]
"""(sender, receiver, frame)."""


def row(slot: int, n: int, stamp: tuple[tuple[int, int], ...] = (), size: int = 1) -> Row:
    return Row(slot, n, stamp, 0, Kind.BROADCAST, 1, 1, n, (0, 0), 0, bytes(size), size, None)


class Group:
    """Stations with nothing but a table and an entity each; frames arrive at once unless `lose` says otherwise."""

    def __init__(
        self, *slots: int, mutants: frozenset[str] = frozenset(), layout: Layout = FLAT, **settings: int
    ) -> None:
        self.slots = slots
        self.settings = Settings(**settings)
        self.mutants = mutants
        self.layout = layout
        self.now = 1_000_000_000
        self.images = {slot: DurableState() for slot in slots}
        self.up: dict[int, FifoEntity] = {}
        self.wire: list[Flight] = []
        self.sent: list[Flight] = []
        """Every frame that was sent, lost or not; cleared by tests at will."""
        self.faults: list[tuple[int, Effect]] = []
        self.lose: Callable[[int, int, PeerFrame], bool] = lambda source, target, frame: False
        for slot in slots:
            self.start(slot)

    def start(self, slot: int) -> None:
        """A start on what was stored."""
        table = MessageTable(self.slots, copy_state(self.images[slot]))
        self.up[slot] = FifoEntity(slot, View(self.slots), self.settings, table, self.mutants, self.layout)

    def stop(self, slot: int) -> None:
        del self.up[slot]

    def submit(self, slot: int, count: int = 1, size: int = 1, send: bool = True) -> None:
        """New rows of `slot`, sent at once unless `send` is off."""
        for _ in range(count):
            new = row(slot, self.stored(slot, slot) + 1, size=size)
            self.images[slot].apply((PutRow(new),))
            self.up[slot].accept_own(new, self.now)
        if send:
            self.flush(slot)

    def stored(self, slot: int, origin: int) -> int:
        return self.up[slot].table.origins[origin].stored

    # ---- frames ----

    def flush(self, slot: int) -> None:
        entity = self.up[slot]
        self.post(slot, [*entity.pump(self.now), *entity.tick(self.now, 0)])

    def post(self, source: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Broadcast(frame, to):
                    targets = [slot for slot in (self.slots if to is None else to) if slot != source]
                case SendPeer(slot, frame):
                    targets = [slot]
                case _:
                    self.faults.append((source, effect))
                    continue
            flights = [(source, target, on_the_wire(frame, self._never)) for target in targets]
            self.sent += [(source, target, on_the_wire(frame, self._never)) for target in targets]
            self.wire += [flight for flight in flights if not self.lose(*flight)]

    @staticmethod
    def _never(slot: int, n: int) -> bytes:
        raise AssertionError(f"row ({slot}, {n}) has lost its bytes")

    def hand(self, source: int, target: int, frame: PeerFrame) -> None:
        """One frame arrives."""
        entity = self.up.get(target)
        if entity is None:
            return
        entity.hear(source, self.now)
        match frame:
            case DataBatch():
                accepted, effects = entity.receive_data(source, frame, self.now)
                self.images[target].apply(tuple(PutRow(new) for new in accepted))
                self.post(target, effects)
            case Claims():
                self.post(target, entity.receive_claims(source, frame, self.now))
            case Nack():
                self.post(target, entity.receive_nack(source, frame))
        self.flush(target)

    def deliver(self) -> None:
        """Everything on the wire arrives, in order, and what that causes."""
        while self.wire:
            self.hand(*self.wire.pop(0))

    def run(self, duration: int) -> None:
        """Time passes; timers run when they are due."""
        end = self.now + duration
        self.deliver()
        while True:
            due = [entity.next_deadline(self.now) for entity in self.up.values()]
            self.now = max(self.now + 1, min(time for time in due if time is not None))
            if self.now > end:
                break
            for slot in self.slots:
                if slot in self.up:
                    self.flush(slot)
            self.deliver()
        self.now = end

    def sent_of(self, kind: type, source: int | None = None) -> list[Any]:
        return [frame for sender, _, frame in self.sent if isinstance(frame, kind) and source in (None, sender)]


@pytest.fixture
def make_group() -> type[Group]:
    return Group


@pytest.fixture
def group() -> Group:
    return Group(1, 2, 3)


@pytest.fixture
def make_row() -> Callable[..., Row]:
    return row
