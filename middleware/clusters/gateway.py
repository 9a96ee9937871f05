"""A gateway: one element in each of several clusters, which relay each other's rows and withhold their claims.

A row of a station is relayed at once into all other clusters, as an entry of the gateway's own stream there. What a
gateway claims to have, of its home stations and of its own streams, is what everybody beyond it has too: so an entity's
minimum over its own small cluster is one over the whole composite cluster.

A standby runs the same rules as an element of its own, but sends no relays: it recognises those of the active gateway
by whose rows they are, and withholds its claims like that one. When the active gateway has ended, and its stream has
come to the same end at all, the standby sends what is left. So neither level nor order breaks in between.

Source: paper 001 (LOP); fifo-broadcast.md (b) 'Gateway', (f) 'Gateway standby'.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from roamcast.middleware.clusters.element import Element, Taken
from roamcast.middleware.clusters.frames import Counts, Effect, Ended, Frame, Item
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import Roster, StreamTable
from roamcast.middleware.clusters.tally import Tally

Offer = Callable[[int, int, Item], None]
"""(cluster, GSEQ, row): a row of a home station, for all other clusters of the gateway."""
Name = tuple[int, int]


class SubGateway(Element):
    """The element of a gateway in one cluster."""

    def __init__(
        self, roster: Roster, settings: ClusterSettings, active: int | None, offer: Offer, mutants: frozenset[str]
    ) -> None:
        self._offer = offer
        self._active = active
        """Whose standby this is."""
        self._gseq = 0
        self.queue: dict[Name, tuple[int, int, Item]] = {}
        """Rows of other clusters that are not relayed here yet: (home cluster, GSEQ, row), in order."""
        self._unmatched: deque[tuple[int, Name]] = deque()
        """Relays of the active gateway whose row has not come from its home yet, and those behind such."""
        self.stored_tally, self.known_tally, self.flow_tally = self.tallies = (Tally(), Tally(), Tally())
        super().__init__(roster, settings, StreamTable(roster.members), mutants)

    # ---- rows ----

    def _took(self, stream: int, number: int, item: Item) -> None:
        super()._took(stream, number, item)
        is_home = item.slot in self.roster.stations or ("relay_all" in self._mutants and stream != self.own)
        if is_home:
            self._gseq += 1
            for tally in self.tallies:
                tally.forward(self._gseq, stream, number)
            self._offer(self.roster.cluster, self._gseq, item)
        elif stream == self._active:
            self._unmatched.append((number, (item.slot, item.n)))
            self._match()

    def offered(self, home: int, gseq: int, item: Item) -> None:
        """A row came from its home cluster, inside the gateway."""
        self.queue[item.slot, item.n] = (home, gseq, item)
        self._match()

    def _match(self) -> None:
        """Relays of the active gateway, as far as their rows have come from home too."""
        while self._active is not None and self._unmatched:
            number, name = self._unmatched[0]
            if name not in self.queue:
                break
            home, gseq, _ = self.queue.pop(name)
            self._unmatched.popleft()
            self._relayed(self._active, number, home, gseq)

    def _relayed(self, stream: int, number: int, home: int, gseq: int) -> None:
        for tally in self.tallies:
            tally.relay(stream, number, home, gseq)

    def may_send(self) -> bool:
        """A gateway always; a standby once nobody can take anything more of the active one's stream."""
        active = self._active
        if active is None:
            return True
        if active not in self.roster.closed:
            return False
        if "takeover_early" in self._mutants:
            return True
        return self.closings.is_everywhere(active)

    def stranded(self) -> Item | None:
        """The first row relayed here by the active gateway, which is over, that has not come from its home."""
        if not self._unmatched or self._active is None or not self.may_send():
            return None
        return self.table.streams[self._active].items[self._unmatched[0][0]]

    def bring_home(self, item: Item, now: int) -> bool:
        """A row of a station of this cluster that only others have: its next one after all that was left here.

        Its station has ended together with the gateway that had relayed it. Here it is an entry of this element's
        stream, and for all gateways a row of this cluster.
        """
        is_next = item.n == self.table.origins.get(item.slot, 0) + 1
        if "stranded_lost" in self._mutants or not (is_next and self.may_send()):
            return False
        if not self.closings.is_everywhere(item.slot):
            return False
        self.accept_own(item, now)
        return True

    def pump(self, now: int) -> list[Effect]:
        """Relays within W_g above what the living stations of the cluster have taken (B18: local acceptance only)."""
        if not self.may_send():
            return []
        least = self.least_of_living(self.own, now)
        if "gw_window_global" in self._mutants:
            least = self.stable_claims.minima[self.own]
        unmatched = {name for _, name in self._unmatched}
        for name in list(self.queue):
            if self.table.streams[self.own].stored - least >= self.settings.relay_window:
                break
            if name in unmatched:
                continue
            home, gseq, item = self.queue.pop(name)
            self._relayed(self.own, self.table.streams[self.own].stored + 1, home, gseq)
            self.accept_own(item, now)
        return self._send(self.table.streams[self.own].stored)

    # ---- claims ----

    def ack(self, stream: int) -> int:
        """Withheld until it holds beyond this cluster: of home stations (B9), and of relays (B11)."""
        return self._withheld(self.stored_tally, stream, super().ack(stream))

    def pack(self, stream: int) -> int:
        """The same of level 3 (B13)."""
        return self._withheld(self.known_tally, stream, super().pack(stream))

    def _withheld(self, tally: Tally, stream: int, value: int) -> int:
        if stream == self.own and "own_ack_immediate" in self._mutants:
            return value
        if self._active is not None and "standby_unheld" in self._mutants:
            return value
        if stream == self._active and self._unmatched:
            value = min(value, self._unmatched[0][0] - 1)
        return tally.limit(stream, value)

    def rooms(self) -> Counts:
        """How far home stations' rows have been taken by all that live, in every cluster."""
        streams = self.table.streams
        return tuple((s, self.flow_tally.limit(s, streams[s].stored)) for s in sorted(self.roster.stations))

    def least_of_stations(self, stream: int) -> int:
        """minCAL: how far the stream is stored at the stations of this cluster (B4: no gateway counts here)."""
        rows = self.accepted.rows
        if "mincal_all" in self._mutants:
            return min(row[stream] for row in rows.values())
        stored = self.table.streams[stream].stored
        return min((rows[i][stream] for i in self.roster.living if i in self.roster.stations), default=stored)

    def _least_known(self, stream: int) -> int:
        rows, stable = self.stable_claims.rows, self.stable[stream]
        return min((rows[i][stream] for i in self.roster.living if i in self.roster.stations), default=stable)

    def least_of_living(self, stream: int, now: int) -> int:
        """The same among those that were heard of lately: for flow alone."""
        rows = self.accepted.rows
        living = (i for i in self.roster.peers if i in self.roster.stations and self.is_live(i, now))
        return min((rows[i][stream] for i in living), default=self.table.streams[stream].stored)

    # ---- both sides ----

    def count(self, now: int) -> bool:
        """What holds in this cluster now. Whether anything has moved."""
        if "gack_on_receipt" in self._mutants:
            relays: Callable[[int], int] = lambda stream: self.table.streams[stream].stored  # noqa: E731
        else:
            relays = self.least_of_stations
        home = self.least_of_stations if "own_ack_local" in self._mutants else self.stable.__getitem__
        known = {j: stream.floor for j, stream in self.table.streams.items()}
        moved = [
            self.stored_tally.count_home(home),
            self.stored_tally.count_relays(relays),
            self.known_tally.count_home(known.__getitem__),
            self.known_tally.count_relays(self._least_known),
            self.flow_tally.count_home(lambda stream: self.table.streams[stream].stored),
            self.flow_tally.count_relays(lambda stream: self.least_of_living(stream, now)),
        ]
        return any(moved)

    def release(self, others: Mapping[int, SubGateway], now: int) -> bool:
        """What holds in the other clusters lets claims here rise. Whether anything has moved."""
        here = self.roster.cluster
        moved = False
        for level, tally in enumerate(self.tallies):
            theirs = {u: sub.tallies[level] for u, sub in others.items()}
            beyond = min(tally_there.arrived(here) for tally_there in theirs.values())
            moved = tally.release(beyond, {u: tally_there.through for u, tally_there in theirs.items()}) or moved
        self._reclaim(self.table.streams)
        self._moved(now, self.table.streams)
        self._dirty = self._dirty or any(self._said_rooms.get(s) != room for s, room in self.rooms())
        return moved


class Gateway:
    """A gateway of some clusters, or its standby. Nothing of it is durable: what stops comes back as a standby."""

    def __init__(
        self,
        rosters: Iterable[Roster],
        settings: ClusterSettings,
        active: int | None = None,
        mutants: frozenset[str] = frozenset(),
    ) -> None:
        self.subs: dict[int, SubGateway] = {}
        self._is_settled = False
        for roster in rosters:
            self.subs[roster.cluster] = SubGateway(roster, settings, active, self._offer, mutants)

    def _offer(self, home: int, gseq: int, item: Item) -> None:
        for cluster, sub in self.subs.items():
            if cluster != home:
                sub.offered(home, gseq, item)

    def receive(self, cluster: int, sender: int, frame: Frame, now: int) -> list[Effect]:
        """A frame came in one of the clusters. `Ended`: it has to stop in all of them."""
        sub = self.subs[cluster]
        out = sub.receive(sender, frame, now)
        if any(isinstance(effect, Ended) for effect in out):
            return out
        self._is_settled = False
        self._close_everywhere(now)
        return out + self._pump(now)

    def close(self, element: int, now: int) -> list[Effect]:
        """The element has ended: in every cluster that this gateway shares with it."""
        for sub in self.subs.values():
            sub.close(element, now)
        return self._settle(now)

    def _pump(self, now: int) -> list[Effect]:
        for sub in self.subs.values():
            while (item := sub.stranded()) is not None and self._bring_home(item, now):
                pass
        return [effect for sub in self.subs.values() for effect in sub.pump(now)]

    def _bring_home(self, item: Item, now: int) -> bool:
        homes = [sub for sub in self.subs.values() if item.slot in sub.roster.stations]
        return bool(homes) and homes[0].bring_home(item, now)

    def tick(self, now: int) -> list[Effect]:
        """What is due at `now`, in every cluster."""
        out = self._settle(now)
        for sub in self.subs.values():
            out += sub.tick(now)
        return out

    def next_deadline(self) -> int:
        """When `tick` has something to do next."""
        due = [sub.next_deadline() for sub in self.subs.values()]
        if not self._is_settled:
            due += [sub.next_claims() for sub in self.subs.values()]
        return min(due)

    def take_taken(self) -> dict[int, Taken]:
        """What was accepted since this was last asked, by cluster."""
        taken = {cluster: sub.taken for cluster, sub in self.subs.items()}
        for sub in self.subs.values():
            sub.taken = []
        return taken

    def _settle(self, now: int) -> list[Effect]:
        """Relay, count, release, until nothing moves. Claims go out with a tick: there it is soon enough."""
        out: list[Effect] = []
        self._close_everywhere(now)
        has_moved, self._is_settled = True, True
        while has_moved:
            out += self._pump(now)
            has_moved = False
            for sub in self.subs.values():
                has_moved = sub.count(now) or has_moved
            for cluster, sub in self.subs.items():
                others = {u: other for u, other in self.subs.items() if u != cluster}
                has_moved = sub.release(others, now) or has_moved
        return out

    def _close_everywhere(self, now: int) -> None:
        """A gateway that ended in one cluster has ended in all."""
        closed = {i for sub in self.subs.values() for i in sub.roster.closed}
        for sub in self.subs.values():
            for element in sorted(closed - sub.roster.closed):
                sub.close(element, now)
