"""First sends: own rows to all that are reached, and as a gateway rows of others into clusters that they are not in.

Of each group of gateways one forwards: the first in rank that is not silent. What it needs is in its table: nothing
waits in memory. A row that comes twice is dropped, so two that forward the same only waste it. Each window is over what
stations near have stored themselves: whoever stands still somewhere else stops nobody here (B18).
Source: docs/protocols/clusters.md; fifo-broadcast.md Q3 (b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from roamcast.middleware.effects import Effect
from roamcast.middleware.fifo_broadcast.batches import batches, first_sends
from roamcast.middleware.fifo_broadcast.place import Place
from roamcast.middleware.fifo_broadcast.standing import Standing
from roamcast.middleware.rows import Row


@dataclass(slots=True)
class _Route:
    """Rows of one origin, into one cluster."""

    origin: int
    receivers: tuple[int, ...]
    sent: int | None = None
    """Highest number that was forwarded, while it is this station's to do."""


class Forwarding:
    """What one station sends for the first time."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.sent = standing.known[standing.own]
        """Highest own number that was sent."""
        self.body_to: Callable[[Row], frozenset[int] | None] = lambda row: None
        """Peers that get a row whole, the others its header; None: all get it whole."""
        self._routes: dict[tuple[int, ...], list[_Route]] = {}
        """By group of gateways, in rank, of which this station is one."""
        self._placed: Place | None = None

    def _place(self) -> None:
        """The routes of this station, from each of its clusters into each other one."""
        self._placed = place = self._standing.place
        self._routes, of = {}, place.shape.of
        clusters = of(self._standing.own) if place.is_gateway else ()
        for home, cluster in permutations(clusters, 2):
            routes = self._routes.setdefault(place.group(home, cluster), [])
            for origin in self._standing.origins:
                if of(origin)[0] == home and origin != self._standing.own:
                    there = (i for i in place.near if of(i)[0] == cluster and set(of(i)).isdisjoint(of(origin)))
                    routes.append(_Route(origin, tuple(there)))

    def pump(self, now: int) -> list[Effect]:
        """All that the windows let out."""
        out = self._pump_own(now)
        if self._placed is not self._standing.place:
            self._place()
        for group, routes in self._routes.items():
            leads = self._standing.leader(group, now) == self._standing.own
            for route in routes:
                if leads:
                    out += self._forward(route, now)
                else:
                    route.sent = None
        return out

    def _pump_own(self, now: int) -> list[Effect]:
        standing = self._standing
        stored = standing.table.origins[standing.own].stored
        if self.sent >= stored:
            return []
        near = standing.place.near
        counted = near if "window_down" in standing.mutants else [i for i in near if standing.is_live(i, now)]
        lowest = self._lowest(counted, standing.own, stored)
        rows = standing.table.rows(standing.own, self.sent + 1, min(lowest + standing.settings.send_window, stored))
        if not rows:
            return []
        self.sent = rows[-1].n
        standing.dirty = True
        return self._send(standing.own, rows, standing.reach(now))

    def _lowest(self, counted: Sequence[int], origin: int, default: int) -> int:
        standing = self._standing
        if "window_beyond" in standing.mutants:
            return min((told[origin] for told in standing.accepted.beyond.values()), default=default)
        return min((standing.accepted.claims[i][origin] for i in counted), default=default)

    def _forward(self, route: _Route, now: int) -> list[Effect]:
        """Rows that live stations there lack, as far as they have shown, and that were not sent to them yet."""
        standing, origin = self._standing, route.origin
        stored = standing.table.origins[origin].stored
        if route.sent is not None and route.sent >= stored:
            return []
        live = [i for i in route.receivers if i in standing.words.views and standing.is_live(i, now)]
        if not live:
            return []
        lowest = self._lowest(live, origin, stored)
        sent = lowest if route.sent is None else route.sent
        rows = standing.table.rows(origin, sent + 1, min(lowest + standing.settings.send_window, stored))
        route.sent = rows[-1].n if rows else sent
        return self._send(origin, rows, route.receivers) if rows else []

    def _send(self, origin: int, rows: Sequence[Row], to: tuple[int, ...]) -> list[Effect]:
        standing = self._standing
        cut = batches(origin, standing.stamps.shorten(rows, to), standing.settings)
        return first_sends(cut, to, standing.settings, self._whole_to, everybody=to == standing.peers)

    def _whole_to(self, row: Row) -> frozenset[int] | None:
        """Gateways get a row whole if somebody far does: they bring it there."""
        targets, place = self.body_to(row), self._standing.place
        if targets is None or row.lean:
            return None
        return targets if targets <= set(place.near) else targets | set(place.gateways)
