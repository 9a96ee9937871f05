"""What is really gone with lost stations, from what was on their disks: asked before anything is called lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roamcast.middleware.rows import STATION_KINDS, SUBSCRIPTION_KINDS, MessageId, Row
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.items import decode_item

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation


class Losses:
    """Ground truth about stations that were given up."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self.bodies: set[str] = set()
        """Labels of mail whose header is everywhere, and whose body is gone: their senders are not told."""

    @property
    def copied(self) -> bool:
        """Whether what was acknowledged was at two stations, and only one of all is lost: then it is somewhere."""
        return self._sim.options.copies > 1 and len(self._sim.operators.lost) == 1

    def _cut(self, slot: int) -> int | None:
        """Up to where the stream of a lost station still exists; None: not settled anywhere in the group."""
        views = [self._sim.stations[living].disk.state.view for living in self._sim.slots]
        cuts = (view.final[slot].cut for view in views if view is not None and slot in view.final)
        return next(cuts, None)

    def gone(self, label: str) -> bool:
        """Whether the message, or its body, was only at a lost station."""
        if label in self.bodies:
            return True
        for slot in self._sim.operators.lost:
            cut = self._cut(slot)
            if cut is None:
                continue
            for (origin, n), row in self._sim.stations[slot].disk.state.rows.items():
                if origin == slot and n > cut and self._label(row) == label:
                    return True
        return False

    def give_up(self, message: MessageId) -> None:
        """The body of a mail is gone."""
        rows = (node.disk.state.rows.get(message) for node in self._sim.stations.values())
        self.bodies |= {self._label(row) for row in rows if row is not None and not row.lean}

    def holders(self, label: str) -> list[int]:
        """Living stations that have the message."""
        return [
            slot
            for slot in self._sim.slots
            if self._sim.stations[slot].serves()
            for row in self._sim.stations[slot].disk.state.rows.values()
            if self._label(row) == label
        ]

    def may_have_gap(self, host: str) -> bool:
        """Whether a lost station had the custody of the host, or held it as an heir: messages may have waited there."""
        numbers = {node.number for node in self._sim.hosts if node.name == host}
        lost = [self._sim.stations[slot].disk.state for slot in self._sim.operators.lost]
        held = [key[0] for state in lost for key in (*state.records, *state.held)]
        return not numbers.isdisjoint(held)

    def _label(self, row: Row) -> str:
        if row.item is None or row.kind in STATION_KINDS:
            return ""
        item = decode_item(row.item)
        if item.body and row.kind not in SUBSCRIPTION_KINDS:
            return item.body.partition(b" ")[0].decode()
        return self._sim.named[item.sender].label_of(item)


def give_up(simulation: Simulation, message: MessageId) -> None:
    """A station calls the body of a mail lost. Raises Violation: its origin is not lost, or a living station has it."""
    wrong = [] if message[0] in simulation.operators.lost else [f"station {message[0]}, its origin, is not lost"]
    for slot in simulation.slots:
        state = simulation.stations[slot].disk.state
        row = state.rows.get(message)
        if (row is not None and not row.lean) or message in state.items:
            wrong.append(f"station {slot} has it")
    if wrong or simulation.judge.losses is None:
        raise Violation("body given up", [f"the body of {message} is called lost", *wrong])
    simulation.judge.losses.give_up(message)
