"""Order events of all stations -> every station's order, one row per message, and the changes of stamps.

Source: audit.md 3.1. There are as many of these events as messages times stations, so what is almost always so is
looked at first: a station's rows stand in the order of its positions, and an origin tells of its own messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import message_key, starts_of
from roamcast.analytics.evidence import Segment, joined, joined_lists, origin_of
from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Ints
from roamcast.middleware.rows import Kind

FACTS = ("kind", "host", "incarnation", "number", "hlc", "taken_e", "taken_c", "addressee", "size")
"""What every station's order event says of a message, and what has to be the same everywhere."""

Finding = dict[str, Any]


class OrderRows:
    """All order events of some stations' segments, which are sorted by station and seq."""

    def __init__(self, stations: Sequence[Segment]) -> None:
        self._stations = stations
        segment = origin_of(stations, "order")
        self._station = np.array([s.station for s in stations], np.int64)[segment]
        self._seg = np.array([int(s.header.get("seq") or 0) for s in stations], np.int64)[segment]
        self._slot, self._n, self._wall = (joined(stations, "order", name) for name in ("slot", "n", "wall"))
        self._key = message_key(self._slot, self._n)
        self._own = self._station == self._slot
        self._group, self._chosen = self._messages()
        self._facts: dict[str, npt.NDArray[Any]] = {}

    def _messages(self) -> tuple[Ints, Ints]:
        """For each row the number of its message; for each message the row that counts: the origin's, or the earliest.

        Messages are numbered in the order of (slot, n).
        """
        key, wall = self._key, self._wall
        rows = np.flatnonzero(self._own)
        rows = rows[np.lexsort((wall[rows], key[rows]))]
        rows = rows[starts_of(key[rows])]
        keys = key[rows]
        group = np.searchsorted(keys, key)
        told = np.append(keys, -1)[group] == key
        if not told.all():
            others = np.flatnonzero(~told)
            others = others[np.lexsort((wall[others], key[others]))]
            rows = np.concatenate((rows, others[starts_of(key[others])]))
            rows = rows[np.argsort(key[rows])]
            group = np.searchsorted(key[rows], key)
        return group, rows

    def _all(self, name: str) -> npt.NDArray[Any]:
        if name not in self._facts:
            self._facts[name] = joined(self._stations, "order", name, np.uint64 if name == "incarnation" else np.int64)
        return self._facts[name]

    def fact(self, name: str) -> npt.NDArray[Any]:
        """What counts of each message."""
        return self._all(name)[self._chosen]

    def table(self) -> tuple[pa.Table, list[Finding]]:
        """`tables.ORDERS` without repeated rows, and `order_conflict`s."""
        station, key = self._station, self._key
        position = joined(self._stations, "order", "position")
        later = (station[1:] > station[:-1]) | ((station[1:] == station[:-1]) & (position[1:] > position[:-1]))
        kept = np.arange(len(station))
        conflicts: list[Finding] = []
        if not later.all():
            by = np.lexsort((key, self._wall, position, station))
            first = starts_of(station[by], position[by])
            kept = by[first]
            group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(by))))
            other = np.flatnonzero(key[by] != key[kept][group])
            conflicts = [
                self._conflict(i, j, int(position[j]))
                for i, j in zip(kept[group[other]].tolist(), by[other].tolist(), strict=True)
            ]
        columns = {
            "station": station, "position": position, "slot": self._slot, "n": self._n, "wall": self._wall,
            "seg": self._seg, "off": joined(self._stations, "order", "seq"),
        }  # fmt: skip
        if not later.all():
            columns = {name: values[kept] for name, values in columns.items()}
        return tables.table(tables.ORDERS, columns), conflicts

    def _conflict(self, i: int, j: int, position: int) -> Finding:
        slot, n, station = self._slot, self._n, int(self._station[j])
        return {
            "kind": "order_conflict", "station": station, "slot": slot[i], "n": n[i], "other_slot": slot[j],
            "other_n": n[j], "place": position, "wall": self._wall[j],
            "witness": f"station {station} has two messages at position {position} of its order: "
            f"{slot[i]}:{n[i]} and {slot[j]}:{n[j]}",
        }  # fmt: skip

    def messages(self, client_of: Callable[[Ints, npt.NDArray[np.uint64]], Ints]) -> tuple[pa.Table, list[Finding]]:
        """`tables.MESSAGES`, and where stations tell different facts: `facts_differ`."""
        chosen = self._chosen
        facts = {name: self.fact(name) for name in FACTS}
        client = np.full(len(chosen), tables.NO_CLIENT, np.int64)
        said = facts["kind"] >= Kind.ONLINE  # by a station of a host, which has not sent it
        from_host = (facts["host"] != 0) & ~said
        client[from_host] = client_of(facts["host"][from_host], facts["incarnation"][from_host])
        columns = {
            "slot": self._slot[chosen], "n": self._n[chosen], "kind": facts["kind"], "client": client,
            "number": facts["number"], "hlc": facts["hlc"],
            "place": np.where(
                said, facts["taken_e"], (facts["taken_e"] << PLACE_SHIFT) | (facts["taken_c"] + PLACE_ZERO)
            ),
            "addressee": facts["addressee"], "size": facts["size"], "wall": self._wall[chosen],
            "origin": self._own[chosen],
        }  # fmt: skip
        differs = np.zeros(len(self._key), bool)
        for name, values in facts.items():
            differs |= self._all(name) != values[self._group]
        return tables.table(tables.MESSAGES, columns), self._differences(np.flatnonzero(differs))

    def changes(self, client_of: Callable[[Ints, npt.NDArray[np.uint64]], Ints]) -> dict[str, Ints]:
        """Columns of `tables.CHANGES`, in no order: where each station has ordered subscriptions and their ends."""
        kind = self.fact("kind")
        rows = np.flatnonzero(((kind >= Kind.SUB) & (kind <= Kind.NOSUB))[self._group])
        facts = {name: self._all(name)[self._chosen][self._group[rows]] for name in FACTS}
        return {
            "client": client_of(facts["host"], facts["incarnation"]), "topic": facts["addressee"],
            "number": facts["number"], "sub": facts["kind"] == Kind.SUB, "slot": self._slot[rows], "n": self._n[rows],
            "place": (facts["taken_e"] << PLACE_SHIFT) | (facts["taken_c"] + PLACE_ZERO),
            "station": self._station[rows], "position": joined(self._stations, "order", "position")[rows],
        }  # fmt: skip

    def _differences(self, rows: Ints) -> list[Finding]:
        """One for each message of these rows; the first row is told, by the order of messages and times."""
        made: dict[int, Finding] = {}
        rows = rows[np.lexsort((self._wall[rows], self._key[rows]))]
        for i, group in zip(rows.tolist(), self._group[rows].tolist(), strict=True):
            if group in made:
                made[group]["count"] += 1
                continue
            j = int(self._chosen[group])
            pairs = [(name, self._all(name)[i], self._all(name)[j]) for name in FACTS]
            what = ", ".join(f"{name} {one} and {other}" for name, one, other in pairs if one != other)
            slot, n = self._slot[i], self._n[i]
            made[group] = {
                "kind": "facts_differ", "station": self._station[i], "slot": slot, "n": n, "wall": self._wall[i],
                "count": 1, "witness": f"stations {self._station[i]} and {self._station[j]} tell different facts of "
                f"message {slot}:{n}: {what}",
            }  # fmt: skip
        return list(made.values())

    def stamps(self) -> pa.Table:
        """`tables.STAMPS`: what the origins' own rows say."""
        rows = self._chosen[self._own[self._chosen]]
        offsets, values = joined_lists(self._stations, "order", "stamp")
        begin, length = offsets[rows], (offsets[rows + 1] - offsets[rows]) // 2
        row = np.repeat(rows, length)
        at = np.repeat(begin, length) + 2 * (np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length))
        slot, n, entry, value = self._slot[row], self._n[row], values[at], values[at + 1]
        by = np.lexsort((n, entry, slot))
        columns = {"slot": slot[by], "entry": entry[by], "n": n[by], "value": value[by]}
        return tables.table(tables.STAMPS, columns)
