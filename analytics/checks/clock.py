"""The clock T of messages is a linear extension of happened-before: verified at each sender, and repaired if it is not.

Source: audit.md 3.2 step 1. If every send exceeds all that its sender had been given or had sent before, T orders all
causes before their effects, and only rows against T need be looked at. A wrong T is repaired to the least one that
does, T' = max(T, 1 + max T' of the direct predecessors), to a fixpoint: there is none if logs contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from roamcast.analytics.columns import place_text
from roamcast.analytics.history import History
from roamcast.analytics.receivers import Receiver
from roamcast.analytics.tables import Ints

NOT_EXTENDED = "clock_not_extension"

ROUNDS_MAX = 10_000
CYCLE_EVERY = 8
"""Rounds between two looks for a cycle."""


def not_extended(history: History, clock: Ints, receiver: Receiver, name: str, cut: Ints) -> list[dict[str, Any]]:
    """Find `clock_not_extension`: a send's T does not exceed that of what its sender had been given or had sent.

    cut: per column of `history.slots`; the clock of what a lost station had beyond it nobody else can know.
    """
    receiver = _known(history, receiver, cut)
    if not len(receiver.sent):
        return []
    given, cause = _highest_before(clock, receiver)
    own = clock[receiver.sent]
    made = []
    for i in np.flatnonzero(own <= given).tolist():
        y, x = int(receiver.sent[i]), int(cause[i])
        made.append({
            "kind": NOT_EXTENDED, "client": receiver.client, "host": name, "station": history.slot[y],
            "slot": history.slot[y], "n": history.n[y], "other_slot": history.slot[x], "other_n": history.n[x],
            "place": receiver.sent_place[i], "wall": history.wall[y],
            "witness": f"{history.name(y)} of host {name} has clock {own[i]}, but the host had {history.name(x)} with "
            f"clock {clock[x]} before it sent at {place_text(receiver.sent_place[i])}",
        })  # fmt: skip
    return made


def _known(history: History, receiver: Receiver, cut: Ints) -> Receiver:
    """Without messages beyond the cut of their station, given or sent."""
    given = history.n[receiver.message] <= cut[history.column[receiver.message]]
    sent = history.n[receiver.sent] <= cut[history.column[receiver.sent]]
    if given.all() and sent.all():
        return receiver
    return replace(
        receiver, message=receiver.message[given], place=receiver.place[given], wall=receiver.wall[given],
        sent=receiver.sent[sent], sent_place=receiver.sent_place[sent],
    )  # fmt: skip


def _highest_before(clock: Ints, receiver: Receiver) -> tuple[Ints, Ints]:
    """For each send: the highest T before it at its sender, and the message that has it (-1: there is none)."""
    before = receiver.given_before()
    sent = clock[receiver.sent]
    lowest = np.iinfo(np.int64).min
    cause = np.concatenate(([-1], receiver.sent[:-1]))
    highest = np.concatenate(([lowest], np.maximum.accumulate(sent)[:-1]))
    if len(receiver.message):
        given = clock[receiver.message]
        running = np.maximum.accumulate(given)
        at = np.maximum(before - 1, 0)
        from_given = np.where(before > 0, running[at], lowest)
        higher = from_given > highest
        first_of = np.searchsorted(running, from_given)
        cause = np.where(higher, receiver.message[np.minimum(first_of, len(given) - 1)], cause)
        highest = np.maximum(highest, from_given)
    return highest, cause


def repaired(
    history: History, clock: Ints, receivers: Callable[[], Iterable[Receiver]]
) -> tuple[Ints, list[dict[str, Any]]]:
    """Raise T to the least clock that extends happened-before.

    receivers: makes all clients anew, for each round. Returns (T', findings): `history_cycle` with the messages of a
    cycle, if there is one; then T' means nothing.
    """
    clock = clock.copy()
    cause = np.full(history.count, -1, np.int64)
    for turn in range(1, ROUNDS_MAX):
        changed: list[Ints] = []
        for receiver in receivers():
            if len(receiver.sent):
                changed.append(_raise(clock, cause, receiver))
        moved = np.concatenate(changed) if changed else np.zeros(0, np.int64)
        if not len(moved):
            return clock, []
        if turn % CYCLE_EVERY == 0 and (cycle := _cycle(cause, moved)):
            return clock, [_cycle_found(history, cycle)]
    return clock, [_cycle_found(history, moved[:1].tolist())]


def _raise(clock: Ints, cause: Ints, receiver: Receiver) -> Ints:
    """One round at one sender. Returns the messages whose T was raised."""
    before = receiver.given_before()
    lowest = np.iinfo(np.int64).min >> 1
    need = np.full(len(receiver.sent), lowest)
    reason = np.full(len(receiver.sent), -1, np.int64)
    if len(receiver.message):
        running = np.maximum.accumulate(clock[receiver.message])
        has = before > 0
        need[has] = running[before[has] - 1] + 1
        reason[has] = receiver.message[np.searchsorted(running, running[before[has] - 1])]
    wanted = np.maximum(clock[receiver.sent], need)
    step = np.arange(len(wanted))
    raised = np.maximum.accumulate(wanted - step) + step
    up = raised > clock[receiver.sent]
    by_given = raised == need
    previous = np.concatenate(([-1], receiver.sent[:-1]))
    moved = receiver.sent[up]
    clock[moved] = raised[up]
    cause[moved] = np.where(by_given, reason, previous)[up]
    return moved


def _cycle(cause: Ints, moved: Ints) -> list[int]:
    """Follow what raised a message back: the messages of a cycle of causes, if it leads into one."""
    for start in moved[:64].tolist():
        seen: dict[int, int] = {}
        at = start
        while at >= 0 and at not in seen:
            seen[at] = len(seen)
            at = int(cause[at])
        if at >= 0:
            return [message for message, i in seen.items() if i >= seen[at]]
    return []


def _cycle_found(history: History, cycle: list[int]) -> dict[str, Any]:
    names = [history.name(message) for message in cycle]
    first = cycle[0]
    return {
        "kind": "history_cycle", "client": history.client[first], "slot": history.slot[first], "n": history.n[first],
        "wall": history.wall[first], "count": len(cycle),
        "witness": "logs contradict each other: each of these was sent after the next had been given, the last one "
        "after the first: " + ", ".join(names[:20]),
    }  # fmt: skip
