"""Logs of a large honest group, made as columns: for measurements. No protocol runs.

Delays between stations obey the triangle inequality, so every station's order is causal; hosts move a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roamcast.analytics.evidence import Columns, Segment
from roamcast.analytics.tables import Ints
from roamcast.middleware.delivery_log import EVENTS, INTS
from roamcast.transport.segment import SegmentEncoder, SegmentHeader

BEGIN = 1_800_000_000_000_000
BLOCK = 1 << 16
EVERY = 16
"""Positions between two acknowledgements."""


def logs(messages: int, stations: int, hosts: int, moves: int, seed: int, mails: float = 0.0) -> list[Segment]:
    """About messages x hosts deliveries over an hour. mails: the share of messages that are mail to the first host."""
    rng = np.random.default_rng(seed)
    at = rng.random((stations, 2)) * 50_000
    delay = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2)).astype(np.int64) + 1_000
    np.fill_diagonal(delay, 0)
    time = np.sort(rng.integers(0, 3_600_000_000 - messages, messages)) + np.arange(messages)
    home = rng.integers(0, stations, (hosts, moves + 1))
    sender = rng.integers(0, hosts, messages)
    leg = np.minimum(time * (moves + 1) // 3_600_000_000, moves)
    origin = home[sender, leg]
    n = _ranks(origin)
    order = [np.argsort(time + delay[origin, s], kind="stable") for s in range(stations)]
    arrival = [(time + delay[origin, s])[order[s]] for s in range(stations)]
    begins = np.arange(moves + 2) * 3_600_000_000 // (moves + 1)
    taken = np.zeros(messages, np.int64)
    for s in range(stations):
        mine = origin == s
        before = np.searchsorted(arrival[s], time[mine], side="left")
        taken[mine] = np.where(before > 0, before, -1)
    mail = (rng.random(messages) < mails).astype(np.int64)
    facts = {
        "slot": origin + 1, "n": n, "kind": mail, "host": _host(home[sender, 0], sender),
        "incarnation": (sender + 1).astype(np.uint64), "number": _ranks(sender), "hlc": BEGIN + time,
        "taken_e": leg + 1, "taken_c": taken, "addressee": mail * _host(home[:1, 0], np.zeros(1, np.int64)),
        "size": np.full(messages, 100),
    }  # fmt: skip
    made = []
    for s in range(stations):
        columns = {name: values[order[s]] for name, values in facts.items()}
        columns |= {"position": np.arange(1, messages + 1), "wall": BEGIN + arrival[s], "seq": np.arange(messages)}
        columns["stamp_len"], columns["stamp"] = _stamps(origin[order[s]], n[order[s]], s, stations)
        events = {"order": columns, **_sessions(s, home, begins, order, arrival, (origin, n), stations)}
        header = {"writer": "station", "slot": s + 1, "id": f"s{s}", "seq": 1, "generation": 1, "prev": b""}
        made.append(Segment(header, events, "closed", f"s{s}", bytes([s]) * 32, BEGIN + 3_700_000_000))
    return made


def _host(home: Ints, i: Ints) -> Ints:
    return ((home + 1) << 32) | (i + 1)


def _ranks(group: Ints) -> Ints:
    """1, 2, ... within each group, in the order given."""
    by = np.argsort(group, kind="stable")
    first = np.searchsorted(group[by], group[by], side="left")
    ranks = np.empty(len(group), np.int64)
    ranks[by] = np.arange(len(group)) - first + 1
    return ranks


def _stamps(origin: Ints, n: Ints, s: int, stations: int) -> tuple[Ints, Ints]:
    """(length, flattened pairs) of the stamps of a station's own rows."""
    own = np.flatnonzero(origin == s)
    lengths = np.zeros(len(origin), np.int64)
    vectors = np.zeros((len(own), stations), np.int64)
    for k in range(stations):
        rows = np.flatnonzero(origin == k)
        at = np.searchsorted(rows, own)
        vectors[:, k] = np.where(at > 0, n[rows[np.maximum(at - 1, 0)]] if len(rows) else 0, 0)
    changed = np.diff(vectors, axis=0, prepend=0) != 0
    changed[:, s] = False
    row, entry = np.nonzero(changed)
    lengths[own] = 2 * changed.sum(axis=1)
    return lengths, np.stack((entry + 1, vectors[row, entry]), axis=1).reshape(-1)


def _sessions(
    s: int, home: Ints, begins: Ints, order: list[Ints], arrival: list[Ints], ids: tuple[Ints, Ints], stations: int
) -> dict[str, dict[str, Ints]]:
    """Sessions of all hosts at station s, and their acknowledgements."""
    origin, n = ids
    host, leg = np.nonzero(home == s)
    base = np.zeros((len(host), stations + 1), np.int64)
    had = np.zeros((len(host),), np.int64)
    for i, (h, part) in enumerate(zip(host.tolist(), leg.tolist(), strict=True)):
        for earlier in range(part):
            where = home[h, earlier]
            upto = int(np.searchsorted(arrival[where], begins[earlier + 1], side="left"))
            rows = order[where][:upto]
            np.maximum.at(base[i], origin[rows] + 1, n[rows])
        had[i] = np.searchsorted(arrival[home[h, part - 1]], begins[part], side="left") if part else 0
    who = {"host": _host(home[host, 0], host), "incarnation": (host + 1).astype(np.uint64), "e": leg + 1}
    zero = np.zeros(len(host), np.int64)
    session = {
        **who, "at": zero - 1, "le": leg, "c": had, "gap": zero, "base": base.reshape(-1),
        "base_len": zero + stations + 1, "spool": zero[:0], "spool_len": zero, "wall": BEGIN + begins[leg],
    }  # fmt: skip
    first = np.searchsorted(arrival[s], begins[leg])
    last = np.searchsorted(arrival[s], begins[leg + 1], side="left")
    last[leg == home.shape[1] - 1] = len(order[s])
    c = [np.append(np.arange(a + EVERY, b, EVERY), b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    rows = np.repeat(np.arange(len(host)), [len(part) for part in c])
    position = np.concatenate([*c, zero[:0]])
    wall = BEGIN + arrival[s][np.maximum(position - 1, 0)] + 1_000
    ack = {**{name: values[rows] for name, values in who.items()}, "c": position, "wall": wall}
    mine = np.unique(host[leg == 0])
    member = {
        "host": _host(home[mine, 0], mine), "incarnation": np.zeros(len(mine), np.uint64), "what": mine * 0,
        "base": zero[:0], "base_len": mine * 0, "wall": mine * 0 + BEGIN,
    }  # fmt: skip
    return {"session": session, "ack": ack, "member": member}


def write(segments: Sequence[Segment], directory: Path, size: int = 1 << 62) -> int:
    """Write them as files that nobody has signed, `size` events each at most. Returns how many events they hold."""
    count = 0
    for segment in segments:
        rows = [(event, row) for event, columns in segment.events.items() for row in _rows(event, columns)]
        prev = b""
        for seq, at in enumerate(range(0, len(rows), size), 1):
            about = {"id": segment.header["id"], "slot": segment.station, "seq": seq, "prev": prev}
            header = SegmentHeader(writer="station", group="g", opened=BEGIN, generation=1, **about)
            path = directory / f"{about['id']}-{seq:06d}.rclog"
            prev = _write(path, SegmentEncoder(header), rows[at : at + size], segment.closed)
        count += len(rows)
    return count


def _write(path: Path, encoder: SegmentEncoder, rows: Sequence[tuple[str, Any]], closed: int) -> bytes:
    """One file; returns its chain end."""
    with path.open("wb") as file:

        def keep(data: bytes) -> None:
            file.write(data)
            encoder.accept(data)

        keep(encoder.head())
        for at in range(0, len(rows), BLOCK):
            groups: dict[str, list[Any]] = {}
            for seq, (event, row) in enumerate(rows[at : at + BLOCK], encoder.events):
                groups.setdefault(event, []).append((seq, *row))
            keep(encoder.data(groups))
        file.write(encoder.trailer(closed))
    return encoder.end


def _rows(event: str, columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*_listed(event, columns), strict=True)


def _listed(event: str, columns: Columns) -> list[list[Any]]:
    """wall and the columns of an event, as lists of values of rows."""
    made = [columns["wall"].tolist()]
    for name, kind in EVENTS[event].items():
        values = columns.get(name)
        if values is None:
            values = np.zeros(len(made[0]), np.int64)
        if kind == INTS:
            length = columns.get(name + "_len")
            ends = np.cumsum(length if length is not None else np.zeros(len(made[0]), np.int64)).tolist()
            flat = values.tolist()
            made.append([flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)])
        else:
            made.append(values.tolist())
    return made
