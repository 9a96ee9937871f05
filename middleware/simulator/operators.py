"""What operators do to the group while everything runs: let a station join, retire one in order, give one up for lost.

An operator repeats what has not happened yet, also when the faults have ended; what the replicated configuration says
(who has ended) reaches each station after a while, and again after each start.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from roamcast.middleware.effects import GroupEffect, Halt, HandedOver, Notice, SlotGiven
from roamcast.middleware.settings import MS
from roamcast.middleware.simulator.losses import give_up
from roamcast.middleware.simulator.scenario import stream

if TYPE_CHECKING:
    from roamcast.middleware.simulator.run import Simulation
    from roamcast.middleware.simulator.station_node import StationNode

PATIENCE = 100 * MS
LIVING_MIN = 2


class Operators:
    """Joins, retirements and losses of one run."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self._sim = simulation
        self._seed = seed
        self._rng = stream(seed, "operators")
        self._joining: dict[int, int] = {}
        """Generation -> slot of its sponsor."""
        self.lost: list[int] = []
        self.retiring: dict[int, int] = {}
        """Slot -> heir."""
        self._released: set[int] = set()
        self._waits_for_nobody = False
        self._spread_max = 10 * simulation.options.wired_delay

    # ---- join ----

    def join(self, rng: Random) -> None:
        """`invite` and `join` at a random station."""
        generation = rng.getrandbits(62) + 1
        self._joining[generation] = rng.choice(self._sim.slots)
        self._repeat_join(generation)

    def _repeat_join(self, generation: int) -> None:
        if generation not in self._joining:
            return
        sponsor = self._sim.stations[self._joining[generation]]
        if not sponsor.serves():
            self._joining[generation] = self._rng.choice(self._sim.slots)
        elif sponsor.up:
            sponsor.put("reserve", f"s{generation & 0xFFFF}", generation)
        self._sim.world.after(PATIENCE, self._repeat_join, generation)

    def effect(self, node: StationNode, effect: GroupEffect | Notice) -> None:
        """A station has something for its operator, or for the configuration."""
        match effect:
            case SlotGiven(_, generation, slot):
                if generation in self._joining:
                    node.put("add_station", slot)
                    self._sim.world.after(5 * MS, self._let_in, generation, slot, node)
            case Halt():  # a newcomer that nobody but a lost sponsor counted, or one too late: it is given up
                if node.slot not in self._sim.ended:
                    self.lost.append(node.slot)
                    self.end(node.slot, 0)
                    if self._waits_for_nobody:
                        self.release()
            case Notice(_, _, fields):
                self._sim.trace.note("body lost", node.slot, *fields["message"])
                give_up(self._sim, fields["message"])
            case HandedOver(heir):
                self._sim.trace.note("handed over", node.slot, heir)
                self.end(node.slot, heir)

    def _let_in(self, generation: int, slot: int, sponsor: StationNode) -> None:
        """The answer to JOIN goes out once it is durable that the newcomer is a member."""
        view = sponsor.disk.state.view
        if generation in self._joining and view is not None and slot in view.members and not sponsor.ended:
            del self._joining[generation]
            self._sim.add_station(slot, sponsor.slot)

    # ---- retire ----

    def retire(self, rng: Random) -> None:
        """`stations retire` of a random station."""
        able = [slot for slot in self._sim.slots if slot not in self.retiring and self._may_end(slot)]
        if able:
            self.retiring[rng.choice(able)] = 0
            self._repeat_retire()

    def _may_end(self, slot: int) -> bool:
        leaving = [s for s in self.retiring if not self._sim.stations[s].ended]
        serving = [s for s in self._sim.slots if s != slot and s not in leaving and self._sim.stations[s].serves()]
        return len(serving) >= LIVING_MIN - 1

    def _repeat_retire(self) -> None:
        for slot, heir in list(self.retiring.items()):
            station = self._sim.stations[slot]
            if slot in self._sim.ended:
                continue
            if heir == 0 or heir in self._sim.ended or heir in self.retiring:
                able = [s for s in self._sim.slots if s not in self.retiring and self._sim.stations[s].serves()]
                self.retiring[slot] = heir = self._rng.choice(able) if able else 0
            if heir and station.up:
                station.put("retire", heir)
        if any(slot not in self._sim.ended for slot in self.retiring):
            self._sim.world.after(PATIENCE, self._repeat_retire)

    # ---- lose ----

    def lose(self, rng: Random) -> None:
        """A station burns down, or only seems to; `stations retire --lost`. One at a time."""
        settled = all(self._final_everywhere(slot) for slot in self._sim.ended)
        able = [slot for slot in self._sim.slots if self._may_end(slot)]
        if not settled or not able:
            return
        slot = rng.choice(able)
        self.lost.append(slot)
        if not self._sim.options.lost_alive:
            self._sim.stations[slot].burn()
        self._sim.trace.note("lost", slot)
        self.end(slot, 0)

    def _final_everywhere(self, slot: int) -> bool:
        views = [self._sim.stations[s].disk.state.view for s in self._sim.slots]
        return all(view is not None and slot in view.final for view in views)

    def end(self, slot: int, heir: int) -> None:
        """The configuration says that the station has ended; the others come to know it."""
        if slot in self._sim.ended:
            return
        self._sim.ended[slot] = heir
        for other in self._sim.stations.values():
            if other.slot not in self._sim.ended and not other.ended:  # who hears of this hears of its own end too
                delay = self._rng.randint(0, self._spread_max)
                self._sim.world.after(delay, other.order, "close_station", slot, heir)
        self._sim.publish()

    def release(self) -> None:
        """Nobody waits for hosts of lost stations any more, nor of those that are lost from now on."""
        self._waits_for_nobody = True
        for slot in [slot for slot in self.lost if slot not in self._released]:
            self._released.add(slot)
            for told in [self._sim.stations[s] for s in self._sim.slots]:
                told.order("close_station", slot, 0)
                told.order("release_station", slot)

    def _runs(self, slot: int) -> bool:
        return not self._sim.stations[slot].ended

    def remind(self) -> None:
        """The configuration reaches those at last who live on although they have ended."""
        for slot, heir in self._sim.ended.items():
            if self._runs(slot):
                self._sim.stations[slot].order("close_station", slot, heir)

    def unfinished(self) -> list[str]:
        """What has been asked for and has not come about."""
        left = [f"a newcomer waits for station {sponsor}" for sponsor in self._joining.values()]
        for slot, heir in self.retiring.items():
            core = self._sim.stations[slot].core
            if slot not in self._sim.ended and core is not None:
                left.append(f"station {slot} waits to hand over to {heir}: {core.heir.obstacles()}")
        left += [f"station {slot} does not know that it has ended" for slot in self._sim.ended if self._runs(slot)]
        for slot in self._sim.slots:
            self._sim.stations[slot].disk.sync()
            view = self._sim.stations[slot].disk.state.view
            if view is None:
                continue
            if view.sponsor or not view.serving:
                left.append(f"station {slot} does not serve yet: {view.members}")
            if view.final.keys() != self._sim.ended.keys() & set(view.members):
                left.append(f"ended are {list(self._sim.ended)}, at station {slot} final are {list(view.final)}")
        return left
