"""Messages and the stations' orders, held such that checks over all hosts only gather from arrays.

Source: audit.md 3.1, 3.2. Size: some 100 bytes per message, and 16 per message and station; independent of the hosts.
A message is its index in the `messages` table: rows sorted by (slot, n).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, message_key, starts_of
from roamcast.analytics.tables import Flags, Ints, Tables, is_change, is_on_topic, is_sent

BROADCAST, MAIL, REFUSED = 0, 1, 2
TO_ALL, TO_NOBODY, TO_SUBSCRIBERS, TO_ITSELF = -1, -2, -3, -4
"""Audiences that are no host: TO_SUBSCRIBERS of the topic; TO_ITSELF: the sender, of a subscription or its end."""

NEVER = np.iinfo(np.int64).max
"""A place or position that is not reached."""


@dataclass(slots=True)
class StationOrder:
    """The order of one station: positions (increasing), the message at each, and the wall clock of the event."""

    position: Ints
    message: Ints
    wall: Ints


class History:
    """The messages and orders of one run."""

    def __init__(self, made: Tables) -> None:
        messages = made["messages"]
        self.slot, self.n, self.kind, self.client, self.number, self.hlc, self.place, self.wall, addressee = (
            tables.column(messages, name)
            for name in ("slot", "n", "kind", "client", "number", "hlc", "place", "wall", "addressee")
        )
        self.addressee = addressee
        self.by_origin: Flags = tables.column(messages, "origin") != 0
        self.key = message_key(self.slot, self.n)
        self.count = len(self.key)
        self.hosts: Ints = np.unique(tables.column(made["clients"], "host"))
        """Host numbers, sorted; a host's index in here is its number in `audience`."""
        self.audience = self._audience()
        self.slots = self._slots(made)
        """All slots that anything is told of, sorted; columns of vectors."""
        self.column_of_slot = np.full(int(self.slots.max(initial=0)) + 1, -1, np.int64)
        self.column_of_slot[self.slots] = np.arange(len(self.slots))
        self.column = self.column_of_slot[self.slot] if self.count else self.slot
        self._set_topics(made)
        sends = np.flatnonzero((self.client >= 0) & is_sent(self.kind))
        self.by_sender: Ints = sends[np.lexsort((self.n[sends], self.number[sends], self.client[sends]))]
        """Messages of hosts, sorted by (client, number)."""
        self.sends_of = np.searchsorted(self.client[self.by_sender], np.arange(len(made["clients"]) + 1))
        """Messages of client i in `by_sender`: sends_of[i] to sends_of[i + 1]."""
        begins = np.searchsorted(self.column, np.arange(len(self.slots) + 1))
        self.begins: Ints = begins
        """Messages of column k: begins[k] to begins[k + 1]."""
        self.all_orders, self.range_of_order = self._all_orders(made["orders"])
        """The orders of all stations, one behind the other; station -> where its rows begin and end."""
        self.plain, self.range_of_plain = self._plain()
        """The same without rows on topics: an index into `all_orders` for each row, None: there are none."""
        self.topic_rows: Ints = self._topic_rows()
        """Rows of `all_orders` on topics, as `topic_key`, sorted."""
        self._set_views()

    def _audience(self) -> Ints:
        to = np.where(self.kind == BROADCAST, TO_ALL, TO_NOBODY)
        mail = (self.kind == MAIL) | (self.kind == REFUSED)
        to[mail] = np.where((at := found(self.hosts, self.addressee[mail])) >= 0, at, TO_NOBODY)
        to[is_on_topic(self.kind)] = TO_SUBSCRIBERS
        to[is_change(self.kind) & (self.client >= 0)] = TO_ITSELF
        return to

    def _set_topics(self, made: Tables) -> None:
        changes = made["changes"]
        mine = np.flatnonzero((self.audience == TO_SUBSCRIBERS) | (self.audience == TO_ITSELF))
        self.topics: Ints = np.unique(np.concatenate((self.addressee[mine], tables.column(changes, "topic"))))
        """Topic numbers, sorted; a topic's index in here is its number in `topic`."""
        self.topic = np.full(self.count, -1, np.int64)
        """Of messages on a topic, subscriptions and their ends; -1: of others."""
        self.topic[mine] = np.searchsorted(self.topics, self.addressee[mine])
        on_topic = np.flatnonzero(self.audience == TO_SUBSCRIBERS)
        self.on_topic: Ints = on_topic[np.argsort(self.topic[on_topic], kind="stable")]
        """Messages on topics, sorted by topic."""
        self.topic_begins = np.searchsorted(self.topic[self.on_topic], np.arange(len(self.topics) + 1))
        """Those on topic i: topic_begins[i] to topic_begins[i + 1]."""

    def topic_key(self, topic: Ints, row: Ints) -> Ints:
        """One number for a topic (index) and a row of `all_orders`."""
        key: Ints = topic * np.int64(len(self.all_orders.message) + 1) + row
        return key

    def _slots(self, made: Tables) -> Ints:
        told = ("orders", "sessions", "members", "closed", "changes")
        stations = [tables.column(made[name], "station") for name in told]
        others = [tables.column(made[name], "slot") for name in ("closed", "changes")]
        slots: Ints = np.unique(np.concatenate([self.slot, *stations, *others]))
        return slots[slots >= 0]

    def _all_orders(self, orders: pa.Table) -> tuple[StationOrder, dict[int, tuple[int, int]]]:
        station, position, slot, n, wall = (
            tables.column(orders, name) for name in ("station", "position", "slot", "n", "wall")
        )
        cuts = np.append(starts_of(station), len(station)).tolist()
        ranges = {int(station[a]): (a, b) for a, b in pairwise(cuts)}
        return StationOrder(position, self.find(slot, n), wall), ranges

    def _plain(self) -> tuple[Ints | None, dict[int, tuple[int, int]]]:
        if not len(self.on_topic):
            return None, self.range_of_order
        to = self.audience[self.all_orders.message]
        rows = np.flatnonzero((to >= 0) | (to == TO_ALL))
        ranges = {
            station: (int(a), int(b))
            for station, cuts in self.range_of_order.items()
            for a, b in [np.searchsorted(rows, cuts)]
        }
        return rows, ranges

    def _topic_rows(self) -> Ints:
        if not len(self.on_topic):
            return self.on_topic
        topic = self.topic[self.all_orders.message]
        rows = np.flatnonzero(self.audience[self.all_orders.message] == TO_SUBSCRIBERS)
        return np.sort(self.topic_key(topic[rows], rows))

    def _set_views(self) -> None:
        of = self.all_orders
        self.orders: dict[int, StationOrder] = {
            station: StationOrder(of.position[a:b], of.message[a:b], of.wall[a:b])
            for station, (a, b) in self.range_of_order.items()
        }
        """Station -> its order."""
        self._positions: dict[int, Ints] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("orders", "_positions")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_views()

    def find(self, slot: Ints, n: Ints) -> Ints:
        """Index of each message (slot, n), -1 where no station tells of it."""
        if not self.count:
            return np.full(len(slot), -1, np.int64)
        known = (slot >= 0) & (slot < len(self.column_of_slot))
        begin = self.begins[self.column_of_slot[np.where(known, slot, 0)]]  # of a slot without messages, whatever it is
        at: Ints = np.clip(begin + n - self.n[np.minimum(begin, self.count - 1)], 0, self.count - 1)
        away = np.flatnonzero((self.n[at] != n) | (self.slot[at] != slot))  # streams with holes, and what is not there
        at[away] = found(self.key, message_key(slot[away], n[away]))
        return at

    def position_at(self, station: int, message: Ints) -> Ints:
        """Position of messages in the order of a station; 0: not in it."""
        if station not in self._positions:
            positions = np.zeros(self.count + 1, np.int64)
            order = self.orders.get(station)
            if order is not None:  # of a message that is there twice, the first position
                positions[order.message[::-1]] = order.position[::-1]
            self._positions[station] = positions
        return self._positions[station][message]

    def audience_of(self, host: int) -> Flags:
        """Which messages are meant for a host (index in `hosts`), members or not."""
        mask: Flags = (self.audience == TO_ALL) | (self.audience == host)
        return mask

    def name(self, message: int) -> str:
        """The message as people write it: slot:n."""
        return f"{self.slot[message]}:{self.n[message]}" if message >= 0 else "?"
