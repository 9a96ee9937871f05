"""A station that is told of clusters, and watched: what it calls stable everywhere must be there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roamcast.middleware.effects import Broadcast, Effect
from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.simulator.checkers import Violation
from roamcast.middleware.simulator.live_traffic import LiveStationNode
from roamcast.middleware.station_frames import DataBatch


class ClusterStationNode(LiveStationNode):
    """A station of any scenario; watched where there are clusters."""

    others: Mapping[int, ClusterStationNode]

    def begin(self, others: Mapping[int, ClusterStationNode], layout: Layout, watched: bool) -> None:
        """Before the first start. `others`: all stations, by slot."""
        self.others = others
        self.watched = watched
        self.layout = layout
        self.version = 0
        self.told_stable: dict[int, int] = {}
        """By origin: the highest number that it has ever called stable."""
        self.sends = dict.fromkeys(("forwarded", "by-standby", "directly"), 0)
        """First sends: of rows of others, of these by a standby; and of own rows to far stations."""
        self._checked: tuple[dict[int, int], dict[int, int]] = ({}, {})

    def relayout(self, version: int, layout: Layout) -> None:
        """The configuration has other clusters now, if nothing newer has come."""
        if version > self.version:
            self.version, self.layout = version, layout
            if self.up:
                self.put("set_layout", layout)

    def start_again(self, life: int) -> None:
        """After the crash that ended this life, unless that has happened."""
        self._restart(life)

    def _build(self) -> None:
        super()._build()
        if self.layout is not FLAT:
            self.put("set_layout", self.layout)
        self._checked = ({}, {})
        self._claims: list[int] = []
        self._stable: list[int] = []
        self._known_stable: list[int] = []

    def _run(self, inbox: list[tuple[str, tuple[Any, ...]]]) -> None:
        super()._run(inbox)
        if self.core is not None and self.core.newcomer is None and self.watched:
            self._watch()

    def _watch(self) -> None:
        """(1) of fifo-broadcast.md (c): what is called stable, or known to be, is so at this instant."""
        assert self.core is not None
        fifo = self.core.ledger.fifo
        claims = fifo.stable_claims.claims[self.slot]  # higher than `stable`, if a newcomer came in the same tick
        if claims != self._claims:
            self._claims = list(claims)
            self.told_stable |= {j: max(self.told_stable.get(j, 0), claims[j]) for j in fifo.origins}
        if fifo.stable != self._stable:
            self._stable = list(fifo.stable)
            self._check("stable", self._checked[0], fifo.stable, lambda node, j: node.stored(j))
        if fifo.known_stable != self._known_stable:
            self._known_stable = list(fifo.known_stable)
            self._check("known stable", self._checked[1], fifo.known_stable, lambda node, j: node.told_stable.get(j, 0))

    def stored(self, origin: int) -> int:
        """How far it has the stream durably."""
        stream = self.disk.state.streams.get(origin)
        return 0 if stream is None else max(stream.stored, stream.floor)

    def _check(
        self, what: str, checked: dict[int, int], level: list[int], has: Callable[[ClusterStationNode, int], int]
    ) -> None:
        assert self.core is not None
        ledger = self.core.ledger
        for j in ledger.fifo.origins:
            value = level[j]
            if value > max(checked.get(j, 0), ledger.table.origins[j].floor):
                for slot in ledger.view.living:
                    if slot == self.slot or slot not in self.others or self._needs_nothing(slot, j, value):
                        continue
                    if (there := has(self.others[slot], j)) < value:
                        said = f"station {self.slot} says that ({j}, {value}) is {what}"
                        raise Violation(f"not {what}", [said, f"station {slot} has only {there}"])
            checked[j] = value

    def _needs_nothing(self, slot: int, origin: int, n: int) -> bool:
        """Whether it is a newcomer that takes its snapshot yet, and the row was dropped somewhere before."""
        state = self.others[slot].disk.state
        dropped = (node.disk.state.streams.get(origin) for node in self.others.values())
        return bool(state.view and state.view.sponsor) and n <= max(stream.floor for stream in dropped if stream)

    def _perform(self, effect: Effect) -> None:
        if self.watched and isinstance(effect, Broadcast) and isinstance(effect.frame, DataBatch):
            self._check_first_send(effect.frame, effect.to)
        super()._perform(effect)

    def _check_first_send(self, batch: DataBatch, to: tuple[int, ...] | None) -> None:
        """Rows go to far stations only while no gateway to them is heard, or one is said not to reach them."""
        assert self.core is not None
        fifo = self.core.ledger.fifo
        if batch.origin != self.slot:
            self.sends["forwarded"] += 1
            self.sends["by-standby"] += self.slot in fifo.layout.standbys
        layout, living, now = fifo.layout, fifo.words.view.living, self.core.ledger.now
        down_after = fifo.settings.down_after
        if layout.parted(living):
            return
        for slot in fifo.peers if to is None else to:
            if slot in layout.near(self.slot, living):
                continue
            self.sends["directly"] += 1
            shared = layout.group(layout.of(self.slot)[0], layout.of(slot)[0])
            for gateway in (i for i in shared if i in living):
                if self._is_told_so(gateway, slot):
                    break
                if now - fifo.last_heard.get(gateway, now - down_after) < down_after:
                    said = f"station {self.slot} sends rows of {batch.origin} to {slot}, which is far"
                    raise Violation("direct send", [said, f"it hears the gateway {gateway}"])

    def _is_told_so(self, gateway: int, far: int) -> bool:
        """Whether the gateway has said that it does not hear one of the two, or the far one the gateway."""
        assert self.core is not None
        fifo = self.core.ledger.fifo
        since, deaf = fifo.deaf.get(far, (0, ()))
        fresh = self.core.ledger.now - since < fifo.settings.down_after
        return bool({self.slot, far} & set(fifo.down.get(gateway, ()))) or (fresh and gateway in deaf)


def unstable(stations: Mapping[int, ClusterStationNode], slots: tuple[int, ...]) -> list[str]:
    """At rest everything is known to be stable everywhere."""
    left = []
    for slot in slots:
        core = stations[slot].core
        if core is None or core.newcomer is not None:
            left.append(f"station {slot} is not up")
            continue
        fifo = core.ledger.fifo
        for j in fifo.origins:
            levels = fifo.table.origins[j].stored, fifo.stable[j], fifo.known_stable[j]
            if len(set(levels)) > 1:
                left.append(f"station {slot} has of {j} stored, stable, known stable {levels}")
    return left
