"""FIFO order per sender and per origin station, at hosts and stations; and holes in a station's order.

Source: audit.md 3.3. Every stream is numbered. First occurrences are laid out by (sender, number) or by (origin, n):
neighbours must come in that order. No row is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from roamcast.analytics import tables
from roamcast.analytics.columns import starts_of
from roamcast.analytics.history import History
from roamcast.analytics.receivers import Receiver
from roamcast.analytics.tables import UNDECIDED, Flags, Ints

PER_RECEIVER_MAX = 100
"""Findings of one kind at one receiver that are told one by one; the rest is counted in the last one."""


def out_of_order(history: History, receiver: Receiver, name: str, scratch: Ints) -> list[dict[str, Any]]:
    """Find `fifo_sender` and `fifo_origin`. scratch: one per message, filled with -1, as it is again afterwards."""
    rows = np.arange(len(receiver.message))
    scratch[receiver.message] = rows
    made = []
    for kind, line, group in (
        ("fifo_sender", history.by_sender, history.client),
        ("fifo_origin", None, history.slot),
    ):
        order = scratch if line is None else scratch[line]
        there = np.flatnonzero(order[: history.count] >= 0)
        row = order[there]
        message = there if line is None else line[there]
        bad = np.flatnonzero(row[1:] < row[:-1]) + 1
        bad = bad[group[message[bad]] == group[message[bad - 1]]]
        bad = bad[np.argsort(row[bad], kind="stable")]
        for count, i in enumerate(bad[:PER_RECEIVER_MAX].tolist(), 1):
            rest = len(bad) - PER_RECEIVER_MAX if count == PER_RECEIVER_MAX else 0
            made.append(_finding(history, receiver, kind, (int(row[i - 1]), int(row[i])), name) | {"count": 1 + rest})
    scratch[receiver.message] = -1
    return made


def _finding(history: History, receiver: Receiver, kind: str, rows: tuple[int, int], name: str) -> dict[str, Any]:
    """The message with the lower number came at row rows[0], behind that with the higher one at rows[1]."""
    late, early = rows
    x, y = int(receiver.message[late]), int(receiver.message[early])
    who = f"station {receiver.station}" if receiver.station else f"host {name}"
    what = f"of sender {history.client[x]}, numbers {history.number[y]} and {history.number[x]}"
    if kind == "fifo_origin":
        what = f"of station {history.slot[x]}"
    return {
        "kind": kind, "client": receiver.client, "host": name, "station": receiver.station, "slot": history.slot[x],
        "n": history.n[x], "other_slot": history.slot[y], "other_n": history.n[y], "place": receiver.place[late],
        "other_place": receiver.place[early], "wall": receiver.wall[late],
        "witness": f"{who} got {history.name(y)} at {receiver.place[early]} before {history.name(x)} at "
        f"{receiver.place[late]}: both {what}",
    }  # fmt: skip


def holes(orders: pa.Table) -> list[dict[str, Any]]:
    """Find what is not dense in a station's order: `positions_missing`; `order_hole` per origin where positions are.

    A position that is not there means that rows of the log are missing. Numbers of a stream that are skipped while
    every position is there mean that the station went past messages. A repeated message is `ordered_twice`.
    A log begins with what its station has then, all at one time: positions may be missing in and behind that.
    orders: the table, of all rows that were read.
    """
    station, position, slot, n, wall, seg = (
        tables.column(orders, name) for name in ("station", "position", "slot", "n", "wall", "seg")
    )
    cuts = np.append(starts_of(station), len(station)).tolist()
    made: list[dict[str, Any]] = []
    for a, b in pairwise(cuts):
        beginning = (seg[a:b] == 1) & (wall[a:b] == wall[a:b].min())
        made += _holes_of(int(station[a]), position[a:b], slot[a:b], n[a:b], wall[a:b], beginning)
    return made


def _holes_of(station: int, position: Ints, slot: Ints, n: Ints, wall: Ints, beginning: Flags) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    gaps = np.flatnonzero(np.diff(position) != 1) + 1
    for i in gaps[~beginning[gaps - 1]][:PER_RECEIVER_MAX].tolist():
        a, b = int(position[i - 1]), int(position[i])
        made.append({
            "kind": "positions_missing", "severity": UNDECIDED, "station": station, "place": a + 1,
            "other_place": b - 1, "wall": wall[i], "count": b - a - 1,
            "witness": f"the order of station {station} has no positions {a + 1} to {b - 1} in its log",
        })  # fmt: skip
    by_number = np.lexsort((n, slot))
    by = by_number
    if len(gaps):
        stretch = np.searchsorted(gaps, by, side="right")
        in_stretch = np.argsort(stretch, kind="stable")
        by, stretch = by[in_stretch], stretch[in_stretch]
        same = (slot[by][1:] == slot[by][:-1]) & (stretch[1:] == stretch[:-1])
    else:
        same = slot[by][1:] == slot[by][:-1]
    step = np.diff(n[by])
    for i in np.flatnonzero(same & (step > 1))[:PER_RECEIVER_MAX].tolist():
        j, k = int(by[i]), int(by[i + 1])
        made.append({
            "kind": "order_hole", "station": station, "slot": slot[k], "n": n[j] + 1, "other_slot": slot[k],
            "other_n": n[k], "place": position[k], "wall": wall[k], "count": step[i] - 1,
            "witness": f"station {station} ordered {slot[k]}:{n[k]} at {position[k]}, {slot[k]}:{n[j]} at "
            f"{position[j]}, and nothing between",
        })  # fmt: skip
    again = np.flatnonzero((np.diff(slot[by_number]) == 0) & (np.diff(n[by_number]) == 0)) + 1
    return made + [
        {
            "kind": "ordered_twice", "station": station, "slot": slot[j], "n": n[j], "place": position[j],
            "wall": wall[j], "witness": f"station {station} ordered {slot[j]}:{n[j]} again at {position[j]}",
        }
        for j in by_number[again[:PER_RECEIVER_MAX]].tolist()
    ]  # fmt: skip


def own_numbers(history: History, clients: list[str], lossy: str, before: Mapping[int, int]) -> list[dict[str, Any]]:
    """Find own numbers of hosts that stand for two messages (`sent_twice`) or for none (`send_lost`).

    lossy: severity of a lost send; where a station was lost with its last messages, or evidence is missing, it is
    no violation. before: client -> the number up to which earlier nights have seen all; of a client that is not in it,
    numbers below the first one that is known are not asked for.
    """
    line = history.by_sender
    client, number = history.client[line], history.number[line]
    same = client[1:] == client[:-1]
    step = np.diff(number)
    made: list[dict[str, Any]] = []
    for i in starts_of(client).tolist():
        last = before.get(int(client[i]))
        if last is not None and number[i] > last + 1:
            text = f"host {clients[int(client[i])]}: nothing is known of own numbers {last + 1} to {number[i] - 1}"
            made.append({
                "kind": "send_lost", "severity": lossy, "client": client[i], "host": clients[int(client[i])],
                "slot": history.slot[line[i]], "n": history.n[line[i]], "wall": history.wall[line[i]],
                "count": number[i] - last - 1, "witness": text,
            })  # fmt: skip
    for i in np.flatnonzero(same & (step != 1)).tolist():
        a, b = int(line[i]), int(line[i + 1])
        row: dict[str, Any] = {
            "client": client[i], "host": clients[int(client[i])], "slot": history.slot[b], "n": history.n[b],
            "other_slot": history.slot[a], "other_n": history.n[a], "wall": history.wall[b],
        }  # fmt: skip
        if step[i] == 0:
            text = f"own number {number[i]} of host {row['host']} is {history.name(a)} and {history.name(b)}"
            made.append(row | {"kind": "sent_twice", "witness": text})
        else:
            text = (
                f"host {row['host']}: own number {number[i]} is {history.name(a)} and {number[i + 1]} is "
                f"{history.name(b)}, but nothing is known of what is between"
            )
            made.append(row | {"kind": "send_lost", "severity": lossy, "count": step[i] - 1, "witness": text})
    return made
