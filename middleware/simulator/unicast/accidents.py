"""What happens to the stations of a run: crashes, a long absence, newcomers, stations that burn down, old backups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roamcast.middleware.causal_unicast.records import MailImage
from roamcast.middleware.causal_unicast.station import MailStation
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.scenario import stream
from roamcast.middleware.simulator.unicast.node import MailNode

if TYPE_CHECKING:
    from roamcast.middleware.simulator.unicast.run import UnicastRun


class Accidents:
    """Of one run."""

    def __init__(self, run: UnicastRun, seed: int) -> None:
        self.found = 0
        """Stations that went back in time, and were found out."""
        self._run = run
        self._seed = seed
        self._down = 0
        """The station that is down for long."""
        self._hearing = 0
        """Stations that have not heard of a change yet."""
        self._old: MailImage | None = None

    def begin(self) -> None:
        """Plan everything."""
        options, world = self._run.options, self._run.world
        rng = stream(self._seed, "accidents")
        slots = sorted(self._run.nodes)
        for _ in range(options.crashes):
            time, pause = rng.randint(0, options.duration), rng.randint(1, options.duration)
            world.at(time, self.crash, self._run.nodes[rng.choice(slots)], pause)
        if options.down:
            self._down = rng.choice(slots)
            world.at(rng.randint(0, options.duration // 5), self.crash, self._run.nodes[self._down], None)
        for number in range(options.joiners):
            world.at(rng.randint(0, options.duration), self._join, slots[-1] + 1 + number)
        for slot in rng.sample(slots, min(options.lost, len(slots) - 2)):
            world.at(rng.randint(options.duration // 10, options.duration), self._burn, self._run.nodes[slot])
        if options.backup:
            node = self._run.nodes[rng.choice(slots)]
            first, second = sorted(rng.randint(0, options.duration) for _ in range(2))
            world.at(first, self._back_up, node)
            world.at(second, self._restore, node)

    def heal(self) -> None:
        """All that have not ended are up."""
        self._down = 0
        for node in self._run.living():
            if node.core is None:
                self._start(node)

    def left(self) -> list[str]:
        """What is still to come."""
        return [f"{self._hearing} stations have not heard of a change"] if self._hearing else []

    # ---- lives ----

    def crash(self, node: MailNode, pause: int | None) -> None:
        """It is gone, for `pause` or for long."""
        if node.core is not None:
            self._run.trace.note("crash", node.slot)
            node.stop()
            if pause is not None:
                self._run.world.after(pause, self._start, node)

    def _start(self, node: MailNode) -> None:
        if node.core is None and not node.gone and node.slot != self._down:
            self._run.trace.note("start", node.slot)
            node.start()
            self._link(node)

    def _link(self, node: MailNode) -> None:
        """Its links are set up: a true store is not accused, and what waits is sent."""
        for other in self._run.living():
            if node.core is None:
                return
            if other.core is None or other is node or node.slot not in other.peers:
                continue
            if self._accuses(other, node) or self._accuses(node, other):
                raise Violation("accused", [f"station {node.slot} or {other.slot} is said to have gone back"])
            other.act(MailStation.link_up, node.slot)
            node.act(MailStation.link_up, other.slot)

    def _accuses(self, one: MailNode, other: MailNode) -> bool:
        """Whether `one` finds that the store of `other` went back, when their link is set up."""
        if one.core is None or other.core is None or other.slot in one.ended:
            return False
        return one.core.is_older(other.slot, other.core.sent_number, other.core.known_of(one.slot))

    # ---- the group ----

    def _join(self, slot: int) -> None:
        self._run.trace.note("join", slot)
        node = self._run.make(slot)
        rng = stream(self._seed, f"join {slot}")
        closed = self._run.judge.closed
        node.ended = sorted(closed)
        node.peers = self._run.nodes.keys() - closed - {slot}
        for other in self._run.living():
            if other is not node:
                self._hear(rng.randint(0, self._run.options.hearsay), other, MailNode.add, slot)
        node.start()

    def _burn(self, node: MailNode) -> None:
        """Its mail may be under way; some time later all others agree that it has ended, and then hear of it."""
        if node.gone:
            return
        self._run.trace.note("burn", node.slot)
        self.crash(node, None)
        node.gone = True
        self._hearing += 1
        pause = stream(self._seed, f"burn {node.slot}").randint(0, 2 * self._run.options.hearsay)
        self._run.world.after(pause, self._close, node)

    def _close(self, node: MailNode) -> None:
        self._run.trace.note("close", node.slot)
        self._hearing -= 1
        self._run.judge.close(node.slot)
        rng = stream(self._seed, f"close {node.slot}")
        for other in self._run.living():
            self._hear(rng.randint(0, 2 * self._run.options.hearsay), other, MailNode.retire, node.slot)

    def _hear(self, delay: int, node: MailNode, method: object, slot: int) -> None:
        self._hearing += 1
        self._run.world.after(delay, self._heard, node, method, slot)

    def _heard(self, node: MailNode, method: object, slot: int) -> None:
        self._hearing -= 1
        if method is MailNode.retire:
            node.retire(slot)
        elif slot not in node.ended:
            node.add(slot)

    # ---- a store that goes back ----

    def _back_up(self, node: MailNode) -> None:
        if self._run.options.backup == "older":
            self._old = node.disk.state.copy()

    def _restore(self, node: MailNode) -> None:
        """It starts on an old store while all others are up: it must be found out if anybody can tell; then it ends."""
        if node.gone:
            return
        self._run.trace.note("restore", node.slot)
        if node.core is not None:
            node.stop()
        node.disk.reset(self._old or MailImage())
        others = [other for other in self._run.living() if other is not node and node.slot in other.peers]
        for other in others:
            self._start(other)
        node.core = MailStation(node.slot, node.peers, node.disk.load(), self._run.options.settings())
        can_tell, accused = self._can_tell(node, others), False
        for other in others:
            accused = accused or self._accuses(other, node) or self._accuses(node, other)
        node.core = None
        if can_tell and not accused:
            raise Violation("went back", [f"nobody noticed it of station {node.slot}"])
        self.found += accused
        self._burn(node)

    def _can_tell(self, node: MailNode, others: list[MailNode]) -> bool:
        """By what really happened: somebody has seen mail that it does not know it sent, or that it took."""
        judge, core = self._run.judge, node.core
        return core is not None and any(
            judge.knows(other.slot, node.slot) > core.sent_number
            or judge.acked.get((other.slot, node.slot), 0) > core.known_of(other.slot)
            for other in others
            if other.core is not None
        )
