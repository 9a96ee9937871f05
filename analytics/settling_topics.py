"""What the next night must know of subscriptions: those that stand before everything that it reads, and ends by others.

A change of a subscription is *old* once every station has it before all that is not settled. Of each host and topic
the last old change is kept, if it is a SUB that stands; what is not old is read again. So the size is that of hosts and
their topics. An end is kept as long as its SUB may be looked at.
"""

from __future__ import annotations

import numpy as np

from roamcast.analytics import tables
from roamcast.analytics.carried import Row
from roamcast.analytics.columns import found, message_key
from roamcast.analytics.history import NEVER
from roamcast.analytics.ingest_sessions import session_keys
from roamcast.analytics.judgement import Case
from roamcast.analytics.subscription_ends import BEFORE
from roamcast.analytics.tables import Flags, Ints
from roamcast.middleware.delivery_log import ENDED, SUBSCRIBED

Kept = list[tuple[int, str, Row]]
"""(station, event, row)"""


def subscriptions(case: Case, floor: dict[int, int], kept: list[bool]) -> Kept:
    """The events to keep. kept: the sessions that are, in the order of the table."""
    changes = case.subscriptions
    if not len(changes):
        return []
    keep = np.array(kept, bool)
    history, clients = case.history, case.made["clients"]
    hosts, incarnations = clients.column("host").to_pylist(), clients.column("incarnation").to_pylist()
    limit = np.array([floor.get(slot, 0) for slot in history.slots.tolist()], np.int64)
    old = changes.old(limit)
    standing = _last_of_each(case, old) & changes.sub & ~_ended_for_good(case, keep)
    made: Kept = []
    for i in np.flatnonzero(standing).tolist():
        client, slot = int(changes.client[i]), int(changes.slot[i])
        topic = int(history.topics[changes.topic[i]])
        row = (hosts[client], incarnations[client], topic, slot, int(changes.n[i]))
        made.append((slot, SUBSCRIBED, (0, row)))
    return made + _ends(case, standing | ~old, keep, (hosts, incarnations))


def _last_of_each(case: Case, old: Flags) -> Flags:
    """The last old change of each client and topic."""
    changes = case.subscriptions
    made: Flags = np.zeros(len(changes), bool)
    group = np.repeat(np.arange(len(changes.pair_topic)), np.diff(changes.pair_begins))
    rows = np.flatnonzero(old)
    last = np.full(len(changes.pair_topic), -1, np.int64)
    last[group[rows]] = rows
    made[last[last >= 0]] = True
    return made


def _ended_for_good(case: Case, kept: Flags) -> Flags:
    """Which SUBs had ended before the first session that is kept of their client."""
    changes, sessions, ends = case.subscriptions, case.sessions, case.subscriptions.ends
    first = np.full(len(case.names), NEVER)
    np.minimum.at(first, sessions.client[kept], sessions.e[kept])
    begin = first[changes.client]
    made: Flags = (ends.e < begin) | ((ends.e == begin) & (ends.c == BEFORE) & (ends.e < NEVER))
    return made & ~ends.doubtful


def _ends(case: Case, looked_at: Flags, kept: Flags, names: tuple[list[int], list[int]]) -> Kept:
    """What others have ended, of SUBs that may be looked at: as it was told where the session of the end is kept or was
    settled before; else what it came to.
    """
    changes, sessions, ends = case.subscriptions, case.sessions, case.subscriptions.ends
    told = case.made["ended"]
    keys = session_keys(sessions.client, sessions.e)
    held = _is_held(keys, kept, tables.column(told, "client"), tables.column(told, "e"))
    of_these = set(zip(changes.client[looked_at].tolist(), changes.keys()[looked_at].tolist(), strict=True))
    key = message_key(tables.column(told, "slot"), tables.column(told, "n")).tolist()
    made: Kept = []
    for row, sub, holds, stale in zip(told.to_pylist(), key, held.tolist(), ends.stale.tolist(), strict=True):
        if holds and not stale and (not row["slot"] or (row["client"], sub) in of_these):
            values = tuple(row[name] for name in ("topic", "slot", "n", "e", "c", "last"))
            made.append((row["station"], ENDED, (row["wall"], (*(of[row["client"]] for of in names), *values))))
    settled = looked_at & (ends.e < NEVER) & ~ends.doubtful
    settled[settled] = ~_is_held(keys, kept, changes.client[settled], ends.e[settled]) | ends.by_every[settled]
    for i in np.flatnonzero(settled).tolist():
        owner, place = int(changes.client[i]), (int(ends.e[i]), int(ends.c[i]), int(ends.last[i]))
        values = (int(case.history.topics[changes.topic[i]]), int(changes.slot[i]), int(changes.n[i]), *place)
        made.append((int(changes.slot[i]), ENDED, (0, (*(of[owner] for of in names), *values))))
    return made


def _is_held(keys: Ints, kept: Flags, client: Ints, e: Ints) -> Flags:
    """Whether sessions are kept, or were settled before."""
    held: Flags = np.append(kept, True)[found(keys, session_keys(client, e))]
    return held
