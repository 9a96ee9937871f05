"""What one receiver was given, in order, and what it sent in between: the form that the checks of order work on.

A receiver is a client, judged by its journal where there is one and else by its stations' sessions; or a station, whose
order is a stream like that of a host that never sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, place_of, running_max
from roamcast.analytics.history import History
from roamcast.analytics.streams import Deliveries
from roamcast.analytics.tables import NO_CLIENT, Flags, Ints, Tables, is_given

LEFT_BEHIND = ("closed", "unsigned", "open", "torn")
"""Status of a journal's segments as an agent leaves them behind, also one that is killed."""


@dataclass(slots=True)
class Receiver:
    """First occurrences only: what came again is for `exactly_once`. Messages are indices in History."""

    client: int
    """NO_CLIENT: it is a station."""
    station: int
    """The station; 0: it is a client."""
    message: Ints
    place: Ints
    wall: Ints
    sent: Ints
    """Its messages, in the order of its own numbers."""
    sent_place: Ints
    """Never decreasing: what it had been given before one send, it had been given before the next."""

    def given_before(self) -> Ints:
        """For each send: how many rows of `message` stand before it."""
        rows: Ints = np.searchsorted(self.place, self.sent_place, side="right")
        return rows


def first_occurrences(message: Ints, scratch: Ints) -> Ints:
    """Indices of the first occurrence of each known message, increasing. `scratch`: int64, one per message and more."""
    real = np.flatnonzero(message >= 0)
    scratch[message[real][::-1]] = real[::-1]
    first: Ints = real[scratch[message[real]] == real]
    return first


class Journals:
    """The journals of a run, by client."""

    def __init__(self, history: History, made: Tables) -> None:
        self.broken = _broken(made)
        """Clients whose journals miss segments, have damaged ones or two of one number: they are not used."""
        sound = [client not in self.broken for client in range(len(made["clients"]))]
        given, sent = (_of(made[name], np.array(sound, bool)) for name in ("given", "sent"))
        self.client, self.row, self.e, self.c, self.slot, self.n, self.host32, self.number, self.wall = (
            tables.column(given, name) for name in ("client", "row", "e", "c", "slot", "n", "host32", "number", "wall")
        )
        self.message = history.find(self.slot, self.n)
        self.sent_client, self.sent_row, self.sent_number, self.sent_e, self.sent_c, self.sent_wall = (
            tables.column(sent, name) for name in ("client", "row", "number", "e", "c", "wall")
        )
        self.place: Ints = running_max(place_of(self.e, self.c), self.client)
        """Of what was given: the rows stand in the order in which it was given, whatever they say of places."""
        self.sent_place: Ints = place_of(self.sent_e, self.sent_c)
        self._holes: tuple[Ints, ...] = tuple(tables.column(made["holes"], name) for name in ("client", "low", "high"))
        self.clients: Ints = np.unique(np.concatenate((self.client, self.sent_client)))

    def of(self, client: int) -> slice:
        """Rows of `given` of one client."""
        a, b = np.searchsorted(self.client, (client, client + 1))
        return slice(int(a), int(b))

    def in_hole(self, client: int, place: Ints) -> Flags:
        """Which places of a client its journal does not cover, since the agent was killed there."""
        inside: Flags = np.zeros(len(place), bool)
        for owner, low, high in zip(*self._holes, strict=True):
            if owner == client:
                inside |= (place > low) & (place < high)
        return inside

    def sent_of(self, client: int) -> slice:
        """Rows of `sent` of one client."""
        a, b = np.searchsorted(self.sent_client, (client, client + 1))
        return slice(int(a), int(b))


def _of(table: pa.Table, chosen: Flags) -> pa.Table:
    """The rows of clients that are chosen."""
    return table.filter(pa.array(chosen[tables.column(table, "client")])) if not chosen.all() else table


def _broken(made: Tables) -> set[int]:
    clients = made["clients"]
    names, incarnations = clients.column("name").to_pylist(), clients.column("incarnation").to_pylist()
    known = {pair: client for client, pair in enumerate(zip(names, incarnations, strict=True))}
    seqs: dict[int, list[int]] = {}
    broken: set[int] = set()
    for row in made["segments"].to_pylist():
        client = known.get((row["id"], row["incarnation"])) if row["writer"] == "journal" else None
        if client is not None:
            seqs.setdefault(client, []).append(row["seq"])
            if row["status"] not in LEFT_BEHIND:
                broken.add(client)
    return broken | {client for client, line in seqs.items() if line != list(range(line[0], line[0] + len(line)))}


def sent_places(history: History, journals: Journals) -> Ints:
    """At which place of its sender each message was sent: by the journal where there is one, else by its `taken`.

    What a host had been given before one send it had been given before its next one: places never decrease. A send
    that the journal does not have had nothing before it, as far as is known.
    """
    place = history.place.copy()
    kept = set(journals.clients.tolist())
    for client in range(len(history.sends_of) - 1):
        sent = history.by_sender[history.sends_of[client] : history.sends_of[client + 1]]
        if client in kept:
            rows = journals.sent_of(client)
            number = journals.sent_number[rows]
            by = np.argsort(number, kind="stable")
            at = found(number[by], history.number[sent])
            place[sent] = -1
            place[sent[at >= 0]] = journals.sent_place[rows][by][at[at >= 0]]
        place[sent] = np.maximum.accumulate(place[sent])
    return place


def clients(
    history: History, journals: Journals, sent_place: Ints, deliveries: Deliveries, begin: int, end: int
) -> Iterator[tuple[Receiver, Deliveries]]:
    """The receivers of clients begin to end - 1; with each what its stations say that it was given.

    sent_place: as `sent_places` makes it. deliveries: of these clients at least, as `Sessions.expand` makes them.
    """
    scratch = np.zeros(history.count + 1, np.int64)
    cuts = np.searchsorted(deliveries["client"], np.arange(begin, end + 1)).tolist()
    kept = set(journals.clients.tolist())
    for client in range(begin, end):
        a, b = cuts[client - begin], cuts[client - begin + 1]
        mine = {name: values[a:b] for name, values in deliveries.items()}
        sent = history.by_sender[history.sends_of[client] : history.sends_of[client + 1]]
        if client in kept:
            yield _from_journal(journals, client, sent, sent_place[sent], scratch), mine
            continue
        first = first_occurrences(mine["message"], scratch)
        message, place, wall = (mine[name][first] for name in ("message", "place", "wall"))
        yield Receiver(client, 0, message, place, wall, sent, sent_place[sent]), mine


def _from_journal(journals: Journals, client: int, sent: Ints, sent_place: Ints, scratch: Ints) -> Receiver:
    """What the application was given."""
    rows = journals.of(client)
    first = first_occurrences(journals.message[rows], scratch)
    message, given, wall = (values[rows][first] for values in (journals.message, journals.place, journals.wall))
    return Receiver(client, 0, message, given, wall, sent, sent_place)


def stations(history: History) -> Iterator[Receiver]:
    """Every station with an order, without the rows of control."""
    scratch, nothing = np.zeros(history.count + 1, np.int64), np.zeros(0, np.int64)
    for station, order in history.orders.items():
        first = first_occurrences(order.message, scratch)
        first = first[is_given(history.kind[order.message[first]])]
        message, position, wall = (values[first] for values in (order.message, order.position, order.wall))
        yield Receiver(NO_CLIENT, station, message, position, wall, nothing, nothing)
