"""The place of one station among the clusters: whom it sees, by whom others see it, and who brings it whose rows.

Made anew from the layout and the view whenever one of them changes. If all gateways of two clusters have ended, there
is one cluster of all from then on: else the two would never hear of each other. Source: docs/protocols/clusters.md.
"""

from __future__ import annotations

from roamcast.middleware.fifo_broadcast.layout import FLAT, Layout
from roamcast.middleware.membership.view import View


class Place:
    """Near are the stations that share a cluster with this one; the others are far."""

    def __init__(self, own: int, layout: Layout, view: View) -> None:
        self.parted = layout.parted(view.living)
        """Two clusters have no living gateway left: the layout is not used."""
        self.shape = shape = FLAT if self.parted else layout
        self.mark = shape.mark(view.members)
        """What gateways say of all that they see counts among stations with the same mark."""
        self.home = shape.of(own)[0]
        self.is_gateway = shape.is_gateway(own)
        self.rows = shape.near(own, view.counted)
        """Near, until their end is settled; this station too."""
        self.near = tuple(slot for slot in self.rows if slot != own and slot not in view.closed)
        """Near and living, without this station."""
        self.gateways = tuple(slot for slot in self.rows if slot != own and shape.is_gateway(slot))
        self._living = frozenset(view.living)
        self.far = {
            slot: self.group(self.home, shape.of(slot)[0])
            for slot in view.living
            if slot != own and slot not in self.rows
        }
        """By station that is far and lives: who forwards this station's rows to it, in rank."""
        self.bringers = {slot: self.group(shape.of(slot)[0], self.home) for slot in self.far}
        """By station that is far and lives: who forwards its rows to this one, in rank."""

    def group(self, one: int, other: int) -> tuple[int, ...]:
        """The living gateways that two clusters share, in rank."""
        return tuple(slot for slot in self.shape.group(one, other) if slot in self._living)

    def brought(self, origin: int) -> tuple[int, ...]:
        """Who forwards rows of `origin` to this station, in rank; nobody if it sends them itself."""
        if origin in self.rows:
            return ()
        return self.group(self.shape.of(origin)[0], self.home)

    def may_bring(self, station: int, origin: int) -> bool:
        """Whether rows of `origin` may come from this other station unasked."""
        return bool(self.shape.clusters) and station in self.brought(origin)
