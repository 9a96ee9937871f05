"""An element of one cluster: the flat FIFO broadcast with claims of two levels, whose elements come and go.

The rules are those of `fifo_broadcast.core`: no claims in DATA, one CLAIMS frame per tick with what has changed, losses
found by gaps and by `sent`, repair from point to point. What a station does here does not depend on whether the other
elements are stations or gateways: gateways withhold their claims until what they say holds beyond them too
(`gateway.py`). So levels 2 and 3 hold for the whole composite cluster at every station.

Sources: paper 001; fifo-broadcast.md (a), (b), (f) and Q1-Q6. Deviations: docs/protocols/clusters.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from roamcast.middleware.clusters.closing import Closings
from roamcast.middleware.clusters.frames import (
    Claims,
    Counts,
    Data,
    Effect,
    Ended,
    Frame,
    Item,
    Nack,
    Refused,
    ToAll,
    ToOne,
)
from roamcast.middleware.clusters.levels import Levels
from roamcast.middleware.clusters.matrix import Matrix
from roamcast.middleware.clusters.repair import Repair
from roamcast.middleware.clusters.settings import ClusterSettings
from roamcast.middleware.clusters.table import Roster, StreamTable

Taken = list[tuple[int, int, Item]]
"""(stream, number, entry), in the order in which they were accepted."""


class Element:
    """One element. Roster and table are durable, and shared with whoever makes them so."""

    def __init__(
        self, roster: Roster, settings: ClusterSettings, table: StreamTable, mutants: frozenset[str] = frozenset()
    ) -> None:
        self.roster = roster
        self.own = roster.own
        self.settings = settings
        self.table = table
        self.levels = Levels(table, mutants)
        self.closings = Closings(roster, table, mutants)
        self._mutants = mutants
        floors = {j: stream.floor for j, stream in table.streams.items()}
        self.accepted = Matrix(roster.living, floors)
        self.stable_claims = Matrix(roster.living, floors)
        self.stable = dict(floors)
        """PRE by stream: everybody has it up to here."""
        self.known = {j: stream.stored for j, stream in table.streams.items()}
        self.room: dict[int, int] = dict.fromkeys(roster.gateways, 0)
        """How far gateways have passed on the own stream."""
        self.sent = self.known[self.own]
        self.last_heard: dict[int, int] = {}
        self.taken: Taken = []
        """Accepted in this step."""
        self._early: dict[int, dict[int, Item]] = {j: {} for j in table.streams}
        self._repair = Repair(self.own, table, settings)
        self._changed: set[int] = set()
        self._said_rooms: dict[int, int] = {}
        self._dirty = self._owe_full = self._want_all = True
        self._answers: set[int] = set()
        self._claims_at = self._full_at = self._progress = 0
        self._patience = settings.poll_timeout
        for stream, number, item in sorted(table.kept(), key=lambda kept: kept[:2]):
            self._stored_again(stream, number, item)
        self._reclaim(table.streams)
        self._moved(0, table.streams)

    # ---- what a gateway does otherwise ----

    def ack(self, stream: int) -> int:
        """What this element claims to have."""
        return self.table.streams[stream].stored

    def pack(self, stream: int) -> int:
        """What it claims to be at all."""
        return self.stable[stream]

    def rooms(self) -> Counts:
        """What a gateway has passed on."""
        return ()

    def _stored_again(self, stream: int, number: int, item: Item) -> None:
        """A life begins: this is in the table."""

    def _took(self, stream: int, number: int, item: Item) -> None:
        """The next entry of a stream is stored here."""
        self.taken.append((stream, number, item))

    # ---- who is there ----

    def hear(self, element: int, now: int) -> None:
        """A frame of the element came."""
        self.last_heard[element] = now

    def is_live(self, element: int, now: int) -> bool:
        """Whether the element was heard of lately."""
        heard = self.last_heard.get(element)
        return heard is not None and now - heard < self.settings.down_after

    def close(self, element: int, now: int) -> None:
        """The element has ended, or is taken for ended: it never counts again."""
        if element in self.roster.closed or element not in self.roster.members or element == self.own:
            return
        self.roster.closed.add(element)
        self._early[element].clear()
        self.last_heard.pop(element, None)
        self._repair.forget(element)
        self.accepted.drop(element)
        self.stable_claims.drop(element)
        self._recount(now)
        self._moved(now, self.table.streams)
        self._progress, self._patience, self._dirty = now, self.settings.poll_timeout, True

    def _recount(self, now: int) -> None:
        """How far the streams of those that ended go may rise and fall; what is beyond is forgotten."""
        for element in self.roster.closed:
            self.known[element] = end = self.closings.end_of(element, self.known[element])
            for number in [number for number in self._early[element] if number > end]:
                del self._early[element][number]
            self._repair.update(element, end, now, False)

    def add(self, element: int, is_gateway: bool, base: Counts, now: int) -> None:
        """One more element counts from now on."""
        if element in self.roster.members:
            return
        self.roster.add(element, is_gateway, base)
        self.table.add(element)
        self.levels.add(element)
        self._early[element] = {}
        self.stable[element] = self.known[element] = 0
        if is_gateway:
            self.room[element] = 0
        for matrix in (self.accepted, self.stable_claims):
            matrix.add(element, dict(base))
        self._progress, self._patience, self._dirty = now, self.settings.poll_timeout, True

    # ---- rows ----

    def accept_own(self, item: Item, now: int) -> None:
        """A row of the own stream was made: it is stored here first, then sent by `pump`."""
        self._append(self.own, item)
        self.known[self.own] = self.table.streams[self.own].stored
        self._stored(self.own, now)

    def _append(self, stream: int, item: Item) -> None:
        number = self.table.append(stream, item)
        self.levels.store(stream, item)
        self._took(stream, number, item)

    def _stored(self, stream: int, now: int) -> None:
        if stream in self.roster.closed:
            self._dirty = True
        self._progress, self._patience = now, self.settings.poll_timeout
        self._reclaim([stream])
        self._moved(now, [stream])

    def _reclaim(self, streams: Iterable[int]) -> None:
        """What this element claims of these streams may have risen."""
        for stream in streams:
            value = self.ack(stream)
            if value > self.accepted.rows[self.own][stream]:
                self.accepted.merge(self.own, stream, value)
                self._changed.add(stream)
                self._dirty = True

    def _moved(self, now: int, streams: Iterable[int]) -> None:
        """Minima of these streams may have risen: what follows from them."""
        for stream in streams:
            stored = self.accepted.minima[stream]
            rise = stored - self.stable[stream]
            if rise > 0:
                self.stable[stream] = stored
                self.levels.stabilise(stream, rise)
                self._progress, self._patience = now, self.settings.poll_timeout
            pack = self.pack(stream)
            if pack > self.stable_claims.rows[self.own][stream]:
                self.stable_claims.merge(self.own, stream, pack)
                self._changed.add(stream)
                self._dirty = True
            end, floor = self.stable_claims.minima[stream], self.table.streams[stream].floor
            if end > floor:
                self.levels.settle(stream, end - floor)
                self.table.collect(stream, end)
                self._progress, self._patience = now, self.settings.poll_timeout

    def receive(self, sender: int, frame: Frame, now: int) -> list[Effect]:
        """A frame of another element of the cluster. What was accepted is in `taken`."""
        if sender not in self.roster.members:
            return [Refused(self.roster.cluster, sender, "not of this cluster")]
        if sender in self.roster.closed:
            self._answers.add(sender)
            return []
        self.hear(sender, now)
        if isinstance(frame, Data):
            return self.receive_data(sender, frame, now)
        if isinstance(frame, Nack):
            return self.receive_nack(sender, frame)
        return self.receive_claims(sender, frame, now)

    def receive_data(self, sender: int, data: Data, now: int) -> list[Effect]:
        """Entries of one stream came: from its element, or from one that was asked for them."""
        j = data.stream
        if j == self.own or j not in self.table.streams or data.first < 1:
            return [Refused(self.roster.cluster, sender, f"DATA of stream {j} from {data.first}")]
        if sender != j and self._repair.asked(j) != sender:
            return []  # a late answer: what was asked for has come from elsewhere
        stream, early, before = self.table.streams[j], self._early[j], self.table.streams[j].stored
        for number, item in enumerate(data.items, data.first):
            if number > self.known[j]:
                if j in self.roster.closed:
                    break
                self.known[j] = number
            if number == stream.stored + 1:
                self._append(j, item)
                while (after := early.pop(stream.stored + 1, None)) is not None:
                    self._append(j, after)
            elif stream.stored < number <= stream.stored + self.settings.out_of_order_max:
                early[number] = item
        is_progress = stream.stored > before
        if is_progress:
            for number in [number for number in early if number <= stream.stored]:
                del early[number]
            self._stored(j, now)
        self._repair.update(j, self.known[j], now, is_progress)
        return []

    # ---- claims ----

    def receive_claims(self, sender: int, claims: Claims, now: int) -> list[Effect]:
        """Who has come and gone, then what a peer has; what exists; what it wants."""
        if any(element == self.own for element, _ in claims.closed):
            return [Ended(self.roster.cluster)]
        for added in claims.added:
            self.add(added.element, added.is_gateway, added.base, now)
        for element, _ in claims.closed:
            self.close(element, now)
        if sender in self.roster.closed:
            return []
        if why := self._why_foolish(sender, claims):
            return [Refused(self.roster.cluster, sender, why)]
        self.closings.hear(sender, claims)
        for j, value in claims.stored:
            if self.accepted.rows[sender][j] < value:
                self._progress, self._patience = now, self.settings.poll_timeout
                self.accepted.merge(sender, j, value)
            if j != sender and j not in self.roster.closed:
                self.known[j] = max(self.known[j], value)
        for j, value in claims.stable:
            self.stable_claims.merge(sender, j, value)
        for j, value in claims.room:
            if j == self.own:
                self.room[sender] = max(self.room.get(sender, 0), value)
        self.known[sender] = max(self.known[sender], claims.sent)
        if self.own in claims.want:
            self._owe_full = True
        self._recount(now)
        touched = {j: None for j, _ in (*claims.stored, *claims.stable)}
        self._moved(now, touched)
        for j in (*touched, sender):
            self._repair.update(j, self.known[j], now, False)
        return []

    def _why_foolish(self, sender: int, claims: Claims) -> str:
        """Claims that cannot be true of what this element knows better."""
        streams, own = self.table.streams, self.table.streams[self.own].stored
        for vector in (claims.stored, claims.stable, claims.room, claims.closed):
            for j, value in vector:
                if j not in streams:
                    return f"CLAIMS name element {j}"
                if j == self.own and value > own:
                    return f"CLAIMS of number {value} of this element, which has sent {own}"
        return ""

    # ---- repair ----

    def receive_nack(self, sender: int, nack: Nack) -> list[Effect]:
        """Answer from the table."""
        if nack.stream not in self.table.streams or not 1 <= nack.first <= nack.last:
            return [Refused(self.roster.cluster, sender, f"NACK {nack.stream} {nack.first}..{nack.last}")]
        last = min(nack.last, nack.first + self.settings.rows_max - 1)
        items = self.table.span(nack.stream, nack.first, last)
        return [ToOne(self.roster.cluster, sender, Data(nack.stream, nack.first, items))] if items else []

    def _ask(self, stream: int, now: int) -> list[Effect]:
        """The one whose stream it is; after two vain requests, or if it has ended, any living one that has it."""
        first = self.table.streams[stream].stored + 1
        if stream in self.roster.closed:
            targets = self.closings.holders(stream, first)
        else:
            targets = [stream]
            if self._repair.tries(stream) >= 2:
                peers = (i for i in self.roster.peers if i != stream and self.is_live(i, now))
                targets += [i for i in peers if self.accepted.rows[i][stream] >= first]
        last = self.known[stream]
        if self._early[stream]:
            last = min(last, max(first, min(self._early[stream]) - 1))
        asked = self._repair.ask(stream, last, targets, now)
        return [] if asked is None else [ToOne(self.roster.cluster, *asked)]

    # ---- output ----

    def pump(self, now: int) -> list[Effect]:
        """First sends of own rows within W above what the living have taken (Q3 b)."""
        stored = self.table.streams[self.own].stored
        if self.sent >= stored:
            return []
        live = [i for i in self.roster.peers if self.is_live(i, now)]
        least = (self.room[i] if i in self.room else self.accepted.rows[i][self.own] for i in live)
        return self._send(min(stored, min(least, default=stored) + self.settings.send_window))

    def _send(self, last: int) -> list[Effect]:
        out: list[Effect] = []
        while self.sent < last:
            first, self.sent = self.sent + 1, min(last, self.sent + self.settings.rows_max)
            if items := self.table.span(self.own, first, self.sent):
                out.append(ToAll(self.roster.cluster, Data(self.own, first, items)))
            self._dirty = True
        return out

    def tick(self, now: int) -> list[Effect]:
        """NACKs and CLAIMS that are due at `now`."""
        out = [effect for stream in self._repair.due(now) for effect in self._ask(stream, now)]
        want = self._poll(now)
        is_owed = self._dirty or self._owe_full or self._answers or want
        is_full_due = now >= self._full_at + self.settings.heartbeat
        if is_full_due or (is_owed and now >= self.next_claims()):
            is_full = is_full_due or self._owe_full
            out.append(ToAll(self.roster.cluster, self._claims(now, is_full, want)))
            ended = sorted(self._answers)
            self._answers.clear()
            out += [ToOne(self.roster.cluster, element, self._says(True, ())) for element in ended]
        return out

    def _poll(self, now: int) -> tuple[int, ...]:
        """Whom to ask for all that it claims, if nothing has moved for long though something is open."""
        if self._want_all:
            return tuple(self.roster.peers)
        if now < self._progress + self._patience:
            return ()
        self._progress = now
        self._patience = min(2 * self._patience, self.settings.heartbeat)
        return tuple(i for i in self.roster.peers if self.is_live(i, now) and self._lags(i))

    def _lags(self, peer: int) -> bool:
        accepted, stable = self.accepted.rows[peer], self.stable_claims.rows[peer]
        return self.closings.misses(peer) or any(
            min(accepted[j], stable[j]) < stream.stored for j, stream in self.table.streams.items() if stream.items
        )

    def _claims(self, now: int, is_full: bool, want: tuple[int, ...]) -> Claims:
        frame = self._says(is_full, want)
        self._dirty = self._owe_full = self._want_all = False
        self._changed.clear()
        self._claims_at = now
        if is_full:
            self._full_at = now
        return frame

    def _says(self, is_full: bool, want: tuple[int, ...]) -> Claims:
        accepted, stable = self.accepted.rows[self.own], self.stable_claims.rows[self.own]
        streams = sorted(self.table.streams if is_full else self._changed)
        rooms = tuple((s, room) for s, room in self.rooms() if is_full or self._said_rooms.get(s) != room)
        self._said_rooms.update(rooms)
        return Claims(
            is_full,
            tuple((j, accepted[j]) for j in streams),
            tuple((j, stable[j]) for j in streams),
            rooms,
            self.sent,
            want,
            self.closings.say(self.ack),
            tuple(sorted(self.roster.added)),
            self.closings.newcomers(is_full),
        )

    def next_claims(self) -> int:
        """When the next CLAIMS may go out."""
        return self._claims_at + self.settings.claims_tick

    def next_deadline(self) -> int:
        """When `tick` has something to do next."""
        due = [self._full_at + self.settings.heartbeat, *self._repair.deadlines()]
        if self._dirty or self._owe_full or self._want_all or self._answers:
            due.append(self.next_claims())
        if not self.is_drained():
            due.append(self._progress + self._patience)
        return min(due)

    def is_drained(self) -> bool:
        """Whether everything here is known to be everywhere."""
        return self.closings.is_complete() and not any(stream.items for stream in self.table.streams.values())
