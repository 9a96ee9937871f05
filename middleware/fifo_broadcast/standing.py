"""What one station knows of the others: who is there, what each claims, and how far each stream is known to go."""

from __future__ import annotations

from collections.abc import Sequence

from roamcast.middleware.effects import Effect, Notice
from roamcast.middleware.fifo_broadcast.claims import Level
from roamcast.middleware.fifo_broadcast.group_words import GroupWords
from roamcast.middleware.fifo_broadcast.layout import Layout
from roamcast.middleware.fifo_broadcast.place import Place
from roamcast.middleware.fifo_broadcast.stamps import Stamps
from roamcast.middleware.membership.view import View
from roamcast.middleware.message_table import MessageTable
from roamcast.middleware.settings import Settings

GUARD = -1
"""Row GUARD - r of the R matrix stands for the hosts of the lost station r."""


class Standing:
    """The state that the parts of the broadcast share."""

    def __init__(
        self, own: int, view: View, settings: Settings, table: MessageTable, mutants: frozenset[str], layout: Layout
    ) -> None:
        self.own = own
        self.words = GroupWords(own, view, table)
        self.settings = settings
        self.table = table
        self.mutants = mutants
        self.layout = layout
        """As configured; `place.shape` is what is used of it."""
        self.place = place = Place(own, layout, view)
        self.origins = view.members
        self.peers = tuple(slot for slot in view.living if slot != own)
        """All that live but this station, near or far."""
        floor = table.vector("floor")
        unknown = [0] * table.width
        self.accepted, self.stable_claims, self.reduce = (
            Level(place.rows, place.gateways, start, place.is_gateway) for start in (floor, unknown, floor)
        )
        """All have stored what was dropped here, and none needs it; that they know so, they have to say again."""
        self.known = table.vector("stored")
        self.stamps = Stamps(own, table)
        self.last_heard: dict[int, int] = {}
        self.down: dict[int, tuple[int, ...]] = {}
        """By gateway near: whom it sees and does not hear."""
        self.deaf: dict[int, tuple[int, tuple[int, ...]]] = {}
        """By station far: when it has said last which gateways near it does not hear, and which."""
        self.notices: list[Effect] = []
        self.progress = 0
        self.patience = settings.poll_timeout
        self.dirty = True
        """CLAIMS have something new to say."""
        self._began: int | None = None
        if place.parted:
            self._tell_parted()

    # ---- who is there ----

    def settle_in(self, view: View, layout: Layout) -> None:
        """Another view or layout: the matrices have other rows. What was told to hold everywhere stays so.

        Of a newcomer nothing is known, nor has any gateway counted it in what it told before.
        """
        self.words.follow(view)
        before, grown = self.place, view.members != self.origins
        old = self.origins
        self.layout, self.place = layout, Place(self.own, layout, view)
        place = self.place
        self.origins = view.members
        self.peers = tuple(slot for slot in view.living if slot != self.own)
        if place.parted and not before.parted:
            self._tell_parted()
        width = self.table.width
        self.known += [0] * (width - len(self.known))
        guards = self._guards(view)
        for slot in [row for row in self.reduce.claims if row < 0]:
            del self.reduce.claims[slot]
        for level in (self.accepted, self.stable_claims, self.reduce):
            told = level.minima
            start: dict[int, Sequence[int]] = dict.fromkeys(old, told)
            beyond = {} if grown else start
            rows = place.rows
            if level is self.reduce:
                rows = (*rows, *(GUARD - slot for slot in guards))
                start = start | {GUARD - slot: guard for slot, guard in guards.items()}
            level.speaks = place.is_gateway
            level.reshape(rows, place.gateways, width, start, beyond, place.mark != before.mark)
        self.down = {slot: down for slot, down in self.down.items() if slot in place.gateways}
        self.deaf = {slot: said for slot, said in self.deaf.items() if slot in place.far}
        self.dirty = True

    def _guards(self, view: View) -> dict[int, tuple[int, ...]]:
        """Guards that hold back the collection here: of a far station from its closing on, since it has no row here."""
        unsettled = (slot for slot in view.closed if slot not in view.final and slot not in self.place.rows)
        return view.guards() | {slot: view.closed[slot][1] for slot in unsettled}

    def _tell_parted(self) -> None:
        self.notices.append(Notice("alarm", "clusters-parted", {"clusters": len(self.layout.clusters)}))

    def hear(self, station: int, now: int) -> bool:
        """A frame of `station` came. Returns whether it had been silent (not live) before."""
        silent = not self.is_live(station, now)
        self.last_heard[station] = now
        return silent

    def is_live(self, station: int, now: int) -> bool:
        """Whether the station was heard within down_after; a far one also if a gateway that sees it hears it."""
        if station == self.own or self.is_heard(station, now):
            return True
        if station not in self.place.far:
            return False
        clusters = set(self.place.shape.of(station))
        return any(
            self.is_heard(gateway, now) and station not in down
            for gateway, down in self.down.items()
            if not clusters.isdisjoint(self.place.shape.of(gateway))
        )

    def is_heard(self, station: int, now: int) -> bool:
        """Whether the station itself was heard within down_after."""
        heard = self.last_heard.get(station)
        return heard is not None and now - heard < self.settings.down_after

    def is_silent(self, station: int, now: int) -> bool:
        """Whether the station was not heard for down_after; nobody is called silent just after a start."""
        if self._began is None:
            self._began = now
        return station != self.own and now - self.last_heard.get(station, self._began) >= self.settings.down_after

    def leader(self, group: tuple[int, ...], now: int) -> int:
        """Who of a group of gateways forwards now: the first that is not silent; 0 if all are."""
        if "no_takeover" in self.mutants:
            return group[0] if group else 0
        return next((slot for slot in group if not self.is_silent(slot, now)), 0)

    def reach(self, now: int) -> tuple[int, ...]:
        """To whom rows and claims go: all that are near, and those far to whom nobody brings them now."""
        place = self.place
        if not place.far:
            return place.near
        return (*place.near, *(slot for slot, group in place.far.items() if not self._is_brought(slot, group, now)))

    def _is_brought(self, station: int, group: tuple[int, ...], now: int) -> bool:
        """Whether one of the gateways in `group` forwards to the station, and nobody says that it does not hear."""
        leader = self.leader(group, now)
        if not leader or "own_ears" in self.mutants:
            return leader != 0
        since, deaf = self.deaf.get(station, (0, ()))
        is_deaf = leader in deaf and now - since < self.settings.down_after
        return not is_deaf and {station, self.own}.isdisjoint(self.down.get(leader, ()))

    # ---- what is where ----

    @property
    def stable(self) -> list[int]:
        """Level 2: every station has stored up to here, per origin."""
        return self.accepted.minima

    @property
    def known_stable(self) -> list[int]:
        """Level 3: every station knows level 2 up to here."""
        return self.stable_claims.minima

    @property
    def copied(self) -> int:
        """Own rows up to here are at as many stations as the settings ask for (C6); all, if alone."""
        stored = self.table.origins[self.own].stored
        near = self.place.near
        if self.settings.copies < 2 or not near or "no_copies" in self.mutants:
            return stored
        serving = [i for i in near if (view := self.words.views.get(i)) is not None and view.serving]
        return max((self.accepted.claims[i][self.own] for i in serving), default=0)

    def claim(self, station: int, stream: int, value: int) -> None:
        """The station has stored `value` of the stream."""
        if self.accepted.merge(station, stream, value):
            self.stable_rose(stream)

    def stable_rose(self, stream: int) -> None:
        """Level 2 of the stream, or what a gateway tells of it, has risen."""
        self.stable_claims.merge(self.own, stream, self.accepted.minima[stream])
        self.dirty = True

    def moved(self, now: int) -> None:
        """Something was stored somewhere: nobody need be polled yet."""
        self.progress, self.patience = now, self.settings.poll_timeout
