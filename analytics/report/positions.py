"""Where in the logs a finding can be seen: station, segment, row and file of what its witness speaks of.

Source: audit.md section 7. Only for the findings that are shown. A row is an event's place (`seq`) in its segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from roamcast.analytics.columns import place_text
from roamcast.analytics.engine import Report
from roamcast.analytics.history import NEVER
from roamcast.analytics.report.kinds import HOST, LIVE, MAIL, ORDER, SENT, SESSION, kind_of
from roamcast.analytics.report.words import shown
from roamcast.analytics.tables import NO_CLIENT, PLACE_SHIFT, PLACE_ZERO, Ints

JOURNAL = "journal"

SPOTS_MAX = 12
"""Of a finding."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One event in a log."""

    what: str
    station: int
    """0: it is in the journal of a host."""
    segment: int
    """0: it is of a settled day, and an earlier night has kept it."""
    row: int
    wall: int
    """us"""
    file: str
    """Path of the segment, empty if it is not there."""


class Positions:
    """Looks up events in the tables of a report."""

    def __init__(self, report: Report) -> None:
        self._case, self._made = report.case, report.tables
        self._station = self._made["orders"].column("station").to_numpy()
        self._session_client = self._made["sessions"].column("client").to_numpy()
        self._ack_client = self._made["acks"].column("client").to_numpy()
        self._files: dict[tuple[int, int], list[dict[str, Any]]] = {}
        files = self._made["segments"].select(
            ["writer", "id", "slot", "seq", "status", "wall_first", "wall_last", "path", "events"]
        ).to_pylist()  # fmt: skip
        for row in files:
            if row["slot"] and row["writer"] != JOURNAL and row["status"] != "forged":
                self._files.setdefault((row["slot"], row["seq"]), []).append(row)
        self._journals = [row for row in files if row["writer"] == JOURNAL and row["status"] != "forged"]
        self._journaled = set(self._case.journals.clients.tolist())

    def of(self, finding: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events that a finding (a row of `tables.VIOLATIONS`) is about, in the order in which to read them."""
        kind, client, station = kind_of(finding["kind"]).place, finding["client"], finding["station"]
        if kind == MAIL:
            return [asdict(spot) for spot in self._of_mail(finding)][:SPOTS_MAX]
        if kind == LIVE:
            return [asdict(spot) for spot in self._of_live(finding)][:SPOTS_MAX]
        x, y = (self._message(finding[a], finding[b]) for a, b in (("slot", "n"), ("other_slot", "other_n")))
        place, other = finding["place"], finding["other_place"]
        found: list[Spot] = []
        if kind == SESSION and client != NO_CLIENT and place:
            found += self._session(client, place)
            found += self._ordered(station, x, f"in the order of station {station}")
        elif kind == HOST and client != NO_CLIENT:
            name = _name(finding, "slot", "n")
            if finding["kind"] == "duplicate":
                found += self._given(client, name, x, other)
            elif y >= 0:
                found += self._given(client, _name(finding, "other_slot", "other_n"), y, other)
            found += self._given(client, name, x, place)
        elif kind == SENT and client != NO_CLIENT:
            found += self._given_first(client, y) if y >= 0 else []
        elif kind in (HOST, ORDER) and station:
            found += self._at(station, other) + self._at(station, place)
        else:
            found += self._ordered(station, x, f"in the order of station {station}")
        if finding["kind"].startswith("causal") and x >= 0 and y >= 0:
            found += self._known_to_sender(x, y)
        for message in (x, y):
            if message >= 0:
                own = int(self._case.history.slot[message])
                found += self._ordered(own, message, f"sent, in the order of its own station {own}")
        if not found and x >= 0:  # its own station does not have it: those that do
            found += [
                spot for slot in self._case.history.orders for spot in self._ordered(slot, x, f"at station {slot}")
            ]
        places: dict[tuple[int, int, int, str], Spot] = {}
        for spot in found:
            places.setdefault((spot.station, spot.segment, spot.row, spot.file), spot)
        return [asdict(spot) for spot in list(places.values())[:SPOTS_MAX]]

    def _of_mail(self, finding: Mapping[str, Any]) -> list[Spot]:
        """Where the mails of a finding were posted and have arrived at its station."""
        found = []
        for a, b in (("other_slot", "other_n"), ("slot", "n")):
            if not finding[a]:
                continue
            name = f"mail {_name(finding, a, b)}"
            for row in self._named("posts", finding[a], n=finding[b]):
                found.append(self._spot(f"{name} posted to station {row['to']}", row | {"station": row["slot"]}))
            for row in self._named("arrivals", finding[a], n=finding[b]):
                if row["station"] == finding["station"]:
                    found.append(self._spot(f"{name} arrives at station {row['station']}", row))
        return found

    def _of_live(self, finding: Mapping[str, Any]) -> list[Spot]:
        """Where its messages were taken, and handed down by its station; where a stored one stands in the order."""
        found, station = [], finding["station"]
        for a, b in (("other_slot", "other_n"), ("slot", "n")):
            slot, number = finding[a], finding[b]
            if not slot:
                continue
            name = f"live message {slot}:{number}"
            taken = self._named("lives", slot, stamp=number)
            if not taken and a == "other_slot":
                found += self._ordered(station, self._message(slot, number), f"in the order of station {station}")
            for row in taken:
                found.append(self._spot(f"{name} taken by station {slot}", row | {"station": slot}))
            for row in self._named("handed", slot, stamp=number):
                if station in (0, row["station"]):
                    found.append(self._spot(f"{name} handed down by station {row['station']}", row))
        return found

    def _named(self, table: str, slot: int, **number: int) -> list[dict[str, Any]]:
        made = self._made[table]
        ((column, wanted),) = number.items()
        named = pc.and_(pc.equal(made["slot"], slot), pc.equal(made[column], wanted))
        rows: list[dict[str, Any]] = made.filter(named).to_pylist()
        return rows

    # ---- what is looked up ----

    def _message(self, slot: int, n: int) -> int:
        return int(self._case.history.find(np.array([slot]), np.array([n]))[0]) if slot else -1

    def _host(self, client: int) -> str:
        return shown(self._case.names[client], 48)

    def _known_to_sender(self, x: int, y: int) -> list[Spot]:
        sender = int(self._case.history.client[y])
        if sender < 0 or self._case.history.client[x] == sender:
            return []
        return self._given_first(sender, x)

    def _given_first(self, client: int, message: int) -> list[Spot]:
        place = int(self._case.places.first(np.array([client]), np.array([message]))[0])
        return self._given(client, self._case.history.name(message), message, place)

    def _given(self, client: int, name: str, message: int, place: int) -> list[Spot]:
        """What shows that a client was given something at a place: a row of an order or a spool; its acknowledgement.

        message: as an index in History, -1: it is not known.
        """
        if place <= 0 or place == NEVER:
            return []
        if client in self._journaled:
            found = self._in_journal(client, message, place)
            if found:
                return found
        e, c = place >> PLACE_SHIFT, (place & ((1 << PLACE_SHIFT) - 1)) - PLACE_ZERO
        at = self._row(self._session_client, self._made["sessions"], client, e)
        if at is None:
            return []
        session = self._made["sessions"].slice(at, 1).to_pylist()[0]
        station = session["station"]
        what = f"{name} given to {self._host(client)} at {place_text(place)}"
        if c < 0:
            found = [self._spot(f"{what}, of the spool of this session", session)]
        else:
            found = self._at(station, c, what)
        return found + self._acknowledged(client, e, c)

    def _acknowledged(self, client: int, e: int, c: int) -> list[Spot]:
        acks = self._made["acks"]
        a, b = self._rows(self._ack_client, acks, client, e)
        at = a + int(np.searchsorted(acks.column("c").slice(a, b - a).to_numpy(), c))
        if at == b:
            return []
        ack = acks.slice(at, 1).to_pylist()[0]
        return [self._spot(f"{self._host(client)} acknowledges {place_text(_place(e, ack['c']))}", ack)]

    def _in_journal(self, client: int, message: int, place: int) -> list[Spot]:
        """Its row at that place, else the first one."""
        journals = self._case.journals
        rows = journals.of(client)
        at = np.flatnonzero(journals.message[rows] == message)
        if not len(at) or message < 0:
            return []
        i = at[np.argmax(journals.place[rows][at] == place)]
        row, wall = int(journals.row[rows][i]), int(journals.wall[rows][i])
        nothing: dict[str, Any] = {"seq": 0, "path": ""}
        file = self._journals[row >> 32] if row >> 32 < len(self._journals) else nothing
        what = f"{self._case.history.name(message)} in the journal of {self._host(client)}"
        return [Spot(what, 0, file["seq"], row & ((1 << 32) - 1), wall, shown(file["path"]))]

    def _session(self, client: int, e: int) -> list[Spot]:
        at = self._row(self._session_client, self._made["sessions"], client, e)
        if at is None:
            return []
        session = self._made["sessions"].slice(at, 1).to_pylist()[0]
        return [self._spot(f"session {e} of {self._host(client)} begins", session)]

    def _ordered(self, station: int, message: int, how: str) -> list[Spot]:
        """The row of a message in a station's order."""
        if message < 0 or not station or station not in self._case.history.orders:
            return []
        position = int(self._case.history.position_at(station, np.array([message]))[0])
        return self._at(station, position, f"{self._case.history.name(message)} {how}") if position else []

    def _at(self, station: int, position: int, what: str = "") -> list[Spot]:
        """The row at a position of a station's order."""
        a, b = (int(i) for i in np.searchsorted(self._station, (station, station + 1)))
        orders = self._made["orders"]
        positions: Ints = orders.column("position").slice(a, b - a).to_numpy()
        at = int(np.searchsorted(positions, position))
        if at == len(positions) or positions[at] != position:
            return []
        row = orders.slice(a + at, 1).to_pylist()[0]
        return [self._spot(what or f"{row['slot']}:{row['n']} at position {position}", row)]

    def _rows(self, clients: Any, table: pa.Table, client: int, e: int) -> tuple[int, int]:
        """The rows of a table that is sorted by (client, e)."""
        a, b = (int(i) for i in np.searchsorted(clients, (client, client + 1)))
        i, j = np.searchsorted(table.column("e").slice(a, b - a).to_numpy(), (e, e + 1))
        return a + int(i), a + int(j)

    def _row(self, clients: Any, table: pa.Table, client: int, e: int) -> int | None:
        a, b = self._rows(clients, table, client, e)
        return a if a < b else None

    def _spot(self, what: str, row: Mapping[str, Any]) -> Spot:
        """`row` of orders, sessions or acks."""
        files = self._files.get((row["station"], row["seg"]), [])
        near = [each for each in files if each["wall_first"] <= row["wall"] <= each["wall_last"]] or files
        file = shown(near[0]["path"]) if near else ""
        return Spot(what, row["station"], row["seg"], row["off"], row["wall"], file)


def _name(finding: Mapping[str, Any], slot: str, n: str) -> str:
    return f"{finding[slot]}:{finding[n]}"


def _place(e: int, c: int) -> int:
    return (e << PLACE_SHIFT) | (c + PLACE_ZERO)
