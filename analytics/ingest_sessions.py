"""Sessions, acknowledgements, membership, handoffs and closed stations: from events to tables.

Source: docs/protocols/delivery-log.md, 'Deliveries'. How far a host came in a session is the largest of its
acknowledgements and of what it says of the session in a later HELLO, at whatever station that arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import found, laid_out, starts_of
from roamcast.analytics.evidence import Segment, joined, joined_lists, origin_of
from roamcast.analytics.tables import PLACE_SHIFT, PLACE_ZERO, Ints, Tables, is_sent


class Clients(Protocol):
    """(host, incarnation) -> dense number."""

    def __call__(self, host: Ints, incarnation: npt.NDArray[np.uint64]) -> Ints:
        """The number of each row."""


def client_events(stations: Sequence[Segment], client_of: Clients, messages: pa.Table) -> Tables:
    """Make `sessions`, `acks`, `members`, `handoffs` and `closed`."""
    opened = columns_of_event(stations, "session", client_of, "e", "at", "le", "c", "gap")
    base, spool = (joined_lists(stations, "session", name) for name in ("base", "spool"))
    by = np.lexsort((-opened["le"], opened["wall"], opened["station"], opened["e"], opened["client"]))
    by = by[starts_of(opened["client"][by], opened["e"][by], opened["station"][by])]
    opened = {name: values[by] for name, values in opened.items()}
    acks = _acks(columns_of_event(stations, "ack", client_of, "e", "c"), opened)
    acked = _reached(opened, acks)
    return {
        "sessions": tables.table(
            tables.SESSIONS,
            {
                **opened,
                "gap": opened["gap"] != 0,
                "base": _lists(base, by),
                "spool": _lists(spool, by),
                "acked": acked,
                "given": np.maximum(acked, _given(opened, messages)),
            },
        ),
        "acks": tables.table(tables.ACKS, acks),
        "members": _members(stations, client_of),
        "handoffs": _handoffs(stations, client_of),
        "closed": _closed(stations),
    }


def columns_of_event(stations: Sequence[Segment], event: str, client_of: Clients, *names: str) -> dict[str, Ints]:
    """Columns of an event about hosts, with `client`, `station`, `seg`, `off` and `wall`."""
    segment = origin_of(stations, event)
    made = {name: joined(stations, event, name) for name in (*names, "wall")}
    made["client"] = client_of(joined(stations, event, "host"), joined(stations, event, "incarnation", np.uint64))
    made["station"] = np.array([s.station for s in stations], np.int64)[segment]
    made["off"] = joined(stations, event, "seq")
    made["seg"] = np.array([int(s.header.get("seq") or 0) for s in stations], np.int64)[segment]
    return made


def _lists(ragged: tuple[Ints, Ints], by: Ints) -> pa.Array:
    """The rows `by` of a ragged column."""
    offsets, values = ragged
    _, element = laid_out(offsets[by], offsets[by + 1] - offsets[by])
    ends = np.concatenate(([0], np.cumsum(offsets[by + 1] - offsets[by])))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values[element], pa.int64()))


def _acks(acks: dict[str, Ints], opened: dict[str, Ints]) -> dict[str, Ints]:
    """All acknowledgements, sorted by (client, e, c), without repetitions: the earliest of each counts.

    A HELLO that says how far a session came is one, at the time when the next session began.
    """
    told = opened["le"] != 0
    said = {**opened, "e": opened["le"]}
    both = {name: np.concatenate((acks[name], said[name][told])) for name in tables.ACKS.names}
    by = np.lexsort((both["wall"], both["c"], both["e"], both["client"]))
    by = by[starts_of(both["client"][by], both["e"][by], both["c"][by])]
    return {name: values[by] for name, values in both.items()}


def session_keys(client: Ints, e: Ints) -> Ints:
    """One number for (client, e); sorts the same for clients up to 2^22 and sessions up to 2^41."""
    return (client << 41) | np.minimum(e, (1 << 41) - 1)


def _reached(opened: dict[str, Ints], acks: dict[str, Ints]) -> Ints:
    """The largest position that was acknowledged in each session; `at` if none was."""
    reached = opened["at"].copy()
    keys = session_keys(acks["client"], acks["e"])
    first = starts_of(keys)
    if len(first):
        last = np.append(first[1:], len(keys)) - 1
        at = found(keys[first], session_keys(opened["client"], opened["e"]))
        hit = at >= 0
        reached[hit] = np.maximum(reached[hit], acks["c"][last][at[hit]])
    return reached


def _given(opened: dict[str, Ints], messages: pa.Table) -> Ints:
    """The largest position that a send of the host names in each session; very small if none does."""
    given = np.full(len(opened["e"]), -PLACE_ZERO)
    client, kind = tables.column(messages, "client"), tables.column(messages, "kind")
    sends = (client >= 0) & is_sent(kind)
    place = tables.column(messages, "place")[sends]
    keys = session_keys(client[sends], place >> PLACE_SHIFT)
    position = (place & ((1 << PLACE_SHIFT) - 1)) - PLACE_ZERO
    by = np.lexsort((position, keys))
    first = starts_of(keys[by])
    if len(first):
        last = np.append(first[1:], len(by)) - 1
        at = found(keys[by][first], session_keys(opened["client"], opened["e"]))
        given[at >= 0] = position[by][last][at[at >= 0]]
    return given


def _members(stations: Sequence[Segment], client_of: Clients) -> pa.Table:
    made = columns_of_event(stations, "member", client_of, "what")
    by = np.lexsort((made["wall"], made["station"], made["client"]))
    base = _lists(joined_lists(stations, "member", "base"), by)
    return tables.table(tables.MEMBERS, {**{name: values[by] for name, values in made.items()}, "base": base})


def _handoffs(stations: Sequence[Segment], client_of: Clients) -> pa.Table:
    made = columns_of_event(stations, "handoff", client_of, "e", "slot")
    made["to"] = made.pop("slot")
    by = np.lexsort((made["wall"], made["e"], made["client"]))
    return tables.table(tables.HANDOFFS, {name: values[by] for name, values in made.items()})


def _closed(stations: Sequence[Segment]) -> pa.Table:
    made = {name: joined(stations, "closed", name) for name in ("slot", "heir", "cut", "wall")}
    made["station"] = np.array([s.station for s in stations], np.int64)[origin_of(stations, "closed")]
    by = np.lexsort((made["wall"], made["station"], made["slot"]))
    return tables.table(tables.CLOSED, {name: values[by] for name, values in made.items()})
